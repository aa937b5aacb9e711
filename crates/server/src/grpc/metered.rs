//! The bytes of a call on their way in, with the room that they take and a clock for each message.
//!
//! They are cut into messages further up, which tells nobody how much it has buffered. But it asks for more bytes only when it
//! has no whole message left, so what it has then is the beginning of one: the rest of the room can be given back.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use auxo_core::{Code, Error};
use auxo_proto::status_of;
use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tonic::Status;

use crate::app::{App, ROOM_UNIT};
use crate::clock::Clock;

/// The bytes before each message: whether it is compressed, and its length.
const HEAD: usize = 5;

/// The room that the bytes of a call take. Whoever holds it keeps it taken.
#[derive(Clone, Default)]
pub struct Held(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl Held {
    fn lock(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        // A permit is never left half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for so many bytes more.
    fn take(&self, app: &App, bytes: usize) -> Result<(), Error> {
        let units = u32::try_from(bytes.div_ceil(ROOM_UNIT)).unwrap_or(u32::MAX);
        let Ok(more) = app.bodies.clone().try_acquire_many_owned(units) else {
            let message = "the server is reading as many bytes as it has room for; try again";
            return Err(Error::new(Code::Unavailable, message));
        };
        match &mut *self.lock() {
            Some(permit) => permit.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// Gives back what is not needed for so many bytes.
    fn keep(&self, bytes: usize) {
        let mut held = self.lock();
        let units = bytes.div_ceil(ROOM_UNIT);
        if let Some(permit) = &mut *held {
            let over = permit.num_permits().saturating_sub(units);
            drop(permit.split(over));
        }
    }
}

/// Where in the messages the bytes are.
#[derive(Debug, Default, PartialEq)]
struct Place {
    /// The head of the next message, as far as it is here.
    head: [u8; HEAD],
    head_bytes: usize,
    /// What is still to come of the message whose head is here.
    left: usize,
    /// How many bytes are here of a message that is not whole.
    begun: usize,
}

impl Place {
    /// Goes on over these bytes.
    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.head_bytes < HEAD {
                let taken = bytes.len().min(HEAD - self.head_bytes);
                self.head[self.head_bytes..self.head_bytes + taken]
                    .copy_from_slice(&bytes[..taken]);
                self.head_bytes += taken;
                self.begun += taken;
                bytes.advance(taken);
                if self.head_bytes < HEAD {
                    return;
                }
                let [_, length @ ..] = self.head;
                self.left = u32::from_be_bytes(length) as usize;
            }
            let taken = bytes.len().min(self.left);
            self.left -= taken;
            self.begun += taken;
            bytes.advance(taken);
            if self.left == 0 {
                *self = Place::default();
            }
        }
    }
}

/// How a body is to be read.
pub struct Metering {
    app: Arc<App>,
    held: Held,
    is_stream: bool,
}

impl Metering {
    /// Reads this body so.
    pub fn over(self, body: Incoming) -> Metered {
        // A stream may be quiet for as long as it likes; whoever has one thing to say says it.
        let since = (!self.is_stream).then(Instant::now);
        Metered {
            body,
            metering: self,
            place: Place::default(),
            since,
            clock: None,
        }
    }
}

/// A body whose bytes are counted.
pub struct Metered {
    body: Incoming,
    metering: Metering,
    place: Place,
    /// Since when a message is under way, or waited for.
    since: Option<Instant>,
    clock: Option<Clock>,
}

impl Metered {
    /// How to read a body, and what to hold until its call is answered.
    pub fn meter(app: Arc<App>, is_stream: bool) -> (Metering, Held) {
        let held = Held::default();
        let metering = Metering {
            app,
            held: held.clone(),
            is_stream,
        };
        (metering, held)
    }

    /// Whether a message has been under way for too long.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(since) = self.since else {
            return false;
        };
        let deadline = since + self.metering.app.settings.body_time;
        let clock = self.clock.get_or_insert_with(|| Clock::new(deadline));
        clock.is_over(deadline, cx)
    }

    fn took(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.metering.held.take(&self.metering.app, bytes.len())?;
        let (whole, begun) = (self.place.begun == 0, self.place.begun + bytes.len());
        self.place.pass(bytes);
        if self.place.begun == 0 {
            self.since = None;
        } else if whole || self.place.begun < begun {
            self.since = Some(Instant::now());
        }
        Ok(())
    }
}

impl Body for Metered {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.metering.is_stream {
            self.metering.held.keep(self.place.begun);
        }
        let frame = match Pin::new(&mut self.body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => frame,
            Poll::Ready(Some(Err(error))) => {
                return Poll::Ready(Some(Err(Status::cancelled(error.to_string()))));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending if self.is_late(cx) => {
                let error = Error::bad_request("the message did not arrive in time");
                return Poll::Ready(Some(Err(status_of(&error))));
            }
            Poll::Pending => return Poll::Pending,
        };
        let counted = frame.data_ref().map_or(Ok(()), |data| self.took(data));
        Poll::Ready(Some(match counted {
            Ok(()) => Ok(frame),
            Err(error) => Err(status_of(&error)),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_message_is_known_in_whatever_pieces_it_comes() {
        // Messages of 3, 0 and 300 bytes, and a part of a head.
        let mut bytes = vec![0, 0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 44];
        bytes.resize(bytes.len() + 300, 9);
        bytes.extend([0, 0, 0]);
        for size in 1..=bytes.len() {
            let mut place = Place::default();
            let (mut passed, mut begun) = (0, Vec::new());
            for piece in bytes.chunks(size) {
                place.pass(piece);
                passed += piece.len();
                begun.push((passed, place.begun));
            }
            assert_eq!(begun.last(), Some(&(bytes.len(), 3)), "in pieces of {size}");
            for (passed, begun) in begun {
                let expected = match passed {
                    0..8 => passed,
                    8..13 => passed - 8,
                    13..318 => passed - 13,
                    _ => passed - 318,
                };
                assert_eq!(begun, expected, "after {passed} in pieces of {size}");
            }
        }
    }
}
