//! A connection that many share, and that comes back by itself.
//!
//! It is made when somebody needs it, by a task of its own: all who wait share the one try, and a caller that gives up does not
//! break it off.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Cmd, Value};
use tokio::sync::watch;
use tokio::time::Instant;

use super::connection::Connection;
use super::door::Door;
use super::fault::Fault;

pub(super) struct Lane {
    shared: Arc<Shared>,
}

struct Shared {
    door: Arc<Door>,
    state: Mutex<State>,
    /// Marked after each try.
    tried: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<Connection>>,
    trying: bool,
    fault: Option<Fault>,
}

impl Lane {
    pub(super) fn new(door: Arc<Door>) -> Lane {
        Lane {
            shared: Arc::new(Shared {
                door,
                state: Mutex::default(),
                tried: watch::Sender::new(()),
            }),
        }
    }

    /// The connection, if there is one.
    pub(super) fn now(&self) -> Option<Arc<Connection>> {
        self.shared.state().alive()
    }

    /// The connection, or why the next try to make one failed.
    pub(super) async fn get(&self, until: Instant) -> Result<Arc<Connection>, Fault> {
        let mut tried = {
            let mut state = self.shared.state();
            if let Some(connection) = state.alive() {
                return Ok(connection);
            }
            let tried = self.shared.tried.subscribe();
            if !state.trying {
                state.trying = true;
                tokio::spawn(Shared::connect(
                    self.shared.clone(),
                    state.connection.take(),
                ));
            }
            tried
        };
        let in_time = tokio::time::timeout_at(until, tried.changed())
            .await
            .is_ok();
        let state = self.shared.state();
        match (state.alive(), &state.fault) {
            (Some(connection), _) => Ok(connection),
            (None, Some(fault)) if in_time => Err(fault.clone()),
            (None, _) => Err(self.shared.door.too_late()),
        }
    }

    /// Sends a command over a connection of this lane. One that does not answer in time is left: if only the answers are
    /// missing, the next connection may be better.
    pub(super) async fn ask(
        &self,
        connection: &Arc<Connection>,
        command: &Cmd,
        until: Instant,
    ) -> Result<Value, Fault> {
        let answer = connection.ask(command, until).await;
        if matches!(answer, Err(Fault::Lost(_))) {
            self.leave(connection);
        }
        answer
    }

    /// Makes the next call take another connection. Whoever waits for an answer on this one still gets it.
    pub(super) fn leave(&self, connection: &Arc<Connection>) {
        let mut state = self.shared.state();
        if state
            .connection
            .as_ref()
            .is_some_and(|now| Arc::ptr_eq(now, connection))
        {
            state.connection = None;
        }
    }
}

impl State {
    fn alive(&self) -> Option<Arc<Connection>> {
        self.connection
            .clone()
            .filter(|connection| connection.alive())
    }
}

/// Ends a try, also one whose task was dropped with its runtime.
struct Trying(Arc<Shared>);

impl Drop for Trying {
    fn drop(&mut self) {
        self.0.state().trying = false;
        self.0.tried.send_replace(());
    }
}

impl Shared {
    async fn connect(shared: Arc<Shared>, before: Option<Arc<Connection>>) {
        let trying = Trying(shared);
        let shared = &trying.0;
        if let Some(before) = before {
            shared.door.lost(&before).await;
        }
        let connected = shared.door.connect().await;
        let mut state = shared.state();
        (state.connection, state.fault) = match connected {
            Ok(connection) => (Some(connection), None),
            Err(fault) => (None, Some(fault)),
        };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::dial::{Dialer, Want};
    use super::*;
    use crate::url::Address;

    #[tokio::test]
    async fn who_had_no_turn_is_told_what_others_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let hangs_up = std::thread::spawn(move || drop(listener.accept()));
        let url = format!("redis://127.0.0.1:{port}").parse().unwrap();
        let dialer = Arc::new(Dialer::new(&url).unwrap());
        let address = Address::Tcp("127.0.0.1".to_owned(), port);
        let door = Arc::new(Door::new(address, dialer, Want::Any));
        let Err(Fault::Away(found)) = door.connect().await else {
            panic!("somebody answers");
        };
        hangs_up.join().unwrap();
        match Lane::new(door).get(Instant::now()).await {
            Err(Fault::Away(told)) => assert_eq!(told, found),
            other => panic!("{:?}", other.err()),
        }
    }

    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn who_has_no_time_left_is_told_that_the_port_may_be_a_plain_one() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = format!("rediss://127.0.0.1:{port}").parse().unwrap();
        let dialer = Arc::new(Dialer::new(&url).unwrap());
        let address = Address::Tcp("127.0.0.1".to_owned(), port);
        let door = Arc::new(Door::new(address, dialer, Want::Any));
        match Lane::new(door).get(Instant::now()).await {
            Err(Fault::Away(told)) => assert!(told.contains("not rediss"), "{told}"),
            other => panic!("{:?}", other.err()),
        }
    }
}
