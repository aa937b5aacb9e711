//! Sentinels: who is the primary, and who tells when that changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use redis::Value;
use tokio::time::Instant;

use super::dial::{Dialer, Want};
use super::fault::Fault;
use super::node::Node;
use super::pace::Pace;
use super::table::Table;
use crate::url::Address;

/// How often a connection on which nothing comes is tried.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) struct Sentinels {
    sentinels: Vec<Address>,
    name: String,
    to_sentinels: Dialer,
    to_servers: Arc<Dialer>,
    /// Who answered the last time is asked first.
    first: AtomicUsize,
}

impl Sentinels {
    pub(super) fn new(
        sentinels: &[Address],
        name: &str,
        to_sentinels: Dialer,
        to_servers: Arc<Dialer>,
    ) -> Sentinels {
        Sentinels {
            sentinels: sentinels.to_vec(),
            name: name.to_owned(),
            to_sentinels,
            to_servers,
            first: AtomicUsize::new(0),
        }
    }

    /// The primary, as the first sentinel says whose word is true.
    pub(super) async fn look(&self, now: &Table) -> Result<Table, Fault> {
        let first = self.first.load(Ordering::Relaxed);
        let mut fault = None;
        for offset in 0..self.sentinels.len() {
            let at = (first + offset) % self.sentinels.len();
            match self.ask(&self.sentinels[at], now).await {
                Ok(node) => {
                    self.first.store(at, Ordering::Relaxed);
                    return Ok(Table::of(node));
                }
                Err(why) => fault = Some(why),
            }
        }
        Err(fault.unwrap_or_else(|| Fault::Away("there are no sentinels".to_owned())))
    }

    async fn ask(&self, sentinel: &Address, now: &Table) -> Result<Arc<Node>, Fault> {
        let connection = self.to_sentinels.connect(sentinel, Want::Any).await;
        let connection = connection.map_err(|fault| about(sentinel, fault))?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let until = Instant::now() + self.to_sentinels.patience();
        let answer = connection.ask(&question, until).await;
        let address =
            address(&answer.map_err(|fault| about(sentinel, fault))?).ok_or_else(|| {
                let name = &self.name;
                Fault::Away(format!(
                    "sentinel {sentinel} knows no primary named {name:?}"
                ))
            })?;
        if let Some(node) = now.nodes().iter().find(|node| *node.address() == address) {
            return Ok(node.clone());
        }
        // A sentinel may be the last to know: only a server that says so itself is the primary.
        let node = Node::new(address, self.to_servers.clone(), Want::Primary);
        let until = Instant::now() + self.to_servers.patience() * 2;
        node.calls.get(until).await?;
        Ok(node)
    }

    /// Calls `news` when a sentinel says that the primary changed, and when it may have said so without being heard.
    pub(super) async fn watch(&self, news: impl Fn()) {
        let mut pace = Pace::new();
        for at in (0..self.sentinels.len()).cycle() {
            tokio::time::sleep_until(pace.not_before()).await;
            let began = Instant::now();
            let sentinel = &self.sentinels[at];
            if let Err(fault) = self.listen(sentinel, &news).await {
                tracing::debug!("redis: sentinel {sentinel} tells nothing: {fault:?}");
            }
            if began.elapsed() > HEARTBEAT {
                pace.succeeded();
            }
            pace.failed();
        }
    }

    async fn listen(&self, sentinel: &Address, news: &impl Fn()) -> Result<(), Fault> {
        let ended = |error: redis::RedisError| Fault::Away(error.to_string());
        let (mut asking, mut messages) = self.to_sentinels.listen(sentinel).await?.split();
        asking.subscribe("+switch-master").await.map_err(ended)?;
        news();
        loop {
            match tokio::time::timeout(HEARTBEAT, messages.next()).await {
                Ok(None) => return Err(Fault::Away("the connection was lost".to_owned())),
                Ok(Some(message)) => {
                    let text = String::from_utf8_lossy(message.get_payload_bytes()).into_owned();
                    if text.split(' ').next() == Some(self.name.as_str()) {
                        news();
                    }
                }
                Err(_) => {
                    let alive = asking.ping::<Value>();
                    let alive = tokio::time::timeout(self.to_sentinels.patience(), alive).await;
                    alive
                        .map_err(|_| Fault::Away("it does not answer".to_owned()))?
                        .map_err(ended)?;
                }
            }
        }
    }
}

fn about(sentinel: &Address, fault: Fault) -> Fault {
    let say = |why: String| format!("sentinel {sentinel}: {why}");
    match fault {
        Fault::Denied(why) => Fault::Denied(say(why)),
        Fault::Away(why) | Fault::Lost(why) => Fault::Away(say(why)),
        Fault::Refused(refusal) => Fault::Away(say(refusal.to_string())),
        fault @ Fault::Unconfirmed { .. } => fault,
    }
}

/// `["10.0.0.1", "6379"]`, or nothing if the name is not known.
fn address(answer: &Value) -> Option<Address> {
    let Value::Array(parts) = answer else {
        return None;
    };
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else {
        return None;
    };
    let host = String::from_utf8(host.clone()).ok()?;
    let port = std::str::from_utf8(port).ok()?.parse().ok()?;
    Some(Address::Tcp(host, port))
}
