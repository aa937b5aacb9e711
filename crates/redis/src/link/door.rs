//! The one place where connections to a server are made: one try at a time, and not too often.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::aio::PubSub;
use tokio::sync::watch;

use super::connection::Connection;
use super::dial::{Dialer, Want};
use super::fault::Fault;
use super::pace::Pace;
use crate::url::Address;

/// A connection that ended sooner than this counts as a failed try: a server that takes connections and drops them is not to
/// be asked in a loop.
const YOUNG: Duration = Duration::from_secs(1);

pub(super) struct Door {
    address: Address,
    dialer: Arc<Dialer>,
    want: Want,
    pace: tokio::sync::Mutex<Pace>,
    opened: Mutex<Vec<Weak<Connection>>>,
    /// Why the last try failed, whoever made it.
    fault: Mutex<Option<Fault>>,
    shut: watch::Sender<bool>,
}

impl Door {
    pub(super) fn new(address: Address, dialer: Arc<Dialer>, want: Want) -> Door {
        Door {
            address,
            dialer,
            want,
            pace: tokio::sync::Mutex::new(Pace::new()),
            opened: Mutex::default(),
            fault: Mutex::default(),
            shut: watch::Sender::new(false),
        }
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// A new connection.
    pub(super) async fn connect(&self) -> Result<Arc<Connection>, Fault> {
        let connection = self
            .paced(self.dialer.connect(&self.address, self.want))
            .await?;
        let connection = Arc::new(connection);
        let mut opened = self.opened();
        opened.retain(|one| one.strong_count() > 0);
        opened.push(Arc::downgrade(&connection));
        // Between the try and here the door may have been shut.
        if *self.shut.borrow() {
            connection.close();
        }
        Ok(connection)
    }

    /// A new connection for messages.
    pub(super) async fn listen(&self) -> Result<PubSub, Fault> {
        self.paced(self.dialer.listen(&self.address)).await
    }

    /// What to tell who has no time left. Tries are made one at a time, so it may never have had its turn, but others had.
    pub(super) fn too_late(&self) -> Fault {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault
            .clone()
            .unwrap_or_else(|| self.dialer.silent(&self.address))
    }

    /// A connection was found to be gone.
    pub(super) async fn lost(&self, connection: &Connection) {
        if connection.age() < YOUNG {
            self.pace.lock().await.failed();
        }
    }

    /// Ends all connections and makes no more, because another server took over. Calls on their way are lost, which is better
    /// than to wait for a server that may never answer.
    pub(super) fn shut(&self) {
        self.shut.send_replace(true);
        for connection in self.opened().iter().filter_map(Weak::upgrade) {
            connection.close();
        }
    }

    async fn paced<T>(&self, dialing: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut shut = self.shut.subscribe();
        let trying = async {
            let mut pace = self.pace.lock().await;
            tokio::time::sleep_until(pace.not_before()).await;
            let dialed = dialing.await;
            match &dialed {
                Ok(_) => pace.succeeded(),
                Err(_) => pace.failed(),
            }
            let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
            *fault = dialed.as_ref().err().cloned();
            dialed
        };
        tokio::select! {
            biased;
            _ = shut.wait_for(|shut| *shut) => {
                Err(Fault::Away(format!("redis at {} is no longer the primary", self.address)))
            }
            dialed = trying => dialed,
        }
    }

    fn opened(&self) -> MutexGuard<'_, Vec<Weak<Connection>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
