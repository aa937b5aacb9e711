//! Several engines on one store that take turns, so that a load that knows of one puts every call to another process than the
//! one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::{NewJob, QueueName, Result};
use tokio::runtime::Handle;
use tokio::sync::broadcast;

/// Engines that stand for one.
pub struct Several {
    engines: Vec<Arc<dyn Engine>>,
    turn: AtomicUsize,
    /// Where the engines live. Who calls may have a runtime that ends before.
    home: Handle,
}

impl Several {
    /// Takes turns among these. It must be made within the runtime that they live in.
    pub fn new(engines: Vec<Arc<dyn Engine>>) -> Several {
        Several {
            engines,
            turn: AtomicUsize::new(0),
            home: Handle::current(),
        }
    }

    async fn next<T, F>(&self, call: impl FnOnce(Arc<dyn Engine>) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let engine = self.engines[turn % self.engines.len()].clone();
        self.home
            .spawn(call(engine))
            .await
            .expect("a call that ends")
    }
}

#[async_trait]
impl Engine for Several {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        self.next(|it| async move { it.push(jobs).await }).await
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        self.next(|it| async move { it.lease(ask).await }).await
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.next(|it| async move { it.settle(items).await }).await
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.next(|it| async move { it.extend(items).await }).await
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.next(|it| async move { it.find(which).await }).await
    }

    async fn list(&self, query: Query) -> Result<Page> {
        self.next(|it| async move { it.list(query).await }).await
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        self.next(|it| async move { it.steer(order).await }).await
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        self.next(|it| async move { it.queues(names).await }).await
    }

    async fn forgotten(&self) -> Result<Books> {
        self.next(|it| async move { it.forgotten().await }).await
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.next(|it| async move { it.change(change).await }).await
    }

    async fn catalog(&self) -> Result<Catalog> {
        self.next(|it| async move { it.catalog().await }).await
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        self.next(|it| async move { it.publish(message).await })
            .await
    }

    async fn audit(&self) -> Result<Audit> {
        self.next(|it| async move { it.audit().await }).await
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.engines[0].watch()
    }

    fn health(&self) -> Result<()> {
        self.engines.iter().try_for_each(|engine| engine.health())
    }

    fn repaired(&self) -> u64 {
        self.engines.iter().map(|engine| engine.repaired()).sum()
    }

    async fn close(&self) -> Result<()> {
        for engine in &self.engines {
            engine.close().await?;
        }
        Ok(())
    }
}
