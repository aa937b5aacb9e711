//! Connections to one server, kept for the next call.
//!
//! A pool of our own rather than a ready-made client, for two things that only the connection knows. Whether a request that
//! failed had been sent at all, which decides if it may be sent again. And a way to hang up politely: a lease that nobody
//! waits for any more closes its sending side and reads on, and so learns whether the server gave up in time or had already
//! answered with jobs, which then must be given back.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::access::{Access, Stream};
use super::address::Address;

/// How long a connection is kept without use: less than servers and the boxes between usually do.
const IDLE: Duration = Duration::from_secs(60);
/// How many connections are kept without use.
const KEPT: usize = 64;

/// The connections to one server that are not in use.
pub(super) struct Pool {
    connect_time: Duration,
    access: Access,
    idle: Mutex<Vec<Idle>>,
}

struct Idle {
    line: Line,
    since: Instant,
}

/// One connection.
pub(super) struct Line {
    sender: SendRequest<Full<Bytes>>,
    hang_up: Option<oneshot::Sender<()>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// The request never left.
    Before(String),
    /// The request left, or a part of it, and no whole answer came.
    After(String),
    /// The answer has more bytes than are taken.
    Vast(String),
}

impl Pool {
    pub fn new(connect_time: Duration, access: Access) -> Pool {
        Pool {
            connect_time,
            access,
            idle: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        // A list is never left half changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that is ready to be used: the one that was used last, or a new one.
    pub async fn take(&self, address: &Address, deadline: Instant) -> Result<Line, Lost> {
        loop {
            let Some(mut idle) = self.lock().pop() else {
                break;
            };
            let fresh = idle.since.elapsed() < IDLE;
            if fresh && !idle.line.sender.is_closed() && idle.line.sender.ready().await.is_ok() {
                return Ok(idle.line);
            }
        }
        self.dial(address, deadline).await
    }

    /// A new connection.
    pub async fn dial(&self, address: &Address, deadline: Instant) -> Result<Line, Lost> {
        let deadline = deadline.min(Instant::now() + self.connect_time);
        let dialled = self.access.dial(address, deadline).await;
        let socket = dialled.map_err(Lost::Before)?.stream;
        let (hang_up, hung_up) = oneshot::channel();
        let socket = Socket {
            io: TokioIo::new(socket),
            hung_up: Some(hung_up),
            closing: false,
        };
        let (sender, connection) = http1::handshake(socket)
            .await
            .map_err(|error| Lost::Before(error.to_string()))?;
        // Its end is told to who waits for an answer.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Line {
            sender,
            hang_up: Some(hang_up),
        })
    }

    /// Keeps a connection whose answer was read to its end.
    pub fn put(&self, line: Line) {
        let mut idle = self.lock();
        if !line.sender.is_closed() && line.hang_up.is_some() && idle.len() < KEPT {
            let since = Instant::now();
            idle.push(Idle { line, since });
        }
    }

    /// Closes what is not in use.
    pub fn clear(&self) {
        self.lock().clear();
    }
}

impl Line {
    /// Sends a request and waits for the head of its answer. When `gone` resolves, it hangs up and goes on waiting.
    pub async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
        gone: impl Future<Output = ()>,
    ) -> Result<Response<Incoming>, Lost> {
        let mut answer = std::pin::pin!(self.sender.try_send_request(request));
        let answered = tokio::select! {
            biased;
            answered = &mut answer => answered,
            () = gone => {
                if let Some(hang_up) = self.hang_up.take() {
                    // The connection may have ended by itself.
                    let _ = hang_up.send(());
                }
                answer.await
            }
        };
        answered.map_err(|mut error| match error.take_message() {
            Some(_) => Lost::Before(reason(error.error())),
            None => Lost::After(reason(error.error())),
        })
    }
}

/// What happened to a connection, with the reason of the system if there is one.
pub(crate) fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A socket whose sending side can be closed from outside.
struct Socket {
    io: TokioIo<Stream>,
    hung_up: Option<oneshot::Receiver<()>>,
    closing: bool,
}

impl Socket {
    fn poll_hang_up(&mut self, cx: &mut Context<'_>) {
        if let Some(hung_up) = &mut self.hung_up
            && let Poll::Ready(signal) = Pin::new(hung_up).poll(cx)
        {
            self.hung_up = None;
            self.closing = signal.is_ok();
        }
        if self.closing && Pin::new(&mut self.io).poll_shutdown(cx).is_ready() {
            self.closing = false;
        }
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_hang_up(cx);
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.io).poll_shutdown(cx))?;
        Poll::Ready(Ok(()))
    }
}
