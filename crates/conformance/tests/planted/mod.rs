//! An engine with one small mistake.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::queue::QueueInfo;
use auxo_core::{NewJob, QueueName, Result};
use tokio::sync::broadcast;

/// Forgets a released job's old place: it is due at the moment of its release.
pub struct Forgetful(pub Arc<dyn Engine>);

fn forget(mut item: Settle) -> Settle {
    if let Outcome::Release { delay, .. } = &mut item.outcome {
        delay.get_or_insert(Duration::ZERO);
    }
    item
}

#[async_trait]
impl Engine for Forgetful {
    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        let items = items.into_iter().map(forget).collect();
        self.0.settle(items).await
    }

    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        self.0.push(jobs).await
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        self.0.lease(ask).await
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.0.extend(items).await
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.0.find(which).await
    }

    async fn list(&self, query: Query) -> Result<Page> {
        self.0.list(query).await
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        self.0.steer(order).await
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        self.0.queues(names).await
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.0.change(change).await
    }

    async fn catalog(&self) -> Result<Catalog> {
        self.0.catalog().await
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        self.0.publish(message).await
    }

    async fn audit(&self) -> Result<Audit> {
        self.0.audit().await
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.0.watch()
    }

    fn health(&self) -> Result<()> {
        self.0.health()
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }
}
