//! The handle itself.

use std::sync::Arc;

use auxo_core::engine::{Change, Engine, Which};
use auxo_core::limits::Limits;
use auxo_core::service::Service;
use auxo_core::{Job, JobId, QueueName, Result};

use crate::lease::Request;
use crate::queue::Queue;
use crate::topic::Topic;

/// A job queue. Clones share it.
#[derive(Clone)]
pub struct Auxo {
    service: Arc<Service>,
}

impl Auxo {
    /// A handle over any engine, with the default limits.
    pub fn with_engine(engine: Arc<dyn Engine>) -> Auxo {
        Auxo::with_service(Service::new(engine, Limits::default()))
    }

    /// A handle over a service that was set up elsewhere.
    pub fn with_service(service: Service) -> Auxo {
        Auxo {
            service: Arc::new(service),
        }
    }

    /// A queue by its name. It comes into being with its first job.
    pub fn queue(&self, name: &str) -> Result<Queue> {
        Ok(Queue::new(self.service.clone(), QueueName::new(name)?))
    }

    /// A topic by its name. It comes into being with its first subscription.
    pub fn topic(&self, name: &str) -> Topic {
        Topic::new(self.service.clone(), name.to_owned())
    }

    /// Asks for jobs: from the first of the queues that has any.
    pub fn lease<I>(&self, queues: I) -> Request
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let names = queues.into_iter().map(|name| QueueName::new(name.as_ref()));
        Request::new(self.service.clone(), names.collect())
    }

    /// Shows a job, or `None`. A done job is shown while it is retained.
    pub async fn job(&self, id: JobId) -> Result<Option<Job>> {
        self.service.find(Which::Id(id)).await
    }

    /// Removes a schedule. The jobs it made stay.
    pub async fn unschedule(&self, name: &str) -> Result<()> {
        self.service
            .change(Change::Unschedule(name.to_owned()))
            .await
    }

    /// Everything else: listing, an operator's moves, settings, audit, events.
    pub fn service(&self) -> &Service {
        &self.service
    }

    /// Makes everything durable and stops. Later calls are answered `unavailable`, on clones too; running leases come back
    /// at their deadline, after the next opening.
    pub async fn close(&self) -> Result<()> {
        self.service.close().await
    }
}
