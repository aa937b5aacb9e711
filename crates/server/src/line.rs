//! A connection of a protocol whose requests come one behind the other: bytes in, bytes out, each within its limits.
//!
//! A connection without a request has no more than a small buffer, for there may be ten thousand of them. One that sends a lot
//! gets a larger one while it does.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use auxo_core::Result;
use bytes::{Buf as _, BytesMut};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::clock::{Clock, Late, within};

/// What an idle connection reads into.
const SMALL: usize = 2 << 10;
/// What one that sends a lot reads into, and how much of an answer is gathered before it is sent.
pub const LARGE: usize = 64 << 10;

/// A socket with what came and what is to go.
pub struct Line<S> {
    socket: S,
    /// What came and was not understood yet.
    pub input: BytesMut,
    /// What is to be sent.
    pub output: BytesMut,
    /// Whether the other side sends no more.
    is_over: bool,
    /// How much is read at once.
    room: usize,
    /// When the first bytes of a request came that is not complete.
    began: Option<Instant>,
    /// Since when there is so much of what came that nothing more is taken, while the other side waits.
    full: Option<Instant>,
    clock: Option<Clock>,
    times: Times,
}

/// How long the other side may take.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// To send a whole request, from its first byte to its last.
    pub request: Duration,
    /// To take some of an answer.
    pub stall: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// A connection that nothing came from yet.
    pub fn new(socket: S, times: Times) -> Line<S> {
        Line {
            socket,
            input: BytesMut::new(),
            output: BytesMut::new(),
            is_over: false,
            room: SMALL,
            began: None,
            full: None,
            clock: None,
            times,
        }
    }

    /// Whether the other side sends no more.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Notes that a whole request was understood: if another has begun, its time is its own.
    pub fn completed(&mut self) {
        self.began = None;
    }

    /// Notes that all that can be understood was taken out of the input. What is left is the beginning of a request; one whose
    /// beginning was taken already `is_amid`.
    pub fn understood(&mut self, is_amid: bool) {
        match is_amid || !self.input.is_empty() {
            true => drop(self.began.get_or_insert_with(Instant::now)),
            false => self.began = None,
        }
        if self.input.is_empty() && self.input.capacity() > LARGE {
            self.input = BytesMut::new();
        }
    }

    /// Reads what there is, or waits for something, but not for ever if a request has begun. `missing` are the bytes that it lacks
    /// for sure.
    pub async fn fill(&mut self, missing: usize) -> io::Result<()> {
        let Some(began) = self.began else {
            return self.read(0).await;
        };
        let left = (began + self.times.request).saturating_duration_since(Instant::now());
        let mut clock = self.clock.take();
        let read = within(left, &mut clock, self.read(missing)).await;
        self.clock = clock;
        read.unwrap_or_else(|_| Err(late("the client does not complete its request")))
    }

    /// Reads what there is, or waits for something, but takes no more than so many bytes. Nothing is lost if it is dropped.
    pub async fn fill_at_most(&mut self, most: usize) -> io::Result<()> {
        self.input.reserve(SMALL);
        let mut socket = (&mut self.socket).take(most as u64);
        let read = socket.read_buf(&mut self.input).await?;
        self.is_over |= read == 0;
        Ok(())
    }

    /// Reads what there is, or waits for something. Nothing is lost if it is dropped.
    async fn read(&mut self, missing: usize) -> io::Result<()> {
        if self.input.is_empty() && self.room == SMALL && self.input.capacity() > SMALL {
            self.input = BytesMut::new();
        }
        self.input.reserve(self.room.max(missing.min(LARGE)));
        let spare = self.input.capacity() - self.input.len();
        let read = self.socket.read_buf(&mut self.input).await?;
        self.is_over |= read == 0;
        if read >= spare {
            self.read_on().await?;
        }
        self.room = match read {
            read if read >= spare => LARGE,
            read if read < SMALL => SMALL,
            _ => self.room,
        };
        Ok(())
    }

    /// Reads more of what is there already: what was sent together is answered together, also if it did not fit into a small buffer.
    async fn read_on(&mut self) -> io::Result<()> {
        self.input.reserve(LARGE);
        let mut more = pin!(self.socket.read_buf(&mut self.input));
        let at_once = poll_fn(|cx| Poll::Ready(more.as_mut().poll(cx)));
        if let Poll::Ready(read) = at_once.await {
            self.is_over |= read? == 0;
        }
        Ok(())
    }

    /// Lets others have their turn, if this one has sent more than was just answered. Much of what is answered waits for nothing.
    pub async fn give_way(&self) {
        if !self.input.is_empty() {
            yield_now().await;
        }
    }

    /// Waits until the other side sends no more. What it sends meanwhile is kept for later, up to a bound. A client that sends on and
    /// on while it waits is not listened to, and so nobody would notice that it is gone: it is let go after a while.
    pub async fn hung_up(&mut self) -> io::Result<()> {
        while !self.is_over {
            if self.input.len() >= LARGE {
                let full = *self.full.get_or_insert_with(Instant::now);
                sleep_until(full + self.times.stall).await;
                return Err(late("the client sends on and on while it waits"));
            }
            self.full = None;
            self.read(0).await?;
        }
        Ok(())
    }

    /// Sends what is to go.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            let write = self.socket.write(&self.output);
            match within(self.times.stall, &mut self.clock, write).await {
                Ok(Ok(0)) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.output.advance(written?),
                Err(_) => return Err(late("the client does not take its answers")),
            }
        }
        if self.output.capacity() > LARGE {
            self.output = BytesMut::new();
        }
        // A socket with TLS has a buffer of its own.
        let flush = within(self.times.stall, &mut self.clock, self.socket.flush());
        let flushed = flush.await;
        flushed.unwrap_or_else(|_| Err(late("the client does not take its answers")))
    }

    /// Says goodbye.
    pub async fn close(mut self) {
        // Whether the other side hears it or not, the connection is over.
        let _ = within(self.times.stall, None, self.socket.shutdown()).await;
    }
}

/// What a call answers if there is nothing to wait for. It is looked at twice: in between, other connections that were served in the same
/// turn make their calls, and the engine does all of them in one round.
pub async fn at_once<F: Future>(mut call: Pin<&mut F>) -> Option<F::Output> {
    for is_again in [false, true] {
        if is_again {
            yield_now().await;
        }
        let look = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx)));
        if let Poll::Ready(answer) = look.await {
            return Some(answer);
        }
    }
    None
}

/// What the store has now, for a client that sends no more while its lease call waits. `now` is the same call without the wait. The
/// waiting call goes on beside it: the store may be about to give it the very job that `now` looks for in vain. Jobs that are given to
/// the call whose answer is not used go back when it is dropped.
pub async fn lease_now<T>(
    mut waiting: Pin<&mut impl Future<Output = Result<Vec<T>>>>,
    now: impl Future<Output = Result<Vec<T>>>,
) -> Result<Vec<T>> {
    let jobs = tokio::select! {
        biased;
        jobs = waiting.as_mut() => return jobs,
        jobs = now => jobs,
    };
    match jobs {
        Ok(none) if none.is_empty() => waiting.now_or_never().unwrap_or(Ok(none)),
        jobs => jobs,
    }
}

/// The engine did not answer. Nobody knows what happened, and a connection that ends says just that.
pub fn unanswered(_: Late) -> io::Error {
    late("the engine did not answer in time")
}

fn late(why: &str) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, why)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::task::Context;

    use tokio::io::ReadBuf;

    use super::*;

    const TIMES: Times = Times {
        request: Duration::from_secs(30),
        stall: Duration::from_secs(30),
    };

    /// Takes what is written, and never gets rid of it.
    struct Stuffed;

    impl AsyncRead for Stuffed {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Stuffed {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_stay_behind_in_a_buffer_are_not_waited_for_without_end() {
        let mut line = Line::new(Stuffed, TIMES);
        line.output.extend_from_slice(b"answer");
        let error = line.flush().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_that_trickle_do_not_give_a_request_more_time() {
        let (mut client, server) = tokio::io::duplex(LARGE);
        let mut line = Line::new(server, TIMES);
        let trickle = async {
            loop {
                client.write_all(b"x").await.unwrap();
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        };
        let began = Instant::now();
        let read = async {
            loop {
                line.understood(false);
                if let Err(error) = line.fill(0).await {
                    return error;
                }
            }
        };
        let error = tokio::select! {
            error = read => error,
            () = trickle => unreachable!(),
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(began.elapsed(), TIMES.request);
    }

    #[tokio::test(start_paused = true)]
    async fn who_sent_too_much_and_left_while_it_waits_is_let_go() {
        let (mut client, server) = tokio::io::duplex(4 * LARGE);
        let mut line = Line::new(server, TIMES);
        client.write_all(&[b'x'; 2 * LARGE]).await.unwrap();
        drop(client);
        let began = Instant::now();
        // A wait has an end of its own, and is begun anew: what is full stays full.
        for _ in 0..2 {
            let wait = Duration::from_secs(20);
            if let Ok(waited) = tokio::time::timeout(wait, line.hung_up()).await {
                assert!(waited.is_err());
                assert_eq!(began.elapsed(), TIMES.stall);
                return;
            }
        }
        panic!("nobody noticed");
    }

    #[tokio::test]
    async fn who_has_sent_more_lets_others_have_their_turn() {
        let mut line = Line::new(Stuffed, TIMES);
        let turns = Arc::new(AtomicUsize::new(0));
        let other = turns.clone();
        tokio::spawn(async move { other.fetch_add(1, SeqCst) });
        line.give_way().await;
        assert_eq!(turns.load(SeqCst), 0);
        line.input.extend_from_slice(b"more");
        line.give_way().await;
        assert_eq!(turns.load(SeqCst), 1);
    }

    #[tokio::test]
    async fn calls_of_all_who_are_served_in_a_turn_are_made_before_the_first_is_answered() {
        let made = Arc::new(AtomicUsize::new(0));
        let connection = || {
            let made = made.clone();
            tokio::spawn(async move {
                // As an engine does it: who calls lets the others call, and then does the work of all.
                let mut call = pin!(async {
                    made.fetch_add(1, SeqCst);
                    yield_now().await;
                    made.load(SeqCst)
                });
                at_once(call.as_mut()).await
            })
        };
        let (one, other) = (connection(), connection());
        assert_eq!(one.await.unwrap(), Some(2));
        assert_eq!(other.await.unwrap(), Some(2));
    }

    #[tokio::test]
    async fn a_client_that_sends_no_more_gets_what_either_call_was_given() {
        use tokio::sync::oneshot::channel;

        // What the store gives to the call that waits, and to the one that does not.
        for (to_waiting, to_now, got) in [
            (None, vec![], vec![]),
            (None, vec![2], vec![2]),
            (Some(vec![1]), vec![], vec![1]),
        ] {
            let (give, given) = channel();
            let mut waiting = pin!(async { Ok(given.await.unwrap()) });
            // The store answers the first just before the second, when nobody looks at the first.
            let mut kept = Some(give);
            let now = async {
                if let Some(jobs) = to_waiting {
                    kept.take().unwrap().send(jobs).unwrap();
                }
                Ok(to_now)
            };
            assert_eq!(lease_now(waiting.as_mut(), now).await.unwrap(), got);
        }
        let mut waiting = pin!(async { Ok(vec![1]) });
        let now = std::future::pending();
        assert_eq!(lease_now(waiting.as_mut(), now).await.unwrap(), [1]);
    }

    #[tokio::test]
    async fn what_must_be_waited_for_is_not_answered_at_once() {
        let mut never = pin!(std::future::pending::<()>());
        assert_eq!(at_once(never.as_mut()).await, None);
    }
}
