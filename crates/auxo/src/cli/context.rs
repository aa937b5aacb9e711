//! What every verb works with: the opened queue and the output. The engine is opened here and nowhere else, so a verb does not
//! know whether it works on a server or on a data directory.

use std::ffi::OsString;
use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use auxo::core::contents::Contents;
use auxo::{Auxo, Code, Error};

use super::credentials::Credentials;
use super::failure::Failure;
use super::output::Output;

/// The server that is meant when nothing is named.
pub const SERVER: &str = "http://127.0.0.1:8000";

/// The tokens of a server, in its data directory.
pub const TOKENS: &str = "tokens.toml";
/// What operators did, in its data directory.
pub const AUDIT: &str = "audit.jsonl";

/// Where the queue is.
#[derive(Debug, PartialEq)]
pub enum Place {
    /// A server, by its URL.
    Server(String),
    /// A data directory of this machine.
    Data(PathBuf),
    /// A server, because nothing was named.
    Default,
}

impl Place {
    /// What was named. A flag wins over the environment; two of a kind contradict each other.
    pub fn choose(
        data: Option<PathBuf>,
        server: Option<String>,
        env: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Place, Failure> {
        let set = |name| env(name).filter(|value| !value.is_empty());
        let (data, server, names) = match (data, server) {
            (None, None) => {
                let server = set("AUXO_SERVER").map(|url| url.to_string_lossy().into_owned());
                let data = set("AUXO_DATA").map(PathBuf::from);
                (data, server, ["AUXO_DATA", "AUXO_SERVER"])
            }
            (data, server) => (data, server, ["--data", "--server"]),
        };
        match (data, server) {
            (Some(_), Some(_)) => Err(Failure::Usage(format!(
                "{} and {} name two places; leave one of them out",
                names[0], names[1]
            ))),
            (Some(data), None) => Ok(Place::Data(data)),
            (None, Some(url)) => Ok(Place::Server(url)),
            (None, None) => Ok(Place::Default),
        }
    }
}

/// What to do about a directory that holds no store yet, or a queue that does not exist.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Make one, if nothing else is there: the verb puts something into it, or says that it is meant.
    Create,
    /// Refuse: looking at a mistyped path must not make a new queue there.
    Refuse,
}

impl Missing {
    /// Refuses, unless the making was asked for.
    pub fn unless(create: bool) -> Missing {
        match create {
            true => Missing::Create,
            false => Missing::Refuse,
        }
    }
}

/// The opened queue and the output.
pub struct Context {
    place: Place,
    credentials: Credentials,
    auxo: Option<Auxo>,
    /// Where results go.
    pub output: Output,
}

impl Context {
    /// Nothing is opened yet.
    pub fn new(place: Place, credentials: Credentials, json: bool) -> Context {
        Context {
            place,
            credentials,
            auxo: None,
            output: Output::new(json),
        }
    }

    /// What is shown to servers.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Whether the queue is in a directory that this process opens, not on a server.
    pub fn is_local(&self) -> bool {
        matches!(self.place, Place::Data(_))
    }

    /// The data directory, for the verbs that work on nothing else.
    pub fn data(&self) -> Result<&Path, Failure> {
        match &self.place {
            Place::Data(data) => Ok(data),
            Place::Server(_) => Err(Failure::Usage(
                "this works on a data directory only, not on a server; name one with --data DIR"
                    .into(),
            )),
            Place::Default => Err(Failure::Usage(
                "this works on a data directory only; name one with --data DIR or AUXO_DATA".into(),
            )),
        }
    }

    /// Opens the data directory, or connects to the server.
    pub async fn open(&mut self, missing: Missing) -> Result<Auxo, Failure> {
        let auxo = match &self.place {
            Place::Data(data) => {
                check(data, missing)?;
                Auxo::open(data).await?
            }
            Place::Server(url) => connect(url, &self.credentials).await?,
            Place::Default => connect(SERVER, &self.credentials).await?,
        };
        self.auxo = Some(auxo.clone());
        Ok(auxo)
    }

    /// Writes out what is left and closes the queue.
    pub async fn finish(mut self) -> Result<(), Failure> {
        let flushed = self.output.flush();
        if let Some(auxo) = self.auxo {
            auxo.close().await?;
        }
        flushed
    }
}

/// A URL that cannot be used is wrong usage. Whether a server is there shows with the first call, but a Redis is asked at once.
pub async fn connect(url: &str, credentials: &Credentials) -> Result<Auxo, Failure> {
    let connected = credentials.connector()?.connect(url).await;
    connected.map_err(|error| match error.code() {
        Code::BadRequest => Failure::Usage(error.message().to_owned()),
        _ => error.into(),
    })
}

/// Refuses a directory that a mistyped path would explain better than the wish for a new store.
pub fn check(data: &Path, missing: Missing) -> Result<(), Failure> {
    if missing == Missing::Refuse && !data.is_dir() {
        let message = format!("there is no data directory {}", data.display());
        return Err(Error::new(Code::NotFound, message).into());
    }
    match (contents(data), missing) {
        (Some(Contents::Nothing), Missing::Create) | (Some(Contents::Store) | None, _) => Ok(()),
        (Some(Contents::Nothing | Contents::Others), _) => {
            let message = format!("{} is not a data directory of auxo", data.display());
            Err(Error::new(Code::NotFound, message).into())
        }
    }
}

/// What lies in a directory; `None` when it cannot be listed, and opening it tells why.
fn contents(data: &Path) -> Option<Contents> {
    let entries = match std::fs::read_dir(data) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Some(Contents::Nothing),
        Err(_) => return None,
    };
    let name = |entry: DirEntry| entry.file_name().to_string_lossy().into_owned();
    // Tokens may be there before the first job is.
    let names = entries.flatten().map(name);
    Some(Contents::of(
        names.filter(|name| !name.starts_with(TOKENS) && name != AUDIT),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(data: Option<&str>, server: Option<&str>, env: &[(&str, &str)]) -> Option<Place> {
        let (data, server) = (data.map(PathBuf::from), server.map(String::from));
        let value = |name: &str| {
            let found = env.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        Place::choose(data, server, value).ok()
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_two_places_are_one_too_many() {
        let data = |path: &str| Some(Place::Data(path.into()));
        let server = |url: &str| Some(Place::Server(url.into()));
        let (d, s) = (("AUXO_DATA", "d"), ("AUXO_SERVER", "s"));
        assert_eq!(chosen(None, None, &[]), Some(Place::Default));
        assert_eq!(chosen(None, None, &[d]), data("d"));
        assert_eq!(chosen(None, None, &[s]), server("s"));
        assert_eq!(chosen(None, None, &[d, s]), None);
        assert_eq!(chosen(None, None, &[d, ("AUXO_SERVER", "")]), data("d"));
        assert_eq!(chosen(Some("x"), None, &[d, s]), data("x"));
        assert_eq!(chosen(None, Some("y"), &[d, s]), server("y"));
        assert_eq!(chosen(Some("x"), Some("y"), &[]), None);
    }
}
