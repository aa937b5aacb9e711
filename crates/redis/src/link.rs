//! The way to Redis. Nobody else speaks to it.
//!
//! A [`Link`] knows which server has a key ([`route`]), keeps a few connections to each ([`node`]), and comes back by itself
//! after anything that goes by. What it owes its callers is the truth about a call that failed:
//!
//! - [`Code::Unavailable`]: it was not done. It never left, or Redis said until the end that it cannot do it now.
//! - [`Code::UnknownOutcome`]: it left, and no answer came; or too few replicas confirmed it. A script that changes nothing is
//!   sent again instead.
//! - Everything else is Redis' own answer.
//!
//! The cluster client of the `redis` crate is not used: it sends a call again whose answer was lost, and a script that changed
//! something must not run twice without its caller knowing.

use std::sync::Arc;
use std::time::Duration;

#[cfg(doc)]
use auxo_core::Code;
use auxo_core::{Error, Result};
use futures_util::future::join_all;
use redis::Cmd;
pub use redis::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::script::{Effect, Script};
use crate::url::{Durability, StoreUrl};

mod carry;
mod cluster;
mod commit;
mod connection;
mod dial;
mod door;
mod fault;
mod lane;
mod news;
mod node;
mod pace;
mod pop;
mod route;
mod sentinel;
mod slot;
mod table;
mod tls;

use carry::Errand;
use route::{Route, Task};
use table::Table;

/// Connections to the servers of a store, shared by all calls of a process.
#[derive(Clone)]
pub struct Link {
    inner: Arc<Inner>,
}

struct Inner {
    route: Arc<Route>,
    durability: Durability,
    timeout: Duration,
    _tasks: Vec<Task>,
}

/// One call of a script on one shard.
pub struct Call {
    script: &'static Script,
    keys: Vec<String>,
    args: Vec<Vec<u8>>,
    on_primary: bool,
}

/// What came of a call.
pub struct Done {
    /// What the script answered.
    pub answer: Value,
    /// If too few replicas confirmed it, how many.
    pub unconfirmed: Option<Unconfirmed>,
}

/// A call that was done, but that fewer replicas have than must.
pub struct Unconfirmed {
    /// How many have it.
    pub confirmed: u32,
    /// How many must.
    pub asked: u32,
    /// What its caller is told, unless it knows better.
    pub error: Error,
}

impl Done {
    /// The answer, if it counts.
    pub fn confirmed(self) -> Result<Value> {
        match self.unconfirmed {
            Some(unconfirmed) => Err(unconfirmed.error),
            None => Ok(self.answer),
        }
    }
}

impl Call {
    /// A call on the shard that this key belongs to.
    pub fn new(script: &'static Script, key: String) -> Call {
        Call {
            script,
            keys: vec![key],
            args: Vec::new(),
            on_primary: false,
        }
    }

    /// It counts as soon as the primary has done it, whatever the store's durability.
    pub fn on_primary(&mut self) -> &mut Call {
        self.on_primary = true;
        self
    }

    /// One more key, of the same shard.
    pub fn key(&mut self, key: String) -> &mut Call {
        self.keys.push(key);
        self
    }

    /// One more argument.
    pub fn arg(&mut self, arg: impl Into<Vec<u8>>) -> &mut Call {
        self.args.push(arg.into());
        self
    }

    /// The first key, which stands for the shard.
    pub fn root(&self) -> &str {
        &self.keys[0]
    }

    /// Whether it brings jobs in.
    pub fn grows(&self) -> bool {
        self.script.effect == Effect::Grows
    }

    fn writes(&self) -> bool {
        !matches!(self.script.effect, Effect::Reads | Effect::Overdue)
    }

    fn command(&self) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(self.script.hash())
            .arg(self.keys.len())
            .arg(&self.keys);
        for arg in &self.args {
            command.arg(arg);
        }
        command
    }
}

impl Link {
    /// Connects. A store that cannot be reached now is an error that says why; one that went away later comes back by itself.
    pub async fn open(url: &StoreUrl) -> Result<Link> {
        let (route, tasks) = Route::open(url).await?;
        let link = Link {
            inner: Arc::new(Inner {
                route,
                durability: url.durability(),
                timeout: url.timeout(),
                _tasks: tasks,
            }),
        };
        // A server that is still loading answers, but not this.
        link.command(None, &[b"PING"]).await?;
        Ok(link)
    }

    /// Runs a script on the server that has its key. One that too few replicas confirmed was done all the same, and tells
    /// what it answered.
    pub async fn run(&self, call: Call) -> Result<Done> {
        let errand = Errand {
            what: call.script.name,
            slot: Some(slot::slot(call.keys[0].as_bytes())),
            command: call.command(),
            script: Some(call.script),
            writes: call.writes(),
            replicas: match self.inner.durability {
                Durability::Replicated { replicas } if self.is_replicated(&call) => Some(replicas),
                _ => None,
            },
        };
        self.carry(errand).await
    }

    /// Whether replicas must confirm a call.
    pub fn is_replicated(&self, call: &Call) -> bool {
        self.replicates() && call.writes() && !call.on_primary
    }

    /// Runs a command that only reads on the server that has a key, or without a key on any. It may be sent more than once.
    pub async fn command(&self, key: Option<&str>, parts: &[&[u8]]) -> Result<Value> {
        self.carry(Errand {
            what: &name(parts),
            slot: key.map(|key| slot::slot(key.as_bytes())),
            command: plain(parts),
            script: None,
            writes: false,
            replicas: None,
        })
        .await?
        .confirmed()
    }

    /// Whether a change counts only when replicas have it.
    pub fn replicates(&self) -> bool {
        matches!(self.inner.durability, Durability::Replicated { .. })
    }

    /// How long a call may take.
    pub fn timeout(&self) -> Duration {
        self.inner.timeout
    }

    /// Runs a command that only reads on every primary at once, but for those at the addresses `except`. The answers come with the
    /// address of who gave them, or did not.
    pub async fn on_every_primary(
        &self,
        parts: &[&[u8]],
        except: &[String],
    ) -> Vec<(String, Result<Value>)> {
        let (until, command) = (self.deadline(), plain(parts));
        let ask = async |node: &Arc<node::Node>| {
            let answer = node.ask(&command, until).await;
            let answer = answer.map_err(|fault| match fault {
                fault::Fault::Lost(why) => fault::Fault::Away(why).error(&name(parts)),
                fault => fault.error(&name(parts)),
            });
            (node.address().to_string(), answer)
        };
        let mut primaries = self.inner.route.primaries();
        primaries.retain(|node| !except.contains(&node.address().to_string()));
        join_all(primaries.iter().map(ask)).await
    }

    /// Tells when another server has taken over.
    pub fn moves(&self) -> Moves {
        Moves(self.inner.route.changes())
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.inner.timeout
    }
}

/// Changes of who has what.
pub struct Moves(watch::Receiver<Arc<Table>>);

impl Moves {
    /// Waits for the next one. `false` when there can be none any more.
    pub async fn next(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }

    /// Whether there was one that nobody waited for yet.
    pub fn pending(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }
}

fn plain(parts: &[&[u8]]) -> Cmd {
    let mut command = Cmd::new();
    for part in parts {
        command.arg(*part);
    }
    command
}

fn name(parts: &[&[u8]]) -> String {
    String::from_utf8_lossy(parts.first().unwrap_or(&b"".as_slice())).into_owned()
}

#[cfg(test)]
#[path = "../tests/link/mod.rs"]
pub(crate) mod tests;
