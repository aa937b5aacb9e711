//! A named line of jobs, from the side that fills it.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Pushed, Which};
use auxo_core::queue::QueueInfo;
use auxo_core::schedule::Rhythm;
use auxo_core::service::Service;
use auxo_core::{Job, JobSpec, NewJob, QueueName, Result};
use bytes::Bytes;
use serde::Serialize;

use crate::draft::{Draft, Plan};
use crate::payload;

/// A named line of jobs.
#[derive(Clone)]
pub struct Queue {
    pub(crate) service: Arc<Service>,
    name: QueueName,
}

impl Queue {
    pub(crate) fn new(service: Arc<Service>, name: QueueName) -> Queue {
        Queue { service, name }
    }

    /// Its name.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// Pushes a job that runs as soon as a worker has time. Its payload is the value as JSON. When this returns, the job is
    /// as durable as the engine was opened for.
    pub async fn push<T: Serialize + ?Sized>(&self, payload: &T) -> Result<Pushed> {
        self.job(payload)?.push().await
    }

    /// Pushes one job per value, in this order and in one step for the disk. Each has its own answer: one that is refused
    /// does not touch the others.
    pub async fn push_many<'a, T: Serialize + 'a>(
        &self,
        payloads: impl IntoIterator<Item = &'a T>,
    ) -> Result<Vec<Result<Pushed>>> {
        let jobs = payloads.into_iter().map(|value| {
            let payload = payload::encode(value)?;
            let spec = JobSpec {
                payload,
                ..JobSpec::default()
            };
            Ok(NewJob {
                queue: self.name.clone(),
                spec,
            })
        });
        self.service.push(jobs.collect::<Result<_>>()?).await
    }

    /// Starts a job with more to say than its payload.
    ///
    /// ```
    /// use std::time::Duration;
    /// # #[tokio::main]
    /// # async fn main() -> auxo_core::Result<()> {
    /// # let engine = auxo_conformance::ModelEngine::new(auxo_core::ManualClock::at(0));
    /// # let auxo = auxo_client::Auxo::with_engine(std::sync::Arc::new(engine));
    /// let mail = auxo.queue("mail")?;
    /// let pushed = mail
    ///     .job("remind ada")?
    ///     .kind("reminder")
    ///     .delay(Duration::from_secs(3600))
    ///     .priority(10)
    ///     .key("reminder:ada")
    ///     .push()
    ///     .await?;
    /// assert_eq!(mail.find("reminder:ada").await?.unwrap().id, pushed.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn job<T: Serialize + ?Sized>(&self, payload: &T) -> Result<Draft<Queue>> {
        Ok(self.raw(payload::encode(payload)?))
    }

    /// Starts a job whose payload is these bytes as they are.
    pub fn raw(&self, payload: impl Into<Bytes>) -> Draft<Queue> {
        Draft::new(self.clone(), payload.into())
    }

    /// Starts a schedule: a job that is pushed by the calendar. The expression has five fields, or six with seconds first,
    /// or is an alias such as `@daily`; it is read in UTC unless a [zone](Draft::zone) is given.
    ///
    /// ```
    /// # #[tokio::main]
    /// # async fn main() -> auxo_core::Result<()> {
    /// # let engine = auxo_conformance::ModelEngine::new(auxo_core::ManualClock::at(0));
    /// # let auxo = auxo_client::Auxo::with_engine(std::sync::Arc::new(engine));
    /// let reports = auxo.queue("reports")?;
    /// reports.cron("nightly", "30 2 * * *", "all of them")?.zone("Europe/Berlin").set().await?;
    /// auxo.unschedule("nightly").await
    /// # }
    /// ```
    pub fn cron<T: Serialize + ?Sized>(
        &self,
        name: &str,
        expression: &str,
        payload: &T,
    ) -> Result<Draft<Plan>> {
        let rhythm = Rhythm::Cron {
            expression: expression.to_owned(),
            zone: "UTC".to_owned(),
        };
        let plan = Plan::new(self.clone(), name, rhythm);
        Ok(Draft::new(plan, payload::encode(payload)?))
    }

    /// Starts a schedule: a job that is pushed each time `period` has passed.
    pub fn every<T: Serialize + ?Sized>(
        &self,
        name: &str,
        period: Duration,
        payload: &T,
    ) -> Result<Draft<Plan>> {
        let plan = Plan::new(self.clone(), name, Rhythm::Every(period));
        Ok(Draft::new(plan, payload::encode(payload)?))
    }

    /// Shows the job that holds a key, or `None`.
    pub async fn find(&self, key: &str) -> Result<Option<Job>> {
        let which = Which::Key(self.name.clone(), key.to_owned());
        self.service.find(which).await
    }

    /// Its settings, counts and books; `None` while it has never been used.
    pub async fn info(&self) -> Result<Option<QueueInfo>> {
        let infos = self.service.queues(Some(vec![self.name.clone()])).await?;
        Ok(infos.into_iter().next())
    }
}
