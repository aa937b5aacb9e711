//! The settings of a server, in two steps: `raw` gathers what file, environment and flags say, and [`Config`] is what that
//! means, checked once. `auxo config` shows both.

mod raw;
mod snippet;

pub use self::raw::note_strangers;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use auxo::Sync;
use auxo::core::text;
use auxo_redis::StoreUrl;
use serde_json::json;
use tracing_subscriber::filter::LevelFilter;

use self::raw::{Key, Raw};
use super::args;
use super::context::Context;
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
  sync = \"interval:50ms\"";

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
    /// Where to listen for clients of beanstalkd; 127.0.0.1:11300 unless said, or off.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Nowhere.
    Off,
    /// Here, and it was said so.
    Asked(SocketAddr),
    /// Here, because nobody said anything: not, if another program has the port.
    Default(SocketAddr),
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
        Ok(Config {
            place: place(raw)?,
            http: raw.read(Key::Http, |text| address(text, insecure))?,
            beanstalk: port(raw, Key::Beanstalk, insecure)?,
            resp: port(raw, Key::Resp, insecure)?,
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

fn port(raw: &Raw, key: Key, insecure: bool) -> Result<Port, Failure> {
    raw.read(key, |text| match text {
        "off" => Ok(Port::Off),
        text if raw.is_set(key) => address(text, insecure).map(Port::Asked),
        text => address(text, insecure).map(Port::Default),
    })
}

fn address(text: &str, insecure: bool) -> Result<SocketAddr, String> {
    let numeric = text.replacen("localhost:", "127.0.0.1:", 1);
    let address: SocketAddr = numeric
        .parse()
        .map_err(|_| "write an address and a port, such as 127.0.0.1:8000 or [::1]:8000")?;
    if address.ip().is_loopback() || insecure {
        return Ok(address);
    }
    Err(format!(
        "others can reach {address}, and there is no TLS and there are no tokens yet: \
         whoever can connect can read and change every job; listen on 127.0.0.1, \
         or say --insecure if the network itself is safe"
    ))
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
    fn an_address_that_others_can_reach_needs_to_be_meant() {
        assert!(address("127.0.0.1:8000", false).is_ok());
        assert!(address("[::1]:8000", false).is_ok());
        assert_eq!(
            address("localhost:9", false),
            Ok("127.0.0.1:9".parse().unwrap())
        );
        let refused = address("0.0.0.0:8000", false).unwrap_err();
        assert!(refused.contains("--insecure"), "{refused}");
        assert!(address("0.0.0.0:8000", true).is_ok());
        for wrong in [
            "",
            "8000",
            ":8000",
            "127.0.0.1",
            "example.com:80",
            "1.2.3.4:99999",
        ] {
            assert!(address(wrong, true).is_err(), "{wrong}");
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
