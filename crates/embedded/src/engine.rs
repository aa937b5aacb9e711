//! The engine: callers and three threads around the machine.
//!
//! ```text
//! callers ──> inbox ──> core: the machine, write, answer ──> sync thread: sync, answer ──> callers
//!               ^         │
//!               └─────────┴─ maintenance thread: tasks, in order behind what was written
//! ```
//!
//! The core is behind a lock. A caller puts its call into the inbox and, if nobody is at it, does itself what is there:
//! waking a thread and being woken by it costs more than a push of a hundred jobs. If somebody is at it, the call is done
//! along with others, in one group of records. The core thread does calls that take long, what time brings while nobody
//! calls, and what is left when others keep a caller at work. Whoever does a round also does the bite of upkeep that is due
//! with it; bites are small.
//!
//! While the sync thread syncs, the next groups build up: callers share syncs, and wait for each other only where [`company`] finds
//! that it pays.
//! What is under way is bounded in bytes, so a slow disk slows callers down instead of filling the memory.

mod company;
mod inbox;
mod writer;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use async_trait::async_trait;
use auxo_core::clock::Clock;
use auxo_core::engine::{
    Ask, Audit, Catalog, Change, Extend, Extended, Message, Order, Outage, Page, Pushed, Query,
    Settle, Settled, Steered, Which,
};
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::{Code, Engine, Error, NewJob, QueueName, Result};
use hashbrown::HashMap;
use tokio::sync::{broadcast, oneshot};

use self::inbox::{Call, Caller, Inbox, Space, Taken, Wants};
use self::writer::{Batch, Waiting, Writer};
use crate::clock::{MachineTime, StoreClock};
use crate::dice::Dice;
use crate::disk::{Disk, RealDisk};
use crate::machine::{After, Machine, Op, Reply, Settings, Task, Ticket};
use crate::options::{MOST_QUEUES, Options, Sync};

/// How many notices a watcher may lag behind before it misses some.
const NOTICES: usize = 4096;
/// How many rounds a caller does for others before it leaves the rest to the core thread.
const ROUNDS: usize = 16;

/// The built-in engine on a directory of its own.
pub struct Embedded {
    inbox: Arc<Inbox>,
    shared: Arc<Shared>,
    notices: broadcast::Sender<Notice>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Embedded {
    /// Opens the store in a directory, and makes it if need be. One process at a time can have it open.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use auxo_embedded::{Embedded, Options};
    /// let engine = Embedded::open(dir.path(), Options::default()).unwrap();
    /// ```
    pub fn open(path: &Path, options: Options) -> Result<Embedded> {
        Embedded::on(Arc::new(RealDisk::open(path)?), options)
    }

    /// Opens the store on any disk.
    pub fn on(disk: Arc<dyn Disk>, options: Options) -> Result<Embedded> {
        if options.segment_size < 64 << 10 || options.segment_size > 1 << 30 {
            return Err(Error::bad_request(
                "segment_size must be from 64 KiB to 1 GiB",
            ));
        }
        if options.max_queues > MOST_QUEUES {
            return Err(Error::bad_request(format!(
                "max_queues is {}, it can be {MOST_QUEUES} at the most",
                options.max_queues
            )));
        }
        let settings = Settings {
            segment_size: options.segment_size,
            node: Arc::from(options.node.as_str()),
            max_queues: options.max_queues,
            pave: options.sync == Sync::Always,
        };
        let dice = options.seed.map_or_else(Dice::system, Dice::seeded);
        let mut machine = Machine::open(disk.clone(), settings, dice)?;
        let clock = match options.clock {
            Some(clock) => clock,
            None => {
                let source = options.time_source.unwrap_or_else(|| Arc::new(MachineTime));
                let (clock, boot) = StoreClock::resume(source, machine.boot(), machine.stamp());
                machine.set_boot(boot);
                Arc::new(clock)
            }
        };
        let inbox = Inbox::new();
        let on_move = inbox.clone();
        clock.on_move(Arc::new(move || on_move.nudge()));
        let writer = Writer::start(disk.clone(), options.sync, inbox.clone(), &machine)?;
        let (notices, _) = broadcast::channel(NOTICES);
        let core = Core {
            machine,
            clock: clock.clone(),
            inbox: inbox.clone(),
            writer,
            notices: notices.clone(),
            callers: HashMap::new(),
        };
        let shared = Arc::new(Shared {
            inbox: inbox.clone(),
            core: Mutex::new(Some(core)),
        });
        let core_thread = shared.clone();
        let thread = spawn("auxo-core", move || core_thread.run(&*clock))?;
        Ok(Embedded {
            inbox,
            shared,
            notices,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// How often the wall clock was stepped by more than a second since the store was opened.
    pub fn wall_steps(&self) -> u64 {
        self.inbox.wall_steps.load(Ordering::Relaxed)
    }

    async fn call(&self, op: Op) -> Result<Reply> {
        let (ticket, answer) = self.inbox.send(op).await?;
        let mut pending = Pending {
            inbox: &self.inbox,
            ticket,
            answer: Some(answer),
        };
        // Other tasks that are ready to call do so first, and one round does for all of them.
        if self.inbox.expects_company() {
            tokio::task::yield_now().await;
        }
        if pending
            .answer
            .as_ref()
            .is_some_and(oneshot::Receiver::is_empty)
            && let Served::Waiting = self.shared.help()
        {
            // Who waited for a job gets it before this caller hears that it was taken in.
            tokio::task::yield_now().await;
        }
        let reply = match pending.answer.as_mut() {
            Some(answer) => answer.await,
            None => return Err(closed()),
        };
        pending.answer = None;
        reply.unwrap_or_else(|_| Err(closed()))
    }
}

/// A call under way. If its future is dropped, what it would have been given goes back.
struct Pending<'a> {
    inbox: &'a Arc<Inbox>,
    ticket: Ticket,
    answer: Option<oneshot::Receiver<Result<Reply>>>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let Some(mut answer) = self.answer.take() else {
            return;
        };
        answer.close();
        match answer.try_recv() {
            Ok(Ok(Reply::Lease(leased))) => self.inbox.give_back(leased),
            _ => self.inbox.put(Call::Abandon(self.ticket)),
        }
    }
}

fn closed() -> Error {
    Error::new(Code::Unavailable, "the store is closed")
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map_err(|error| Error::new(Code::Unavailable, format!("cannot start a thread: {error}")))
}

/// Does something if the thread panics. A thread that is silently gone would leave its callers waiting for ever.
struct OnPanic<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if thread::panicking() {
            (self.0)();
        }
    }
}

fn panicked() -> Error {
    Error::new(
        Code::Internal,
        "a thread of the store panicked; this is a bug, and the store has stopped",
    )
}

/// The machine and what is around it.
struct Core {
    machine: Machine,
    clock: Arc<dyn Clock>,
    inbox: Arc<Inbox>,
    writer: Writer,
    notices: broadcast::Sender<Notice>,
    callers: HashMap<Ticket, Caller>,
}

/// Whom a round had answers for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Served {
    /// Those who just called, at most.
    Callers,
    /// Others who waited, too: there are more answers than calls.
    Waiting,
}

/// The core, for whoever has something for it to do; gone when the store is closed.
struct Shared {
    inbox: Arc<Inbox>,
    core: Mutex<Option<Core>>,
}

impl Shared {
    /// Does what callers put into the inbox, unless somebody is at it. Whoever has had the core looks again after letting it
    /// go, also when there was nothing to do: who came meanwhile found it taken and relies on that.
    fn help(&self) -> Served {
        let mut served = Served::Callers;
        for _ in 0..ROUNDS {
            // Whoever panicked with the core in hand has taken it away before letting go.
            let Ok(mut core) = self.core.try_lock() else {
                return served;
            };
            let Some(working) = core.as_mut() else {
                return served;
            };
            if let Some(taken) = self.inbox.take_light() {
                // A bug of ours is told as an error, it does not take the caller's thread down.
                match catch_unwind(AssertUnwindSafe(|| working.work(taken))) {
                    Ok((wants, whom)) => {
                        self.inbox.rearm(wants);
                        served = served.max(whom);
                    }
                    Err(_) => {
                        self.wreck(core);
                        return served;
                    }
                }
            }
            drop(core);
            if !self.inbox.has_light() {
                return served;
            }
        }
        // Others keep coming, and the caller has something else to do.
        self.inbox.nudge();
        served
    }

    /// The core thread: it does what is not for callers to do, and what time brings while nobody calls.
    fn run(&self, clock: &dyn Clock) {
        loop {
            if !self.inbox.has_light() {
                self.inbox.sleep(clock);
            }
            let Ok(mut core) = self.core.lock() else {
                return;
            };
            let Some(working) = core.as_mut() else { return };
            let taken = self.inbox.take();
            let closing = taken.closing;
            match catch_unwind(AssertUnwindSafe(|| working.work(taken))) {
                Ok((wants, _)) => self.inbox.arm(wants),
                Err(_) => return self.wreck(core),
            }
            if closing {
                if let Some(core) = core.take() {
                    core.close();
                }
                return;
            }
        }
    }

    /// After a panic in the core nothing in it is sure any more: it is put away, and everybody who waits is told.
    fn wreck(&self, mut core: MutexGuard<'_, Option<Core>>) {
        self.inbox.fall();
        drop(core.take());
    }
}

impl Core {
    fn close(self) {
        self.inbox.stop();
        let result = self.writer.close(&self.machine);
        drop((self.machine, self.callers));
        self.inbox.closed(result);
    }

    /// One round: what has come in, what time has brought, and the records of both.
    fn work(&mut self, taken: Taken) -> (Wants, Served) {
        let Taken {
            calls,
            done,
            broken,
            closing: _,
        } = taken;
        let now = self.clock.now();
        let machine = &mut self.machine;
        machine.synced = self.writer.synced();
        machine.written = self.writer.written();
        machine.watched = self.notices.receiver_count() > 0;
        if let Some(error) = broken {
            machine.stop(error);
        }
        let more = machine.advance(now);
        done.into_iter().for_each(|done| machine.done(done, now));
        let mut units = 0;
        let called = calls.len();
        for call in calls {
            match call {
                Call::Op {
                    ticket,
                    op,
                    units: held,
                    caller,
                } => {
                    units += held;
                    self.callers.insert(ticket, caller);
                    machine.apply(ticket, *op, now);
                }
                Call::Abandon(ticket) => {
                    machine.abandon(ticket);
                    self.callers.remove(&ticket);
                }
                Call::GiveBack(tokens) => machine.take_back(tokens, now),
            }
        }
        machine.finish(now);
        self.inbox
            .wall_steps
            .store(machine.wall_steps, Ordering::Relaxed);
        // Whoever is told of trouble finds the store unwell.
        if let Some(error) = self.machine.broken() {
            self.inbox.set_health(error);
        }
        self.inbox.set_space(match self.machine.no_room(0) {
            Some(error) => Space::None(error),
            None if self.machine.takes_nothing() => Space::Short,
            None => Space::Enough,
        });
        let served = match self.machine.out.answers.len() > called {
            true => Served::Waiting,
            false => Served::Callers,
        };
        self.dispatch(units);
        let wants = Wants {
            until: match self.machine.next_wake(now) {
                _ if more => now.steady.0,
                Some(wait) => now.steady.plus(wait).0,
                None => u64::MAX,
            },
            stalled: self.machine.stalled(),
        };
        (wants, served)
    }

    /// Sends out what the machine left.
    fn dispatch(&mut self, units: usize) {
        let out = std::mem::take(&mut self.machine.out);
        for notice in out.notices {
            // Nobody listening is fine.
            let _ = self.notices.send(notice);
        }
        let mut waiting = Vec::new();
        for answer in out.answers {
            let Some(caller) = self.callers.remove(&answer.ticket) else {
                // Whoever asked has gone, in the same round that served them.
                if let Ok(Reply::Lease(leased)) = answer.reply {
                    self.inbox.give_back(leased);
                }
                continue;
            };
            match answer.after {
                After::Nothing => self.inbox.answer(caller, answer.reply),
                after => waiting.push(Waiting {
                    caller,
                    reply: answer.reply,
                    after,
                }),
            }
        }
        self.writer.send(Batch {
            writes: out.writes,
            waiting,
            tasks: out.tasks,
            units,
        });
    }
}

/// Runs tasks until there are no more to come.
fn maintain(tasks: std::sync::mpsc::Receiver<Task>, disk: Arc<dyn Disk>, inbox: Arc<Inbox>) {
    let _guard = OnPanic(|| inbox.broken(panicked()));
    for task in tasks {
        inbox.done(task.run(&*disk));
    }
}

impl Drop for Embedded {
    /// Closes the store if nobody did.
    fn drop(&mut self) {
        self.inbox.close(None);
        if let Some(thread) = self
            .thread
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take()
        {
            let _ = thread.join();
        }
    }
}

macro_rules! expect {
    ($self:ident, $op:expr, $reply:pat => $value:expr) => {
        match $self.call($op).await? {
            $reply => Ok($value),
            _ => Err(Error::new(
                Code::Internal,
                "the machine answered another question",
            )),
        }
    };
}

#[async_trait]
impl Engine for Embedded {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        expect!(self, Op::Push(jobs), Reply::Push(pushed) => pushed)
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        expect!(self, Op::Lease(ask), Reply::Lease(leased) => leased)
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        expect!(self, Op::Settle(items), Reply::Settle(settled) => settled)
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        expect!(self, Op::Extend(items), Reply::Extend(extended) => extended)
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        expect!(self, Op::Find(which), Reply::Find(found) => found.map(|job| *job))
    }

    async fn list(&self, query: Query) -> Result<Page> {
        expect!(self, Op::List(query), Reply::List(page) => page)
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        expect!(self, Op::Steer(order), Reply::Steer(steered) => steered)
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        expect!(self, Op::Queues(names), Reply::Queues(queues) => queues)
    }

    async fn change(&self, change: Change) -> Result<()> {
        expect!(self, Op::Change(change), Reply::Change => ())
    }

    async fn forgotten(&self) -> Result<Books> {
        expect!(self, Op::Forgotten, Reply::Forgotten(books) => books)
    }

    async fn catalog(&self) -> Result<Catalog> {
        expect!(self, Op::Catalog, Reply::Catalog(catalog) => catalog)
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        expect!(self, Op::Publish(message), Reply::Publish(pushed) => pushed)
    }

    async fn passages(&self, departure: Departure) -> Result<Passages> {
        expect!(self, Op::Passages(departure), Reply::Passages(passages) => passages)
    }

    async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        expect!(self, Op::Depart(queue, jobs), Reply::Depart(departed) => departed)
    }

    async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        expect!(self, Op::Adopt(adoption), Reply::Adopt(adopted) => adopted)
    }

    async fn audit(&self) -> Result<Audit> {
        expect!(self, Op::Audit, Reply::Audit(audit) => audit)
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.notices.subscribe()
    }

    fn health(&self) -> Result<()> {
        self.inbox.health()?;
        match self.inbox.space() {
            Space::None(error) => Err(error),
            Space::Enough | Space::Short => Ok(()),
        }
    }

    fn outages(&self) -> Vec<Outage> {
        if self.health().is_err() || self.inbox.space() != Space::Short {
            return Vec::new();
        }
        vec![Outage {
            part: "pushes".into(),
            why: "the disk is full: free some space; jobs can be leased and settled meanwhile"
                .into(),
        }]
    }

    async fn close(&self) -> Result<()> {
        let (done, closed_well) = oneshot::channel();
        self.inbox.close(Some(done));
        closed_well.await.unwrap_or_else(|_| Err(closed()))
    }
}
