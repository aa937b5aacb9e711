//! A job on its way: what can be said about it, wherever it goes.

use std::time::Duration;

use auxo_core::engine::{Change, Message, Pushed};
use auxo_core::job::{Backoff, DEFAULT_KEY_WINDOW, Key, OnDuplicate, Ttl};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::{Error, JobSpec, NewJob, Result, Timestamp, When};
use bytes::Bytes;

use crate::lease::only;
use crate::queue::Queue;
use crate::topic::Topic;

/// A job that is not pushed yet. `To` says where it goes: [`Queue`], [`Topic`], or the [`Plan`] of a schedule.
///
/// It does nothing until [`push`](Draft::push), [`publish`](Draft::publish) or [`set`](Draft::set).
#[derive(Clone)]
#[must_use = "a draft is only stored by push, publish or set"]
pub struct Draft<To> {
    to: To,
    spec: JobSpec,
    on_duplicate: Option<OnDuplicate>,
    key_window: Option<Duration>,
}

impl<To> Draft<To> {
    pub(crate) fn new(to: To, payload: Bytes) -> Draft<To> {
        let spec = JobSpec {
            payload,
            ..JobSpec::default()
        };
        Draft {
            to,
            spec,
            on_duplicate: None,
            key_window: None,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut JobSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Selects the handler.
    pub fn kind(self, kind: impl Into<String>) -> Self {
        self.with(|spec| spec.kind = kind.into())
    }

    /// Adds a text pair that travels with the job.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|spec| drop(spec.headers.insert(name.into(), value.into())))
    }

    /// Zero is the most urgent, 1024 the default.
    pub fn priority(self, priority: u32) -> Self {
        self.with(|spec| spec.priority = priority)
    }

    /// Runs after this long, whatever happens to the wall clock.
    pub fn delay(self, delay: Duration) -> Self {
        self.with(|spec| spec.when = When::After(delay))
    }

    /// Runs at this instant of the wall clock.
    pub fn run_at(self, at: Timestamp) -> Self {
        self.with(|spec| spec.when = When::At(at))
    }

    /// How long a worker may take before its lease ends, unless it extends. The default is a minute. Zero means delivered at
    /// most once: the job is gone when it is leased.
    pub fn ttr(self, ttr: Duration) -> Self {
        self.with(|spec| spec.ttr = ttr)
    }

    /// Dies this long after the push, if it has not run by then.
    pub fn ttl(self, ttl: Duration) -> Self {
        self.with(|spec| spec.ttl = Ttl::After(ttl))
    }

    /// Dies at this instant of the wall clock, if it has not run by then.
    pub fn expires_at(self, at: Timestamp) -> Self {
        self.with(|spec| spec.ttl = Ttl::At(at))
    }

    /// How many failed or vanished leases make it dead. The default is 10.
    pub fn max_attempts(self, max_attempts: u32) -> Self {
        self.with(|spec| spec.max_attempts = max_attempts)
    }

    /// The waits between tries.
    pub fn backoff(self, backoff: Backoff) -> Self {
        self.with(|spec| spec.backoff = backoff)
    }

    /// Jobs of different groups take turns in a fair queue.
    pub fn group(self, group: impl Into<String>) -> Self {
        self.with(|spec| spec.group = Some(group.into()))
    }

    /// How long it can still be seen after it was done. The default is not at all.
    pub fn retention(self, retention: Duration) -> Self {
        self.with(|spec| spec.retention = retention)
    }

    /// Your own name for the job, unique in its queue while it lives and for the [window](Draft::key_window) after it was
    /// done. A push that is repeated after a lost answer then makes no second job.
    pub fn key(self, key: impl Into<String>) -> Self {
        let key = Key {
            name: key.into(),
            on_duplicate: OnDuplicate::default(),
            window: DEFAULT_KEY_WINDOW,
        };
        self.with(|spec| spec.key = Some(key))
    }

    /// What happens when the key is taken. The default is an error that carries the id of the job that has it.
    pub fn on_duplicate(mut self, policy: OnDuplicate) -> Self {
        self.on_duplicate = Some(policy);
        self
    }

    /// How long the key stays taken after the job was done. The default is a day.
    pub fn key_window(mut self, window: Duration) -> Self {
        self.key_window = Some(window);
        self
    }

    fn finish(self) -> Result<(To, JobSpec)> {
        let mut spec = self.spec;
        match &mut spec.key {
            Some(key) => {
                key.on_duplicate = self.on_duplicate.unwrap_or(key.on_duplicate);
                key.window = self.key_window.unwrap_or(key.window);
            }
            None if self.on_duplicate.is_some() || self.key_window.is_some() => {
                return Err(Error::bad_request("on_duplicate and key_window need a key"));
            }
            None => {}
        }
        Ok((self.to, spec))
    }
}

impl Draft<Queue> {
    /// Pushes the job. When this returns, it is as durable as the engine was opened for.
    pub async fn push(self) -> Result<Pushed> {
        let service = self.to.service.clone();
        only(service.push(vec![self.into_job()?]).await?)
    }

    /// The job for a batch through [`Service::push`](auxo_core::service::Service::push).
    pub fn into_job(self) -> Result<NewJob> {
        let (queue, spec) = self.finish()?;
        Ok(NewJob {
            queue: queue.name().clone(),
            spec,
        })
    }
}

impl Draft<Topic> {
    /// What the patterns of subscriptions are matched against: words separated by dots.
    pub fn routing_key(mut self, routing_key: impl Into<String>) -> Self {
        self.to.routing_key = Some(routing_key.into());
        self
    }

    /// Puts one job into the queue of each subscription that wants the message: into all of them or, on error, into none.
    /// No subscription means no job, which is not an error.
    pub async fn publish(self) -> Result<Vec<Pushed>> {
        let (topic, spec) = self.finish()?;
        let message = Message {
            topic: topic.name,
            routing_key: topic.routing_key,
            spec,
        };
        topic.service.publish(message).await
    }
}

/// When and where a schedule pushes; made by [`Queue::cron`] and [`Queue::every`].
#[derive(Clone)]
pub struct Plan {
    queue: Queue,
    name: String,
    rhythm: Rhythm,
    missed: Missed,
    zone: Option<String>,
}

impl Plan {
    pub(crate) fn new(queue: Queue, name: &str, rhythm: Rhythm) -> Plan {
        Plan {
            queue,
            name: name.to_owned(),
            rhythm,
            missed: Missed::default(),
            zone: None,
        }
    }
}

impl Draft<Plan> {
    /// The time zone of a cron expression, such as `Europe/Berlin`. The default is UTC.
    pub fn zone(mut self, zone: impl Into<String>) -> Self {
        self.to.zone = Some(zone.into());
        self
    }

    /// What to do about ticks that nobody was there for. The default is one job for all of them.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.to.missed = missed;
        self
    }

    /// Adds the schedule, or replaces the one with its name.
    pub async fn set(self) -> Result<()> {
        let (mut plan, spec) = self.finish()?;
        match (&mut plan.rhythm, plan.zone) {
            (Rhythm::Cron { zone, .. }, Some(wanted)) => *zone = wanted,
            (Rhythm::Every(_), Some(_)) => {
                return Err(Error::bad_request("an interval has no time zone"));
            }
            (_, None) => {}
        }
        let schedule = Schedule {
            name: plan.name,
            queue: plan.queue.name().clone(),
            rhythm: plan.rhythm,
            missed: plan.missed,
            spec,
            next: None,
            last: None,
        };
        plan.queue.service.change(Change::Schedule(schedule)).await
    }
}
