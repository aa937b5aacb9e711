//! Accepting connections, and letting go of them.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use auxo_core::{Code, Error, Service};
use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::app::App;
use crate::beanstalk;
use crate::grpc::{self, Room, Services};
use crate::guard::{Guard, Running, Traffic};
use crate::observe::{Voice, observe, routed};
use crate::problem::Problem;
use crate::resp;
use crate::routes;
use crate::settings::Settings;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 4096;
/// How many refused connections are told why at once; the rest are just closed.
const REFUSALS: usize = 64;
/// How long accepting rests after it failed: without file descriptors it would fail again at once, over and over.
const REST: Duration = Duration::from_millis(50);
/// How long a peer may be silent on the level of the network.
const SILENCE: Duration = Duration::from_secs(45);
/// How often the same trouble is told.
const MINUTE: Duration = Duration::from_secs(60);
/// Bytes that are buffered of a head, and of an answer: 64 KiB.
pub const BUFFER: usize = 64 << 10;

/// A listening server over a queue.
pub struct Server {
    listener: TcpListener,
    beanstalk: Option<TcpListener>,
    resp: Option<TcpListener>,
    /// How many copies of a job there are when it is answered.
    copies: u16,
    app: Arc<App>,
    router: Router,
}

impl Server {
    /// Takes an address, so that whoever opens a queue for it can be told first that it is taken. Connections that come
    /// meanwhile wait.
    pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A server that restarts must not wait for the kernel to forget its last connections.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    }

    /// A server at an address. Nothing is accepted before [`Server::run`].
    pub fn new(
        listener: TcpListener,
        service: Arc<Service>,
        settings: Settings,
    ) -> io::Result<Server> {
        let app = Arc::new(App::new(service, settings)?);
        Ok(Server {
            listener,
            beanstalk: None,
            resp: None,
            copies: 1,
            router: routes::router(app.clone()),
            app,
        })
    }

    /// The same server, which also speaks beanstalkd's protocol at another address.
    pub fn with_beanstalk(self, listener: TcpListener) -> Server {
        Server {
            beanstalk: Some(listener),
            ..self
        }
    }

    /// The same server, which also speaks Disque's commands at another address. A client of Disque may ask for so many copies of
    /// a job, and no more.
    pub fn with_resp(self, listener: TcpListener, copies: u16) -> Server {
        Server {
            resp: Some(listener),
            copies,
            ..self
        }
    }

    /// Where it listens for HTTP: the port is known even if the system was asked to choose one.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` resolves. Then it accepts nothing more, answers leases that wait with an empty list, ends event
    /// streams, lets other requests finish within the grace, and returns. The queue itself stays open.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server {
            listener,
            beanstalk,
            resp,
            copies,
            app,
            router,
        } = self;
        let mut connections = JoinSet::new();
        let door = Door::new(app.clone(), router);
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = accept(Some(&listener)) => {
                    if let Some(stream) = accepted {
                        door.admit(stream, Protocol::Http, &mut connections);
                    }
                }
                accepted = accept(beanstalk.as_ref()) => {
                    if let Some(stream) = accepted {
                        door.admit(stream, Protocol::Beanstalk, &mut connections);
                    }
                }
                accepted = accept(resp.as_ref()) => {
                    if let Some(stream) = accepted {
                        door.admit(stream, Protocol::Resp { copies }, &mut connections);
                    }
                }
            }
        }
        drop((listener, beanstalk, resp));
        app.stop();
        let drained = timeout(app.settings.grace, async {
            while connections.join_next().await.is_some() {}
        });
        if drained.await.is_err() {
            tracing::warn!(
                left = connections.len(),
                "closing connections that do not end"
            );
            connections.shutdown().await;
        }
    }
}

/// The next connection, or nothing after a rest if there can be none. A listener that is not there has none ever.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    match listener.accept().await {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!(%error, "cannot accept connections");
            sleep(REST).await;
            None
        }
    }
}

/// What is spoken on a connection.
#[derive(Clone, Copy)]
enum Protocol {
    Http,
    Beanstalk,
    Resp {
        /// How many copies of a job there are when it is answered.
        copies: u16,
    },
}

/// Who may come in.
struct Door {
    app: Arc<App>,
    router: TowerToHyperService<Router>,
    services: Arc<Services>,
    builder: Arc<Builder<TokioExecutor>>,
    slots: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    /// When it was last told that descriptors are short.
    told: Cell<Option<Instant>>,
}

impl Door {
    fn new(app: Arc<App>, router: Router) -> Door {
        Door {
            slots: Arc::new(Semaphore::new(app.settings.connections)),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            builder: Arc::new(builder()),
            router: TowerToHyperService::new(router),
            services: Arc::new(Services::new(&app)),
            told: Cell::new(None),
            app,
        }
    }

    /// Says why connections are closed without a word, but not for each of a storm.
    fn tell_of_descriptors(&self) {
        let now = Instant::now();
        if self.told.get().is_none_or(|told| now - told >= MINUTE) {
            self.told.set(Some(now));
            tracing::warn!(
                "closing connections: this process has too few file descriptors left; `ulimit -n` sets how many it may have"
            );
        }
    }

    fn admit(&self, stream: TcpStream, protocol: Protocol, connections: &mut JoinSet<()>) {
        if descriptor(&stream) >= self.app.settings.descriptors {
            self.app.metrics.refused_connection();
            self.tell_of_descriptors();
        } else if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            let app = self.app.clone();
            match protocol {
                Protocol::Http => {
                    let answers = Answers {
                        router: self.router.clone(),
                        services: self.services.clone(),
                    };
                    let builder = self.builder.clone();
                    connections.spawn(converse(stream, app, answers, builder, slot))
                }
                Protocol::Beanstalk => connections.spawn(beanstalk(stream, app, slot)),
                Protocol::Resp { copies } => connections.spawn(resp(stream, app, copies, slot)),
            };
        } else if let Ok(slot) = self.refusals.clone().try_acquire_owned() {
            tracing::debug!("refused a connection: there are too many");
            self.app.metrics.refused_connection();
            match protocol {
                Protocol::Http => connections.spawn(refuse(stream, slot)),
                Protocol::Beanstalk => {
                    connections.spawn(turn_away(stream, b"OUT_OF_MEMORY\r\n", slot))
                }
                Protocol::Resp { .. } => {
                    let word = b"-ERR max number of clients reached\r\n";
                    connections.spawn(turn_away(stream, word, slot))
                }
            };
        } else {
            self.app.metrics.refused_connection();
        }
    }
}

/// The number of a connection's file descriptor.
#[cfg(unix)]
fn descriptor(stream: &TcpStream) -> usize {
    use std::os::fd::AsRawFd;
    usize::try_from(stream.as_raw_fd()).unwrap_or_default()
}

#[cfg(not(unix))]
fn descriptor(_: &TcpStream) -> usize {
    0
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The guard has the clock for heads.
        .header_read_timeout(None)
        .max_buf_size(BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .max_header_list_size(32 << 10)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .max_send_buf_size(BUFFER)
        .keep_alive_interval(Duration::from_secs(15))
        .keep_alive_timeout(Duration::from_secs(30));
    builder
}

/// What requests are answered by.
#[derive(Clone)]
struct Answers {
    router: TowerToHyperService<Router>,
    services: Arc<Services>,
}

/// Answers the requests of one connection.
async fn converse(
    stream: TcpStream,
    app: Arc<App>,
    answers: Answers,
    builder: Arc<Builder<TokioExecutor>>,
    _slot: OwnedSemaphorePermit,
) {
    let _open = app.metrics.connection();
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%error, "the connection was gone at once");
        return;
    }
    let traffic = Arc::new(Traffic::default());
    let io = TokioIo::new(Guard::new(stream, traffic.clone(), app.clone()));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let mut running = traffic.begin();
        let (app, answers) = (app.clone(), answers.clone());
        async move {
            let clock = &mut running.clock;
            let mut answer = if grpc::speaks(request.headers()) {
                // In a box, or it would make the others large.
                Box::pin(answers.services.answer(&app, clock, request)).await
            } else {
                let (route, hot) = app.routes.find(request.method(), request.uri().path());
                observe(
                    &app,
                    route,
                    Voice::Http,
                    request,
                    async |request| match hot {
                        Some(hot) => hot.answer(&app, clock, request).await,
                        None => Box::pin(routed(&app, &answers.router, route, request)).await,
                    },
                )
                .await
            };
            running.answered(answer.status());
            let room = answer.extensions_mut().remove();
            Ok::<_, Infallible>(answer.map(|body| Tracked::new(body, running, room)))
        }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = app.stopped() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Answers what one connection asks for in beanstalkd's protocol.
async fn beanstalk(stream: TcpStream, app: Arc<App>, _slot: OwnedSemaphorePermit) {
    let _open = app.metrics.connection();
    let (peer, prepared) = (stream.peer_addr(), prepare(&stream));
    match peer.and_then(|peer| prepared.map(|()| peer)) {
        Ok(peer) => beanstalk::converse(stream, peer.to_string(), app).await,
        Err(error) => tracing::debug!(%error, "the connection was gone at once"),
    }
}

/// Answers what one connection asks for in Disque's commands.
async fn resp(stream: TcpStream, app: Arc<App>, copies: u16, _slot: OwnedSemaphorePermit) {
    let _open = app.metrics.connection();
    let ends = || {
        prepare(&stream)?;
        io::Result::Ok(resp::Ends {
            peer: stream.peer_addr()?,
            local: stream.local_addr()?,
            copies,
        })
    };
    match ends() {
        Ok(ends) => resp::converse(stream, ends, app).await,
        Err(error) => tracing::debug!(%error, "the connection was gone at once"),
    }
}

/// Small answers go out at once, and a peer that is gone without a word is noticed within [`SILENCE`]: by probes while
/// nothing is under way, and by the lack of any sign that what was sent has arrived.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE / 3)
        .with_interval(SILENCE / 3)
        .with_retries(2);
    let socket = SockRef::from(stream);
    // Probes rest while an answer is under way; without this one the system would send it again for a quarter of an hour.
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(SILENCE))?;
    socket.set_tcp_keepalive(&keepalive)
}

/// Says that there are too many connections, in the form that a client which sends a request expects.
async fn refuse(stream: TcpStream, slot: OwnedSemaphorePermit) {
    let error = Error::new(
        Code::Unavailable,
        "the server has as many connections as it may; try again later",
    );
    let (head, body) = Problem::from(error).into_response().into_parts();
    let body = body
        .collect()
        .await
        .map(|b| b.to_bytes())
        .unwrap_or_default();
    let text = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {}\r\nretry-after: 1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        head.headers["content-type"].to_str().unwrap_or_default(),
        body.len()
    );
    let text = [text.as_bytes(), &body].concat();
    turn_away(stream, &text, slot).await;
}

/// Says a last word.
async fn turn_away(mut stream: TcpStream, word: &[u8], _slot: OwnedSemaphorePermit) {
    let talk = async {
        stream.write_all(word).await?;
        stream.shutdown().await?;
        // What was sent must be read before closing, or the system throws away the answer with it.
        let mut sink = [0; 4096];
        while stream.read(&mut sink).await? > 0 {}
        io::Result::Ok(())
    };
    // Whether the client heard it or not, it is refused.
    let _ = timeout(Duration::from_secs(1), talk).await;
}

/// An answer's body, and the note that it is being sent.
struct Tracked {
    body: Body,
    running: Running,
    /// Whether all of it is there, and only the client is waited for.
    is_whole: bool,
    /// The memory that it takes until it is sent.
    _room: Option<Room>,
}

impl Tracked {
    fn new(body: Body, mut running: Running, room: Option<Room>) -> Tracked {
        // A message of gRPC does not say how long it is, but whoever has room for it has all of it.
        let is_whole = room.is_some() || body.size_hint().exact().is_some_and(|length| length > 0);
        if is_whole {
            running.sends();
        }
        Tracked {
            body,
            running,
            is_whole,
            _room: room,
        }
    }
}

impl hyper::body::Body for Tracked {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.is_whole {
            self.running.sends();
        }
        Pin::new(&mut self.body).poll_frame(cx)
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

    #[tokio::test]
    async fn a_peer_that_is_gone_without_a_word_is_noticed_within_45_seconds() {
        let listener = Server::listen(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let _peer = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (stream, _) = listener.accept().await.unwrap();
        prepare(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        let first = socket.tcp_keepalive_time().unwrap();
        let next = socket.tcp_keepalive_interval().unwrap();
        let probes = socket.tcp_keepalive_retries().unwrap();
        assert_eq!(first + next * probes, Duration::from_secs(45));
        #[cfg(target_os = "linux")]
        assert_eq!(
            socket.tcp_user_timeout().unwrap(),
            Some(Duration::from_secs(45))
        );
    }
}
