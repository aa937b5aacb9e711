//! Waiting for something to come in a list.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::Result;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::Link;
use super::carry::{Next, asking, not_done};
use super::connection::Connection;
use super::fault::{Fault, Remedy};
use super::node::Node;
use super::pace::Pauses;
use super::slot::slot;

impl Link {
    /// Takes the first of a list, and waits for it. Nothing, if nothing came in that time.
    ///
    /// Each call has a connection to itself while it waits. If that is lost, the call ends with an error at once, so that the
    /// caller can make sure that what it waits for is still to come; the next call finds Redis again by itself, or fails when
    /// it was not found within the store's timeout. If Redis refuses to wait any longer, because another server has the list
    /// now, the call goes on there; `moved` is called each time, for what was to come may have been lost on the way. A server
    /// that refuses for a while, without enough replicas for example, is tried again without that. A call that is dropped, or
    /// fails, may have taken something.
    pub async fn pop(
        &self,
        key: &str,
        wait: Duration,
        moved: impl Fn(),
    ) -> Result<Option<Vec<u8>>> {
        let popped = self.pop_until(key, Instant::now() + wait, moved).await;
        popped.map_err(|fault| fault.error("to wait for a signal"))
    }

    async fn pop_until(
        &self,
        key: &str,
        end: Instant,
        moved: impl Fn(),
    ) -> Result<Option<Vec<u8>>, Fault> {
        let route = &self.inner.route;
        let slot = Some(slot(key.as_bytes()));
        let mut reach = self.deadline();
        let over = end.max(reach);
        let mut pauses = Pauses::default();
        let mut to = None;
        loop {
            let (node, ask) = match to.take() {
                Some(node) => (node, true),
                None => (route.find(slot, reach).await?, false),
            };
            let popped = match self.borrow(&node, reach).await {
                Ok(connection) => {
                    let popped = self.pop_on(&node, connection, key, ask, end);
                    tokio::select! {
                        biased;
                        popped = popped => popped.map(Some),
                        // Who waits for the redirection of a server that is asked this once has no other to go to.
                        () = self.replaced(slot, &node), if !ask => Ok(None),
                    }
                }
                Err(fault) => Err(fault),
            };
            let mut stays = false;
            let (fault, next) = match popped {
                Ok(Some(popped)) => return Ok(popped),
                Ok(None) => (replaced(), Next::Later),
                Err(Fault::Refused(refusal)) => {
                    let next = self.remedy(slot, &node, &refusal)?;
                    // A server that only asks for patience keeps the list.
                    stays = refusal.remedy(node.address()) == Remedy::Wait;
                    (Fault::Refused(refusal), next)
                }
                Err(fault @ Fault::Away(_)) => {
                    route.suspect(&node);
                    if !self.pause(&mut pauses, reach).await {
                        return Err(not_done(&node, fault));
                    }
                    continue;
                }
                Err(fault) => {
                    route.suspect(&node);
                    return Err(fault);
                }
            };
            // A server was there until now, maybe for minutes: the time to find the next one begins here.
            reach = self.deadline();
            if !stays {
                moved();
            }
            if let Next::Again(Some(node)) = next {
                to = Some(node);
            }
            // Also after a redirection: nothing is as urgent here as not to run in a circle.
            if !self.pause(&mut pauses, over).await {
                return Err(not_done(&node, fault));
            }
        }
    }

    /// Waits until another server than this one is known to have a slot. One that hangs says nothing of that itself.
    async fn replaced(&self, slot: Option<u16>, node: &Arc<Node>) {
        let mut changes = self.inner.route.changes();
        while self.inner.route.has(slot, node) {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// A connection to wait on, unless it turns out meanwhile that another server has taken over.
    async fn borrow(&self, node: &Node, until: Instant) -> Result<Arc<Connection>, Fault> {
        let mut changes = self.inner.route.changes();
        tokio::select! {
            biased;
            connection = node.borrow(until) => connection,
            Ok(()) = changes.changed() => Err(replaced()),
        }
    }

    async fn pop_on(
        &self,
        node: &Node,
        connection: Arc<Connection>,
        key: &str,
        ask: bool,
        end: Instant,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let wait = end.saturating_duration_since(Instant::now());
        let command = blocking_pop(key, wait);
        let until = Instant::now() + wait + self.inner.timeout;
        let answer = match ask {
            true => asking(&connection, &command, until).await,
            false => connection.ask(&command, until).await,
        };
        // A connection is only as good as its answers; dropped, it is closed, and Redis forgets who waited on it.
        if matches!(answer, Ok(_) | Err(Fault::Refused(_))) {
            node.give_back(connection);
        }
        match answer? {
            Value::Array(parts) => match parts.into_iter().nth(1) {
                Some(Value::BulkString(bytes)) => Ok(Some(bytes)),
                other => Err(Fault::Lost(format!("redis popped {other:?}"))),
            },
            _ => Ok(None),
        }
    }
}

fn replaced() -> Fault {
    Fault::Away("another server took over".to_owned())
}

fn blocking_pop(key: &str, wait: Duration) -> Cmd {
    // Zero would be for ever.
    let seconds = wait.max(Duration::from_millis(1)).as_secs_f64();
    let mut command = redis::cmd("BLPOP");
    command.arg(key).arg(format!("{seconds:.3}"));
    command
}
