//! The settings of a server, in two steps: `raw` gathers what file, environment and flags say, and [`Config`] is what that
//! means, checked once. `auxo config` shows both.

mod file;
mod raw;
mod safety;
mod snippet;

pub use self::raw::note_strangers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use auxo::core::{SystemClock, text};
use auxo::{Code, Error, Sync, Timestamp};
use auxo_redis::StoreUrl;
use auxo_server::{Auth, Patience, Tls, TlsFiles, TokenFile, is_host_name};
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use self::raw::{Key, Raw};
use self::safety::{Asks, Safety};
use super::args;
use super::context::{AUDIT, Context, TOKENS};
use super::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  auxo config check
  auxo config check --config /etc/auxo.toml
  auxo config show
  AUXO_SYNC=os auxo config show --http 127.0.0.1:9000

A setting is taken from the flag, else from AUXO_… in the environment, else from the file, else
from the default. The file is ./auxo.toml unless --config or AUXO_CONFIG names another:
  data = \"./auxo-data\"               or: store = \"redis://127.0.0.1:6379\"
  http = \"127.0.0.1:8000\"
  sync = \"interval:50ms\"
  tls_cert = \"/etc/auxo/cert.pem\"    with tls_key, and tls_client_ca for client certificates
  tokens = \"/etc/auxo/tokens.toml\"  tokens.toml in the data directory unless said";

/// Check or show the settings of a server.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Check the file, the environment and the flags, and say what is wrong.
    Check(Flags),
    /// Show every setting and where it comes from.
    Show(Flags),
}

/// The settings as flags. Their values are read later, together with those from elsewhere.
#[derive(clap::Args, Default)]
pub struct Flags {
    /// The file with settings; ./auxo.toml is read if it is there.
    #[arg(long, env = "AUXO_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// The Redis or Valkey that keeps the jobs, instead of a data directory: redis://…, rediss://…,
    /// redis+sentinel://… or redis+cluster://….
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Where to listen for HTTP; 127.0.0.1:8000 unless said.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<String>,
    /// Where to listen for clients of beanstalkd; 127.0.0.1:11300 unless said, unix:PATH for a socket in the file
    /// system, or off.
    #[arg(long, value_name = "ADDRESS")]
    beanstalk: Option<String>,
    /// Where to listen for clients of Disque; 127.0.0.1:7711 unless said, or off.
    #[arg(long, value_name = "ADDRESS")]
    resp: Option<String>,
    /// When an answered call is safe: always (the default), an interval such as 50ms, or os.
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    sync: Option<String>,
    /// Listen on an address that others can reach, without TLS and tokens.
    #[arg(long)]
    insecure: bool,
    /// Names that a server without tokens answers to, beside localhost, with commas between them.
    #[arg(long, value_name = "NAMES")]
    hosts: Option<String>,
    /// The file with tokens, which `auxo token` writes; tokens.toml in the data directory unless said.
    #[arg(long, value_name = "FILE")]
    tokens: Option<String>,
    /// The log of what operators did; audit.jsonl in the data directory unless said, or off.
    #[arg(long, value_name = "FILE")]
    audit: Option<String>,
    /// The server's certificate for TLS, with those that lead to its authority, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The key of that certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// The authorities whose client certificates are asked for, in PEM; who has none of theirs is refused.
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// The most connections at once; 10000 unless said.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    connections: Option<String>,
    /// How long running requests may go on after a stop; 30s unless said.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    grace: Option<String>,
    /// What this process is called in timelines.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// How much to log: off, error, warn, info (the default), debug (every request) or trace.
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

/// What a server is run with.
#[derive(Debug)]
pub struct Config {
    /// Where the jobs are kept.
    pub place: Place,
    /// Where to listen for HTTP.
    pub http: SocketAddr,
    /// Where to listen for clients of beanstalkd.
    pub beanstalk: Port,
    /// Where to listen for clients of Disque.
    pub resp: Port,
    /// Names that it answers to, beside localhost, while it has no tokens.
    pub hosts: Vec<String>,
    /// Who may do what.
    pub auth: Auth,
    /// The certificates, if there is TLS.
    pub tls: Option<Tls>,
    /// Where to write down what operators do.
    pub audit: Option<PathBuf>,
    /// The most connections at once.
    pub connections: usize,
    /// How long running requests may go on after a stop.
    pub grace: Duration,
    /// The name of this process; may be empty.
    pub node: String,
    /// How much to log.
    pub log: LevelFilter,
    /// The file that was read, if any.
    pub file: Option<PathBuf>,
}

/// Where a server keeps its jobs.
#[derive(Debug)]
pub enum Place {
    /// In a directory of its own.
    Data {
        /// Which.
        path: PathBuf,
        /// When an answered call is safe.
        sync: Sync,
    },
    /// On Redis, with other servers.
    Store(Box<StoreUrl>),
}

/// Where another protocol is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// Nowhere.
    Off,
    /// Here, and it was said so.
    Asked(SocketAddr),
    /// Here, because nobody said anything: not, if another program has the port.
    Default(SocketAddr),
    /// At a socket in the file system.
    Unix(PathBuf),
}

impl Config {
    /// Gathers and checks. `data` is what `--data` or `AUXO_DATA` said.
    pub fn load(flags: &Flags, data: Option<PathBuf>) -> Result<Config, Failure> {
        Config::try_from(&Raw::gather(flags, data)?)
    }
}

impl TryFrom<&Raw> for Config {
    type Error = Failure;

    fn try_from(raw: &Raw) -> Result<Config, Failure> {
        let insecure = raw.read(Key::Insecure, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err("write true or false".into()),
        })?;
        let place = place(raw)?;
        let (auth, tls) = (auth(raw, &place)?, tls(raw)?);
        let safety = Safety {
            insecure,
            tls: tls.is_some(),
            client_certificates: tls.as_ref().is_some_and(Tls::wants_clients),
            tokens: auth.tokens() > 0,
        };
        Ok(Config {
            http: raw.read(Key::Http, |text| safety.address(text, Asks::ForTokens))?,
            beanstalk: port(raw, Key::Beanstalk, &safety, Asks::ForNothing)?,
            resp: port(raw, Key::Resp, &safety, Asks::ForTokens)?,
            hosts: raw.read(Key::Hosts, hosts)?,
            audit: audit(raw, &place)?,
            place,
            auth,
            tls,
            connections: raw.read(Key::Connections, |text| {
                let count = args::count(text)?;
                usize::try_from(count).map_err(|_| "is too many".into())
            })?,
            grace: raw.read(Key::Grace, args::duration)?,
            node: raw.read(Key::Node, |text| {
                match text.len() > 200 || text.chars().any(char::is_control) {
                    true => Err("write at most 200 characters on one line".into()),
                    false => Ok(text.to_owned()),
                }
            })?,
            log: raw.read(Key::Log, |text| {
                text.parse()
                    .map_err(|_| "write off, error, warn, info, debug or trace".into())
            })?,
            file: raw.file().cloned(),
        })
    }
}

/// A directory, or a store on Redis: what is said about the one makes no sense for the other.
fn place(raw: &Raw) -> Result<Place, Failure> {
    let store: Option<StoreUrl> = raw.read(Key::Store, |text| match text {
        "" if !raw.is_set(Key::Store) => Ok(None),
        "" => Err("is empty; leave it out to keep jobs in a directory".into()),
        url => url
            .parse()
            .map(Some)
            .map_err(|error: auxo::Error| error.message().to_owned()),
    })?;
    let path = raw.read(Key::Data, |text| match text {
        "" => Err("is empty".into()),
        path => Ok(path.into()),
    })?;
    let sync = raw.read(Key::Sync, sync)?;
    let Some(store) = store else {
        return Ok(Place::Data { path, sync });
    };
    for key in [Key::Data, Key::Sync] {
        if raw.is_set(key) {
            return Err(Failure::Usage(format!(
                "store and {} are both set; a store on Redis has no {}: leave one of them out",
                key.as_str(),
                if key == Key::Data {
                    "directory"
                } else {
                    "sync, but durability in its URL"
                }
            )));
        }
    }
    Ok(Place::Store(Box::new(store)))
}

/// The file with tokens: the one that was named, or the one beside the jobs. Only the latter need not be there: whoever names a
/// file wants tokens, and a typing error or a volume that is not mounted must not open the door.
fn auth(raw: &Raw, place: &Place) -> Result<Auth, Failure> {
    let named = raw.read(Key::Tokens, |text| path(raw, Key::Tokens, text))?;
    let file = match (&named, place) {
        (Some(file), _) => file.clone(),
        (None, Place::Data { path, .. }) => path.join(TOKENS),
        (None, Place::Store(_)) => return Ok(Auth::none()),
    };
    let clock = Arc::new(SystemClock::new(Timestamp(0)));
    let file = TokenFile::new(file);
    let auth = Auth::open(file.clone(), clock, Patience::default())?;
    if named.is_none() && !auth.is_required() && file.note().exists() {
        return Err(lost(&file).into());
    }
    match named.is_some() && !auth.is_required() {
        true => raw.read(Key::Tokens, |file| {
            Err(format!(
                "there is no such file; `auxo token new --tokens {file} --allow 'admin:*'` makes it"
            ))
        }),
        false => Ok(auth),
    }
}

/// Tokens were in use, and their file is gone: to start would let everybody in.
fn lost(file: &TokenFile) -> Error {
    let (path, note) = (file.path().display(), file.note());
    let data = file.directory().display();
    let message = format!(
        "tokens were in use here, and their file {path} is gone: without it everybody who can connect could do everything. Bring it back \
         from a backup, or make a new one with `auxo token new --data {data} --allow 'admin:*'`; to go on without tokens, delete {}",
        note.display()
    );
    Error::new(Code::Unavailable, message)
}

/// The audit log: the file that was named, or the one beside the jobs.
fn audit(raw: &Raw, place: &Place) -> Result<Option<PathBuf>, Failure> {
    if raw.read(Key::Audit, |text| Ok(text == "off"))? {
        return Ok(None);
    }
    let named = raw.read(Key::Audit, |text| path(raw, Key::Audit, text))?;
    Ok(match (named, place) {
        (Some(file), _) => Some(file),
        (None, Place::Data { path, .. }) => Some(path.join(AUDIT)),
        (None, Place::Store(_)) => None,
    })
}

fn tls(raw: &Raw) -> Result<Option<Tls>, Failure> {
    let file = |key| raw.read(key, |text| path(raw, key, text));
    let (cert, key, client_ca) = (
        file(Key::TlsCert)?,
        file(Key::TlsSecret)?,
        file(Key::TlsClientCa)?,
    );
    match (cert, key, client_ca) {
        (None, None, None) => Ok(None),
        (Some(cert), Some(key), client_ca) => {
            let files = TlsFiles {
                cert,
                key,
                client_ca,
            };
            Ok(Some(Tls::open(files)?))
        }
        _ => Err(Failure::Usage(
            "TLS needs both tls_cert and tls_key; tls_client_ca goes with them".into(),
        )),
    }
}

/// A file that may be named.
fn path(raw: &Raw, key: Key, text: &str) -> Result<Option<PathBuf>, String> {
    match text {
        "" if raw.is_set(key) => Err("is empty".into()),
        "" => Ok(None),
        path => Ok(Some(path.into())),
    }
}

fn port(raw: &Raw, key: Key, safety: &Safety, asks: Asks) -> Result<Port, Failure> {
    raw.read(key, |text| match text.strip_prefix("unix:") {
        Some("") => Err("names no file".into()),
        Some(_) if asks == Asks::ForTokens => Err("cannot be a socket in the file system".into()),
        Some(path) => Ok(Port::Unix(path.into())),
        None if text == "off" => Ok(Port::Off),
        None if raw.is_set(key) => safety.address(text, asks).map(Port::Asked),
        None => safety.address(text, asks).map(Port::Default),
    })
}

/// Names with commas between them.
fn hosts(text: &str) -> Result<Vec<String>, String> {
    let names = text.split(',').map(str::trim);
    let names: Vec<String> = names.map(str::to_owned).collect();
    match text.trim().is_empty() {
        true => Ok(Vec::new()),
        false if names.iter().all(|name| is_host_name(name)) => Ok(names),
        false => Err("write names without ports, such as queue.example,queue.internal".into()),
    }
}

/// `always`, `os`, `interval:50ms`, or the interval alone.
fn sync(text: &str) -> Result<Sync, String> {
    args::sync(text)
        .or_else(|_| args::duration(text).map(Sync::Interval))
        .map_err(|_| "write always, an interval such as 50ms, or os".into())
}

/// A sync as it would be written.
pub fn sync_text(sync: Sync) -> String {
    match sync {
        Sync::Always => "always".into(),
        Sync::Os => "os".into(),
        Sync::Interval(period) => format!("interval:{}", text::duration(period)),
    }
}

pub fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let data = context.data().ok().map(PathBuf::from);
    match args.verb {
        Verb::Check(flags) => check(&flags, data),
        Verb::Show(flags) => show(&flags, data, context),
    }
}

fn check(flags: &Flags, data: Option<PathBuf>) -> Result<(), Failure> {
    let config = Config::load(flags, data)?;
    note_strangers();
    match config.file {
        Some(file) => eprintln!("{} is right", file.display()),
        None => eprintln!("there is no file; environment and flags are right"),
    }
    Ok(())
}

fn show(flags: &Flags, data: Option<PathBuf>, context: &mut Context) -> Result<(), Failure> {
    let raw = Raw::gather(flags, data)?;
    Config::try_from(&raw)?;
    let output = &mut context.output;
    if output.is_json() {
        return raw.all().try_for_each(|(key, value, origin)| {
            output.json(&json!({ "key": key.as_str(), "value": value, "origin": origin }))
        });
    }
    let row =
        |(key, value, origin): (Key, String, String)| [key.as_str().to_owned(), value, origin];
    output.table(1, ["SETTING", "VALUE", "FROM"], raw.all().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_with_commas_between_them() {
        assert_eq!(hosts(""), Ok(Vec::new()));
        let both = vec!["queue.example".to_owned(), "q-1".to_owned()];
        assert_eq!(hosts("queue.example, q-1"), Ok(both));
        for wrong in [
            "a,",
            "queue.example:8000",
            "http://queue.example",
            "a b",
            "*",
        ] {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sync_is_read_as_it_is_written() {
        let interval = Sync::Interval(Duration::from_millis(50));
        for (text, meant) in [
            ("always", Sync::Always),
            ("os", Sync::Os),
            ("interval:50ms", interval),
        ] {
            assert_eq!(sync(text), Ok(meant));
            assert_eq!(sync_text(meant), text);
        }
        assert_eq!(sync("50ms"), Ok(interval));
        for wrong in ["", "never", "interval:", "-1s"] {
            assert!(sync(wrong).is_err(), "{wrong}");
        }
    }
}
