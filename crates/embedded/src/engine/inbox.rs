//! Where calls wait for the core thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auxo_core::clock::Clock;
use auxo_core::job::Leased;
use auxo_core::{Error, Result, Token};
use tokio::sync::{Semaphore, oneshot};

use super::{closed, panicked};
use crate::machine::{Done, Op, Reply, Ticket};

/// How much may be under way, in units of a kilobyte.
const UNITS: usize = 64 << 10;

pub enum Call {
    Op {
        ticket: Ticket,
        op: Box<Op>,
        units: usize,
        answer: oneshot::Sender<Result<Reply>>,
    },
    /// Nobody waits for this call any more.
    Abandon(Ticket),
    /// These were lent to a call that nobody waits for any more.
    GiveBack(Vec<Token>),
}

type Closer = oneshot::Sender<Result<()>>;

pub struct Inbox {
    state: Mutex<State>,
    bell: Condvar,
    room: Semaphore,
    tickets: AtomicU64,
    health: Mutex<Option<Error>>,
    pub wall_steps: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The core thread sleeps. A bell costs a system call, and under load it is awake anyway.
    asleep: bool,
    calls: Vec<Call>,
    done: Vec<Done>,
    broken: Option<Error>,
    nudged: bool,
    closing: bool,
    stopped: bool,
    closers: Vec<Closer>,
}

/// What the core thread took out.
pub struct Taken {
    pub calls: Vec<Call>,
    pub done: Vec<Done>,
    pub broken: Option<Error>,
    pub closing: Option<()>,
}

impl Inbox {
    pub fn new() -> Arc<Inbox> {
        Arc::new(Inbox {
            state: Mutex::default(),
            bell: Condvar::new(),
            room: Semaphore::new(UNITS),
            tickets: AtomicU64::new(1),
            health: Mutex::default(),
            wall_steps: AtomicU64::new(0),
        })
    }

    /// Puts an operation in when there is room; answers its ticket and where the answer will come.
    pub async fn send(&self, op: Op) -> Result<(Ticket, oneshot::Receiver<Result<Reply>>)> {
        let units = units(&op);
        let permit = self.room.acquire_many(units as u32).await;
        let permit = permit.map_err(|_| self.health().err().unwrap_or_else(closed))?;
        permit.forget();
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = oneshot::channel();
        self.put(Call::Op {
            ticket,
            op: Box::new(op),
            units,
            answer,
        });
        Ok((ticket, receiver))
    }

    pub fn put(&self, call: Call) {
        let mut state = self.lock();
        // A call to a closed store is answered by dropping it.
        if !state.stopped {
            state.calls.push(call);
            self.ring(state);
        }
    }

    pub fn done(&self, done: Done) {
        let mut state = self.lock();
        state.done.push(done);
        self.ring(state);
    }

    /// The writer could not write.
    pub fn broken(&self, error: Error) {
        self.set_health(&error);
        let mut state = self.lock();
        state.broken = Some(error);
        self.ring(state);
    }

    /// The clock was moved by hand.
    pub fn nudge(&self) {
        let mut state = self.lock();
        state.nudged = true;
        self.ring(state);
    }

    pub fn close(&self, closer: Option<Closer>) {
        let mut state = self.lock();
        state.closing = true;
        match closer {
            Some(closer) if state.stopped => drop(closer.send(self.verdict())),
            closer => state.closers.extend(closer),
        }
        self.ring(state);
    }

    /// Wakes the core thread if it sleeps; after the lock is let go, or it would wake only to wait for that.
    fn ring(&self, mut state: MutexGuard<'_, State>) {
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.bell.notify_one();
        }
    }

    /// Ends the inbox because the core thread has panicked.
    pub fn fall(&self) {
        self.set_health(&panicked());
        for closer in self.stop() {
            let _ = closer.send(Err(panicked()));
        }
    }

    /// Ends the inbox; answers who wants to know when all is closed.
    pub fn stop(&self) -> Vec<Closer> {
        self.room.close();
        let mut state = self.lock();
        state.stopped = true;
        state.calls.clear();
        std::mem::take(&mut state.closers)
    }

    /// Waits until there is something, or for as long as the machine allows. While the machine is stalled, calls stay
    /// where they are.
    pub fn take(&self, wait: Option<Duration>, clock: &dyn Clock, stalled: bool) -> Taken {
        let mut state = self.lock();
        // Each look that finds nothing says so again: the bell is rung only for a sleeper.
        let idle = |state: &mut State| {
            state.asleep = (state.calls.is_empty() || stalled)
                && state.done.is_empty()
                && state.broken.is_none()
                && !state.nudged
                && !state.closing;
            state.asleep
        };
        let real = match wait {
            Some(wait) if wait.is_zero() => Some(Duration::ZERO),
            Some(wait) => clock.real_wait(wait),
            None => None,
        };
        state = match real {
            Some(wait) if wait.is_zero() => state,
            Some(wait) => {
                let waited = self.bell.wait_timeout_while(state, wait, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self
                .bell
                .wait_while(state, idle)
                .unwrap_or_else(PoisonError::into_inner),
        };
        state.asleep = false;
        state.nudged = false;
        Taken {
            calls: if stalled {
                Vec::new()
            } else {
                std::mem::take(&mut state.calls)
            },
            done: std::mem::take(&mut state.done),
            broken: state.broken.take(),
            closing: state.closing.then_some(()),
        }
    }

    /// Lets so much more come in.
    pub fn release(&self, units: usize) {
        self.room.add_permits(units);
    }

    /// Gives an answer. Jobs that were lent to somebody who has gone are taken back.
    pub fn answer(&self, caller: oneshot::Sender<Result<Reply>>, reply: Result<Reply>) {
        if let Err(Ok(Reply::Lease(leased))) = caller.send(reply) {
            self.give_back(leased);
        }
    }

    pub fn give_back(&self, leased: Vec<Leased>) {
        if !leased.is_empty() {
            self.put(Call::GiveBack(
                leased.into_iter().map(|leased| leased.token).collect(),
            ));
        }
    }

    pub fn set_health(&self, error: &Error) {
        self.health
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(|| error.clone());
    }

    /// How it ended, for who closes what is closed.
    fn verdict(&self) -> Result<()> {
        match &*self.health.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    pub fn health(&self) -> Result<()> {
        match &*self.health.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None if self.room.is_closed() => Err(closed()),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much room an operation takes.
fn units(op: &Op) -> usize {
    let bytes = match op {
        Op::Push(jobs) => jobs.iter().map(|job| job.spec.payload.len() + 256).sum(),
        Op::Publish(message) => message.spec.payload.len(),
        Op::Settle(items) => items.len() * 64,
        _ => 0,
    };
    (1 + bytes / 1024).min(UNITS)
}
