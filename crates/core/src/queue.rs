//! A queue's settings, its counts and its books.

use std::ops::AddAssign;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::QueueName;
use crate::time::{Timestamp, When};

/// How long a queue that has nothing must go unused before it is forgotten.
pub const FORGET_AFTER: Duration = Duration::from_secs(60 * 60);
/// How many queues a store (on Redis, a shard) has at most unless told otherwise.
pub const MAX_QUEUES: u32 = 100_000;

/// What an operator can set on a queue. The default is a queue without limits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// Refuses pushes.
    pub paused_in: bool,
    /// Hands out nothing.
    pub paused_out: bool,
    /// Hands out nothing before then. What is said as a span an engine keeps as the instant that it means by its own clock, so
    /// that a caller whose clock is wrong pauses no longer than it says.
    pub paused_until: Option<When>,
    /// The most jobs that may wait, be leased or be dead at once; a push past it is refused.
    pub max_jobs: Option<u64>,
    /// The most payload bytes these jobs may have together.
    pub max_bytes: Option<u64>,
    /// The most jobs leased at once.
    pub max_leased: Option<u32>,
    /// The most leases in a time.
    pub rate: Option<Rate>,
    /// Jobs of different groups take turns within a priority.
    pub fair: bool,
    /// Over how many shards of the store the queue is spread, for one that is too busy for a single Redis. `None` is one.
    /// Priorities and turns are kept within a shard; all limits hold for all of them together.
    pub shards: Option<u16>,
}

impl QueueConfig {
    /// Pauses a side of the queue, or lets it go on.
    pub fn set_paused(&mut self, side: Side, paused: bool) {
        if side != Side::Out {
            self.paused_in = paused;
        }
        if side != Side::In {
            self.paused_out = paused;
            self.paused_until = None;
        }
    }

    /// Pauses what is handed out for a time. Only that side can.
    pub fn pause_for(&mut self, side: Option<Side>, span: Duration) -> Result<()> {
        if side == Some(Side::In) {
            let text = "for: only handing out can be paused for a time";
            return Err(Error::bad_request(text));
        }
        self.paused_until = Some(When::After(span));
        Ok(())
    }

    /// Whether nothing is handed out while the wall clock shows this.
    pub fn holds_back(&self, wall: Timestamp) -> bool {
        self.paused_out || self.pause_ends(wall).is_some()
    }

    /// When a pause that ends by itself does so, if there is one while the wall clock shows this.
    pub fn pause_ends(&self, wall: Timestamp) -> Option<Timestamp> {
        self.resumes_at().filter(|until| *until > wall)
    }

    /// The instant at which a pause ends or ended by itself.
    pub fn resumes_at(&self) -> Option<Timestamp> {
        match self.paused_until {
            Some(When::At(until)) => Some(until),
            _ => None,
        }
    }

    /// Whether nothing is set, or nothing but a pause that is over when the wall clock shows this.
    pub fn is_unset(&self, wall: Timestamp) -> bool {
        let paused_until = self
            .paused_until
            .filter(|_| self.pause_ends(wall).is_some());
        let in_force = QueueConfig {
            paused_until,
            ..self.clone()
        };
        in_force == QueueConfig::default()
    }

    /// The same settings, as an engine keeps them whose wall clock shows this.
    pub fn kept_from(mut self, wall: Timestamp) -> QueueConfig {
        self.paused_until = match self.paused_until {
            Some(When::After(span)) if !span.is_zero() => Some(When::At(wall.plus(span))),
            Some(When::At(until)) => Some(When::At(until)),
            _ => None,
        };
        self
    }
}

/// Where a queue can be paused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// Where jobs are pushed.
    In,
    /// Where they are handed out.
    Out,
    /// Both.
    #[default]
    Both,
}

/// A token bucket: `count` leases per `per`, and at most `burst` at once after a quiet time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many, at least 1.
    pub count: u32,
    /// In which time, at least a millisecond.
    pub per: Duration,
    /// The size of the bucket, at least 1.
    pub burst: u32,
}

/// How many jobs of a queue are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Wait for their time.
    pub scheduled: u64,
    /// Wait for a worker.
    pub ready: u64,
    /// Are with a worker.
    pub leased: u64,
    /// Are parked.
    pub dead: u64,
    /// Are done and retained.
    pub done: u64,
}

/// Where every job that a queue ever accepted went. [`Books::balanced`] must always hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Books {
    /// Pushes answered with a new job.
    pub accepted: u64,
    /// Scheduled, ready or leased now.
    pub live: u64,
    /// Finished, ever.
    pub done: u64,
    /// Dead now, for any reason but age.
    pub dead: u64,
    /// Dead now because their life ran out.
    pub expired: u64,
    /// Called off, ever.
    pub cancelled: u64,
    /// Deleted or purged before they were done, ever.
    pub deleted: u64,
}

impl Books {
    /// Whether every accepted job is accounted for.
    pub fn balanced(&self) -> bool {
        self.accepted
            == self.live + self.done + self.dead + self.expired + self.cancelled + self.deleted
    }

    /// Whether there is anything in them.
    pub fn is_empty(&self) -> bool {
        *self == Books::default()
    }
}

impl AddAssign for Books {
    fn add_assign(&mut self, other: Books) {
        self.accepted += other.accepted;
        self.live += other.live;
        self.done += other.done;
        self.dead += other.dead;
        self.expired += other.expired;
        self.cancelled += other.cancelled;
        self.deleted += other.deleted;
    }
}

/// A queue as an engine shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueInfo {
    /// Its name.
    pub name: QueueName,
    /// Its settings.
    pub config: QueueConfig,
    /// Its jobs by state.
    pub counts: Counts,
    /// The payload bytes of the jobs that are not done.
    pub bytes: u64,
    /// Where its jobs went.
    pub books: Books,
    /// How many lease calls wait for it now.
    pub waiting: u64,
    /// When a lease call last named it, as far as the engine knows: of its own calls since it was opened, and on a store that several
    /// share also of those of others.
    pub last_asked: Option<Timestamp>,
    /// When its next scheduled job falls due.
    pub next_due: Option<Timestamp>,
    /// When its rate allows the next lease, as the wall clock will show it. `None` while it allows one now.
    pub rate_wait: Option<Timestamp>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_that_is_over_is_no_setting() {
        let mut config = QueueConfig::default();
        assert!(config.is_unset(Timestamp(0)));
        config.paused_until = Some(When::At(Timestamp(10)));
        assert!(!config.is_unset(Timestamp(9)));
        assert!(config.is_unset(Timestamp(10)));
        config.fair = true;
        assert!(!config.is_unset(Timestamp(10)));
    }

    #[test]
    fn books_that_balance_balance_together() {
        let one = Books {
            accepted: 21,
            live: 1,
            done: 2,
            dead: 3,
            expired: 4,
            cancelled: 5,
            deleted: 6,
        };
        let mut both = one;
        both += one;
        assert!(both.balanced() && !both.is_empty());
        assert_eq!((both.accepted, both.deleted), (42, 12));
        assert!(Books::default().is_empty());
    }
}
