//! Large answers, and the memory they take until their clients have them.
//!
//! A list of everything may have tens of megabytes. A client that asks for it on a thousand connections and takes none of the
//! answers must not get the memory of a thousand of them.

use std::pin::Pin;
use std::task::{Context, Poll};

use auxo_core::{Code, Error};
use axum::body::{Body, HttpBody};
use axum::response::{IntoResponse, Response};
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::{App, ROOM_UNIT};
use crate::problem::Problem;

/// From how many bytes on an answer is a large one: 16 KiB. In HTTP/2 a connection may ask for hundreds at once.
const LARGE: u64 = 16 << 10;
/// How much is handed on at once: 64 KiB. What is handed on counts as sent.
const PIECE: usize = 64 << 10;

/// Lets an answer out if there is room for it until the client has taken it. Only for calls that change nothing: any other
/// answer would be lost by being held back.
pub async fn bounded(app: &App, response: Response) -> Response {
    let size = response.body().size_hint().exact().unwrap_or_default();
    if size < LARGE {
        return response;
    }
    let units = u32::try_from(size / ROOM_UNIT as u64).unwrap_or(u32::MAX);
    let Ok(room) = app.answers.clone().try_acquire_many_owned(units) else {
        let error = match size > app.settings.answers as u64 {
            true => Error::new(
                Code::TooLarge,
                "the answer is larger than the server's room for answers",
            ),
            false => Error::new(
                Code::Unavailable,
                "too many large answers at once; try again",
            ),
        };
        return Problem::from(error).into_response();
    };
    let (head, body) = response.into_parts();
    match body.collect().await {
        Ok(whole) => {
            let rest = whole.to_bytes();
            Response::from_parts(head, Body::new(Held { rest, _room: room }))
        }
        Err(error) => Problem::from(Error::new(Code::Internal, error.to_string())).into_response(),
    }
}

/// What is left to send of an answer, and the room that it takes.
struct Held {
    rest: Bytes,
    _room: OwnedSemaphorePermit,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let end = self.rest.len().min(PIECE);
        // Copied: a part of the whole would keep all of it in memory after its room is given back.
        let piece = Bytes::copy_from_slice(&self.rest[..end]);
        self.rest.advance(end);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}
