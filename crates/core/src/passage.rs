//! Moving jobs from one store to another: a job with its whole life, and the note that lets a move be broken off anywhere.
//!
//! A move is made by somebody who talks to both stores and may be killed at any point, so the stores have to keep it safe. In
//! rounds it asks the source for [`Passage`]s, has the target [adopt](crate::Engine::adopt) them, and lets them
//! [depart](crate::Engine::depart) from the source. In the step that takes jobs in, the target notes which ones: whoever goes on
//! with the move learns from the note what may still be at the source although it is at the target already, also when workers
//! there have long finished it. One round at a time is under way, so a note of the last one is enough.
//!
//! A run of the move names itself when it begins, and from then on the target takes jobs from that run only: what an earlier run
//! sent and what arrives late is refused, and nothing is taken in twice.
//!
//! A move that was broken off must be finished before anything else is done with the queue: from its first step on the source
//! lets its jobs go to that target only, and takes in none. Otherwise jobs that are at both stores could go on to a third, or come
//! back to the source, where the rest of the broken move would take them for those that have left.
//!
//! The source may go on changing while a move reads it. Every passage has a version, and a job that is another one by the time it
//! should depart stays where it is.

use crate::engine::Cursor;
use crate::error::{Error, Result};
use crate::id::JobId;
use crate::job::{Job, Key, QueueName};
use crate::job::{JobSpec, OnDuplicate};
use crate::life::State;
use crate::time::{Base, Due, Now, Timestamp};

/// A job on its way to another store.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The job, which is not leased. One that is done and not retained any more only holds its key.
    pub job: Job,
    /// It stands before all others of its priority, because a worker vanished with it.
    pub front: bool,
    /// The clock that its due time follows.
    pub due: Base,
    /// The clock that the end of its life follows.
    pub expires: Base,
    /// What the source knows this state of the job by.
    pub version: u64,
}

impl Passage {
    /// What a client once said about the job. Its times are in the job itself.
    pub fn spec(&self) -> JobSpec {
        let job = &self.job;
        JobSpec {
            kind: job.kind.to_string(),
            payload: job.payload.clone(),
            headers: job.headers.clone(),
            priority: job.priority,
            ttr: job.ttr,
            max_attempts: job.max_attempts,
            backoff: job.backoff.clone(),
            key: job.key.as_ref().map(|name| Key {
                name: name.clone(),
                on_duplicate: OnDuplicate::default(),
                window: job.key_window,
            }),
            group: job.group.clone(),
            retention: job.retention,
            ..JobSpec::default()
        }
    }

    /// When it is due, on the clock that decides it.
    pub fn due_at(&self, now: Now) -> Due {
        on_clock(self.job.run_at, self.due, now)
    }

    /// When its life ends, on the clock that decides it.
    pub fn expires_at(&self, now: Now) -> Option<Due> {
        let at = self.job.expires_at?;
        Some(on_clock(at, self.expires, now))
    }

    /// Until when it is retained and until when its key is held, as the wall clock shows it, if it is done.
    pub fn kept(&self) -> Option<(Timestamp, Timestamp)> {
        let job = &self.job;
        let ended = job.ended_at.filter(|_| job.state == State::Done)?;
        let window = match job.key {
            Some(_) => job.key_window,
            None => Default::default(),
        };
        Some((ended.plus(job.retention), ended.plus(window)))
    }

    /// Whether it has a key that nobody else may have now.
    pub fn holds_key(&self, now: Timestamp) -> bool {
        self.job.key.is_some() && self.kept().is_none_or(|(_, held)| held > now)
    }

    /// Whether nothing is left of it but its key.
    pub fn is_shadow(&self, now: Timestamp) -> bool {
        self.kept().is_some_and(|(kept, _)| kept <= now)
    }

    /// Refuses numbers that no store can have counted to, and instants that have no place in a record.
    pub fn check_numbers(&self) -> Result<()> {
        let job = &self.job;
        if job.attempt > MOST_ATTEMPTS {
            let attempt = job.attempt;
            return Err(Error::bad_request(format!(
                "attempt: {attempt} cannot be; at most {MOST_ATTEMPTS} is taken in"
            )));
        }
        let ended = u64::from(job.failures) + u64::from(job.vanished);
        if ended > u64::from(job.attempt) {
            let (failures, vanished, attempt) = (job.failures, job.vanished, job.attempt);
            return Err(Error::bad_request(format!(
                "attempt: {failures} failures and {vanished} lost workers cannot be of {attempt} attempts"
            )));
        }
        let times = [
            ("created_at", Some(job.created_at)),
            ("run_at", Some(job.run_at)),
            ("expires_at", job.expires_at),
            ("ended_at", job.ended_at),
        ];
        let moments = job.timeline.iter().map(|one| ("timeline", Some(one.at)));
        for (field, at) in times.into_iter().chain(moments) {
            if let Some(Timestamp(at)) = at
                && at > LAST_TIME.0
            {
                return Err(Error::bad_request(format!(
                    "{field}: {at} ms cannot be; the last instant that is taken in is {LAST_TIME}"
                )));
            }
        }
        Ok(())
    }

    /// The job as the source knows it.
    pub fn leaving(&self) -> Leaving {
        Leaving {
            id: self.job.id,
            version: Some(self.version),
        }
    }
}

/// An instant of the wall clock on the clock that is to decide it.
fn on_clock(at: Timestamp, base: Base, now: Now) -> Due {
    let wall = Due {
        at,
        base: Base::Wall,
    };
    match base {
        Base::Wall => wall,
        Base::Steady => Due {
            at: now.on_steady(wall),
            base,
        },
    }
}

/// More attempts than a job can have had, and room for as many again.
const MOST_ATTEMPTS: u32 = i32::MAX as u32;
/// The end of the year 9999: a calendar has no later one, and every store has room for it.
const LAST_TIME: Timestamp = Timestamp(253_402_300_799_999);

/// A request for jobs to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Of this queue.
    pub queue: QueueName,
    /// Where to go on; `None` starts at the beginning.
    pub cursor: Option<Cursor>,
    /// How many at most; at least 1.
    pub limit: u32,
}

/// Jobs of a queue, in any order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Passages {
    /// What the store is known by, wherever it is and however it is reached. A copy of a store is known by the same.
    pub store: String,
    /// The jobs: all that are not leased, be it that only their key is left.
    pub jobs: Vec<Passage>,
    /// Where to go on. Only a page without it is the last; a page may be empty.
    pub next: Option<Cursor>,
}

/// A job that is to be at another store only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Which job.
    pub id: JobId,
    /// In which state; `None` is in any.
    pub version: Option<u64>,
}

/// A part of a move into a queue, or out of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// Which queue.
    pub queue: QueueName,
    /// The other store, by [`Passages::store`]: the one that jobs come from or, for [`Step::Leave`] and [`Step::Stay`], go to.
    pub store: String,
    /// Who moves them: a number that nobody had before.
    pub run: u64,
    /// What is to be done.
    pub step: Step,
}

/// What is to be done in a move.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Only say how it stands.
    Look,
    /// From now on take jobs from this run only.
    Begin,
    /// Take these in. A limit or a pause of the queue does not keep them out. With none it only shows that no other run has begun.
    Jobs(Vec<Passage>),
    /// The move is over; forget it.
    End,
    /// From now on jobs go from here to that store and to no other, and none come in.
    Leave,
    /// No more jobs go to that store.
    Stay,
}

impl Step {
    /// The step as it is spelled in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Step::Look => "look",
            Step::Begin => "begin",
            Step::Jobs(_) => "jobs",
            Step::End => "end",
            Step::Leave => "leave",
            Step::Stay => "stay",
        }
    }
}

/// How a move stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Adopted {
    /// The jobs that were taken in last, as the source knows them. `None` when no move from there is under way.
    pub last: Option<Vec<Leaving>>,
    /// The store that the queue's jobs go to, if a move from here is under way.
    pub leaving: Option<String>,
    /// For each job that was to be taken in its id here, or why it was not.
    pub results: Vec<Result<JobId>>,
}
