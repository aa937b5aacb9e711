//! A socket that ends connections which only cost.
//!
//! Three clocks: a request's head must be complete soon after its first byte, a connection without a request
//! closes in the end, and an answer must be taken. (One more, for bodies, is in [`extract`](crate::extract), where it can
//! still be answered.) Hyper has a clock for heads, but it also runs while a kept connection is idle, so a pool of clients
//! would be cut off after seconds; and the part that looks for HTTP/2 has none.
//!
//! Where tokens are needed, a connection that has not shown one yet is read from in small doses and for a short time.
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
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::app::App;
use crate::auth::Stranger;
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
    /// A request's body was not read to its end. The rest of it would be taken for the next request.
    unread: AtomicBool,
    /// Lent to one request after the other.
    clock: Mutex<Option<Clock>>,
    /// In HTTP/2 an answer may wait for leave from the client where the socket does not see it.
    is_http2: AtomicBool,
    /// Answers of known length that are being sent, in HTTP/2.
    sending: AtomicUsize,
    /// When a part of one was last handed on.
    moved: Mutex<Option<Instant>>,
}

impl Traffic {
    /// Counts a request until the answer is dropped.
    pub fn begin(self: &Arc<Traffic>) -> Running {
        self.begun.fetch_add(1, Relaxed);
        self.running.fetch_add(1, Relaxed);
        Running {
            clock: self.clock().take(),
            is_sending: false,
            traffic: self.clone(),
        }
    }

    fn clock(&self) -> MutexGuard<'_, Option<Clock>> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moved(&self) -> MutexGuard<'_, Option<Instant>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
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
    is_sending: bool,
}

impl Running {
    /// Notes how the request was answered.
    pub fn answered(&self, status: StatusCode) {
        self.traffic.answered(status);
    }

    /// Whether nothing more can be read from the connection, because a part of the request's body was not.
    pub fn is_last(&self) -> bool {
        self.traffic.unread.load(Relaxed)
    }

    /// The body of the request, which notes whether it was read.
    pub fn receive(&self, body: Incoming) -> Received {
        Received {
            body,
            traffic: self.traffic.clone(),
            is_over: false,
        }
    }

    /// Notes that an answer which can be sent at once is being sent, or a part of it. An answer that grows as things happen
    /// is not noted.
    pub fn sends(&mut self) {
        if !self.traffic.is_http2.load(Relaxed) {
            return;
        }
        if !self.is_sending {
            self.is_sending = true;
            self.traffic.sending.fetch_add(1, Relaxed);
        }
        *self.traffic.moved() = Some(Instant::now());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_sending {
            self.traffic.sending.fetch_sub(1, Relaxed);
        }
        self.traffic.running.fetch_sub(1, Relaxed);
        if let Some(clock) = self.clock.take() {
            *self.traffic.clock() = Some(clock);
        }
    }
}

/// The body of a request, which notes on its connection if it is not read to its end.
pub struct Received {
    body: Incoming,
    traffic: Arc<Traffic>,
    is_over: bool,
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        self.is_over |= !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if !self.is_over && !self.body.is_end_stream() {
            self.traffic.unread.store(true, Relaxed);
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

/// Which protocol a connection speaks, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// None are here yet.
    Nothing,
    /// So many bytes of the preface of HTTP/2. Until all of it is there, it is the head of a request like any other.
    Preface(usize),
    Http1,
    Http2,
}

impl Opening {
    const PREFACE: &'static [u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    /// With more bytes.
    fn and(self, bytes: &[u8]) -> Opening {
        let known = match self {
            Opening::Http1 | Opening::Http2 => return self,
            Opening::Nothing => 0,
            Opening::Preface(known) => known,
        };
        let rest = &Opening::PREFACE[known..];
        let common = rest.len().min(bytes.len());
        if rest[..common] != bytes[..common] {
            Opening::Http1
        } else if common == rest.len() {
            Opening::Http2
        } else {
            Opening::Preface(known + common)
        }
    }
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
    /// The first bytes of the connection, as many as tell its protocol.
    opening: Opening,
    /// Whether it has shown who it is.
    stranger: Arc<Stranger>,
    app: Arc<App>,
}

impl<S> Guard<S> {
    /// Guards a new connection.
    pub fn new(
        socket: S,
        traffic: Arc<Traffic>,
        stranger: Arc<Stranger>,
        app: Arc<App>,
    ) -> Guard<S> {
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
            opening: Opening::Nothing,
            stranger,
            app,
        }
    }

    fn took(&mut self, bytes: &[u8]) {
        let was_http2 = self.opening == Opening::Http2;
        self.opening = self.opening.and(bytes);
        let is_http2 = self.opening == Opening::Http2;
        self.traffic.is_http2.store(is_http2, Relaxed);
        let begun = self.traffic.begun.load(Relaxed);
        if is_http2 {
            // It mixes heads with pings and other frames, and its own limits bound them. Only a request is a sign of life.
            if !was_http2 || self.wait != Wait::Head(begun) {
                self.wait = Wait::Head(begun);
                self.armed = false;
            }
        } else if self.wait == Wait::Request && self.traffic.running.load(Relaxed) == 0 {
            self.wait = Wait::Head(begun);
            self.armed = false;
        }
    }

    /// Looks at the clock of what is waited for.
    fn overdue(&mut self, cx: &mut Context<'_>) -> Option<&'static str> {
        let is_http2 = self.opening == Opening::Http2;
        let begun = self.traffic.begun.load(Relaxed);
        if matches!(self.wait, Wait::Head(before) if before != begun) {
            self.wait = Wait::Request;
            self.armed = false;
        }
        if let Some(until) = self.stranger.until()
            && self.read_clock.is_over(until, cx)
        {
            return Some("the client does not say who it is");
        }
        if self.traffic.running.load(Relaxed) > 0 {
            self.armed = false;
            // Nobody asks again just because the answer is sent, so the clock has to wake whoever should.
            let idle = Instant::now() + self.app.settings.idle_time;
            self.read_clock.is_over(idle, cx);
            if self.traffic.sending.load(Relaxed) == 0 {
                return None;
            }
            let moved = (*self.traffic.moved())?;
            let deadline = moved + self.app.settings.stall_time;
            let over = self.read_clock.is_over(deadline, cx);
            return over.then_some("the client does not take its answer");
        }
        if !self.armed {
            let time = match self.wait {
                Wait::Head(_) if !is_http2 => self.app.settings.head_time,
                Wait::Head(_) | Wait::Request => self.app.settings.idle_time,
            };
            self.deadline = Instant::now() + time;
            self.armed = true;
        }
        let over = self.read_clock.is_over(self.deadline, cx);
        over.then_some("the client does not go on with its request")
    }

    /// Whether nothing may be read until it is known who this is. The request that says so may have been read and not yet
    /// looked at: then it is waited for.
    fn must_wait(&self, cx: &mut Context<'_>) -> Result<bool, &'static str> {
        if self.stranger.left() > 0 || self.stranger.wake_when_known(cx) {
            return Ok(false);
        }
        let begun = self.traffic.running.load(Relaxed) > 0 || self.opening == Opening::Http2;
        match begun {
            true => Ok(true),
            false => Err("the client sends too much before it says who it is"),
        }
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

/// Reads at most so much.
fn poll_some<S: AsyncRead + Unpin>(
    socket: &mut S,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
    most: usize,
) -> Poll<io::Result<()>> {
    if most >= buf.remaining() {
        return Pin::new(socket).poll_read(cx, buf);
    }
    // A buffer of our own: a part of the other cannot be handed on without promising what is in the rest.
    let mut bytes = [0; 4096];
    let most = most.min(bytes.len());
    let mut part = ReadBuf::new(&mut bytes[..most]);
    ready!(Pin::new(socket).poll_read(cx, &mut part))?;
    buf.put_slice(part.filled());
    Poll::Ready(Ok(()))
}

impl<S: AsyncRead + Unpin> AsyncRead for Guard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = match self.must_wait(cx) {
            Err(why) => Poll::Ready(Err(late(why))),
            Ok(true) => Poll::Pending,
            Ok(false) => {
                let left = self.stranger.left();
                poll_some(&mut self.socket, cx, buf, left)
            }
        };
        match read {
            Poll::Ready(Ok(())) => {
                let new = &buf.filled()[before..];
                if !new.is_empty() {
                    self.stranger.took(new.len());
                    self.took(new);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match self.overdue(cx) {
                Some(why) => Poll::Ready(Err(late(why))),
                None => Poll::Pending,
            },
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

#[cfg(test)]
mod tests {
    use auxo_core::{Limits, Service};
    use auxo_embedded::{Embedded, Options};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::settings::Settings;

    #[tokio::test(start_paused = true)]
    async fn half_a_preface_is_a_head_that_does_not_end() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Embedded::open(&dir.path().join("data"), Options::default()).unwrap();
        let service = Arc::new(Service::new(Arc::new(engine), Limits::default()));
        let app = Arc::new(App::new(service, Settings::default()).unwrap());
        let Settings {
            head_time,
            idle_time,
            ..
        } = app.settings;
        // What is sent, a byte every five seconds if it is in pieces, and when it is too late.
        let preface = Opening::PREFACE;
        for (sent, pace, time) in [
            (&preface[..1], 0, head_time),
            (&preface[..14], 0, head_time),
            (&preface[..23], 0, head_time),
            (&preface[..14], 5, head_time),
            (b"GET / HTTP/1.1", 5, head_time),
            // All of it is there: a connection without a request.
            (preface, 0, idle_time),
            (b"", 0, idle_time),
        ] {
            let (mut client, server) = tokio::io::duplex(1 << 10);
            let stranger = Arc::new(Stranger::known());
            let mut guard = Guard::new(server, Arc::default(), stranger, app.clone());
            let began = Instant::now();
            let send = async {
                match pace {
                    0 => client.write_all(sent).await.unwrap(),
                    pace => {
                        for byte in sent {
                            client.write_all(&[*byte]).await.unwrap();
                            sleep(Duration::from_secs(pace)).await;
                        }
                    }
                }
                std::future::pending::<()>().await
            };
            let mut bytes = Vec::new();
            let read = tokio::select! {
                read = guard.read_to_end(&mut bytes) => read,
                () = send => unreachable!(),
            };
            assert_eq!(read.unwrap_err().kind(), ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), time, "{:?}", String::from_utf8_lossy(sent));
        }
    }

    #[test]
    fn the_protocol_is_known_by_the_first_bytes_in_whatever_pieces_they_come() {
        let opening = |pieces: &[&str]| {
            let first = Opening::Nothing;
            pieces
                .iter()
                .fold(first, |so_far, piece| so_far.and(piece.as_bytes()))
        };
        let preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        assert_eq!(opening(&[preface]), Opening::Http2);
        assert_eq!(opening(&[preface, "GET / "]), Opening::Http2);
        assert_eq!(
            opening(&["P", "R", "I", " *", &preface[5..]]),
            Opening::Http2
        );
        assert_eq!(opening(&["P", "R"]), Opening::Preface(2));
        assert_eq!(opening(&["PRI * HTTP/2.0"]), Opening::Preface(14));
        assert_eq!(opening(&["PRI * HTTP/1.1"]), Opening::Http1);
        assert_eq!(opening(&["PROPFIND / HTTP/1.1"]), Opening::Http1);
        assert_eq!(opening(&["P", "OST / "]), Opening::Http1);
        assert_eq!(opening(&["GET / ", "PRI"]), Opening::Http1);
    }
}
