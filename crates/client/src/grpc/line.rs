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
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;
use tower_service::Service;

use crate::remote::access::{Access, Dialled};
use crate::remote::address::Address;
use crate::remote::pool::reason;
use crate::remote::tls::Ending;

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
    wire: Wire,
    usage: Arc<Usage>,
}

/// A connection that calls can be sent on.
#[derive(Clone)]
pub(super) struct Wire {
    sender: SendRequest<Body>,
    /// A call on a connection that ended hears that it did, but not always why.
    ending: Ending,
}

impl Wire {
    /// Why a call was not answered.
    fn why(&self, error: &hyper::Error) -> String {
        let ending = self.ending.get().cloned();
        ending.unwrap_or_else(|| reason(error))
    }
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
    access: Access,
    shared: StdMutex<Vec<Shared>>,
    /// Held while a connection is made, so that a thousand tasks do not make one each.
    dialling: Mutex<()>,
}

impl Lines {
    pub fn new(connect_time: Duration, access: Access) -> Lines {
        Lines {
            connect_time,
            access,
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
        let wire = dial(address, &self.access, deadline).await?;
        let usage = Usage::new();
        let line = Line::new(wire.clone(), &usage, &self.access);
        self.lock().push(Shared { wire, usage });
        Ok(line)
    }

    fn open(&self) -> Option<Line> {
        let mut shared = self.lock();
        shared.retain(|line| !line.wire.sender.is_closed() && !line.usage.is_stale());
        let is_free = |line: &&Shared| line.usage.calls.load(Relaxed) < CALLS;
        let free = shared.iter().find(is_free)?;
        Some(Line::new(free.wire.clone(), &free.usage, &self.access))
    }

    /// Lets go of all; calls that run may finish.
    pub fn clear(&self) {
        self.lock().clear();
    }
}

/// A new connection.
pub(super) async fn dial(
    address: &Address,
    access: &Access,
    deadline: Instant,
) -> Result<Wire, Broken> {
    let dialled = access.dial(address, deadline).await;
    let Dialled { stream, ending } = dialled.map_err(Broken::before)?;
    let hands = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .keep_alive_interval(ALIVE)
        .keep_alive_timeout(ALIVE)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream));
    let (sender, connection) = timeout_at(deadline, hands)
        .await
        .map_err(|_| Broken::before("the connection takes too long"))?
        .map_err(|error| Broken::before(reason(&error)))?;
    // Its end is told to who waits for an answer.
    tokio::spawn(async move { drop(connection.await) });
    Ok(Wire { sender, ending })
}

/// A connection, for one call.
pub(super) struct Line {
    wire: Wire,
    usage: Arc<Usage>,
    /// Is shown with the call.
    authorization: Option<HeaderValue>,
}

impl Line {
    fn new(wire: Wire, usage: &Arc<Usage>, access: &Access) -> Line {
        usage.calls.fetch_add(1, Relaxed);
        Line {
            wire,
            usage: usage.clone(),
            authorization: access.authorization.clone(),
        }
    }

    /// One that nobody else uses.
    pub fn alone(wire: Wire, access: &Access) -> Line {
        Line::new(wire, &Usage::new(), access)
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

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(value) = &self.authorization {
            let headers = request.headers_mut();
            headers.insert(AUTHORIZATION, value.clone());
        }
        let mut wire = self.wire.clone();
        let answer = async move {
            let ready = wire.sender.ready().await;
            ready.map_err(|error| Broken::before(wire.why(&error)))?;
            let answer = wire.sender.try_send_request(request).await;
            answer.map_err(|mut error| match error.take_message() {
                Some(_) => Broken::before(wire.why(error.error())),
                None => Broken::after(wire.why(error.error())),
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
