//! A socket that ends connections which only cost.
//!
//! Three clocks: a request's head must be complete soon after its first byte, a connection without a request
//! closes in the end, and an answer must be taken. (One more, for bodies, is in [`extract`](crate::extract), where it can
//! still be answered.) Hyper has a clock for heads, but it also runs while a kept connection is idle, so a pool of clients
//! would be cut off after seconds; and the part that looks for HTTP/2 has none.
//!
//! And a farewell: a socket that is closed while its peer still sends takes the last answer back. After a refusal it goes on
//! reading for a moment, to nowhere, so that whoever first sends everything and then listens hears why it was refused.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::app::App;
use crate::clock::Clock;
use crate::garbled;

/// How long a refused client may go on sending.
const FAREWELL: Duration = Duration::from_secs(1);

/// What a connection's requests and its socket know of each other.
#[derive(Default)]
pub struct Traffic {
    begun: AtomicU64,
    running: AtomicUsize,
    /// The last answer was a refusal, whose request may not have been read to its end.
    refused: AtomicBool,
    /// Lent to one request after the other.
    clock: Mutex<Option<Clock>>,
}

impl Traffic {
    /// Counts a request until the answer is dropped.
    pub fn begin(self: &Arc<Traffic>) -> Running {
        self.begun.fetch_add(1, Relaxed);
        self.running.fetch_add(1, Relaxed);
        Running {
            clock: self.clock().take(),
            traffic: self.clone(),
        }
    }

    fn clock(&self) -> MutexGuard<'_, Option<Clock>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how the last request was answered.
    fn answered(&self, status: StatusCode) {
        let refused = status.is_client_error() || status.is_server_error();
        self.refused.store(refused, Relaxed);
    }
}

/// A request that is being answered.
pub struct Running {
    traffic: Arc<Traffic>,
    /// For the limits of time of this request.
    pub clock: Option<Clock>,
}

impl Running {
    /// Notes how the request was answered.
    pub fn answered(&self, status: StatusCode) {
        self.traffic.answered(status);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.traffic.running.fetch_sub(1, Relaxed);
        if let Some(clock) = self.clock.take() {
            *self.traffic.clock() = Some(clock);
        }
    }
}

/// What is waited for when a read has nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// The first byte of a request.
    Request,
    /// The rest of a head that began when this many requests had begun.
    Head(u64),
}

/// A socket with its clocks.
pub struct Guard<S> {
    socket: S,
    traffic: Arc<Traffic>,
    wait: Wait,
    /// Whether `read_clock` runs for what is waited for.
    armed: bool,
    /// When what is waited for is overdue.
    deadline: Instant,
    read_clock: Clock,
    write_clock: Option<Pin<Box<Sleep>>>,
    /// Our answer in place of a bare one, and how much of it is sent.
    instead: Option<(Vec<u8>, usize)>,
    /// Nothing more is written; what comes in goes nowhere.
    shut: bool,
    /// HTTP/2 mixes heads with pings and other frames; its own limits bound them.
    http2: Option<bool>,
    app: Arc<App>,
}

impl<S> Guard<S> {
    /// Guards a new connection.
    pub fn new(socket: S, traffic: Arc<Traffic>, app: Arc<App>) -> Guard<S> {
        let deadline = Instant::now() + app.settings.idle_time;
        Guard {
            socket,
            traffic,
            wait: Wait::Request,
            armed: false,
            deadline,
            read_clock: Clock::new(deadline),
            write_clock: None,
            instead: None,
            shut: false,
            http2: None,
            app,
        }
    }

    fn took(&mut self, bytes: &[u8]) {
        // No HTTP/1 method begins like the preface `PRI * HTTP/2.0`.
        let http2 = *self.http2.get_or_insert_with(|| bytes.starts_with(b"PR"));
        if http2 {
            self.armed = false;
        } else if self.wait == Wait::Request && self.traffic.running.load(Relaxed) == 0 {
            self.wait = Wait::Head(self.traffic.begun.load(Relaxed));
            self.armed = false;
        }
    }

    /// Looks at the clock of what is waited for.
    fn overdue(&mut self, cx: &mut Context<'_>) -> bool {
        if matches!(self.wait, Wait::Head(begun) if begun != self.traffic.begun.load(Relaxed)) {
            self.wait = Wait::Request;
            self.armed = false;
        }
        if self.traffic.running.load(Relaxed) > 0 {
            self.armed = false;
            return false;
        }
        if !self.armed {
            let time = match self.wait {
                Wait::Request => self.app.settings.idle_time,
                Wait::Head(_) => self.app.settings.head_time,
            };
            self.deadline = Instant::now() + time;
            self.armed = true;
        }
        self.read_clock.is_over(self.deadline, cx)
    }

    /// Lets a write through, or ends it when the other side takes nothing for too long.
    fn unless_stalled<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.write_clock = None;
            return written;
        }
        let time = self.app.settings.stall_time;
        let clock = self
            .write_clock
            .get_or_insert_with(|| Box::pin(sleep(time)));
        match clock.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(late("the client does not take its answer"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn late(why: &str) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, why)
}

impl<S: AsyncRead + Unpin> AsyncRead for Guard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.socket).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => {
                let new = &buf.filled()[before..];
                if !new.is_empty() {
                    self.took(new);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending if self.overdue(cx) => {
                Poll::Ready(Err(late("the client does not go on with its request")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> Guard<S> {
    /// Sends our own answer in place of these bytes; `None` if they are to be sent as they are.
    fn poll_instead(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        if self.instead.is_none() {
            if self.traffic.running.load(Relaxed) > 0 {
                return None;
            }
            self.instead = Some((garbled::instead(&self.app, bytes)?, 0));
            self.traffic.answered(StatusCode::BAD_REQUEST);
        }
        while let Some((answer, sent)) = &mut self.instead {
            match Pin::new(&mut self.socket).poll_write(cx, &answer[*sent..]) {
                Poll::Ready(Ok(n)) if n > 0 && *sent + n < answer.len() => *sent += n,
                Poll::Ready(Ok(_)) => self.instead = None,
                other => return Some(self.unless_stalled(cx, other)),
            }
        }
        self.write_clock = None;
        Some(Poll::Ready(Ok(bytes.len())))
    }
}

impl<S: AsyncRead + Unpin> Guard<S> {
    /// Reads on for a moment after a refusal, until the other side has closed, too.
    fn poll_farewell(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.traffic.refused.load(Relaxed) {
            return Poll::Ready(Ok(()));
        }
        let mut sink = [0; 4096];
        loop {
            let mut sink = ReadBuf::new(&mut sink);
            match Pin::new(&mut self.socket).poll_read(cx, &mut sink) {
                Poll::Ready(Ok(())) if !sink.filled().is_empty() => {}
                Poll::Ready(_) => return Poll::Ready(Ok(())),
                Poll::Pending if self.read_clock.is_over(self.deadline, cx) => {
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => return Poll::Pending,
            }
            if self.read_clock.is_over(self.deadline, cx) {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Guard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(written) = self.poll_instead(cx, buf) {
            return written;
        }
        let written = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.unless_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A bare answer has no body, so it is one piece.
        if let [only] = bufs
            && let Some(written) = self.poll_instead(cx, only)
        {
            return written;
        }
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.unless_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.shut {
            let shut = Pin::new(&mut self.socket).poll_shutdown(cx);
            ready!(self.unless_stalled(cx, shut))?;
            self.shut = true;
            self.deadline = Instant::now() + FAREWELL;
        }
        self.poll_farewell(cx)
    }
}
