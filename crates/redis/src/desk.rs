//! Lease calls: each comes to the desk of a shard, and waits there if it may.
//!
//! One task per shard speaks for all lease calls of this process ([`run`]). It asks for those who have just come, unless others who
//! wait for the same found nothing; when Redis tells it of a queue, for the first who wait for that one; and when the next job falls
//! due, or every few seconds to be sure, for the first of each kind ([`round`]). What it got is handed out in the order in
//! which the calls came. While nobody asks, the same task lets happen whose time has come: vanished workers, ended lives, ticks of
//! schedules ([`look`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use auxo_core::engine::Ask;
use auxo_core::job::Leased;
use auxo_core::time::Timestamp;
use auxo_core::{Code, Error, QueueName, Result};
use tokio::sync::{Notify, oneshot};

use crate::confirm;
use crate::script;
use crate::store::Store;

mod look;
mod round;
mod run;

pub use look::catch_up;

/// How long a process that ends tries to tell so.
const FAREWELL: Duration = Duration::from_secs(1);
/// How much later than a call of a script a call that waits for it ends: what became of the script says more.
const GRACE: Duration = Duration::from_millis(100);
/// How many names of queues are told at once.
const PASSED: usize = 100;
/// Of how many queues is remembered when they were last asked for.
const NAMES: usize = 10_000;

/// Who waits for jobs of one shard.
pub struct Desk {
    shard: u16,
    inside: Mutex<Inside>,
    /// Rings when there is something to look for.
    bell: Notify,
}

#[derive(Default)]
struct Inside {
    tickets: u64,
    /// By ticket, so in the order of arrival.
    waiters: BTreeMap<u64, Waiter>,
    /// Has not been asked for yet.
    new: BTreeSet<u64>,
    /// Was asked for in vain, or came after one who was: Redis tells this process when there is something, or its alarm rings.
    in_vain: BTreeSet<u64>,
    /// Was to be asked for, but others came first; and what was told then.
    rest: BTreeSet<u64>,
    rest_told: BTreeMap<QueueName, u16>,
    /// Redis told of these queues; or, of a queue that is spread, the desk of another of its shards, for which so many more are
    /// to be told.
    told: BTreeMap<QueueName, u16>,
    /// Redis may have this process among those who wait for these queues.
    entered: BTreeSet<QueueName>,
    /// Wait until the next round is over.
    over: Vec<oneshot::Sender<()>>,
    /// Look for everybody.
    all: bool,
    /// When a call last named a queue.
    asked: HashMap<QueueName, Timestamp>,
    /// Why the last look failed, if it did.
    trouble: Option<Error>,
    closed: bool,
}

struct Waiter {
    ask: Ask,
    /// By the clock of this process.
    until: Timestamp,
    /// Wants only what is there without further ado.
    at_hand: bool,
    answer: oneshot::Sender<Result<Vec<Leased>>>,
}

impl Inside {
    /// Whether there is something to look for.
    fn is_stirred(&self) -> bool {
        self.all || !(self.rest.is_empty() && self.new.is_empty() && self.told.is_empty())
    }

    fn is_waited_for(&self, queue: &QueueName) -> bool {
        let waits = |waiter: &Waiter| waiter.ask.queues.contains(queue);
        self.waiters.values().any(waits)
    }
}

impl Desk {
    pub fn new(shard: u16) -> Desk {
        Desk {
            shard,
            inside: Mutex::default(),
            bell: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("desk")
    }

    /// Redis told of a queue. If nothing comes of it here, so many other shards of the queue may have a use for it.
    pub fn tell(&self, queue: QueueName, others: u16) {
        let mut inside = self.lock();
        let known = inside.told.entry(queue).or_default();
        *known = others.max(*known);
        drop(inside);
        self.bell.notify_one();
    }

    /// Anything may have changed.
    pub fn look(&self) {
        self.lock().all = true;
        self.bell.notify_one();
    }

    /// Ends every wait.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        for (_, waiter) in std::mem::take(&mut inside.waiters) {
            let _ = waiter.answer.send(Err(closed()));
        }
        self.bell.notify_one();
    }

    /// Ends every wait, and lets others be told of what this process would have been.
    pub async fn leave(&self, store: &Store) {
        self.close();
        let queues: Vec<QueueName> = self.lock().asked.keys().cloned().collect();
        let passing = self.pass_on(store, &queues);
        // Without it others find out by themselves.
        let _ = tokio::time::timeout(FAREWELL, passing).await;
    }

    /// Fails while Redis cannot be asked. Whether the call that found out was done is a matter of that call alone.
    pub fn health(&self) -> Result<()> {
        match &self.lock().trouble {
            Some(error) if error.code() == Code::UnknownOutcome => Err(not_answering()),
            trouble => trouble.clone().map_or(Ok(()), Err),
        }
    }

    /// The shard was away when the store was opened.
    pub fn begin_away(&self, error: Error) {
        self.lock().trouble = Some(error);
        self.look();
    }

    /// Some of the queues that calls of this process named, in the order of their names.
    pub fn names(&self, most: usize) -> Vec<String> {
        let inside = self.lock();
        let mut names: Vec<String> = inside.asked.keys().map(ToString::to_string).collect();
        names.sort_unstable();
        names.truncate(most);
        names
    }

    /// How many calls of this process wait for a queue.
    pub fn waiting(&self, queue: &QueueName) -> u64 {
        let inside = self.lock();
        let waits = |waiter: &&Waiter| waiter.ask.queues.contains(queue);
        inside.waiters.values().filter(waits).count() as u64
    }

    /// A call names a queue.
    pub fn name(&self, queue: &QueueName, now: Timestamp) {
        let mut inside = self.lock();
        if let Some(asked) = inside.asked.get_mut(queue) {
            *asked = now;
            return;
        }
        if inside.asked.len() >= NAMES {
            // Anybody can name queues that there never were.
            inside.asked.clear();
        }
        inside.asked.insert(queue.clone(), now);
    }

    /// When a call of this process last named a queue.
    pub fn asked(&self, queue: &QueueName) -> Option<Timestamp> {
        self.lock().asked.get(queue).copied()
    }

    /// Asks for jobs, and waits for them as long as the ask says, and at most the store's timeout longer. Who wants only what is
    /// at hand asks elsewhere before a queue that is spread is made to give more here.
    pub async fn lease(&self, store: &Arc<Store>, ask: Ask, at_hand: bool) -> Result<Vec<Leased>> {
        // A clock that is turned by hand rings by itself.
        let limit = store.clock.real_wait(ask.wait);
        let limit = limit.map(|wait| wait + store.link.timeout() + GRACE);
        let mut place = {
            let mut inside = self.lock();
            if inside.closed {
                return Err(closed());
            }
            let (answer, answered) = oneshot::channel();
            inside.tickets += 1;
            let ticket = inside.tickets;
            // Of the millisecond that a clock which runs by itself shows, a part is over.
            let runs = store.clock.real_wait(Duration::ZERO).is_some();
            let part = u64::from(runs && !ask.wait.is_zero());
            let until = store.clock.now().steady.plus(ask.wait);
            let until = until.plus(Duration::from_millis(part));
            let waiter = Waiter {
                ask,
                until,
                at_hand,
                answer,
            };
            inside.waiters.insert(ticket, waiter);
            inside.new.insert(ticket);
            Place {
                desk: self,
                store,
                ticket,
                answered,
            }
        };
        self.bell.notify_one();
        let answered = &mut place.answered;
        let answer = match limit {
            Some(limit) => tokio::time::timeout(limit, answered).await,
            None => Ok(answered.await),
        };
        match answer {
            Ok(answer) => answer.unwrap_or_else(|_| Err(closed())),
            Err(_) => Err(self.lock().trouble.clone().unwrap_or_else(|| silent(store))),
        }
    }

    /// Takes this process off the lists of those who wait for a queue, where no call here does any more. Usually that is left to
    /// whoever tells it of the queue; but a queue that is waited for is not forgotten. The desk's own task does it, so that it
    /// cannot cross with a call that begins to wait.
    pub async fn leave_idle(&self) {
        let over = {
            let mut inside = self.lock();
            let entered = std::mem::take(&mut inside.entered);
            let is_waited_for = |queue: &QueueName| inside.is_waited_for(queue);
            let (waited_for, idle): (Vec<_>, Vec<_>) = entered.into_iter().partition(is_waited_for);
            inside.entered = waited_for.into_iter().collect();
            if idle.is_empty() || inside.closed {
                return;
            }
            for queue in idle {
                inside.told.entry(queue).or_default();
            }
            let (done, over) = oneshot::channel();
            inside.over.push(done);
            over
        };
        self.bell.notify_one();
        // A desk that is busy for longer does it later.
        let _ = tokio::time::timeout(FAREWELL, over).await;
    }

    /// Nobody here waits for these queues any more: what this process was told of is for others.
    async fn pass_on(&self, store: &Store, queues: &[QueueName]) {
        for some in queues.chunks(PASSED) {
            let mut call = store.call(&script::WAIT, self.shard);
            call.on_primary().arg(store.process.as_str());
            for queue in some {
                call.arg(queue.as_str());
            }
            // Others look every few seconds in any case.
            let _ = store.run(call).await;
        }
    }
}

/// A place in line. Dropped, it is given up, and what was lent but never picked up goes back.
struct Place<'a> {
    desk: &'a Desk,
    store: &'a Arc<Store>,
    ticket: u64,
    answered: oneshot::Receiver<Result<Vec<Leased>>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inside = self.desk.lock();
        if let Some(waiter) = inside.waiters.remove(&self.ticket) {
            inside.new.remove(&self.ticket);
            // If nobody else here waits for these, whoever is told next must not be us.
            let queues = waiter.ask.queues.into_iter();
            let idle: Vec<_> = queues.filter(|q| !inside.is_waited_for(q)).collect();
            inside.told.extend(idle.into_iter().map(|queue| (queue, 0)));
            self.desk.bell.notify_one();
        }
        drop(inside);
        if let Ok(Ok(unread)) = self.answered.try_recv() {
            confirm::take_back(self.store, unread);
        }
    }
}

/// Redis did not answer when it was last asked.
fn not_answering() -> Error {
    let why = "redis did not answer when it was last asked; it is tried again all the time";
    Error::new(Code::Unavailable, why)
}

/// Redis did not answer in time.
pub fn silent(store: &Store) -> Error {
    let timeout = auxo_core::text::duration(store.link.timeout());
    let why = format!("redis did not answer within {timeout}");
    Error::new(Code::Unavailable, why)
}

pub fn closed() -> Error {
    Error::new(Code::Unavailable, "the engine is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_desk_remembers_of_a_failure_says_nothing_of_the_call_that_failed() {
        let desk = Desk::new(0);
        let lost = "the connection broke; lease may or may not have been done";
        desk.begin_away(Error::new(Code::UnknownOutcome, lost));
        let known = desk.health().unwrap_err();
        assert_eq!(known.code(), Code::Unavailable);
        assert!(!known.message().contains("lease"), "{known}");
    }

    #[test]
    fn names_of_queues_that_never_were_do_not_pile_up() {
        let desk = Desk::new(0);
        for number in 0..3 * NAMES {
            let queue = QueueName::new(&format!("q{number}")).unwrap();
            desk.name(&queue, Timestamp(7));
            assert_eq!(desk.asked(&queue), Some(Timestamp(7)));
        }
        assert!(desk.lock().asked.len() <= NAMES);
    }
}
