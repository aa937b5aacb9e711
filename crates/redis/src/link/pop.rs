//! Waiting for something to come in a list.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::Result;
use redis::{Cmd, Value};
use tokio::time::Instant;

use super::Link;
use super::carry::{Next, asking, not_done};
use super::connection::Connection;
use super::fault::Fault;
use super::node::Node;
use super::pace::Pauses;
use super::slot::slot;

impl Link {
    /// Takes the first of a list, and waits for it. Nothing, if nothing came in that time.
    ///
    /// Each call has a connection to itself while it waits. If that is lost, the call ends with an error at once, so that the
    /// caller can make sure that what it waits for is still to come; the next call finds Redis again by itself, or fails when
    /// it was not found within the store's timeout. A call that is dropped, or fails, may have taken something.
    pub async fn pop(&self, key: &str, wait: Duration) -> Result<Option<Vec<u8>>> {
        let popped = self.pop_until(key, Instant::now() + wait).await;
        popped.map_err(|fault| fault.error("to wait for a signal"))
    }

    async fn pop_until(&self, key: &str, end: Instant) -> Result<Option<Vec<u8>>, Fault> {
        let route = &self.inner.route;
        let slot = Some(slot(key.as_bytes()));
        let reach = self.deadline();
        let mut pauses = Pauses::default();
        let mut to = None;
        loop {
            let (node, ask) = match to.take() {
                Some(node) => (node, true),
                None => (route.find(slot, reach).await?, false),
            };
            let popped = match self.borrow(&node, reach).await {
                Ok(connection) => self.pop_on(&node, connection, key, ask, end).await,
                Err(fault) => Err(fault),
            };
            let fault = match popped {
                Ok(popped) => return Ok(popped),
                Err(fault) => fault,
            };
            let next = match &fault {
                Fault::Refused(refusal) => self.remedy(slot, &node, refusal)?,
                Fault::Away(_) => {
                    route.suspect(&node);
                    Next::Later
                }
                Fault::Lost(_) | Fault::Denied(_) | Fault::Unconfirmed { .. } => {
                    route.suspect(&node);
                    return Err(fault);
                }
            };
            if let Next::Again(Some(node)) = next {
                to = Some(node);
            }
            // Also after a redirection: nothing is as urgent here as not to run in a circle.
            if !pauses.wait(reach.max(end)).await {
                return Err(not_done(&node, fault));
            }
        }
    }

    /// A connection to wait on, unless it turns out meanwhile that another server has taken over.
    async fn borrow(&self, node: &Node, until: Instant) -> Result<Arc<Connection>, Fault> {
        let mut changes = self.inner.route.changes();
        tokio::select! {
            biased;
            connection = node.borrow(until) => connection,
            Ok(()) = changes.changed() => Err(Fault::Away("another server took over".to_owned())),
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

fn blocking_pop(key: &str, wait: Duration) -> Cmd {
    // Zero would be for ever.
    let seconds = wait.max(Duration::from_millis(1)).as_secs_f64();
    let mut command = redis::cmd("BLPOP");
    command.arg(key).arg(format!("{seconds:.3}"));
    command
}
