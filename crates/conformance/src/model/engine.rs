//! The model behind the engine trait, so that the suite itself can be tested.
//!
//! Every call takes one lock, lets the model answer, and then serves whoever waits, first come first served. The manual
//! clock calls the same code whenever it is moved, so nothing here sleeps or polls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use async_trait::async_trait;
use auxo_core::clock::{Clock, ManualClock};
use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::time::{Now, Timestamp};
use auxo_core::{Code, Error, JobId, NewJob, QueueName, Result, Token, refusal};
use tokio::sync::{broadcast, oneshot};

use super::{Mint, Model};
use crate::bench::Bench;

/// The model as an engine, in memory.
pub struct ModelEngine {
    room: Arc<Room>,
}

/// What an engine and its clock share.
struct Room {
    clock: Arc<ManualClock>,
    inside: Mutex<Inside>,
    watchers: broadcast::Sender<Notice>,
}

struct Inside {
    model: Model,
    mint: Counter,
    closed: bool,
    tickets: u64,
    /// By ticket, so in the order of arrival.
    waiters: BTreeMap<u64, Waiter>,
}

struct Waiter {
    ask: Ask,
    /// On the steady clock.
    until: Timestamp,
    answer: oneshot::Sender<Result<Vec<Leased>>>,
}

/// Counts ids and tokens; rolls no dice.
#[derive(Clone, Debug)]
struct Counter {
    last: JobId,
    leases: u64,
}

impl Counter {
    fn new() -> Counter {
        Counter {
            last: JobId(0),
            leases: 0,
        }
    }
}

impl Mint for Counter {
    fn id(&mut self, _queue: &QueueName, now: Now) -> JobId {
        self.last = self.last.after(now.steady);
        self.last
    }

    fn known(&mut self, id: JobId) {
        self.last = self.last.max(id);
    }

    fn token(&mut self, job: JobId) -> Token {
        self.leases += 1;
        Token {
            job,
            counter: self.leases,
            nonce: self.leases.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    fn dice(&mut self) -> u64 {
        0
    }
}

impl ModelEngine {
    /// An empty engine that lives by this clock.
    pub fn new(clock: Arc<ManualClock>) -> ModelEngine {
        ModelEngine::with(clock, Model::new(), Counter::new())
    }

    /// An empty engine that has so many queues at most.
    pub fn with_queues(clock: Arc<ManualClock>, most: usize) -> ModelEngine {
        let mut model = Model::new();
        model.limit_queues(most);
        ModelEngine::with(clock, model, Counter::new())
    }

    /// An engine that goes on with what this one has stored.
    pub fn reopen(&self) -> ModelEngine {
        let inside = self.room.lock();
        let (mut model, mint) = (inside.model.clone(), inside.mint.clone());
        drop(inside);
        model.restart();
        model.use_all(self.room.clock.now());
        ModelEngine::with(self.room.clock.clone(), model, mint)
    }

    /// The engine on a bench. It outlives its process as far as a test can tell: its memory is handed on.
    pub fn on_bench(self) -> Bench {
        let clock = self.room.clock.clone();
        let engine = Arc::new(self);
        Bench {
            engine: engine.clone(),
            clock,
            steady: true,
            together: true,
            reopen: Some(Arc::new(move || {
                let engine = engine.clone();
                Box::pin(async move {
                    engine.close().await.expect("the model closes");
                    engine.reopen().on_bench()
                })
            })),
        }
    }

    fn with(clock: Arc<ManualClock>, model: Model, mint: Counter) -> ModelEngine {
        let room = Arc::new(Room {
            clock: clock.clone(),
            inside: Mutex::new(Inside {
                model,
                mint,
                closed: false,
                tickets: 0,
                waiters: BTreeMap::new(),
            }),
            watchers: broadcast::channel(1024).0,
        });
        let weak: Weak<Room> = Arc::downgrade(&room);
        clock.on_move(Arc::new(move || {
            if let Some(room) = weak.upgrade() {
                room.serve(&mut room.lock());
            }
        }));
        ModelEngine { room }
    }

    /// Lets the model answer, then serves whoever waits for what that changed.
    fn ask<T>(&self, call: impl FnOnce(&mut Model, Now, &mut Counter) -> T) -> Result<T> {
        let mut inside = self.room.lock();
        if inside.closed {
            return Err(closed());
        }
        inside.note_waits(self.room.clock.now());
        let Inside { model, mint, .. } = &mut *inside;
        let answer = call(model, self.room.clock.now(), mint);
        self.room.serve(&mut inside);
        Ok(answer)
    }
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("the model does not panic")
    }

    fn serve(&self, inside: &mut Inside) {
        let now = self.clock.now();
        inside.note_waits(now);
        let Inside {
            model,
            mint,
            waiters,
            closed: over,
            ..
        } = inside;
        model.advance(now, mint);
        let tickets: Vec<u64> = waiters.keys().copied().collect();
        for ticket in tickets {
            let answer = match *over {
                true => Err(closed()),
                false => Ok(model.offer(&waiters[&ticket].ask, now, mint)),
            };
            let patient = waiters[&ticket].until > now.steady;
            if patient && answer.as_ref().is_ok_and(Vec::is_empty) {
                continue;
            }
            if let Some(waiter) = waiters.remove(&ticket)
                && let Err(Ok(unwanted)) = waiter.answer.send(answer)
            {
                model.take_back(unwanted, now, mint);
            }
        }
        inside.note_waits(now);
        for notice in inside.model.take_notices() {
            // Nobody watching is no error.
            let _ = self.watchers.send(notice);
        }
    }
}

impl Inside {
    fn note_waits(&mut self, now: Now) {
        let waiters = self.waiters.values();
        let queues = waiters.flat_map(|waiter| waiter.ask.queues.iter().cloned());
        self.model.set_awaited(queues.collect(), now);
    }
}

fn closed() -> Error {
    Error::new(Code::Unavailable, "the engine is closed")
}

/// Gives up a place in the line of waiters, and gives back what was lent but never picked up.
struct Place<'a> {
    room: &'a Room,
    ticket: u64,
    answer: oneshot::Receiver<Result<Vec<Leased>>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inside = self.room.lock();
        inside.waiters.remove(&self.ticket);
        inside.note_waits(self.room.clock.now());
        if let Ok(Ok(unread)) = self.answer.try_recv() {
            let Inside { model, mint, .. } = &mut *inside;
            model.take_back(unread, self.room.clock.now(), mint);
            self.room.serve(&mut inside);
        }
    }
}

#[async_trait]
impl Engine for ModelEngine {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        self.ask(|model, now, mint| model.push(jobs, now, mint))
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        let mut place = {
            let mut inside = self.room.lock();
            if inside.closed {
                return Err(closed());
            }
            let (answer, place) = oneshot::channel();
            inside.tickets += 1;
            let ticket = inside.tickets;
            let now = self.room.clock.now();
            let Inside { model, mint, .. } = &mut *inside;
            let hold = model.hold(&ask, now, mint);
            if let (Some(hold), Some(named)) = (hold, ask.job) {
                return Err(refusal::held_back(named.id, hold));
            }
            let until = now.steady.plus(ask.wait);
            inside.model.called(&ask, now);
            let waiter = Waiter { ask, until, answer };
            inside.waiters.insert(ticket, waiter);
            self.room.serve(&mut inside);
            Place {
                room: &self.room,
                ticket,
                answer: place,
            }
        };
        (&mut place.answer).await.unwrap_or_else(|_| Err(closed()))
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.ask(|model, now, mint| model.settle(items, now, mint))
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.ask(|model, now, mint| model.extend(items, now, mint))
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.ask(|model, now, mint| model.find(&which, now, mint))
    }

    async fn list(&self, query: Query) -> Result<Page> {
        self.ask(|model, now, mint| model.list(&query, now, mint))?
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        self.ask(|model, now, mint| model.steer(&order, now, mint))?
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        let mut infos = self.ask(|model, now, mint| model.queues(names.as_deref(), now, mint))?;
        let inside = self.room.lock();
        for info in &mut infos {
            let waits = |waiter: &&Waiter| waiter.ask.queues.contains(&info.name);
            info.waiting = inside.waiters.values().filter(waits).count() as u64;
        }
        Ok(infos)
    }

    async fn forgotten(&self) -> Result<Books> {
        self.ask(|model, now, mint| model.forgotten(now, mint))
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.ask(|model, now, mint| model.change(change, now, mint))?
    }

    async fn catalog(&self) -> Result<Catalog> {
        self.ask(|model, now, mint| model.catalog(now, mint))
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        self.ask(|model, now, mint| model.publish(&message, now, mint))?
    }

    async fn passages(&self, departure: Departure) -> Result<Passages> {
        self.ask(|model, now, mint| model.passages(&departure, now, mint))?
    }

    async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        self.ask(|model, now, mint| model.depart(&queue, &jobs, now, mint))
    }

    async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        self.ask(|model, now, mint| model.adopt(adoption, now, mint))?
    }

    async fn audit(&self) -> Result<Audit> {
        self.ask(|model, now, mint| model.audit(now, mint))
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.room.watchers.subscribe()
    }

    fn health(&self) -> Result<()> {
        match self.room.lock().closed {
            true => Err(closed()),
            false => Ok(()),
        }
    }

    async fn close(&self) -> Result<()> {
        let mut inside = self.room.lock();
        inside.closed = true;
        self.room.serve(&mut inside);
        Ok(())
    }
}
