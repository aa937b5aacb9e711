//! One queue as the machine keeps it, and the arithmetic of its counts and books.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, IndexMut};
use std::time::Duration;

use auxo_core::bucket::Bucket;
use auxo_core::job::QueueName;
use auxo_core::queue::{Books, QueueConfig};
use auxo_core::time::{Base, Due, Now, Timestamp};

use super::Ticket;
use super::line::Lanes;
use crate::options::MOST_QUEUES;
use crate::record::{From, Gone, Kept};

pub struct Queue {
    pub name: QueueName,
    pub config: QueueConfig,
    pub books: Books,
    pub leased: u64,
    pub done: u64,
    /// Done jobs of which only the key is left.
    pub tombs: u64,
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
    /// When a call last used it or took something from it, on the steady clock.
    pub used: Timestamp,
    /// When it is looked at to be forgotten, if it may have nothing.
    pub look_at: Option<u64>,
}

/// All queues by their numbers. A number that is free is given to the next new queue: no record that is current has it.
#[derive(Default)]
pub struct Queues {
    /// The last one is there.
    slots: Vec<Option<Box<Queue>>>,
    free: BTreeSet<u32>,
}

impl Queues {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn get(&self, number: u32) -> Option<&Queue> {
        self.slots.get(number as usize)?.as_deref()
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Queue> {
        self.slots.get_mut(number as usize)?.as_deref_mut()
    }

    pub fn numbers(&self) -> impl Iterator<Item = u32> {
        (0..self.slots.len() as u32).filter(|number| self.slots[*number as usize].is_some())
    }

    /// The first number from this one on that a queue has.
    pub fn first_from(&self, number: u32) -> Option<u32> {
        (number..self.slots.len() as u32).find(|number| self.slots[*number as usize].is_some())
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.slots.iter_mut().flatten().map(|queue| &mut **queue)
    }

    /// The number for a new queue.
    pub fn vacant(&self) -> u32 {
        let first = self.free.first().copied();
        first.unwrap_or(self.slots.len() as u32)
    }

    /// Takes in the next queue of a checkpoint. `None` if the numbers do not rise, or one is not below [`MOST_QUEUES`].
    pub fn load(&mut self, number: u32, queue: Queue) -> Option<()> {
        let place = number as usize;
        if place < self.slots.len() || number >= MOST_QUEUES {
            return None;
        }
        self.slots.resize_with(place, || None);
        self.slots.push(Some(Box::new(queue)));
        Some(())
    }

    /// Notes the numbers that are free once all queues of a checkpoint are loaded: one by one, those of a store that once had
    /// many queues would take longer than all the rest.
    pub fn note_free(&mut self) {
        let all = 0..self.slots.len() as u32;
        let is_free = |number: &u32| self.slots[*number as usize].is_none();
        self.free = all.filter(is_free).collect();
    }

    /// Puts a new queue where [`Queues::vacant`] says.
    pub fn insert(&mut self, number: u32, queue: Queue) {
        if number as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.free.remove(&number);
        self.slots[number as usize] = Some(Box::new(queue));
    }

    pub fn remove(&mut self, number: u32) -> Option<Queue> {
        let queue = self.slots.get_mut(number as usize)?.take()?;
        self.free.insert(number);
        while let Some(None) = self.slots.last() {
            self.slots.pop();
            self.free.remove(&(self.slots.len() as u32));
        }
        Some(*queue)
    }
}

impl Index<usize> for Queues {
    type Output = Queue;

    fn index(&self, number: usize) -> &Queue {
        self.slots[number]
            .as_deref()
            .expect("a queue that is there")
    }
}

impl IndexMut<usize> for Queues {
    fn index_mut(&mut self, number: usize) -> &mut Queue {
        self.slots[number]
            .as_deref_mut()
            .expect("a queue that is there")
    }
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
            tombs: 0,
            bytes: 0,
            lined: [Lined::default(); 2],
            lanes: Lanes::default(),
            bucket: None,
            waiters: BTreeMap::new(),
            dirty: false,
            alarm: None,
            last_asked: None,
            used: Timestamp(0),
            look_at: None,
        }
    }

    pub fn lined(&mut self, base: Base) -> &mut Lined {
        &mut self.lined[base as usize]
    }

    /// Whether it has a job, a held key or a waiting call.
    pub fn has_something(&self) -> bool {
        self.held() + self.done + self.tombs > 0 || !self.waiters.is_empty()
    }

    /// How many jobs count against the queue's limit.
    pub fn held(&self) -> u64 {
        self.books.live + self.books.dead + self.books.expired
    }

    /// Books a job record out: where the job was, and what it weighed.
    pub fn leave(&mut self, from: From, payload: u32, line: Due) {
        match from {
            From::Nowhere => return,
            From::Tomb => {
                less(&mut self.tombs, 1);
                return;
            }
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
                match kept {
                    Kept::Done => self.done += 1,
                    _ => self.tombs += 1,
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

    /// How many leases the rate allows now. The bucket lives by the time that lease records have, so that it is asked and paid
    /// by one clock, while the store runs and when it is opened again.
    pub fn tokens(&mut self, now: Now) -> u32 {
        let Some(rate) = self.config.rate else {
            return u32::MAX;
        };
        self.bucket
            .get_or_insert_with(|| Bucket::full(rate, now.ceiling))
            .available(rate, now.ceiling)
    }

    /// When the rate allows the next lease, on the steady clock; `now` if it allows one.
    pub fn next_token(&self, now: Now) -> Timestamp {
        let wait = match (self.config.rate, &self.bucket) {
            (Some(rate), Some(bucket)) => bucket.next_at(rate, now.ceiling).since(now.ceiling),
            _ => Duration::ZERO,
        };
        now.steady.plus(wait)
    }

    /// Pays for leases that were made at this time.
    pub fn pay(&mut self, count: u32, at: Timestamp) {
        if let Some(rate) = self.config.rate {
            self.bucket
                .get_or_insert_with(|| Bucket::full(rate, at))
                .take(rate, at, count);
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

    #[test]
    fn a_free_number_is_given_again() {
        let queue = |name: &str| Queue::new(QueueName::new(name).unwrap(), QueueConfig::default());
        let mut queues = Queues::default();
        for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            assert_eq!(queues.vacant(), number as u32);
            queues.insert(number as u32, queue(name));
        }
        assert_eq!(queues.remove(1).unwrap().name.as_str(), "b");
        assert!(queues.remove(1).is_none() && queues.remove(9).is_none());
        assert_eq!((queues.len(), queues.vacant()), (3, 1));
        assert_eq!(
            (queues.first_from(1), queues.first_from(4)),
            (Some(2), None)
        );
        assert_eq!(queues.numbers().collect::<Vec<_>>(), [0, 2, 3]);
        // Those at the end leave nothing behind.
        queues.remove(3);
        queues.remove(2);
        assert_eq!((queues.slots.len(), queues.free.len()), (1, 0));
    }

    #[test]
    fn queues_are_loaded_where_they_were() {
        let queue = |name: &str| Queue::new(QueueName::new(name).unwrap(), QueueConfig::default());
        let mut queues = Queues::default();
        assert!(queues.load(0, queue("a")).is_some() && queues.load(5, queue("f")).is_some());
        assert!(queues.load(5, queue("g")).is_none() && queues.load(0, queue("g")).is_none());
        queues.note_free();
        assert_eq!((queues.len(), queues.vacant()), (2, 1));
        let names = queues.iter_mut().map(|queue| queue.name.to_string());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "f"]);
        for number in [1, 2, 3, 4, 6] {
            assert_eq!(queues.vacant(), number);
            queues.insert(number, queue("new"));
        }
    }
}
