//! Where a call has to go, and finding out again when that is no longer true.
//!
//! Whoever sees that something is wrong with a server says so ([`Route::suspect`]); one task then asks who has what, not more
//! often than [`Pace`] allows, and everybody uses what it finds.

use std::sync::{Arc, Mutex, PoisonError};

use auxo_core::Result;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::cluster::Cluster;
use super::dial::{Dialer, Want};
use super::fault::Fault;
use super::node::Node;
use super::pace::Pace;
use super::sentinel::Sentinels;
use super::table::Table;
use crate::url::{Address, Kind, StoreUrl};

pub(super) struct Route {
    finder: Finder,
    table: watch::Sender<Arc<Table>>,
    wanted: Notify,
    /// Why nobody could say it the last time.
    fault: Mutex<Option<Fault>>,
}

enum Finder {
    Fixed,
    Sentinels(Sentinels),
    Cluster(Cluster),
}

/// Ends a task with its owner.
pub(super) struct Task(AbortHandle);

impl Task {
    fn new(task: JoinHandle<()>) -> Task {
        Task(task.abort_handle())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Route {
    /// Asks once, and says what is wrong if there is no answer. The tasks keep it true for as long as they are kept.
    pub(super) async fn open(url: &StoreUrl) -> Result<(Arc<Route>, Vec<Task>)> {
        let dialer = Arc::new(Dialer::new(url)?);
        let finder = match url.kind() {
            Kind::Single(_) => Finder::Fixed,
            Kind::Cluster { seeds } => Finder::Cluster(Cluster::new(seeds, dialer.clone())),
            Kind::Sentinel { sentinels, primary } => Finder::Sentinels(Sentinels::new(
                sentinels,
                primary,
                Dialer::to_sentinels(url)?,
                dialer.clone(),
            )),
        };
        let table = match url.kind() {
            Kind::Single(address) => Table::of(Node::new(address.clone(), dialer, Want::Any)),
            _ => Table::empty(),
        };
        let route = Arc::new(Route {
            finder,
            table: watch::Sender::new(Arc::new(table)),
            wanted: Notify::new(),
            fault: Mutex::default(),
        });
        route
            .look()
            .await
            .map_err(|fault| fault.error("to open the store"))?;
        let mut tasks = Vec::new();
        if !matches!(route.finder, Finder::Fixed) {
            tasks.push(Task::new(tokio::spawn(keep(route.clone()))));
        }
        if let Finder::Sentinels(_) = route.finder {
            tasks.push(Task::new(tokio::spawn(watch_sentinels(route.clone()))));
        }
        Ok((route, tasks))
    }

    /// Who has a slot; without one, any.
    pub(super) async fn find(&self, slot: Option<u16>, until: Instant) -> Result<Arc<Node>, Fault> {
        if let Some(node) = self.known(slot) {
            return Ok(node);
        }
        let mut changes = self.changes();
        while self.known(slot).is_none() {
            self.wanted.notify_one();
            let changed = tokio::time::timeout_at(until, changes.changed()).await;
            if changed.is_err() {
                return Err(self.why_not(slot));
            }
        }
        self.known(slot).ok_or_else(|| self.why_not(slot))
    }

    /// Whether this is the server that has a slot, as far as is known.
    pub(super) fn has(&self, slot: Option<u16>, node: &Arc<Node>) -> bool {
        let known = self.known(slot);
        known.is_some_and(|known| Arc::ptr_eq(&known, node))
    }

    fn known(&self, slot: Option<u16>) -> Option<Arc<Node>> {
        let table = self.table.borrow();
        match slot {
            Some(slot) => table.owner(slot).cloned(),
            None => {
                // One that answers, if that is known: a part of a cluster may be away.
                let nodes = table.nodes();
                let open = nodes.iter().find(|node| node.calls.now().is_some());
                open.or(nodes.first()).cloned()
            }
        }
    }

    fn why_not(&self, slot: Option<u16>) -> Fault {
        let fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        fault.clone().unwrap_or_else(|| {
            Fault::Away(match slot {
                Some(slot) => format!("no server of the cluster has slot {slot}"),
                None => "no server of the cluster is known".to_owned(),
            })
        })
    }

    /// All primaries.
    pub(super) fn primaries(&self) -> Vec<Arc<Node>> {
        self.table.borrow().nodes().to_vec()
    }

    /// Tells when another server has a slot.
    pub(super) fn changes(&self) -> watch::Receiver<Arc<Table>> {
        self.table.subscribe()
    }

    /// Something is wrong with a server: it may no longer be the right one.
    pub(super) fn suspect(&self, node: &Arc<Node>) {
        let known = self
            .table
            .borrow()
            .nodes()
            .iter()
            .any(|one| Arc::ptr_eq(one, node));
        if known {
            self.wanted.notify_one();
        }
    }

    /// A server says that another has this slot. `None` if there can be no other.
    pub(super) fn moved(&self, slot: u16, to: &Address) -> Option<Arc<Node>> {
        let node = self.node(to)?;
        self.table.send_if_modified(|table| {
            let known = table
                .owner(slot)
                .is_some_and(|owner| Arc::ptr_eq(owner, &node));
            if !known {
                Arc::make_mut(table).give(slot, slot, node.clone());
            }
            !known
        });
        // Where one slot went, others may have gone, too.
        self.wanted.notify_one();
        Some(node)
    }

    /// A server of the cluster. `None` if there can be no other than the one.
    pub(super) fn node(&self, at: &Address) -> Option<Arc<Node>> {
        match &self.finder {
            Finder::Cluster(cluster) => Some(cluster.node(at)),
            Finder::Fixed | Finder::Sentinels(_) => None,
        }
    }

    /// Asks who has what. Whether that was news.
    async fn look(&self) -> Result<bool, Fault> {
        let now = self.table.borrow().clone();
        let found = match &self.finder {
            Finder::Fixed => {
                for node in now.nodes() {
                    node.calls.get(far()).await?;
                }
                return Ok(false);
            }
            Finder::Sentinels(sentinels) => sentinels.look(&now).await,
            Finder::Cluster(cluster) => cluster.look(&now).await,
        };
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        let table = match found {
            Ok(table) => table,
            Err(why) => {
                *fault = Some(why.clone());
                return Err(why);
            }
        };
        *fault = None;
        let news = !table.same(&now);
        if news {
            self.table.send_replace(Arc::new(table));
        }
        if let (true, Finder::Sentinels(_)) = (news, &self.finder) {
            now.nodes().iter().for_each(|node| node.door.shut());
        }
        Ok(news)
    }
}

/// Looks again whenever somebody wants it.
async fn keep(route: Arc<Route>) {
    let mut pace = Pace::of_looks();
    loop {
        route.wanted.notified().await;
        tokio::time::sleep_until(pace.not_before()).await;
        match route.look().await {
            Ok(true) => pace.succeeded(),
            // As good as a failure: whoever wanted it will want it again.
            Ok(false) => pace.failed(),
            Err(fault) => {
                tracing::warn!("redis: cannot find out who is the primary: {fault:?}");
                pace.failed();
                // Those who wait have nobody to suspect.
                if route.table.receiver_count() > 0 {
                    route.wanted.notify_one();
                }
            }
        }
    }
}

/// Leaves a primary that was replaced, also if it does not say so itself.
async fn watch_sentinels(route: Arc<Route>) {
    if let Finder::Sentinels(sentinels) = &route.finder {
        sentinels.watch(|| route.wanted.notify_one()).await;
    }
}

fn far() -> Instant {
    Instant::now() + std::time::Duration::from_secs(3600)
}
