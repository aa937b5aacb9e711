//! An engine that panics or hangs in its calls while it is told to.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased, NewJob};
use auxo_core::queue::QueueInfo;
use auxo_core::{QueueName, Result};
use auxo_embedded::Embedded;
use auxo_server::Settings;
use tokio::sync::{Semaphore, broadcast};

use super::bench::Bench;

/// How it behaves.
#[derive(Default)]
pub struct Manners {
    pub panics: AtomicBool,
    pub hangs: AtomicBool,
    /// Lease calls that wait are not answered; those that do not wait are.
    pub lends_only_at_once: AtomicBool,
    /// How many times leases were settled, and the door that each goes through if there is one.
    pub settles: AtomicUsize,
    pub door: Mutex<Option<Arc<Semaphore>>>,
}

pub struct Brittle {
    pub engine: Embedded,
    pub manners: Arc<Manners>,
}

impl Brittle {
    async fn hold(&self) {
        assert!(!self.manners.panics.load(SeqCst), "a secret of the engine");
        if self.manners.hangs.load(SeqCst) {
            std::future::pending().await
        }
    }
}

#[tonic::async_trait]
impl Engine for Brittle {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        self.hold().await;
        self.engine.push(jobs).await
    }
    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        self.hold().await;
        if self.manners.lends_only_at_once.load(SeqCst) && !ask.wait.is_zero() {
            std::future::pending().await
        }
        self.engine.lease(ask).await
    }
    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.hold().await;
        self.manners.settles.fetch_add(1, SeqCst);
        let door = self.manners.door.lock().unwrap().clone();
        if let Some(door) = door {
            drop(door.acquire().await);
        }
        self.engine.settle(items).await
    }
    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.hold().await;
        self.engine.extend(items).await
    }
    async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.hold().await;
        self.engine.find(which).await
    }
    async fn list(&self, query: Query) -> Result<Page> {
        self.hold().await;
        self.engine.list(query).await
    }
    async fn steer(&self, order: Order) -> Result<Steered> {
        self.hold().await;
        self.engine.steer(order).await
    }
    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        self.hold().await;
        self.engine.queues(names).await
    }
    async fn change(&self, change: Change) -> Result<()> {
        self.hold().await;
        self.engine.change(change).await
    }
    async fn catalog(&self) -> Result<Catalog> {
        self.engine.catalog().await
    }
    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        self.engine.publish(message).await
    }
    async fn audit(&self) -> Result<Audit> {
        self.engine.audit().await
    }
    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.engine.watch()
    }
    fn health(&self) -> Result<()> {
        self.engine.health()
    }
    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }
}

/// A server whose engine misbehaves when it is told to.
pub async fn misbehaving(adjust: impl FnOnce(&mut Settings)) -> (Bench, Arc<Manners>) {
    let manners = Arc::new(Manners::default());
    let told = manners.clone();
    let wrap = |engine| -> Arc<dyn Engine> {
        Arc::new(Brittle {
            engine,
            manners: told,
        })
    };
    (Bench::around(wrap, adjust).await, manners)
}
