//! Where a store is, and how to speak to it, as one line of text.
//!
//! ```text
//! redis://[user:password@]host[:port][/db]
//! redis+unix:///path/to/socket[?db=N]
//! redis+sentinel://[user:password@]host[:port],host[:port],…/name-of-the-primary[/db]
//! redis+cluster://[user:password@]host[:port],host[:port],…
//! ```
//!
//! `rediss`, `rediss+sentinel` and `rediss+cluster` are the same with TLS. Options follow a `?` and are joined by `&`:
//!
//! | option | meaning |
//! |---|---|
//! | `prefix` | what all keys begin with, `auxo` |
//! | `shards` | into how many shards a new store is split, 1 to 128 |
//! | `durability` | `async` (the default), `replicated` or `none` |
//! | `replicas` | with `replicated`: how many must confirm; all that are connected unless said |
//! | `timeout` | how long a call may take, `5s` |
//! | `ca`, `cert`, `key` | with TLS: files with the authorities to trust, our certificate and its key |
//! | `sentinel_user`, `sentinel_password` | with Sentinel: who we are to the sentinels |
//!
//! A user, a password and the values of options are percent-decoded. Whoever prints a [`StoreUrl`] does not print a password.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use auxo_core::text;

mod parse;

/// Where a store is, and how to speak to it. Made from text by [`str::parse`].
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    kind: Kind,
    tls: Option<TlsFiles>,
    login: Option<Login>,
    sentinel_login: Option<Login>,
    db: u32,
    prefix: String,
    shards: Option<u16>,
    durability: Durability,
    timeout: Duration,
}

/// The four ways to run Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One server.
    Single(Address),
    /// A primary with replicas, watched by sentinels.
    Sentinel {
        /// Where the sentinels are.
        sentinels: Vec<Address>,
        /// The name that the sentinels know the primary by.
        primary: String,
    },
    /// A cluster.
    Cluster {
        /// Some nodes, by which the others are found.
        seeds: Vec<Address>,
    },
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A name or an IP address (without brackets), and a port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// When a change counts as kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the primary has it. What it has not yet told its replicas is lost with it.
    #[default]
    Async,
    /// When replicas have confirmed it.
    Replicated {
        /// How many; all that are connected, and at least one, unless said.
        replicas: Option<u32>,
    },
    /// As with `Async`, on a Redis that may forget everything. For tests and caches.
    None,
}

impl Durability {
    /// The word for it in a URL.
    pub fn as_str(self) -> &'static str {
        match self {
            Durability::Async => "async",
            Durability::Replicated { .. } => "replicated",
            Durability::None => "none",
        }
    }
}

/// Files for TLS. Without any of them, the authorities of the system are trusted and we show no certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Who we are. Not `Debug`: it would show the password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
}

impl StoreUrl {
    /// Which way Redis is run, and where.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// What all keys begin with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Into how many shards the store is split, if that was said.
    pub fn shards(&self) -> Option<u16> {
        self.shards
    }

    /// When a change counts as kept.
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// How long a call may take, tries after a failure included.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The number of the database. A cluster has only 0.
    pub fn db(&self) -> u32 {
        self.db
    }

    pub(crate) fn tls(&self) -> Option<&TlsFiles> {
        self.tls.as_ref()
    }

    pub(crate) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    pub(crate) fn sentinel_login(&self) -> Option<&Login> {
        self.sentinel_login.as_ref()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() {
            "rediss"
        } else {
            "redis"
        })?;
        f.write_str(match &self.kind {
            Kind::Single(Address::Tcp(..)) => "://",
            Kind::Single(Address::Unix(_)) => "+unix://",
            Kind::Sentinel { .. } => "+sentinel://",
            Kind::Cluster { .. } => "+cluster://",
        })?;
        if let Some(login) = &self.login {
            let user = login.user.as_deref().unwrap_or_default();
            write!(f, "{}:***@", parse::encoded(user))?;
        }
        match &self.kind {
            Kind::Single(Address::Unix(path)) => {
                f.write_str(&parse::encoded_path(&path.to_string_lossy()))?;
            }
            Kind::Single(address) => write!(f, "{address}")?,
            Kind::Sentinel { sentinels, primary } => {
                write!(f, "{}/{}", join(sentinels), parse::encoded(primary))?;
            }
            Kind::Cluster { seeds } => f.write_str(&join(seeds))?,
        }
        let unix = matches!(self.kind, Kind::Single(Address::Unix(_)));
        if self.db != 0 && !unix {
            write!(f, "/{}", self.db)?;
        }
        write!(f, "?prefix={}", self.prefix)?;
        if self.db != 0 && unix {
            write!(f, "&db={}", self.db)?;
        }
        if let Some(shards) = self.shards {
            write!(f, "&shards={shards}")?;
        }
        match self.durability {
            Durability::Async => {}
            Durability::None => f.write_str("&durability=none")?,
            Durability::Replicated { replicas } => {
                f.write_str("&durability=replicated")?;
                if let Some(replicas) = replicas {
                    write!(f, "&replicas={replicas}")?;
                }
            }
        }
        if self.timeout != parse::TIMEOUT {
            write!(f, "&timeout={}", text::duration(self.timeout))?;
        }
        if let Some(tls) = &self.tls {
            tls.show(f)?;
        }
        if let Some(login) = &self.sentinel_login {
            if let Some(user) = &login.user {
                write!(f, "&sentinel_user={}", parse::encoded(user))?;
            }
            f.write_str("&sentinel_password=***")?;
        }
        Ok(())
    }
}

impl TlsFiles {
    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut file = |name: &str, path: &Path| {
            let path = path.to_string_lossy();
            write!(f, "&{name}={}", parse::encoded_path(&path))
        };
        if let Some(ca) = &self.ca {
            file("ca", ca)?;
        }
        if let Some((cert, key)) = &self.identity {
            file("cert", cert)?;
            file("key", key)?;
        }
        Ok(())
    }
}

/// The same as what is displayed: a password has no business in a log.
impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

fn join(addresses: &[Address]) -> String {
    let addresses: Vec<String> = addresses.iter().map(Address::to_string).collect();
    addresses.join(",")
}
