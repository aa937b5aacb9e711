//! Fan-out: one message, one job in the queue of each subscription.

use std::sync::Arc;

use auxo_core::Result;
use auxo_core::engine::{Change, Pushed};
use auxo_core::service::Service;
use auxo_core::topic::{Pattern, Subscription};
use serde::Serialize;

use crate::draft::Draft;
use crate::payload;
use crate::queue::Queue;

/// A named place to publish to.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> auxo_core::Result<()> {
/// # let engine = auxo_conformance::ModelEngine::new(auxo_core::ManualClock::at(0));
/// # let auxo = auxo_client::Auxo::with_engine(std::sync::Arc::new(engine));
/// let orders = auxo.topic("orders");
/// orders.subscribe("billing", &auxo.queue("billing")?, None).await?;
/// orders.subscribe("shipping", &auxo.queue("shipping")?, Some("order.*.paid")).await?;
///
/// let jobs = orders.message("order 7")?.routing_key("order.7.created").publish().await?;
/// assert_eq!(jobs.len(), 1);
/// let jobs = orders.message("order 7")?.routing_key("order.7.paid").publish().await?;
/// assert_eq!(jobs.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Topic {
    pub(crate) service: Arc<Service>,
    pub(crate) name: String,
    pub(crate) routing_key: Option<String>,
}

impl Topic {
    pub(crate) fn new(service: Arc<Service>, name: String) -> Topic {
        Topic {
            service,
            name,
            routing_key: None,
        }
    }

    /// Adds or replaces the subscription `name`: the queue gets each message whose routing key fits the pattern, or every
    /// message if there is none. In a pattern `*` stands for one word and `#` for any number of words.
    pub async fn subscribe(&self, name: &str, queue: &Queue, pattern: Option<&str>) -> Result<()> {
        let subscription = Subscription {
            topic: self.name.clone(),
            name: name.to_owned(),
            queue: queue.name().clone(),
            pattern: pattern.map(Pattern::new).transpose()?,
        };
        self.service.change(Change::Subscribe(subscription)).await
    }

    /// Removes a subscription. Its queue and jobs stay.
    pub async fn unsubscribe(&self, name: &str) -> Result<()> {
        let change = Change::Unsubscribe(self.name.clone(), name.to_owned());
        self.service.change(change).await
    }

    /// Publishes the value as JSON, without a routing key.
    pub async fn publish<T: Serialize + ?Sized>(&self, payload: &T) -> Result<Vec<Pushed>> {
        self.message(payload)?.publish().await
    }

    /// Starts a message with more to say than its payload. A key belongs to each queue it arrives in.
    pub fn message<T: Serialize + ?Sized>(&self, payload: &T) -> Result<Draft<Topic>> {
        Ok(Draft::new(self.clone(), payload::encode(payload)?))
    }
}
