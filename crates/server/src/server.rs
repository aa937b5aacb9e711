//! Accepting connections, and letting go of them.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use auxo_core::{Code, Error, Service};
use axum::Router;
use axum::body::{Body, HttpBody as _};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use pin_project_lite::pin_project;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout, timeout_at};

use crate::app::App;
use crate::auth::{Auth, Handshake, Stranger, TokenFile, Visitor};
use crate::beanstalk;
use crate::degraded;
use crate::grpc::{self, Room, Services};
use crate::guard::{Guard, Running, Traffic};
use crate::hosts::is_local;
use crate::lanes::Lanes;
use crate::listen::{Arrival, Listener, Socket, Stream};
use crate::observe::{Voice, observe, routed};
use crate::owner::warn_of_others;
use crate::problem::Problem;
use crate::resp;
use crate::routes;
use crate::settings::Settings;
use crate::subject::subject;
use crate::tls::{Inside, Tls};
use crate::trail::Trail;
use crate::watch::watch;

/// How many refused connections are told why at once; the rest are just closed.
const REFUSALS: usize = 64;
/// How long accepting rests after it failed: without file descriptors it would fail again at once, over and over.
const REST: Duration = Duration::from_millis(50);
/// How often the same trouble is told.
const MINUTE: Duration = Duration::from_secs(60);
/// Bytes that are buffered of a head, and of an answer: 64 KiB.
pub const BUFFER: usize = 64 << 10;

/// A listening server over a queue.
pub struct Server {
    listener: Listener,
    beanstalk: Option<Listener>,
    resp: Option<Listener>,
    /// How many copies of a job there are when it is answered.
    copies: u16,
    app: Arc<App>,
    router: Router,
    lanes: Lanes,
}

impl Server {
    /// Takes an address, so that whoever opens a queue for it can be told first that it is taken. Connections that come
    /// meanwhile wait.
    pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
        Listener::tcp(address)
    }

    /// A server at an address. Nothing is accepted before [`Server::run`].
    pub fn new(
        listener: impl Into<Listener>,
        service: Arc<Service>,
        settings: Settings,
    ) -> io::Result<Server> {
        let listener = listener.into();
        let mut app = App::new(service, settings)?;
        app.is_local = listener.local_addr().is_ok_and(is_local);
        let app = Arc::new(app);
        Ok(Server {
            listener,
            beanstalk: None,
            resp: None,
            copies: 1,
            router: routes::router(app.clone()),
            lanes: Lanes::start()?,
            app,
        })
    }

    /// The same server, which also speaks beanstalkd's protocol at another address.
    pub fn with_beanstalk(self, listener: impl Into<Listener>) -> Server {
        Server {
            beanstalk: Some(listener.into()),
            ..self
        }
    }

    /// The same server, which also speaks Disque's commands at another address. A client of Disque may ask for so many copies of
    /// a job, and no more.
    pub fn with_resp(self, listener: impl Into<Listener>, copies: u16) -> Server {
        Server {
            resp: Some(listener.into()),
            copies,
            ..self
        }
    }

    /// Where it listens for HTTP: the port is known even if the system was asked to choose one.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What of this server can be read again while it runs. It also is whenever the files change.
    pub fn files(&self) -> Files {
        let listeners = [
            Some(&self.listener),
            self.beanstalk.as_ref(),
            self.resp.as_ref(),
        ];
        let tls = listeners.into_iter().flatten().filter_map(Listener::tls);
        Files {
            auth: self.app.auth.clone(),
            tls: tls.cloned().collect(),
            trail: self.app.trail.clone(),
        }
    }

    /// Answers until `stop` resolves. Then it accepts nothing more, answers leases that wait with an empty list, ends event
    /// streams, lets other requests finish within the grace, and returns. The queue itself stays open.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let files = self.files();
        files.warn();
        // A server runs once.
        let _ = self.app.certificates.set(files.tls.clone());
        let mut changes = pin!(watch(files.directories(), || files.reload()));
        let Server {
            listener,
            beanstalk,
            resp,
            copies,
            app,
            router,
            lanes,
        } = self;
        let mut connections = JoinSet::new();
        let door = Door::new(app.clone(), router, lanes);
        // A task of its own: an engine that panics when it is asked takes nothing else with it.
        let mut outages = JoinSet::new();
        outages.spawn(degraded::watch(Arc::downgrade(&app)));
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = &mut changes => {}
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                accepted = accept(Some(&listener)) => {
                    if let Some(arrival) = accepted {
                        door.admit(arrival, Protocol::Http, &mut connections);
                    }
                }
                accepted = accept(beanstalk.as_ref()) => {
                    if let Some(arrival) = accepted {
                        door.admit(arrival, Protocol::Beanstalk, &mut connections);
                    }
                }
                accepted = accept(resp.as_ref()) => {
                    if let Some(arrival) = accepted {
                        door.admit(arrival, Protocol::Resp { copies }, &mut connections);
                    }
                }
            }
        }
        drop((listener, beanstalk, resp));
        drop(outages);
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
async fn accept(listener: Option<&Listener>) -> Option<Arrival> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    match listener.accept().await {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!(%error, "cannot accept connections");
            sleep(REST).await;
            None
        }
    }
}

/// The files of a server that others may replace while it runs.
#[derive(Clone, Debug)]
pub struct Files {
    auth: Auth,
    tls: Vec<Tls>,
    trail: Trail,
}

impl Files {
    /// Reads them again, and opens the audit log anew. What is wrong with one is logged, and it stays as it was.
    pub fn renew(&self) {
        self.trail.reopen();
        self.reload();
    }

    /// Says which of those that must be nobody else's could be replaced by others.
    fn warn(&self) {
        let tokens = self.auth.file().map(TokenFile::path);
        let files = tokens.into_iter().chain(self.trail.path());
        files.for_each(warn_of_others);
        // The protocols share the files.
        if let Some(tls) = self.tls.first() {
            tls.warn();
        }
    }

    fn reload(&self) {
        self.auth.reload();
        self.tls.iter().for_each(Tls::reload);
    }

    fn directories(&self) -> Vec<PathBuf> {
        let tokens = self.auth.file().map(|file| file.directory().to_owned());
        let certificates = self.tls.iter().flat_map(Tls::directories);
        tokens.into_iter().chain(certificates).collect()
    }
}

/// What is spoken on a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
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
    lanes: Lanes,
    /// When it was last told that descriptors are short.
    told: Cell<Option<Instant>>,
}

impl Door {
    fn new(app: Arc<App>, router: Router, lanes: Lanes) -> Door {
        Door {
            slots: Arc::new(Semaphore::new(app.settings.connections)),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            builder: Arc::new(builder()),
            router: TowerToHyperService::new(router),
            services: Arc::new(Services::new(&app)),
            lanes,
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

    fn admit(&self, arrival: Arrival, protocol: Protocol, connections: &mut JoinSet<()>) {
        if arrival.socket.descriptor() >= self.app.settings.descriptors {
            self.app.metrics.refused_connection();
            self.tell_of_descriptors();
        } else if let Some(place) = self.place(&arrival, protocol) {
            let app = self.app.clone();
            let stranger = place.stranger.clone();
            match protocol {
                Protocol::Http => {
                    let answers = Answers {
                        router: self.router.clone(),
                        services: self.services.clone(),
                    };
                    let builder = self.builder.clone();
                    let talk = converse(arrival, app.clone(), answers, builder, place);
                    connections.spawn(UnlessDisplaced {
                        talk,
                        stranger,
                        app,
                    })
                }
                Protocol::Beanstalk => {
                    let talk = beanstalk(arrival, app.clone(), place);
                    let talk = UnlessDisplaced {
                        talk,
                        stranger,
                        app,
                    };
                    connections.spawn_on(talk, self.lanes.next())
                }
                Protocol::Resp { copies } => {
                    let talk = resp(arrival, app.clone(), copies, place);
                    let talk = UnlessDisplaced {
                        talk,
                        stranger,
                        app,
                    };
                    connections.spawn_on(talk, self.lanes.next())
                }
            };
        } else if let Some(slot) = self.refusal(&arrival) {
            tracing::debug!("refused a connection: there are too many");
            self.app.metrics.refused_connection();
            let stream = arrival.socket.into();
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

    /// Room for a connection, and for a stranger if it is one.
    fn place(&self, arrival: &Arrival, protocol: Protocol) -> Option<Place> {
        let slot = self.slots.clone().try_acquire_owned().ok()?;
        let stranger = match (&arrival.tls, protocol) {
            (Some(_), _) => self.app.auth.stranger(Handshake::Tls, arrival.from),
            (None, Protocol::Http | Protocol::Resp { .. }) => {
                self.app.auth.stranger(Handshake::None, arrival.from)
            }
            // It has no word for who one is: where it is spoken without TLS, whoever comes is welcome.
            (None, Protocol::Beanstalk) => Stranger::known(),
        };
        Some(Place {
            _slot: slot,
            stranger: Arc::new(stranger),
        })
    }

    /// Room to say why there is none. With TLS nothing can be said before it costs more than it is worth.
    fn refusal(&self, arrival: &Arrival) -> Option<OwnedSemaphorePermit> {
        match arrival.tls {
            None => self.refusals.clone().try_acquire_owned().ok(),
            Some(_) => None,
        }
    }
}

/// Room for a connection while it lasts.
struct Place {
    _slot: OwnedSemaphorePermit,
    stranger: Arc<Stranger>,
}

pin_project! {
    /// Serves a connection to its end, or until a newer one gets its place because it has not shown who it is.
    ///
    /// Not an `async fn`, which would keep the connection's future twice.
    struct UnlessDisplaced<F> {
        #[pin]
        talk: F,
        stranger: Arc<Stranger>,
        app: Arc<App>,
    }
}

impl<F: Future<Output = ()>> Future for UnlessDisplaced<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.talk.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        this.stranger.poll_displaced(cx).map(|()| {
            tracing::debug!(
                "closing a connection that has not shown who it is: there are too many"
            );
            this.app.metrics.refused_connection();
        })
    }
}

/// The connection as a protocol sees it, or nothing if it does not come about in time.
async fn open(
    socket: Socket,
    tls: Option<Tls>,
    inside: Inside,
    stranger: &Stranger,
    app: &App,
) -> Option<Stream> {
    if let Err(error) = socket.prepare() {
        tracing::debug!(%error, "the connection was gone at once");
        return None;
    }
    let (tls, socket) = match (tls, socket) {
        (Some(tls), Socket::Tcp(socket)) => (tls, socket),
        (_, socket) => return Some(socket.into()),
    };
    let until = stranger.until()?;
    let error = match timeout_at(until, tls.accept(inside, socket)).await {
        Ok(Ok(stream)) => return Some(Stream::Tls(Box::new(stream))),
        Ok(Err(error)) => error,
        Err(late) => late.into(),
    };
    app.metrics.failed_handshake();
    tracing::debug!(%error, "TLS did not come about");
    None
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
    arrival: Arrival,
    app: Arc<App>,
    answers: Answers,
    builder: Arc<Builder<TokioExecutor>>,
    place: Place,
) {
    let _open = app.metrics.connection();
    let Arrival {
        socket, tls, from, ..
    } = arrival;
    let stranger = place.stranger.clone();
    let Some(stream) = open(socket, tls, Inside::Http, &stranger, &app).await else {
        return;
    };
    if !app.auth.is_required() {
        stranger.recognise();
    }
    let visitor = Visitor { from, stranger };
    let traffic = Arc::new(Traffic::default());
    let guard = Guard::new(
        stream,
        traffic.clone(),
        visitor.stranger.clone(),
        app.clone(),
    );
    let io = TokioIo::new(guard);
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let mut running = traffic.begin();
        let (app, answers, visitor) = (app.clone(), answers.clone(), visitor.clone());
        async move {
            // In HTTP/2 each request has a stream of its own, and what is left of one holds up no other.
            let is_http1 = request.version() < Version::HTTP_2;
            let mut answer = if grpc::speaks(request.headers()) {
                let clock = &mut running.clock;
                // In a box, or it would make the others large.
                Box::pin(answers.services.answer(&app, clock, &visitor, request)).await
            } else {
                let request = request.map(|body| running.receive(body));
                let clock = &mut running.clock;
                let (route, hot) = app.routes.find(request.method(), request.uri().path());
                observe(
                    &app,
                    route,
                    Voice::Http,
                    &visitor,
                    request,
                    async |request| match hot {
                        Some(hot) => hot.answer(&app, clock, request).await,
                        None => Box::pin(routed(&app, &answers.router, route, request)).await,
                    },
                )
                .await
            };
            running.answered(answer.status());
            if is_http1 && running.is_last() {
                let close = HeaderValue::from_static("close");
                answer.headers_mut().insert(CONNECTION, close);
            }
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
async fn beanstalk(arrival: Arrival, app: Arc<App>, place: Place) {
    let _open = app.metrics.connection();
    let Arrival {
        socket,
        tls,
        name,
        from,
    } = arrival;
    let from = matches!(socket, Socket::Tcp(_)).then_some(from);
    let stranger = &place.stranger;
    let Ok(socket) = socket.moved() else {
        return tracing::debug!("the connection was gone at once");
    };
    if let Some(stream) = open(socket, tls, Inside::Other, stranger, &app).await {
        // The handshake has shown who it is.
        stranger.recognise();
        let subject = stream.certificate().and_then(subject);
        let peer = beanstalk::Peer {
            name,
            from,
            subject,
        };
        beanstalk::converse(stream, peer, app).await;
    }
}

/// Answers what one connection asks for in Disque's commands.
async fn resp(arrival: Arrival, app: Arc<App>, copies: u16, place: Place) {
    let _open = app.metrics.connection();
    let Arrival {
        socket, tls, from, ..
    } = arrival;
    let Ok(socket) = socket.moved() else {
        return tracing::debug!("the connection was gone at once");
    };
    let Some((peer, local)) = socket.ends() else {
        return tracing::debug!("the connection was gone at once");
    };
    let visitor = Visitor {
        from,
        stranger: place.stranger.clone(),
    };
    if let Some(stream) = open(socket, tls, Inside::Other, &visitor.stranger, &app).await {
        if !app.auth.is_required() {
            visitor.stranger.recognise();
        }
        let ends = resp::Ends {
            peer,
            local,
            copies,
            visitor,
        };
        resp::converse(stream, ends, app).await;
    }
}

/// Says that there are too many connections, in the form that a client which sends a request expects.
async fn refuse(stream: Stream, slot: OwnedSemaphorePermit) {
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
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {}\r\nx-content-type-options: nosniff\r\nretry-after: 1\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        head.headers["content-type"].to_str().unwrap_or_default(),
        body.len()
    );
    let text = [text.as_bytes(), &body].concat();
    turn_away(stream, &text, slot).await;
}

/// Says a last word.
async fn turn_away(mut stream: Stream, word: &[u8], _slot: OwnedSemaphorePermit) {
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
