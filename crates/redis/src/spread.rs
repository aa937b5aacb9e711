//! Queues that are spread over several shards.
//!
//! A queue has a home, the shard that its name names, and may be spread over that one and those that follow it: its places 0, 1,
//! 2… Each place has a copy of the queue's settings, and with them how the queue is spread:
//!
//! - `count`: over how many places jobs are pushed. One with a key goes to the place that the key chooses among them, so that
//!   nobody but that place must be asked whether the key is free.
//! - `low` and `reach`: between which numbers of places the count was since the oldest job of the queue was pushed. Jobs are lent
//!   from all `reach` places; and a key may still be held in any place that it would have chosen under a count in between.
//! - `extent`: how many places there ever were. They have books to show.
//! - `epoch`: grows with each change. A push names the epoch it was planned in, and a place that is in another one refuses it.
//!
//! A change goes from place to place: all are frozen, and only when nobody can push by the old rule any more they are thawed with
//! the new one. The plan is kept at home, so whoever finds a place frozen can complete the change of one who did not. If Redis loses
//! a change, what home knows holds; where only some of the places lost it, the auditor begins another one for all of them.
//!
//! Limits hold for all places together. Of `max_jobs`, `max_bytes` and `max_leased` each place has a share, which it can check
//! alone; a place that needs more gets it from the others, which give first. The rate is kept at home, and leases are paid for
//! there. So no limit is ever exceeded; what a process took and did not put where it belongs when it was killed is missing until
//! the auditor deals anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use auxo_core::QueueName;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::bytes::{Pack, Unpack};
use crate::store::{Store, hash, mixed};

mod change;
mod room;

pub use change::{agree, allow, allow_schedule, change, refresh, regroup, seen, tidy};
pub use room::{Said, gather, help, pack_tokens};

/// As much as Lua can count; a larger limit is none.
const MOST: u64 = 1 << 53;

/// How a queue is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub epoch: u32,
    pub changing: bool,
    pub count: u16,
    pub low: u16,
    pub reach: u16,
    pub extent: u16,
    /// A lease that ends in one place makes room in another.
    pub limited: bool,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread {
            epoch: 0,
            changing: false,
            count: 1,
            low: 1,
            reach: 1,
            extent: 1,
            limited: false,
        }
    }
}

/// What a place may use of each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    pub jobs: u64,
    pub bytes: u64,
    pub leased: u64,
}

impl Shares {
    fn of(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Jobs => self.jobs,
            Limit::Bytes => self.bytes,
            Limit::Leased => self.leased,
        }
    }

    pub fn read(unpack: &mut Unpack<'_>) -> Option<Shares> {
        Some(Shares {
            jobs: unpack.u64()?,
            bytes: unpack.u64()?,
            leased: unpack.u64()?,
        })
    }

    pub fn write(&self, pack: &mut Pack) {
        pack.u64(self.jobs).u64(self.bytes).u64(self.leased);
    }
}

/// The limits of which each place has a share, as the scripts know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    Jobs,
    Bytes,
    Leased,
}

impl Limit {
    fn name(self) -> &'static str {
        match self {
            Limit::Jobs => "jobs",
            Limit::Bytes => "bytes",
            Limit::Leased => "leased",
        }
    }
}

impl Spread {
    pub fn read(unpack: &mut Unpack<'_>, limited: bool) -> Option<Spread> {
        Some(Spread {
            epoch: unpack.u32()?,
            changing: unpack.u8()? == 1,
            count: unpack.u16()?,
            low: unpack.u16()?,
            reach: unpack.u16()?,
            extent: unpack.u16()?,
            limited,
        })
    }

    pub fn write(&self, pack: &mut Pack) {
        pack.u32(self.epoch).flag(self.changing);
        for places in [self.count, self.low, self.reach, self.extent] {
            pack.u16(places.into());
        }
    }

    /// The place among the first `count` that a key chooses. With another count most keys choose the same.
    fn choice(key: &str, count: u16) -> u16 {
        let weight = |place: &u16| mixed(hash([&place.to_be_bytes(), key.as_bytes()]));
        (0..count).max_by_key(weight).unwrap_or_default()
    }

    /// The places in which a key may be held, that in which it is to be last.
    pub fn places_of(&self, key: &str) -> Vec<u16> {
        let now = Spread::choice(key, self.count);
        let mut places: Vec<u16> = (self.low..=self.reach)
            .map(|count| Spread::choice(key, count))
            .filter(|place| *place != now)
            .collect();
        places.sort_unstable();
        places.dedup();
        places.push(now);
        places
    }
}

/// What this process knows of the queues that are spread; all others are at home.
pub struct Spreads {
    known: Mutex<HashMap<QueueName, Heard>>,
    /// Nearly always there are none, and nobody needs to look.
    any: AtomicBool,
    /// Counts what was learned, for those who wait where a queue was.
    learned: watch::Sender<u64>,
    /// When somebody began to look for room for leases of a queue, and there was none.
    in_vain: Mutex<HashMap<QueueName, Arc<InVain>>>,
}

type InVain = tokio::sync::Mutex<Option<Instant>>;

/// How a queue is spread, and when that was heard.
#[derive(Clone, Copy)]
struct Heard {
    spread: Spread,
    at: Instant,
}

impl Default for Spreads {
    fn default() -> Spreads {
        Spreads {
            known: Mutex::default(),
            any: AtomicBool::new(false),
            learned: watch::channel(0).0,
            in_vain: Mutex::default(),
        }
    }
}

impl Spreads {
    /// How a queue is spread, as far as it is known here.
    pub fn of(&self, queue: &QueueName) -> Spread {
        if !self.any.load(Ordering::Acquire) {
            return Spread::default();
        }
        let known = self.known.lock().expect("spreads");
        known
            .get(queue)
            .map_or_else(Spread::default, |heard| heard.spread)
    }

    /// Tells when something new is learned.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.learned.subscribe()
    }

    fn in_vain(&self, queue: &QueueName) -> Arc<InVain> {
        let mut in_vain = self.in_vain.lock().expect("spreads");
        in_vain.entry(queue.clone()).or_default().clone()
    }

    /// Whether room for leases of a queue was last looked for in vain.
    pub fn lacks_room(&self, queue: &QueueName) -> bool {
        let in_vain = self.in_vain.lock().expect("spreads").get(queue).cloned();
        // Where somebody looks just now, it is not known yet.
        in_vain.is_some_and(|vain| vain.try_lock().map_or(true, |vain| vain.is_some()))
    }

    /// A place of a queue says how it is spread. It may be behind.
    fn learn(&self, queue: &QueueName, spread: Spread) {
        self.hear(queue, spread, None);
    }

    /// The home of a queue, asked at some time, says how it is spread. That holds though more was known before: Redis may have
    /// lost what was newer. Only who was asked before that was heard may just be late.
    fn believe(&self, queue: &QueueName, spread: Spread, asked: Instant) {
        self.hear(queue, spread, Some(asked));
    }

    fn hear(&self, queue: &QueueName, spread: Spread, asked: Option<Instant>) {
        let mut known = self.known.lock().expect("spreads");
        let old = known.get(queue).map(|heard| (heard.spread, heard.at));
        let news = match (old, asked) {
            (None, _) => spread.epoch > 0,
            (Some((old, _)), _) if spread.epoch > old.epoch => true,
            (Some((old, at)), Some(asked)) => asked > at && spread != old,
            (Some(_), None) => false,
        };
        if news {
            let at = Instant::now();
            known.insert(queue.clone(), Heard { spread, at });
            self.any.store(true, Ordering::Release);
            drop(known);
            self.learned.send_modify(|count| *count += 1);
        }
    }
}

impl Store {
    /// The shard in which a place of a queue is.
    pub fn place(&self, queue: &QueueName, place: u16) -> u16 {
        let shard = u32::from(self.shard_of(queue)) + u32::from(place);
        (shard % u32::from(self.shards)) as u16
    }

    /// The shards from which jobs of a queue are lent, home first.
    pub fn reach(&self, queue: &QueueName) -> Vec<u16> {
        let reach = self.spreads.of(queue).reach;
        (0..reach).map(|place| self.place(queue, place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_moves_only_to_a_place_that_is_new_and_from_one_that_goes() {
        let mut moved = 0;
        for number in 0..1000 {
            let key = format!("key {number}");
            let (four, five) = (Spread::choice(&key, 4), Spread::choice(&key, 5));
            assert!(five == four || five == 4);
            moved += u32::from(five != four);
        }
        assert!((120..280).contains(&moved), "a fifth: {moved}");
    }

    #[test]
    fn a_key_may_be_wherever_it_was_chosen_to_be() {
        let spread = Spread {
            low: 1,
            count: 3,
            reach: 8,
            ..Spread::default()
        };
        for number in 0..1000 {
            let key = format!("key {number}");
            let places = spread.places_of(&key);
            for count in 1..=8 {
                assert!(places.contains(&Spread::choice(&key, count)));
            }
            assert_eq!(places.last(), Some(&Spread::choice(&key, 3)));
        }
        let settled = Spread {
            low: 3,
            reach: 3,
            ..spread
        };
        assert_eq!(settled.places_of("key").len(), 1);
    }
}
