//! The state machine: (state, operation, now) gives (state, records, answers), and nothing else plays a part.
//!
//! It owns all queue state and knows no locks: one thread at a time has it. It reads from the disk when a job is not in memory, but
//! never writes to it: records collect in the log's current group, and what must be done beside is left in the
//! [`Outbox`]. Whoever drives it writes the groups, runs the tasks and sends the answers, in the engine with threads, in
//! the simulation step by step from a seed.
//!
//! Each change of state is a record, and each record is taken in by an `absorb_…` function that recovery calls as well:
//! what a restart rebuilds is what the running machine had.

mod absorb;
mod audit;
mod catalog;
mod checkpoint;
pub mod classes;
mod forget;
mod import;
mod lease;
mod line;
mod list;
mod passage;
mod push;
mod queue;
mod recovery;
mod settle;
mod steer;
mod timers;
mod upkeep;
mod view;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use auxo_core::engine::{
    Ask, Audit, Catalog, Change, Extend, Extended, Message, Order, Page, Pushed, Query, Settle,
    Settled, Steered, Which,
};
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::life::Event;
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::schedule::Schedule;
use auxo_core::time::{Now, Timestamp};
use auxo_core::topic::Subscription;
use auxo_core::{Code, Error, JobId, NewJob, QueueName, Result};
use bytes::Bytes;
use hashbrown::HashMap;

pub use self::import::Survey;
pub use self::push::weight;
use self::queue::Queues;
pub use self::upkeep::{Done, Task};
use crate::clock::Boot;
use crate::damage::Trouble;
use crate::dice::Dice;
use crate::log::{Log, Write};
use crate::record::{Note, Place, Position, Record, Way};
use crate::stream::Stream;

/// Names a call whose answer is awaited.
pub type Ticket = u64;

/// Something to do, as the engine's callers ask for it.
pub enum Op {
    Push(Vec<NewJob>),
    Lease(Ask),
    Settle(Vec<Settle>),
    Extend(Vec<Extend>),
    Find(Which),
    List(Query),
    Steer(Order),
    Queues(Option<Vec<QueueName>>),
    Forgotten,
    Change(Change),
    Catalog,
    Publish(Message),
    Passages(Departure),
    Depart(QueueName, Vec<Leaving>),
    Adopt(Adoption),
    Audit,
}

/// The answer to an [`Op`].
pub enum Reply {
    Push(Vec<Result<Pushed>>),
    Lease(Vec<Leased>),
    Settle(Vec<Result<Settled>>),
    Extend(Vec<Result<Extended>>),
    Find(Option<Box<Job>>),
    List(Page),
    Steer(Steered),
    Queues(Vec<QueueInfo>),
    Forgotten(Books),
    Change,
    Catalog(Catalog),
    Publish(Vec<Pushed>),
    Passages(Passages),
    Depart(Vec<Result<()>>),
    Adopt(Adopted),
    Audit(Audit),
}

/// An answer, and what must have happened to the records so far before it may be given.
pub struct Answer {
    pub ticket: Ticket,
    pub reply: Result<Reply>,
    pub after: After,
}

/// What an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum After {
    /// Nothing: it changed nothing.
    Nothing,
    /// The records are in the file: a kill does not undo them.
    Written,
    /// The records are as safe as the engine was told to make them.
    Synced,
}

/// What the machine wants done.
#[derive(Default)]
pub struct Outbox {
    pub answers: Vec<Answer>,
    pub writes: Vec<Write>,
    pub tasks: Vec<Task>,
    pub notices: Vec<Notice>,
}

/// What a machine is built with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The size of a segment's file.
    pub segment_size: u64,
    /// This process, as timelines name it.
    pub node: Arc<str>,
    /// The most queues there may be; see [`forget`].
    pub max_queues: u32,
    /// Whether zeros are laid in front of the log: syncs are quicker then, which is for those who wait for them.
    pub pave: bool,
}

/// A step that may find the disk in trouble.
type Step<T> = std::result::Result<T, Trouble>;

/// See the module.
pub struct Machine {
    settings: Settings,
    log: Log,
    dice: Dice,
    queues: Queues,
    by_name: HashMap<QueueName, u32>,
    leases: HashMap<u64, Held>,
    /// Deadlines of leases, with the token's counter; entries of leases that ended or were prolonged stay until met.
    deadlines: BinaryHeap<Reverse<(u64, u64, u64)>>,
    /// Jobs with a time to live, by the clock that ends it.
    expiry: [Stream; 2],
    /// Done jobs and tombstones, by when they are forgotten.
    keep: Stream,
    /// Places of keys in segments that have no index file.
    recent_keys: HashMap<u64, Vec<Place>>,
    /// Dead and done jobs in such segments, by queue, time and id.
    recent_dead: BTreeMap<(u32, u64, u64), Place>,
    recent_done: BTreeMap<(u32, u64, u64), Place>,
    subscriptions: BTreeMap<(String, String), Subscription>,
    schedules: BTreeMap<String, Schedule>,
    /// How many schedules and subscriptions make jobs for a queue, which need not be there yet.
    bound: HashMap<QueueName, u32>,
    /// The books of all forgotten queues.
    forgotten: Books,
    /// Queues that may have nothing, by when they are looked at to be forgotten.
    unused: BTreeSet<(u64, u32)>,
    /// The clocks, as the operation under way was told.
    moment: Now,
    /// What the store is known by, if anybody has asked.
    identity: String,
    /// How moves from and to other stores stand.
    notes: BTreeMap<(u32, Way), Note>,
    last_id: JobId,
    /// How many leases were ever given.
    counter: u64,
    /// Behind the record with which this process opened the log.
    opened: Position,
    /// The steady clock when the last group was committed; a restart does not go behind it.
    stamp: Timestamp,
    boot: Option<Boot>,
    waiting: HashMap<Ticket, Waiter>,
    /// Who waits for queues that do not exist yet.
    strangers: HashMap<QueueName, BTreeMap<u64, Ticket>>,
    /// How many lease calls have waited.
    arrivals: u64,
    wait_ends: BTreeSet<(u64, Ticket)>,
    alarms: BTreeSet<(u64, u32)>,
    /// Queues in which something changed for those who wait, each once.
    dirty: Vec<u32>,
    /// The earliest tick of a schedule on the steady clock, if it is known.
    next_tick: Option<u64>,
    /// How far the wall clock was ahead of the steady one.
    lead: Option<i64>,
    /// How often the wall clock was stepped by more than a second.
    pub wall_steps: u64,
    /// Up to where the log is on the disk; told by whoever writes it.
    pub synced: Position,
    /// Up to where the log is in the files.
    pub written: Position,
    /// The checkpoint on the disk covers the log up to here. What lies before was synced for it, whoever else syncs.
    checkpointed: Position,
    upkeep: upkeep::Upkeep,
    audits: audit::Audits,
    /// Whether somebody watches.
    pub watched: bool,
    sequence: u64,
    /// Why the machine does nothing any more.
    broken: Option<Error>,
    pub out: Outbox,
}

/// A lease that runs.
#[derive(Clone, Debug)]
struct Held {
    place: Place,
    queue: u32,
    counter: u64,
    nonce: u64,
    /// On the steady clock.
    deadline: u64,
    ttr: u32,
    /// On the wall clock.
    leased_at: Timestamp,
    worker: Arc<str>,
    attempt: u32,
    payload: u32,
    weight: u32,
    plain: bool,
    cancel: bool,
    progress: Option<Bytes>,
}

/// A lease call that waits.
struct Waiter {
    ask: Ask,
    until: u64,
    /// Its number among all that ever waited.
    arrival: u64,
}

impl Machine {
    /// Does one operation. The answer, or in the case of a lease that waits the later answer, goes to the outbox.
    pub fn apply(&mut self, ticket: Ticket, op: Op, now: Now) {
        if let Some(error) = &self.broken {
            let reply = Err(error.clone());
            self.out.answers.push(Answer {
                ticket,
                reply,
                after: After::Nothing,
            });
            return;
        }
        self.moment = now;
        let room = self.make_room(now);
        let before = self.log.position();
        match room.and_then(|()| self.step(ticket, op, now)) {
            Ok(Some((reply, after))) => self.out.answers.push(Answer {
                ticket,
                reply,
                after,
            }),
            Ok(None) => {}
            Err(trouble) => {
                let mut error = self.fail(trouble);
                if self.log.position() != before {
                    // Its first records are in the group, which is written whatever comes after.
                    let message = format!(
                        "{}; this was half done by then: it may or may not have happened",
                        error.message()
                    );
                    error = Error::new(Code::UnknownOutcome, message);
                }
                self.out.answers.push(Answer {
                    ticket,
                    reply: Err(error),
                    after: After::Nothing,
                });
            }
        }
    }

    fn step(&mut self, ticket: Ticket, op: Op, now: Now) -> Step<Option<(Result<Reply>, After)>> {
        let read = |reply| Ok(Some((Ok(reply), After::Nothing)));
        let write = |reply| Ok(Some((Ok(reply), After::Synced)));
        match op {
            Op::Push(jobs) => write(Reply::Push(self.push_all(jobs, now)?)),
            Op::Lease(ask) => match self.lease(&ask, now)? {
                Ok(Some((leased, after))) => Ok(Some((Ok(Reply::Lease(leased)), after))),
                Err(refused) => Ok(Some((Err(refused), After::Nothing))),
                Ok(None) if ask.wait.is_zero() || ask.job.is_some() => {
                    read(Reply::Lease(Vec::new()))
                }
                Ok(None) => {
                    self.wait(ticket, ask, now);
                    Ok(None)
                }
            },
            Op::Settle(items) => write(Reply::Settle(self.settle_all(items, now)?)),
            Op::Extend(items) => {
                let extended = self.extend_all(items, now);
                Ok(Some((Ok(Reply::Extend(extended)), After::Written)))
            }
            Op::Find(which) => read(Reply::Find(self.find(&which, now)?.map(Box::new))),
            Op::List(query) => Ok(Some((
                self.list(&query, now)?.map(Reply::List),
                After::Nothing,
            ))),
            Op::Steer(order) => Ok(Some((
                self.steer(order, now)?.map(Reply::Steer),
                After::Synced,
            ))),
            Op::Queues(names) => read(Reply::Queues(self.show_queues(names, now)?)),
            Op::Forgotten => read(Reply::Forgotten(self.show_forgotten(now)?)),
            Op::Change(change) => Ok(Some((
                self.change(change, now)?.map(|()| Reply::Change),
                After::Synced,
            ))),
            Op::Catalog => read(Reply::Catalog(self.catalog())),
            Op::Publish(message) => Ok(Some((
                self.publish(message, now)?.map(Reply::Publish),
                After::Synced,
            ))),
            // The first to ask makes a name for the store, which is to last.
            Op::Passages(departure) => Ok(Some((
                self.passages(&departure, now)?.map(Reply::Passages),
                After::Synced,
            ))),
            Op::Depart(queue, jobs) => write(Reply::Depart(self.depart_all(&queue, jobs, now)?)),
            Op::Adopt(adoption) => Ok(Some((
                self.adopt(adoption, now)?.map(Reply::Adopt),
                After::Synced,
            ))),
            Op::Audit => {
                let audit = self.audit(ticket)?;
                Ok(audit.map(|audit| (Ok(Reply::Audit(audit)), After::Nothing)))
            }
        }
    }

    /// Serves who waits, keeps the log short, and closes the group of records. To be called after a batch of operations.
    pub fn finish(&mut self, now: Now) {
        if self.broken.is_none()
            && let Err(trouble) = self.serve_dirty(now)
        {
            self.fail(trouble);
        }
        self.tend(now);
        self.commit(now);
        self.log.trim_tail(self.written);
    }

    fn commit(&mut self, now: Now) {
        self.stamp = self.stamp.max(now.steady);
        if let Some(write) = self.log.commit(self.safe(), self.stamp) {
            self.out.writes.push(write);
        }
    }

    /// Up to where the log is known to be on the disk.
    fn safe(&self) -> Position {
        self.synced.max(self.checkpointed)
    }

    /// Stops for good: what cannot be read or written must not be guessed at.
    pub fn fail(&mut self, trouble: Trouble) -> Error {
        let error = Error::from(trouble);
        self.stop(error.clone());
        error
    }

    /// Stops for good, answering everybody who waits.
    pub fn stop(&mut self, error: Error) {
        if self.broken.is_none() {
            self.broken = Some(error.clone());
        }
        for (ticket, _) in self.waiting.drain() {
            self.out.answers.push(Answer {
                ticket,
                reply: Err(error.clone()),
                after: After::Nothing,
            });
        }
        self.stop_audits(&error);
        self.wait_ends.clear();
        self.alarms.clear();
    }

    /// Why the machine stopped, if it did.
    pub fn broken(&self) -> Option<&Error> {
        self.broken.as_ref()
    }

    /// Where the steady clock stands in the last boot of the machine that is known.
    pub fn boot(&self) -> Option<&Boot> {
        self.boot.as_ref()
    }

    /// Keeps where the steady clock stands now. Where that is not known, what was known stays.
    pub fn set_boot(&mut self, boot: Option<Boot>) {
        if let Some(boot) = boot
            && self.boot.as_ref() != Some(&boot)
        {
            self.log.append(&Record::Boot(boot.clone()));
            self.boot = Some(boot);
        }
    }

    /// The steady clock must not show less than this.
    pub fn stamp(&self) -> Timestamp {
        self.stamp
    }

    /// Tells who watches.
    fn notice(&mut self, queue: u32, job: JobId, event: Event, now: Now, by: &str, note: &str) {
        self.sequence += 1;
        if self.watched {
            self.out.notices.push(Notice {
                sequence: self.sequence,
                at: now.wall,
                queue: self.queues[queue as usize].name.clone(),
                job,
                event,
                by: Arc::from(by),
                note: Arc::from(note),
            });
        }
    }
}
