//! The handle itself.

use std::sync::Arc;

use auxo_core::engine::{Action, Change, Engine, Mode, Order, Target, Which};
use auxo_core::explain::Explanation;
use auxo_core::limits::Limits;
use auxo_core::queue::QueueInfo;
use auxo_core::service::Service;
use auxo_core::{Code, Error, Job, JobId, QueueName, Result, State, When};

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

    /// Says why a job is not running.
    pub async fn explain(&self, id: JobId) -> Result<Explanation> {
        self.service.explain(Which::Id(id)).await
    }

    /// Makes a dead or scheduled job ready now.
    pub async fn kick(&self, id: JobId) -> Result<State> {
        self.steer(id, Action::Kick).await
    }

    /// Calls a job off. A leased one is flagged, and its worker learns of it at the next extend.
    pub async fn cancel(&self, id: JobId) -> Result<State> {
        self.steer(id, Action::Cancel).await
    }

    /// Gives a waiting or dead job another due time.
    pub async fn reschedule(&self, id: JobId, when: When) -> Result<State> {
        self.steer(id, Action::Reschedule(when)).await
    }

    async fn steer(&self, id: JobId, action: Action) -> Result<State> {
        let order = Order {
            target: Target::Jobs(vec![id]),
            action,
            mode: Mode::Act,
        };
        let mut steered = self.service.steer(order).await?;
        steered.results.pop().unwrap_or_else(|| {
            let message = format!("there was no answer for job {id}");
            Err(Error::new(Code::Internal, message))
        })
    }

    /// Shows all queues.
    pub async fn queues(&self) -> Result<Vec<QueueInfo>> {
        self.service.queues(None).await
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
