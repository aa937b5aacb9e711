//! The temporary sole right to a job, from asking for it to its end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Ask, Extend, Extended, Outcome, Pick, Retry, Settle, Settled};
use auxo_core::job::Leased;
use auxo_core::service::Service;
use auxo_core::{Code, Error, Job, JobId, QueueName, Result, Timestamp, Token};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::payload;

/// A request for jobs, made by [`Auxo::lease`](crate::Auxo::lease).
#[must_use = "a request does nothing until one or many is called"]
pub struct Request {
    service: Arc<Service>,
    queues: Result<Vec<QueueName>>,
    pick: Pick,
    max: u32,
    wait: Duration,
    ttr: Option<Duration>,
    worker: Arc<str>,
}

impl Request {
    pub(crate) fn new(service: Arc<Service>, queues: Result<Vec<QueueName>>) -> Request {
        Request {
            service,
            queues,
            pick: Pick::First,
            max: 1,
            wait: Duration::ZERO,
            ttr: None,
            worker: "".into(),
        }
    }

    /// Leases from the queue whose next job is the most urgent (by priority, then due time, then age) instead of the first that
    /// has any. [`many`](Request::many) then ends where the next job of another queue comes first: ask again for it.
    pub fn most_urgent(mut self) -> Request {
        self.pick = Pick::MostUrgent;
        self
    }

    /// How many jobs [`many`](Request::many) returns at most. The default is 1.
    pub fn max(mut self, max: u32) -> Request {
        self.max = max;
        self
    }

    /// How long to wait when there is nothing to do. The default is not to wait. It costs nothing: a job that arrives or
    /// falls due ends the wait at once.
    pub fn wait(mut self, wait: Duration) -> Request {
        self.wait = wait;
        self
    }

    /// The length of the leases, instead of each job's own.
    pub fn ttr(mut self, ttr: Duration) -> Request {
        self.ttr = Some(ttr);
        self
    }

    /// The worker's name for itself, which people see beside the job.
    pub fn worker(mut self, worker: &str) -> Request {
        self.worker = worker.into();
        self
    }

    /// Leases one job, or none when none was due in time.
    pub async fn one(self) -> Result<Option<Lease>> {
        Ok(self.max(1).many().await?.into_iter().next())
    }

    /// Leases up to [`max`](Request::max) jobs, all from the first queue that has any, or from the one with the
    /// [most urgent](Request::most_urgent). None when none was due in time.
    pub async fn many(self) -> Result<Vec<Lease>> {
        let ask = Ask {
            queues: self.queues?,
            job: None,
            pick: self.pick,
            max: self.max,
            wait: self.wait,
            ttr: self.ttr,
            worker: self.worker,
        };
        let service = self.service;
        let leased = service.lease(ask).await?;
        let guard = |leased| Lease {
            service: service.clone(),
            leased,
        };
        Ok(leased.into_iter().map(guard).collect())
    }
}

/// The temporary sole right to a job. It ends with [`ack`](Lease::ack), [`fail`](Lease::fail), [`release`](Lease::release),
/// [`bury`](Lease::bury) or [`snooze`](Lease::snooze), or by itself at its [deadline](Lease::deadline).
///
/// Dropping a lease does nothing: the job comes back at the deadline, as it does when the process dies. A drop cannot tell
/// success from failure, and it cannot wait for the disk.
///
/// Settling takes the lease, so that it cannot be settled twice. If the answer is `unknown_outcome`, settle again by the
/// [token](Lease::token) through the service; an answer of `lease_lost` then means that the first try counted, or that the
/// deadline had passed.
#[must_use = "a lease that is not settled comes back at its deadline and counts as vanished"]
pub struct Lease {
    service: Arc<Service>,
    leased: Leased,
}

impl Lease {
    /// The job's id.
    pub fn id(&self) -> JobId {
        self.leased.job.id
    }

    /// The job, with its attempt already counted.
    pub fn job(&self) -> &Job {
        &self.leased.job
    }

    /// The payload, read from JSON. Its bytes are in [`job`](Lease::job).
    pub fn payload<T: DeserializeOwned>(&self) -> Result<T> {
        payload::decode(&self.leased.job)
    }

    /// The right itself, for settling it elsewhere.
    pub fn token(&self) -> Token {
        self.leased.token
    }

    /// When the lease ends unless it is extended, as the wall clock will show it.
    pub fn deadline(&self) -> Timestamp {
        self.leased.deadline
    }

    /// Done.
    pub async fn ack(self) -> Result<Settled> {
        self.settle(Outcome::Ack { result: None }).await
    }

    /// Done, with a result that is kept as JSON for the job's retention.
    pub async fn ack_with<T: Serialize + ?Sized>(self, result: &T) -> Result<Settled> {
        let result = Some(payload::encode(result)?);
        self.settle(Outcome::Ack { result }).await
    }

    /// Failed: tried again by the job's policy, or dead.
    pub async fn fail(self, error: impl fmt::Display) -> Result<Settled> {
        self.settle(Outcome::Fail {
            error: error.to_string(),
            delay: None,
            retry: Retry::Policy,
        })
        .await
    }

    /// Gives the job back to its old place. No failure is counted.
    pub async fn release(self) -> Result<Settled> {
        self.settle(Outcome::Release {
            priority: None,
            delay: None,
        })
        .await
    }

    /// Dead at once: trying again is of no use.
    pub async fn bury(self, error: impl fmt::Display) -> Result<Settled> {
        self.settle(Outcome::Bury {
            error: Some(error.to_string()),
            priority: None,
        })
        .await
    }

    /// Again later. No failure is counted.
    pub async fn snooze(self, delay: Duration) -> Result<Settled> {
        self.settle(Outcome::Snooze { delay }).await
    }

    /// Ends the lease in any way there is.
    pub async fn settle(self, outcome: Outcome) -> Result<Settled> {
        let token = self.token();
        only(self.service.settle(vec![Settle { token, outcome }]).await?)
    }

    /// Prolongs the lease by its own length from now on. The answer says whether somebody wants the job cancelled: then stop
    /// and settle.
    pub async fn extend(&mut self) -> Result<Extended> {
        self.prolong(None, None).await
    }

    /// Prolongs the lease and notes how far the work is, for people to see.
    pub async fn progress<T: Serialize + ?Sized>(&mut self, progress: &T) -> Result<Extended> {
        let progress = payload::encode(progress)?;
        self.prolong(None, Some(progress)).await
    }

    /// Prolongs the lease to `ttr` from now on.
    pub async fn extend_to(&mut self, ttr: Duration) -> Result<Extended> {
        self.prolong(Some(ttr), None).await
    }

    async fn prolong(
        &mut self,
        ttr: Option<Duration>,
        progress: Option<bytes::Bytes>,
    ) -> Result<Extended> {
        let item = Extend {
            token: self.token(),
            ttr,
            progress,
        };
        let extended = only(self.service.extend(vec![item]).await?)?;
        self.leased.deadline = extended.deadline;
        Ok(extended)
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.leased.fmt(f)
    }
}

/// The answer to a batch of one.
pub(crate) fn only<T>(answers: Vec<Result<T>>) -> Result<T> {
    let none = || {
        Err(Error::new(
            Code::Internal,
            "a call was left without an answer",
        ))
    };
    answers.into_iter().next().unwrap_or_else(none)
}
