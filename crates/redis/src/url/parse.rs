//! From text to a [`StoreUrl`]. No error repeats a password, or a part of the text that may be one.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use auxo_core::{Error, Result, text};

use super::{Address, Durability, Kind, Login, StoreUrl, TlsFiles};

/// How long a call may take unless said.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// Each shard has its part of the 4096 ids of a millisecond, so there cannot be many.
const MAX_SHARDS: u16 = 128;
const TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(600);

/// How Redis is run, as the scheme says.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Single,
    Unix,
    Sentinel,
    Cluster,
}

impl FromStr for StoreUrl {
    type Err = Error;

    fn from_str(url: &str) -> Result<StoreUrl> {
        let (form, tls, rest) = scheme(url)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, rest) = match rest.rsplit_once('@') {
            Some((login, rest)) => (Some(login_of(login)?), rest),
            None => (None, rest),
        };
        let (hosts, path) = match form {
            Form::Unix => ("", rest),
            _ => rest.split_once('/').unwrap_or((rest, "")),
        };
        let mut options = Options::read(query)?;
        let url = StoreUrl {
            login,
            tls: options.tls(tls)?,
            sentinel_login: options.sentinel_login(form)?,
            prefix: options.prefix()?,
            shards: options.number("shards", 1, MAX_SHARDS)?,
            durability: options.durability()?,
            timeout: options.timeout()?,
            db: db(form, path, &mut options)?,
            kind: kind(form, hosts, path)?,
        };
        options.nothing_left()?;
        Ok(url)
    }
}

fn scheme(url: &str) -> Result<(Form, bool, &str)> {
    let known = [
        ("redis://", Form::Single, false),
        ("rediss://", Form::Single, true),
        ("redis+unix://", Form::Unix, false),
        ("redis+sentinel://", Form::Sentinel, false),
        ("rediss+sentinel://", Form::Sentinel, true),
        ("redis+cluster://", Form::Cluster, false),
        ("rediss+cluster://", Form::Cluster, true),
    ];
    let found = known.iter().find_map(|(scheme, form, tls)| {
        let rest = url.strip_prefix(scheme)?;
        Some((*form, *tls, rest))
    });
    found.ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(scheme, ..)| *scheme).collect();
        let known = known.join(", ");
        wrong(format!("it must begin with one of {known}"))
    })
}

fn login_of(login: &str) -> Result<Login> {
    let (user, password) = login.split_once(':').ok_or_else(|| {
        wrong("before the @ there must be user:password, or :password without a user")
    })?;
    let user = decoded(user, "the user")?;
    Ok(Login {
        user: Some(user).filter(|user| !user.is_empty()),
        password: decoded(password, "the password")?,
    })
}

fn kind(form: Form, hosts: &str, path: &str) -> Result<Kind> {
    let addresses = |port| -> Result<Vec<Address>> {
        hosts.split(',').map(|host| address(host, port)).collect()
    };
    match form {
        Form::Unix if path.starts_with('/') => {
            let path = PathBuf::from(decoded(path, "the path")?);
            Ok(Kind::Single(Address::Unix(path)))
        }
        Form::Unix => Err(wrong("it needs an absolute path: redis+unix:///path")),
        Form::Single if hosts.contains(',') => Err(wrong(
            "it names several hosts; begin with redis+sentinel:// or redis+cluster://",
        )),
        Form::Single => Ok(Kind::Single(address(hosts, 6379)?)),
        Form::Cluster => Ok(Kind::Cluster {
            seeds: addresses(6379)?,
        }),
        Form::Sentinel => {
            let primary = path.split('/').next().unwrap_or_default();
            let primary = decoded(primary, "the name of the primary")?;
            if primary.is_empty() {
                return Err(wrong(
                    "the name of the primary is missing: redis+sentinel://host,host/name",
                ));
            }
            let sentinels = addresses(26379)?;
            Ok(Kind::Sentinel { sentinels, primary })
        }
    }
}

fn address(text: &str, default_port: u16) -> Result<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest
                .split_once(']')
                .ok_or_else(|| wrong(format!("host {text:?} has no closing bracket")))?;
            (
                host,
                port.strip_prefix(':').or(port.is_empty().then_some("")),
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port).filter(|port| !port.contains(':'))),
            None => (text, Some("")),
        },
    };
    let port = port.ok_or_else(|| {
        wrong(format!(
            "host {text:?} is not host:port; an IPv6 address stands in brackets"
        ))
    })?;
    if host.is_empty() {
        return Err(wrong("a host is missing"));
    }
    let bad = host.contains(|c: char| c.is_whitespace() || c.is_control() || "/[]".contains(c));
    if bad {
        return Err(wrong(format!(
            "host {host:?} has a character that no host has"
        )));
    }
    let port = match port {
        "" if text.ends_with(':') => Err(()),
        "" => Ok(default_port),
        port => port.parse().map_err(|_| ()),
    };
    match port {
        Ok(port) if port > 0 => Ok(Address::Tcp(host.to_owned(), port)),
        _ => Err(wrong(format!(
            "the port of {text:?} is not a number from 1 to 65535"
        ))),
    }
}

fn db(form: Form, path: &str, options: &mut Options) -> Result<u32> {
    let text = match form {
        Form::Unix => return Ok(options.number("db", 0, u32::MAX)?.unwrap_or(0)),
        Form::Sentinel => path.split_once('/').map_or("", |(_, db)| db),
        Form::Single | Form::Cluster => path,
    };
    if text.is_empty() {
        return Ok(0);
    }
    let db = text
        .parse()
        .map_err(|_| wrong(format!("database {text:?} is not a number")))?;
    if form == Form::Cluster && db != 0 {
        return Err(wrong("a cluster has only the database 0"));
    }
    Ok(db)
}

/// What stands behind the `?`. Each is taken out once; what is left nobody knows.
struct Options(Vec<(String, String)>);

impl Options {
    fn read(query: &str) -> Result<Options> {
        let mut all: Vec<(String, String)> = Vec::new();
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option
                .split_once('=')
                .ok_or_else(|| wrong("an option has no value; options are name=value"))?;
            let value = decoded(value, name)?;
            if all.iter().any(|(known, _)| known == name) {
                return Err(wrong(format!("option {name} is there twice")));
            }
            all.push((name.to_owned(), value));
        }
        Ok(Options(all))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn nothing_left(self) -> Result<()> {
        match self.0.first() {
            Some((name, _)) => Err(wrong(format!("option {name:?} is not known here"))),
            None => Ok(()),
        }
    }

    fn number<N>(&mut self, name: &str, least: N, most: N) -> Result<Option<N>>
    where
        N: FromStr + PartialOrd + std::fmt::Display,
    {
        let Some(text) = self.take(name) else {
            return Ok(None);
        };
        match text.parse::<N>() {
            Ok(number) if number >= least && number <= most => Ok(Some(number)),
            _ => Err(wrong(format!(
                "{name}={text} is not a number from {least} to {most}"
            ))),
        }
    }

    fn prefix(&mut self) -> Result<String> {
        let prefix = self.take("prefix").unwrap_or_else(|| "auxo".to_owned());
        let good = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
        if prefix.is_empty() || prefix.len() > 100 || !prefix.chars().all(good) {
            return Err(wrong(format!(
                "prefix={prefix:?} is not 1 to 100 letters, digits or any of _.:-"
            )));
        }
        Ok(prefix)
    }

    fn durability(&mut self) -> Result<Durability> {
        let replicas = self.number("replicas", 1, 100)?;
        let durability = self.take("durability");
        match (durability.as_deref().unwrap_or("async"), replicas) {
            ("replicated", replicas) => Ok(Durability::Replicated { replicas }),
            ("async" | "none", Some(_)) => Err(wrong("replicas needs durability=replicated")),
            ("async", None) => Ok(Durability::Async),
            ("none", None) => Ok(Durability::None),
            (other, _) => Err(wrong(format!(
                "durability={other} is not one of async, replicated, none"
            ))),
        }
    }

    fn timeout(&mut self) -> Result<Duration> {
        let Some(timeout) = self.take("timeout") else {
            return Ok(TIMEOUT);
        };
        let timeout = text::parse_duration(&timeout)
            .map_err(|error| wrong(format!("timeout: {}", error.message())))?;
        if !TIMEOUTS.contains(&timeout) {
            return Err(wrong(format!(
                "timeout={} is not from 10ms to 10m",
                text::duration(timeout)
            )));
        }
        Ok(timeout)
    }

    fn tls(&mut self, tls: bool) -> Result<Option<TlsFiles>> {
        let ca = self.take("ca").map(PathBuf::from);
        let cert = self.take("cert").map(PathBuf::from);
        let key = self.take("key").map(PathBuf::from);
        if !tls && (ca.is_some() || cert.is_some() || key.is_some()) {
            return Err(wrong("ca, cert and key are for TLS: begin with rediss"));
        }
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(wrong("cert and key need each other")),
        };
        Ok(tls.then_some(TlsFiles { ca, identity }))
    }

    fn sentinel_login(&mut self, form: Form) -> Result<Option<Login>> {
        let user = self.take("sentinel_user");
        let password = self.take("sentinel_password");
        if form != Form::Sentinel && (user.is_some() || password.is_some()) {
            return Err(wrong(
                "sentinel_user and sentinel_password are for sentinels",
            ));
        }
        match (user, password) {
            (user, Some(password)) => Ok(Some(Login { user, password })),
            (Some(_), None) => Err(wrong("sentinel_user needs sentinel_password")),
            (None, None) => Ok(None),
        }
    }
}

/// Undoes percent-encoding. `what` is named when that is not possible, not shown.
fn decoded(text: &str, what: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        rest = match rest {
            [] => break,
            [b'%', high, low, tail @ ..] => {
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                    return Err(bad_percent(what));
                };
                bytes.push(high * 16 + low);
                tail
            }
            [b'%', ..] => return Err(bad_percent(what)),
            [byte, tail @ ..] => {
                bytes.push(*byte);
                tail
            }
        };
    }
    String::from_utf8(bytes).map_err(|_| wrong(format!("{what} is not UTF-8")))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn bad_percent(what: &str) -> Error {
    wrong(format!(
        "{what} has a % that is not followed by two hex digits"
    ))
}

/// As it can stand between slashes in a URL and reads back the same.
pub(super) fn encoded(text: &str) -> String {
    encoded_path(text).replace('/', "%2F")
}

/// The same, but slashes stay.
pub(super) fn encoded_path(text: &str) -> String {
    let mut url = String::new();
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                url.push(char::from(byte));
            }
            _ => url += &format!("%{byte:02X}"),
        }
    }
    url
}

/// The most characters that are said of what is wrong.
const SAID: usize = 300;

/// What it names of the URL, such as an option, may be long and have anything in it.
fn wrong(what: impl std::fmt::Display) -> Error {
    let what = text::one_line(&what.to_string());
    let what: String = what.chars().take(SAID).collect();
    Error::bad_request(format!("the store's URL is wrong: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_stand_around_a_host_not_in_it() {
        for url in ["redis+cluster://[[http]", "redis://a]b", "redis://a[b]:1"] {
            let error = url.parse::<StoreUrl>().unwrap_err();
            assert!(error.message().contains("no host has"), "{error:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_in_one_short_line() {
        let long = format!("redis://h?{}=%zz", "\u{1b}a".repeat(10_000));
        for url in ["redis://h?c\0\na=%zz", "redis://h?\u{1b}[2J=1", &long] {
            let error = url.parse::<StoreUrl>().unwrap_err();
            assert!(!error.message().chars().any(char::is_control), "{error:?}");
            assert!(error.message().len() < 1000);
        }
    }
}
