//! One job as the model keeps it.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::job::{DeadReason, Holder, Job, JobSpec, Moment, TIMELINE_LENGTH, Ttl};
use auxo_core::life::{Event, State};
use auxo_core::time::{Base, Due, Now, Timestamp, When};
use auxo_core::{JobId, NewJob, QueueName, Token};
use bytes::Bytes;

/// A job. What it waits for, and what it is, is in `phase`.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub id: JobId,
    pub queue: QueueName,
    pub spec: JobSpec,
    pub due: Due,
    /// Its worker vanished: it stands before all others of its priority.
    pub front: bool,
    pub expires: Option<Due>,
    pub created_at: Timestamp,
    pub attempt: u32,
    pub failures: u32,
    pub vanished: u32,
    pub last_error: Option<String>,
    pub progress: Option<Bytes>,
    pub timeline: Vec<Moment>,
    pub phase: Phase,
}

/// Where in its life a job is, with what only matters there.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    Waiting,
    Leased(Lease),
    Dead {
        reason: DeadReason,
        ended_at: Timestamp,
    },
    /// Both times are on the steady clock: until then the job is shown whole, or its key is taken.
    Done {
        ended_at: Timestamp,
        kept_until: Timestamp,
        key_until: Timestamp,
        result: Option<Bytes>,
    },
}

/// The right to a job.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub token: Token,
    pub worker: Arc<str>,
    /// On the steady clock.
    pub deadline: Timestamp,
    pub length: Duration,
    pub cancel: bool,
}

impl Record {
    pub fn new(id: JobId, job: NewJob, now: Now) -> Record {
        let mut record = Record {
            id,
            queue: job.queue,
            due: When::Now.due(now),
            front: false,
            expires: None,
            created_at: now.wall,
            attempt: 0,
            failures: 0,
            vanished: 0,
            last_error: None,
            progress: None,
            timeline: Vec::new(),
            phase: Phase::Waiting,
            spec: JobSpec::default(),
        };
        record.set_spec(job.spec, now);
        record
    }

    /// Takes over all that a client may say, and counts its times from now.
    pub fn set_spec(&mut self, spec: JobSpec, now: Now) {
        self.due = spec.when.due(now);
        self.front = false;
        self.expires = match spec.ttl {
            Ttl::None => None,
            Ttl::After(life) => Some(When::After(life).due(now)),
            Ttl::At(at) => Some(When::At(at).due(now)),
        };
        self.spec = spec;
    }

    pub fn state(&self, now: Now) -> State {
        match self.phase {
            Phase::Waiting if self.front || now.reached(self.due) => State::Ready,
            Phase::Waiting => State::Scheduled,
            Phase::Leased(_) => State::Leased,
            Phase::Dead { .. } => State::Dead,
            Phase::Done { .. } => State::Done,
        }
    }

    /// Whether only its key is left of it.
    pub fn is_tombstone(&self, now: Now) -> bool {
        matches!(self.phase, Phase::Done { kept_until, .. } if kept_until <= now.steady)
    }

    pub fn holds_key(&self, now: Now) -> bool {
        match self.phase {
            Phase::Done { key_until, .. } => key_until > now.steady,
            _ => true,
        }
    }

    pub fn key(&self) -> Option<&str> {
        self.spec.key.as_ref().map(|key| key.name.as_str())
    }

    pub fn expired(&self, now: Now) -> bool {
        self.expires.is_some_and(|expires| now.reached(expires))
    }

    pub fn lease(&self) -> Option<&Lease> {
        match &self.phase {
            Phase::Leased(lease) => Some(lease),
            _ => None,
        }
    }

    /// The place in a queue's line: priority, those whose worker vanished by age, due time, age. Due times of both clocks
    /// are compared as the steady clock shows them.
    pub fn place(&self, now: Now) -> (u32, bool, Timestamp, JobId) {
        let due = match self.front {
            true => Timestamp(0),
            false => now.on_steady(self.due),
        };
        (self.spec.priority, !self.front, due, self.id)
    }

    pub fn note(&mut self, at: Timestamp, event: Event, by: &str, note: &str) {
        self.timeline.push(Moment {
            at,
            event,
            by: by.to_owned(),
            note: note.to_owned(),
        });
        if self.timeline.len() > TIMELINE_LENGTH {
            self.timeline.remove(1);
        }
    }

    /// The job as it is shown.
    pub fn view(&self, now: Now) -> Job {
        let spec = &self.spec;
        let gone = self.is_tombstone(now);
        Job {
            id: self.id,
            queue: self.queue.clone(),
            kind: spec.kind.as_str().into(),
            payload: if gone {
                Bytes::new()
            } else {
                spec.payload.clone()
            },
            headers: spec.headers.clone(),
            priority: spec.priority,
            state: self.state(now),
            run_at: now.on_wall(self.due),
            created_at: self.created_at,
            ttr: spec.ttr,
            expires_at: self.expires.map(|expires| now.on_wall(expires)),
            max_attempts: spec.max_attempts,
            backoff: spec.backoff.clone(),
            key: spec.key.as_ref().map(|key| key.name.clone()),
            key_window: spec.key.as_ref().map_or(Duration::ZERO, |key| key.window),
            group: spec.group.clone(),
            retention: spec.retention,
            attempt: self.attempt,
            failures: self.failures,
            vanished: self.vanished,
            last_error: self.last_error.clone(),
            dead: match self.phase {
                Phase::Dead { reason, .. } => Some(reason),
                _ => None,
            },
            ended_at: match self.phase {
                Phase::Dead { ended_at, .. } | Phase::Done { ended_at, .. } => Some(ended_at),
                _ => None,
            },
            progress: self.progress.clone(),
            result: match &self.phase {
                Phase::Done { result, .. } if !gone => result.clone(),
                _ => None,
            },
            holder: self.lease().map(|lease| Holder {
                worker: lease.worker.clone(),
                deadline: on_wall(lease.deadline, now),
                cancel: lease.cancel,
            }),
            timeline: self.timeline.clone(),
        }
    }
}

/// A moment of the steady clock as the wall clock will show it.
pub(crate) fn on_wall(steady: Timestamp, now: Now) -> Timestamp {
    now.on_wall(Due {
        at: steady,
        base: Base::Steady,
    })
}
