//! One queue as the machine keeps it, and the arithmetic of its counts and books.

use std::collections::BTreeMap;

use auxo_core::bucket::Bucket;
use auxo_core::job::QueueName;
use auxo_core::queue::{Books, QueueConfig};
use auxo_core::time::{Base, Due, Timestamp};

use super::Ticket;
use super::line::Lanes;
use crate::record::{From, Gone, Kept};

pub struct Queue {
    pub name: QueueName,
    pub config: QueueConfig,
    pub books: Books,
    pub leased: u64,
    pub done: u64,
    pub bytes: u64,
    pub lined: [Lined; 2],
    pub lanes: Lanes,
    pub bucket: Option<Bucket>,
    /// Lease calls that wait for this queue, by when they came.
    pub waiters: BTreeMap<u64, Ticket>,
    /// Something changed for those who wait, and nobody has looked yet.
    pub dirty: bool,
    /// When somebody must look at the queue again, on the steady clock.
    pub alarm: Option<u64>,
    pub last_asked: Option<Timestamp>,
}

/// How many jobs are in line by one clock. Whether a job is ready is a matter of time, and nobody counts along as time
/// passes: `frontier` is the moment up to which jobs are counted as ready, and it is moved, counting those in between,
/// when somebody asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lined {
    pub frontier: u64,
    pub ready: u64,
    pub later: u64,
}

impl Lined {
    fn side(&mut self, time: u64) -> &mut u64 {
        if time <= self.frontier {
            &mut self.ready
        } else {
            &mut self.later
        }
    }

    /// Moves the frontier over so many jobs.
    pub fn pass(&mut self, now: u64, passed: u64) {
        let (from, to) = if now > self.frontier {
            (&mut self.later, &mut self.ready)
        } else {
            (&mut self.ready, &mut self.later)
        };
        less(from, passed);
        *to += passed;
        self.frontier = now;
    }

    /// Moves the frontier without counting, if there is nothing to count.
    pub fn follow(&mut self, now: u64) -> bool {
        let nothing = if now >= self.frontier {
            self.later == 0
        } else {
            self.ready == 0
        };
        if nothing {
            self.frontier = now;
        }
        nothing || self.frontier == now
    }
}

impl Queue {
    pub fn new(name: QueueName, config: QueueConfig) -> Queue {
        Queue {
            name,
            config,
            books: Books::default(),
            leased: 0,
            done: 0,
            bytes: 0,
            lined: [Lined::default(); 2],
            lanes: Lanes::default(),
            bucket: None,
            waiters: BTreeMap::new(),
            dirty: false,
            alarm: None,
            last_asked: None,
        }
    }

    pub fn lined(&mut self, base: Base) -> &mut Lined {
        &mut self.lined[base as usize]
    }

    /// How many jobs count against the queue's limit.
    pub fn held(&self) -> u64 {
        self.books.live + self.books.dead + self.books.expired
    }

    /// Books a job record out: where the job was, and what it weighed.
    pub fn leave(&mut self, from: From, payload: u32, line: Due) {
        match from {
            From::Nowhere | From::Tomb => return,
            From::Waiting => less(self.lined(line.base).side(line.at.0), 1),
            From::Leased => less(&mut self.leased, 1),
            From::Dead => less(&mut self.books.dead, 1),
            From::Expired => less(&mut self.books.expired, 1),
            From::Done => {
                less(&mut self.done, 1);
                return;
            }
        }
        if matches!(from, From::Waiting | From::Leased) {
            less(&mut self.books.live, 1);
        }
        less(&mut self.bytes, u64::from(payload));
    }

    /// Books a job record in.
    pub fn enter(&mut self, from: From, kept: Kept, expired: bool, payload: u32, line: Due) {
        if from == From::Nowhere {
            self.books.accepted += 1;
        }
        match kept {
            Kept::Waiting => {
                self.books.live += 1;
                *self.lined(line.base).side(line.at.0) += 1;
            }
            Kept::Dead if expired => self.books.expired += 1,
            Kept::Dead => self.books.dead += 1,
            Kept::Done | Kept::Tomb => {
                if kept == Kept::Done {
                    self.done += 1;
                }
                if !matches!(from, From::Done | From::Tomb) {
                    self.books.done += 1;
                }
                return;
            }
        }
        self.bytes += u64::from(payload);
    }

    /// Books a job that left the store.
    pub fn gone(&mut self, how: Gone, from: From) {
        match how {
            Gone::Cancelled => self.books.cancelled += 1,
            Gone::Taken => self.books.done += 1,
            // What was done before stays counted as done.
            Gone::Deleted if !matches!(from, From::Done | From::Tomb) => self.books.deleted += 1,
            Gone::Deleted | Gone::Forgotten => {}
            Gone::Moved => {
                less(&mut self.books.accepted, 1);
                if matches!(from, From::Done | From::Tomb) {
                    less(&mut self.books.done, 1);
                }
            }
        }
    }

    /// A job in line is leased.
    pub fn lease(&mut self, line: Due) {
        less(self.lined(line.base).side(line.at.0), 1);
        self.leased += 1;
    }
}

/// Takes from a count. Only a log that contradicts itself can ask for more than there is: the count then stays at zero,
/// and the audit finds the difference, where a wrapped one would stop the queue for good.
fn less(count: &mut u64, by: u64) {
    // A fuzzer contradicts on purpose.
    debug_assert!(
        *count >= by || cfg!(feature = "fuzzing"),
        "{by} taken from a count of {count}"
    );
    *count = count.saturating_sub(by);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "taken from a count of 2"))]
    fn a_frontier_that_passes_more_jobs_than_are_counted_wraps_nothing() {
        let mut lined = Lined {
            frontier: 10,
            ready: 0,
            later: 2,
        };
        lined.pass(20, 1);
        assert_eq!((lined.frontier, lined.ready, lined.later), (20, 1, 1));
        lined.pass(5, 1);
        assert_eq!((lined.frontier, lined.ready, lined.later), (5, 0, 2));
        lined.pass(30, 3);
        assert_eq!((lined.frontier, lined.ready, lined.later), (30, 3, 0));
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "taken from a count of 0"))]
    fn a_job_that_leaves_twice_does_not_wrap_the_books() {
        let name = QueueName::new("q").expect("a good name");
        let mut queue = Queue::new(name, QueueConfig::default());
        let line = Due {
            at: Timestamp(0),
            base: Base::Steady,
        };
        queue.leave(From::Waiting, 10, line);
        assert_eq!((queue.books.live, queue.bytes, queue.held()), (0, 0, 0));
    }
}
