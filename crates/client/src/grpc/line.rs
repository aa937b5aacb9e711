//! Connections to one server, shared by all calls.
//!
//! Ours rather than a ready-made channel, for what only the connection knows: whether a request that failed had been sent at
//! all, which decides if it may be sent again. A server takes 256 calls at once on a connection, and a lease that waits is one
//! of them, so there is another connection as soon as those that are there have [`CALLS`].

use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tower_service::Service;

use crate::remote::address::Address;
use crate::remote::pool::reason;

/// Calls at once on one connection.
const CALLS: usize = 100;
/// Bytes that may be under way to us without our leave, in a call and on a connection: answers of a megabyte need no pause.
const WINDOW: u32 = 4 << 20;
/// How often a quiet connection is tried, and how long it may take to answer.
const ALIVE: Duration = Duration::from_secs(20);

/// How long a connection is kept without a call: much less than a server does, so that it is not closed there just as a call is
/// sent here.
const IDLE: Duration = Duration::from_secs(60);

/// A call that got no answer.
#[derive(Debug)]
pub(super) struct Broken {
    /// Whether it may have reached the server.
    pub sent: bool,
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl StdError for Broken {}

impl Broken {
    pub fn before(why: impl Into<String>) -> Broken {
        let why = why.into();
        Broken { sent: false, why }
    }

    pub fn after(why: impl Into<String>) -> Broken {
        let why = why.into();
        Broken { sent: true, why }
    }
}

struct Shared {
    sender: SendRequest<Body>,
    usage: Arc<Usage>,
}

/// What a connection is used for.
struct Usage {
    calls: AtomicUsize,
    /// When the last call ended.
    last: StdMutex<Instant>,
}

impl Usage {
    fn new() -> Arc<Usage> {
        Arc::new(Usage {
            calls: AtomicUsize::new(0),
            last: StdMutex::new(Instant::now()),
        })
    }

    fn last(&self) -> MutexGuard<'_, Instant> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stale(&self) -> bool {
        self.calls.load(Relaxed) == 0 && self.last().elapsed() > IDLE
    }
}

/// The connections to one server.
pub(super) struct Lines {
    connect_time: Duration,
    shared: StdMutex<Vec<Shared>>,
    /// Held while a connection is made, so that a thousand tasks do not make one each.
    dialling: Mutex<()>,
}

impl Lines {
    pub fn new(connect_time: Duration) -> Lines {
        Lines {
            connect_time,
            shared: StdMutex::default(),
            dialling: Mutex::new(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Shared>> {
        // A list is never left half changed.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection with room for one more call.
    pub async fn take(&self, address: &Address, deadline: Instant) -> Result<Line, Broken> {
        if let Some(line) = self.open() {
            return Ok(line);
        }
        let _alone = self.dialling.lock().await;
        if let Some(line) = self.open() {
            return Ok(line);
        }
        let deadline = deadline.min(Instant::now() + self.connect_time);
        let sender = dial(address, deadline).await?;
        let usage = Usage::new();
        let line = Line::new(sender.clone(), &usage);
        self.lock().push(Shared { sender, usage });
        Ok(line)
    }

    fn open(&self) -> Option<Line> {
        let mut shared = self.lock();
        shared.retain(|line| !line.sender.is_closed() && !line.usage.is_stale());
        let is_free = |line: &&Shared| line.usage.calls.load(Relaxed) < CALLS;
        let free = shared.iter().find(is_free)?;
        Some(Line::new(free.sender.clone(), &free.usage))
    }

    /// Lets go of all; calls that run may finish.
    pub fn clear(&self) {
        self.lock().clear();
    }
}

/// A new connection.
pub(super) async fn dial(
    address: &Address,
    deadline: Instant,
) -> Result<SendRequest<Body>, Broken> {
    let connect = async {
        let socket = TcpStream::connect((&*address.host, address.port)).await?;
        // Requests are written whole; waiting for more to send would only delay them.
        let _ = socket.set_nodelay(true);
        std::io::Result::Ok(socket)
    };
    let late = || Broken::before("the connection takes too long");
    let socket = timeout_at(deadline, connect).await.map_err(|_| late())?;
    let socket = socket.map_err(|error| Broken::before(error.to_string()))?;
    let hands = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(socket));
    let (sender, connection) = timeout_at(deadline, hands)
        .await
        .map_err(|_| late())?
        .map_err(|error| Broken::before(reason(&error)))?;
    // Its end is told to who waits for an answer.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// A connection, for one call.
pub(super) struct Line {
    sender: SendRequest<Body>,
    usage: Arc<Usage>,
}

impl Line {
    fn new(sender: SendRequest<Body>, usage: &Arc<Usage>) -> Line {
        usage.calls.fetch_add(1, Relaxed);
        Line {
            sender,
            usage: usage.clone(),
        }
    }

    /// One that nobody else uses.
    pub fn alone(sender: SendRequest<Body>) -> Line {
        Line::new(sender, &Usage::new())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        *self.usage.last() = Instant::now();
        self.usage.calls.fetch_sub(1, Relaxed);
    }
}

impl Service<Request<Body>> for Line {
    type Response = Response<Incoming>;
    type Error = Broken;
    type Future = BoxFuture<'static, Result<Response<Incoming>, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut sender = self.sender.clone();
        let answer = async move {
            let broken = |error: &hyper::Error| reason(error);
            sender
                .ready()
                .await
                .map_err(|e| Broken::before(broken(&e)))?;
            let answer = sender.try_send_request(request).await;
            answer.map_err(|mut error| match error.take_message() {
                Some(_) => Broken::before(broken(error.error())),
                None => Broken::after(broken(error.error())),
            })
        };
        answer.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_stale_when_it_had_no_call_for_a_while() {
        let usage = Usage::new();
        tokio::time::advance(IDLE).await;
        assert!(!usage.is_stale());
        tokio::time::advance(ALIVE).await;
        assert!(usage.is_stale());
        // A lease that waits is a call.
        usage.calls.fetch_add(1, Relaxed);
        assert!(!usage.is_stale());
    }
}
