//! Where calls wait for somebody to do them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use auxo_core::clock::Clock;
use auxo_core::engine::Outcome;
use auxo_core::errand::Runner;
use auxo_core::job::Leased;
use auxo_core::passage::{Adoption, Step};
use auxo_core::{Error, Result, Timestamp, Token};
use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::{closed, panicked};
use crate::machine::{Done, Op, Reply, Ticket, weight};

/// How much may be under way, in units of a kilobyte.
const UNITS: usize = 64 << 10;
/// The most that a caller writes itself, in the same units.
const LIGHT: usize = 1 << 10;
/// After so many rounds with one call each, and before as many more, nobody waits for company.
const LONELY: u32 = 16;

pub enum Call {
    Op {
        ticket: Ticket,
        op: Box<Op>,
        units: usize,
        caller: Caller,
    },
    /// Nobody waits for this call any more.
    Abandon(Ticket),
    /// These were lent to a call that nobody waits for any more.
    GiveBack(Vec<Token>),
}

/// Who waits for an answer.
pub struct Caller {
    answer: oneshot::Sender<Result<Reply>>,
    /// The thread that it waits on, if that runs errands.
    home: Option<Arc<Runner>>,
}

impl Caller {
    /// One that waits on this thread.
    pub fn here(answer: oneshot::Sender<Result<Reply>>) -> Caller {
        let home = Runner::here();
        Caller { answer, home }
    }

    /// The thread that it waits on, if that runs errands and is not this one.
    pub fn far_home(&self) -> Option<&Arc<Runner>> {
        self.home.as_ref().filter(|home| !home.is_here())
    }

    /// Gives an answer that nobody misses.
    pub fn refuse(self, reply: Result<Reply>) {
        let _ = self.answer.send(reply);
    }
}

/// Whether the disk has room.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Space {
    #[default]
    Enough,
    /// Jobs cannot be taken in, and everything else can be done.
    Short,
    /// Nothing can be written at all.
    None(Error),
}

type Closer = oneshot::Sender<Result<()>>;

pub struct Inbox {
    state: Mutex<State>,
    bell: Condvar,
    room: Semaphore,
    tickets: AtomicU64,
    /// How many callers in a row had nobody with them in their round.
    alone: AtomicU32,
    health: Mutex<Option<Error>>,
    /// Whether the disk had room after the last round.
    space: Mutex<Space>,
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
    /// `until` was moved forward by somebody else than the core thread.
    rearmed: bool,
    /// Among the calls is one that takes long.
    heavy: bool,
    /// The machine takes no calls.
    stalled: bool,
    /// When the core thread calls the machine next, on the steady clock.
    until: u64,
    closing: bool,
    stopped: bool,
    /// How closing went, when it is over.
    verdict: Option<Result<()>>,
    closers: Vec<Closer>,
}

impl State {
    /// Whether there is something that the core thread must see to. Light calls are seen to by who makes them.
    fn is_wanted(&self) -> bool {
        let flags = self.nudged || self.rearmed || self.closing || self.heavy && !self.stalled;
        flags || !self.done.is_empty() || self.broken.is_some()
    }

    /// Whether there is something that a caller can see to.
    fn has_light(&self) -> bool {
        !self.heavy && !self.stalled && !self.closing && !self.calls.is_empty()
    }
}

/// What whoever has the core took out.
pub struct Taken {
    pub calls: Vec<Call>,
    pub done: Vec<Done>,
    pub broken: Option<Error>,
    pub closing: bool,
}

/// What the machine wants after a round.
#[derive(Clone, Copy)]
pub struct Wants {
    /// To be called again, on the steady clock.
    pub until: u64,
    /// No calls for now.
    pub stalled: bool,
}

impl Inbox {
    pub fn new() -> Arc<Inbox> {
        Arc::new(Inbox {
            state: Mutex::default(),
            bell: Condvar::new(),
            room: Semaphore::new(UNITS),
            tickets: AtomicU64::new(1),
            alone: AtomicU32::new(0),
            health: Mutex::default(),
            space: Mutex::default(),
            wall_steps: AtomicU64::new(0),
        })
    }

    /// Puts an operation in when there is room; answers its ticket and where the answer will come.
    /// A light one waits for [`take_light`](Inbox::take_light), and nobody is woken for it.
    pub async fn send(&self, op: Op) -> Result<(Ticket, oneshot::Receiver<Result<Reply>>)> {
        let units = units(&op);
        let light = is_light(&op, units);
        let permit = self.room.acquire_many(units as u32).await;
        let permit = permit.map_err(|_| self.health().err().unwrap_or_else(closed))?;
        permit.forget();
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = oneshot::channel();
        let call = Call::Op {
            ticket,
            op: Box::new(op),
            units,
            caller: Caller::here(answer),
        };
        if light {
            let mut state = self.lock();
            // A call to a closed store is answered by dropping it.
            if !state.stopped {
                state.calls.push(call);
            }
        } else {
            self.put(call);
        }
        Ok((ticket, receiver))
    }

    /// Puts in something for the core thread.
    pub fn put(&self, call: Call) {
        let mut state = self.lock();
        if !state.stopped {
            state.calls.push(call);
            state.heavy = true;
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
            Some(closer) if state.verdict.is_some() => {
                let verdict = state.verdict.clone().unwrap_or(Ok(()));
                let _ = closer.send(verdict);
            }
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

    /// Ends the inbox because somebody has panicked with the core in hand.
    pub fn fall(&self) {
        self.set_health(&panicked());
        self.stop();
        self.closed(Err(panicked()));
    }

    /// Takes nothing in any more.
    pub fn stop(&self) {
        self.room.close();
        let mut state = self.lock();
        state.stopped = true;
        state.calls.clear();
    }

    /// Everything is closed: tells who wants to know, now and later, how that went.
    pub fn closed(&self, verdict: Result<()>) {
        let mut state = self.lock();
        for closer in std::mem::take(&mut state.closers) {
            let _ = closer.send(verdict.clone());
        }
        state.verdict = Some(verdict);
    }

    /// Lets the core thread sleep until there is something for it, or until the machine wants to be called.
    pub fn sleep(&self, clock: &dyn Clock) {
        let mut state = self.lock();
        let wait = Timestamp(state.until).since(clock.now().steady);
        let real = match state.until {
            u64::MAX => None,
            _ if wait.is_zero() => return,
            _ => clock.real_wait(wait),
        };
        // Each look that finds nothing says so again: the bell is rung only for a sleeper, and a caller may have done
        // meanwhile what it was rung for.
        let idle = |state: &mut State| {
            state.asleep = !state.is_wanted();
            state.asleep
        };
        state = match real {
            Some(wait) => {
                let waited = self.bell.wait_timeout_while(state, wait, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let woken = self.bell.wait_while(state, idle);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
        };
        state.asleep = false;
    }

    /// Takes everything out; but for calls while the machine is stalled, which stay where they are.
    pub fn take(&self) -> Taken {
        let mut state = self.lock();
        state.nudged = false;
        state.rearmed = false;
        let calls = if state.stalled {
            Vec::new()
        } else {
            state.heavy = false;
            std::mem::take(&mut state.calls)
        };
        Taken {
            calls,
            done: std::mem::take(&mut state.done),
            broken: state.broken.take(),
            closing: state.closing,
        }
    }

    /// Takes everything out if it is something for a caller to do. What takes long, and the end, are the core thread's.
    pub fn take_light(&self) -> Option<Taken> {
        let mut state = self.lock();
        if !state.has_light() {
            return None;
        }
        state.nudged = false;
        let alone = match state.calls.len() {
            1 => self.alone.load(Ordering::Relaxed).wrapping_add(1),
            _ => 0,
        };
        self.alone.store(alone, Ordering::Relaxed);
        Some(Taken {
            calls: std::mem::take(&mut state.calls),
            done: std::mem::take(&mut state.done),
            broken: state.broken.take(),
            closing: false,
        })
    }

    /// Whether somebody who calls may expect that others are about to. Who was alone for a while does not, but looks again every now
    /// and then.
    pub fn expects_company(&self) -> bool {
        let alone = self.alone.load(Ordering::Relaxed);
        alone < LONELY || alone.is_multiple_of(LONELY)
    }

    /// Whether there is something here that a caller can do.
    pub fn has_light(&self) -> bool {
        self.lock().has_light()
    }

    /// Notes what the machine wants after a round that a caller did. The core thread is woken if it is to call the machine
    /// sooner than it knew.
    pub fn rearm(&self, wants: Wants) {
        let mut state = self.lock();
        state.stalled = wants.stalled;
        // Later is left alone: the core thread wakes once for nothing, which is cheaper than telling it each time.
        if wants.until < state.until {
            state.until = wants.until;
            state.rearmed = true;
            self.ring(state);
        }
    }

    /// Notes what the machine wants after a round that the core thread did.
    pub fn arm(&self, wants: Wants) {
        let mut state = self.lock();
        state.stalled = wants.stalled;
        state.until = wants.until;
    }

    /// Lets so much more come in.
    pub fn release(&self, units: usize) {
        self.room.add_permits(units);
    }

    /// Gives an answer. Jobs that were lent to somebody who has gone are taken back.
    pub fn answer(&self, caller: Caller, reply: Result<Reply>) {
        if let Err(Ok(Reply::Lease(leased))) = caller.answer.send(reply) {
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

    pub fn health(&self) -> Result<()> {
        match &*self.health.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None if self.room.is_closed() => Err(closed()),
            None => Ok(()),
        }
    }

    pub fn set_space(&self, space: Space) {
        *self.space.lock().unwrap_or_else(PoisonError::into_inner) = space;
    }

    pub fn space(&self) -> Space {
        let space = self.space.lock();
        space.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much room an operation takes.
fn units(op: &Op) -> usize {
    let bytes = match op {
        Op::Push(jobs) => jobs.iter().map(|job| weight(&job.spec)).sum(),
        Op::Publish(message) => weight(&message.spec),
        Op::Adopt(Adoption {
            step: Step::Jobs(jobs),
            ..
        }) => jobs.iter().map(|job| weight(&job.spec())).sum(),
        Op::Settle(items) => items.iter().map(|item| outcome(&item.outcome)).sum(),
        Op::Extend(items) => items
            .iter()
            .map(|item| 64 + item.progress.as_ref().map_or(0, Bytes::len))
            .sum(),
        _ => 0,
    };
    (1 + bytes / 1024).min(UNITS)
}

fn outcome(outcome: &Outcome) -> usize {
    let text = match outcome {
        Outcome::Ack { result } => result.as_ref().map_or(0, Bytes::len),
        Outcome::Fail { error, .. } => error.len(),
        Outcome::Bury { error, .. } => error.as_ref().map_or(0, String::len),
        Outcome::Release { .. } | Outcome::Snooze { .. } => 0,
    };
    64 + text
}

/// Whether an operation is over so soon that its caller can do it. The others may read a good part of the store, or write
/// more than should hold up the tasks of the caller's runtime.
fn is_light(op: &Op, units: usize) -> bool {
    let short = matches!(
        op,
        Op::Push(_) | Op::Lease(_) | Op::Settle(_) | Op::Extend(_) | Op::Find(_)
    );
    short && units <= LIGHT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_was_alone_for_a_while_expects_company_only_now_and_then() {
        let inbox = Inbox::new();
        let mut rounds = Vec::new();
        for _ in 0..2 * LONELY {
            rounds.push(inbox.expects_company());
            let _call = inbox.send(Op::Push(Vec::new())).await.unwrap();
            inbox.take_light().unwrap();
        }
        let wanted = |round| round <= LONELY;
        assert!((0..2 * LONELY).map(wanted).eq(rounds));
        // A round with two calls, and there is company again.
        assert!(inbox.expects_company());
        let _one = inbox.send(Op::Push(Vec::new())).await.unwrap();
        let _other = inbox.send(Op::Push(Vec::new())).await.unwrap();
        inbox.take_light().unwrap();
        assert!(inbox.expects_company());
    }
}
