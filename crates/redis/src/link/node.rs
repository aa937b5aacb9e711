//! A server, and the connections to it.
//!
//! There are three sorts, because Redis answers what comes over one connection one after the other: one for calls, one for
//! calls that wait for replicas, and one for each call that waits for something to come.

use std::sync::{Arc, Mutex, PoisonError};

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::commit::Commits;
use super::connection::Connection;
use super::dial::{Dialer, Want};
use super::door::Door;
use super::fault::Fault;
use super::lane::Lane;
use crate::url::Address;

pub(super) struct Node {
    pub(super) door: Arc<Door>,
    pub(super) calls: Lane,
    pub(super) commits: Commits,
    /// Connections for waiting that nobody uses now.
    idle: Mutex<Vec<Arc<Connection>>>,
}

impl Node {
    pub(super) fn new(address: Address, dialer: Arc<Dialer>, want: Want) -> Arc<Node> {
        let door = Arc::new(Door::new(address, dialer, want));
        Arc::new(Node {
            calls: Lane::new(door.clone()),
            commits: Commits::new(door.clone()),
            door,
            idle: Mutex::default(),
        })
    }

    pub(super) fn address(&self) -> &Address {
        self.door.address()
    }

    /// A command on the connection for calls.
    pub(super) async fn ask(&self, command: &Cmd, until: Instant) -> Result<Value, Fault> {
        let connection = self.calls.get(until).await?;
        self.calls.ask(&connection, command, until).await
    }

    /// A connection that nobody else uses until it is given back.
    pub(super) async fn borrow(&self, until: Instant) -> Result<Arc<Connection>, Fault> {
        let idle = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.retain(|connection| connection.alive());
            idle.pop()
        };
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let connecting = tokio::time::timeout_at(until, self.door.connect()).await;
        connecting.unwrap_or_else(|_| Err(self.door.too_late()))
    }

    /// Gives back a connection on which nothing is under way.
    pub(super) fn give_back(&self, connection: Arc<Connection>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(connection);
    }
}
