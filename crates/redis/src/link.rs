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
use auxo_core::Result;
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
}

impl Call {
    /// A call on the shard that this key belongs to.
    pub fn new(script: &'static Script, key: String) -> Call {
        Call {
            script,
            keys: vec![key],
            args: Vec::new(),
        }
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

    /// Runs a script on the server that has its key.
    pub async fn run(&self, call: Call) -> Result<Value> {
        let writes = call.script.effect != Effect::Reads;
        let errand = Errand {
            what: call.script.name,
            slot: Some(slot::slot(call.keys[0].as_bytes())),
            command: call.command(),
            script: Some(call.script),
            writes,
            replicas: match self.inner.durability {
                Durability::Replicated { replicas } if writes => Some(replicas),
                _ => None,
            },
        };
        self.carry(errand).await
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
        .await
    }

    /// Runs a command that only reads on every primary; the answers come with the address of who gave them.
    pub async fn on_every_primary(&self, parts: &[&[u8]]) -> Result<Vec<(String, Value)>> {
        let until = self.deadline();
        let mut answers = Vec::new();
        for node in self.inner.route.primaries() {
            let answer = node
                .ask(&plain(parts), until)
                .await
                .map_err(|fault| match fault {
                    fault::Fault::Lost(why) => fault::Fault::Away(why).error(&name(parts)),
                    fault => fault.error(&name(parts)),
                })?;
            answers.push((node.address().to_string(), answer));
        }
        Ok(answers)
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
