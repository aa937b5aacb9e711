//! The answers of a stream that somebody else makes.

use std::pin::Pin;
use std::task::{Context, Poll};

use auxo_core::{Code, Error};
use auxo_proto::status_of;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use crate::app::App;

/// What a call streams to its client.
pub type Streamed<T> = BoxStream<'static, Result<T, Status>>;

/// The end at which answers come out.
pub struct Outlet<T>(pub mpsc::Receiver<Result<T, Status>>);

impl<T> Stream for Outlet<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// The first message of a stream that begins with one, which may take as long as a body.
pub async fn first<T>(app: &App, inbound: &mut Streaming<T>) -> Result<Option<T>, Status> {
    let late = |_| {
        let error = Error::bad_request("the first message did not arrive in time");
        status_of(&error)
    };
    let first = timeout(app.settings.body_time, inbound.message()).await;
    first.map_err(late)?
}

/// What a panic is told as: what it said may hold payloads, and has printed itself.
pub fn panicked() -> Status {
    tracing::error!("a handler of a stream panicked");
    let message = "the server failed to answer; its log says more";
    status_of(&Error::new(Code::Internal, message))
}

/// A stream whose panic is its own last answer.
pub fn isolated<T: Send + 'static>(
    stream: impl Stream<Item = Result<T, Status>> + Send + 'static,
) -> Streamed<T> {
    let stream = std::panic::AssertUnwindSafe(stream).catch_unwind();
    let answer = |caught: std::thread::Result<_>| caught.unwrap_or_else(|_| Err(panicked()));
    stream.map(answer).boxed()
}
