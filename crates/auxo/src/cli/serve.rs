//! `auxo serve`

mod listen;

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use auxo::core::text;
use auxo::core::{Engine, Service};
use auxo::{Code, Error, Limits, Options, Sync};
use auxo_embedded::Embedded;
use auxo_redis::RedisEngine;
use auxo_server::{About, Listener, Server, Settings, Tls, Trail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::listen::{Spoken, listen, speak};
use super::config::{Config, Flags, Place, Port, note_strangers, sync_text};
use super::context::{Context, Missing, SERVER, check};
use super::failure::Failure;
use super::signals::{Hangups, Signals};

const EXAMPLES: &str = "\
Examples:
  auxo serve
  auxo serve --data /var/lib/auxo --http 127.0.0.1:9000
  auxo serve --store redis://127.0.0.1:6379   the jobs are on Redis, shared by all servers there
  auxo serve --sync 50ms               faster; a power cut may take the last 50 ms
  auxo serve --config auxo.toml --log debug
  auxo serve --http 0.0.0.0:8000 --tls-cert cert.pem --tls-key key.pem   for others; needs a token:
                                       `auxo token new --allow admin:*`

Every flag is also a setting in the file and a variable in the environment: see `auxo config`.
Tokens and certificates are read again when they change, or on SIGHUP.
SIGTERM or Ctrl-C stops it when running requests are answered; a second one stops it at once.";

/// Serve a queue over HTTP.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    flags: Flags,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let data = context.data().ok().map(PathBuf::from);
    let config = Config::load(&args.flags, data)?;
    log(&config);
    // Asked for before anything is opened, so that no signal finds the process half begun.
    let mut signals = Signals::new()?;
    let mut hangups = Hangups::new()?;
    let room = room(config.connections);
    // The address first: a port that is taken leaves no new store behind.
    let listener = listen("http", config.http, config.tls.as_ref())?;
    let beanstalk = speak("beanstalk", &config.beanstalk, beanstalk_tls(&config))?;
    let resp = speak("resp", &config.resp, config.tls.as_ref())?;
    let (service, risks) = open(&config).await?;
    remember_tokens(&config);
    let mut settings = settings(&config, &room);
    // In the data directory, which is there by now.
    if let Some(path) = &config.audit {
        settings.trail = Trail::open(path)?;
    }
    let mut server = Server::new(listener, service.clone(), settings)?;
    let mut lines = vec![place_line(&config)];
    lines.extend(risks);
    match beanstalk {
        Spoken::At(listener) => {
            lines.push(format!("beanstalk  {}", spoken_at(&config, &listener)?));
            server = server.with_beanstalk(listener);
        }
        Spoken::Not(why) => lines.push(format!("beanstalk  {why}")),
        Spoken::Off => {}
    }
    match resp {
        Spoken::At(listener) => {
            lines.push(format!("resp   {}", listener.local_addr()?));
            server = server.with_resp(listener, copies(&config));
        }
        Spoken::Not(why) => lines.push(format!("resp   {why}")),
        Spoken::Off => {}
    }
    greet(&config, &lines, server.address()?);
    let files = server.files();
    let follow = async {
        loop {
            hangups.next().await;
            files.renew();
        }
    };
    let served = tokio::select! {
        served = serve(&config, server, &mut signals) => served,
        () = follow => Ok(()),
    };
    let closed = service.close().await;
    served?;
    closed?;
    eprintln!("stopped; everything answered is kept");
    Ok(())
}

/// Notes in the data directory that there are tokens, if they are in it: a start without their file must not let everybody in.
fn remember_tokens(config: &Config) {
    let (Place::Data { path, .. }, Some(file)) = (&config.place, config.auth.file()) else {
        return;
    };
    if !config.auth.is_required() || file.directory() != path.as_path() {
        return;
    }
    if let Err(error) = file.remember() {
        let file = file.note();
        eprintln!(
            "warning: cannot note in {} that there are tokens: {error}",
            file.display()
        );
    }
}

/// On this machine beanstalkd's clients are spoken to as they are used to.
fn beanstalk_tls(config: &Config) -> Option<&Tls> {
    match &config.beanstalk {
        Port::Asked(address) | Port::Default(address) if !address.ip().is_loopback() => {
            config.tls.as_ref()
        }
        _ => None,
    }
}

fn spoken_at(config: &Config, listener: &Listener) -> io::Result<String> {
    match &config.beanstalk {
        Port::Unix(path) => Ok(path.display().to_string()),
        _ => Ok(listener.local_addr()?.to_string()),
    }
}

fn log(config: &Config) {
    let colours = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_max_level(config.log)
        .with_writer(io::stderr)
        .with_ansi(colours)
        .init();
}

/// What of the process's file descriptors connections may have. The store must never lack one, since the first file that it
/// cannot open is its last.
struct Room {
    connections: usize,
    descriptors: usize,
}

fn room(wished: usize) -> Room {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else {
        return Room {
            connections: wished,
            descriptors: usize::MAX,
        };
    };
    let descriptors = limit - (limit / 4).min(1000);
    // Some are for those who are told that there is no room, and for the process itself.
    let most = descriptors - (descriptors / 4).min(96);
    if most < wished {
        eprintln!(
            "note: {most} connections at once, not {wished}: this process may open {limit} files; \
             `ulimit -n` sets that"
        );
    }
    Room {
        connections: wished.min(most),
        descriptors,
    }
}

/// Opens the store, and makes it in a place that is empty. Says what it can lose.
async fn open(config: &Config) -> Result<(Arc<Service>, Vec<String>), Failure> {
    let (engine, risks): (Arc<dyn Engine>, _) = match &config.place {
        Place::Data { path, sync } => {
            check(path, Missing::Create)?;
            let (path, sync) = (path.clone(), *sync);
            let options = Options {
                sync,
                node: config.node.clone(),
                ..Options::default()
            };
            // Reads a checkpoint and the log behind it: no place for an async worker thread.
            let opened = tokio::task::spawn_blocking(move || Embedded::open(&path, options)).await;
            let engine =
                opened.map_err(|error| Error::new(Code::Internal, error.to_string()))??;
            let risk = format!("sync   {}: {}", sync_text(sync), risk(sync));
            (Arc::new(engine), vec![risk])
        }
        Place::Store(url) => {
            let engine = RedisEngine::open(url, auxo_redis::Options::default()).await?;
            let risks = engine.setup().lines.clone();
            (Arc::new(engine), risks)
        }
    };
    Ok((Arc::new(Service::new(engine, Limits::default())), risks))
}

fn settings(config: &Config, room: &Room) -> Settings {
    Settings {
        about: About {
            name: config.node.clone(),
            sync: match &config.place {
                Place::Data { sync, .. } => sync_text(*sync),
                Place::Store(url) => url.durability().as_str().to_owned(),
            },
            data: place_text(config),
        },
        auth: config.auth.clone(),
        hosts: config.hosts.clone(),
        connections: room.connections,
        descriptors: room.descriptors,
        grace: config.grace,
        ..Settings::default()
    }
}

/// How many copies of a job there are for sure when it is answered: with `replicated`, at least one replica has confirmed it.
fn copies(config: &Config) -> u16 {
    match &config.place {
        Place::Store(url) if url.durability().as_str() == "replicated" => 2,
        Place::Store(_) | Place::Data { .. } => 1,
    }
}

fn place_text(config: &Config) -> String {
    match &config.place {
        Place::Data { path, .. } => {
            let whole = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            whole.display().to_string()
        }
        Place::Store(url) => url.to_string(),
    }
}

async fn serve(config: &Config, server: Server, signals: &mut Signals) -> Result<(), Failure> {
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let mut running = std::pin::pin!(server.run(async {
        // The sender is only dropped with the whole call.
        let _ = told.await;
    }));
    tokio::select! {
        () = &mut running => return Ok(()),
        () = signals.next() => {}
    }
    eprintln!(
        "stopping: running requests have {}; a second signal stops at once",
        text::duration(config.grace)
    );
    let _ = tell.send(());
    tokio::select! {
        () = running => Ok(()),
        () = signals.next() => {
            eprintln!("stopped at once");
            std::process::exit(1)
        }
    }
}

fn place_line(config: &Config) -> String {
    let place = match &config.place {
        Place::Data { .. } => "data ",
        Place::Store(_) => "store",
    };
    format!("{place}  {}", place_text(config))
}

/// Where it is, what it can lose and speak, and what to do next.
fn greet(config: &Config, lines: &[String], address: SocketAddr) {
    note_strangers();
    if let Some(file) = &config.file {
        eprintln!("settings from {}", file.display());
    }
    if let Some(risk) = reach(config, address) {
        eprintln!("insecure: {risk}");
    }
    let scheme = match config.tls {
        Some(_) => "https",
        None => "http",
    };
    let url = format!("{scheme}://{address}");
    eprintln!("auxo {} listens on {url}", env!("CARGO_PKG_VERSION"));
    lines.iter().for_each(|line| eprintln!("  {line}"));
    eprintln!("  tokens {}", tokens_text(config));
    eprintln!("  docs   {url}/docs");
    eprintln!("try: {}", first_step(&url));
}

/// What others can do who can reach the server.
fn reach(config: &Config, address: SocketAddr) -> Option<String> {
    let others = !address.ip().is_loopback();
    match (config.auth.is_required(), &config.tls) {
        (false, _) if others => Some(format!(
            "whoever can reach {address} can read and change every job"
        )),
        (true, None) if others => Some(format!(
            "whoever is between a client and {address} can read tokens and jobs"
        )),
        _ => None,
    }
}

fn tokens_text(config: &Config) -> String {
    match (config.auth.is_required(), config.auth.file()) {
        (true, Some(file)) => format!("{}, in {}", config.auth.tokens(), file.path().display()),
        _ => "none: whoever can connect may do everything".to_owned(),
    }
}

/// The program as it was called, which is not always in the PATH, and the server only if it is not the one that is meant anyway.
fn first_step(url: &str) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "auxo".to_owned());
    match url == SERVER {
        true => format!("{program} push mail hello"),
        false => format!("{program} push mail hello --server {url}"),
    }
}

fn risk(sync: Sync) -> String {
    match sync {
        Sync::Always => "what is answered survives a crash and a power cut".into(),
        Sync::Interval(period) => format!(
            "what is answered survives a crash; a power cut may take the last {}",
            text::duration(period)
        ),
        Sync::Os => {
            "what is answered survives a crash; a power cut may take the last half minute or so"
                .into()
        }
    }
}
