//! What must be true: the contract's model in step with the machine, and what a restart may show of it.

use std::collections::{BTreeSet, HashMap, VecDeque};

use auxo_conformance::{Mint, Model};
use auxo_core::engine::{
    Ask, Change, Extend, Extended, Message, Mode, Order, Pushed, Settle, Settled, Target,
};
use auxo_core::job::Leased;
use auxo_core::life::{Event, State};
use auxo_core::time::{Now, Timestamp};
use auxo_core::{Code, JobId, NewJob, QueueName, Result, Token};

use super::compare::{Nameless, PAGE, differences};
use super::promises::Promises;
use super::store::{Round, START, Store};
use crate::machine::{Op, Reply, Ticket};
use crate::record::Position;

/// The smallest piece of what a round does. A group of records ends between two of these, never inside one.
#[derive(Clone, Debug)]
enum Atom {
    Advance,
    /// These queues are waited for.
    Await(BTreeSet<QueueName>),
    Push(NewJob),
    Lease(Ask),
    /// To a call that waits.
    Offer(Ask),
    Settle(Settle),
    Extend(Extend),
    Steer(Order),
    Change(Change),
    Publish(Message),
}

/// An answer to an atom, without the wording of errors.
#[derive(Debug, PartialEq)]
enum Said {
    Nothing,
    Pushed(std::result::Result<Pushed, Code>),
    Leased(Vec<Loan>),
    Settled(std::result::Result<Settled, Code>),
    Extended(std::result::Result<Extended, Code>),
    Steered(Vec<std::result::Result<State, Code>>),
    Changed(std::result::Result<(), Code>),
    Published(std::result::Result<Vec<Pushed>, Code>),
}

/// What a worker goes by.
#[derive(Debug, PartialEq)]
struct Loan {
    id: JobId,
    /// Length and checksum.
    payload: (usize, u32),
    attempt: u32,
    token: Token,
    deadline: Timestamp,
}

/// A request, as the machine and the model get it.
#[derive(Clone, Debug)]
pub enum Request {
    Push(Vec<NewJob>),
    Lease(Ask),
    Settle(Vec<Settle>),
    Extend(Vec<Extend>),
    Steer(Order),
    Change(Change),
    Publish(Message),
}

impl Request {
    fn op(&self) -> Op {
        match self.clone() {
            Request::Push(jobs) => Op::Push(jobs),
            Request::Lease(ask) => Op::Lease(ask),
            Request::Settle(items) => Op::Settle(items),
            Request::Extend(items) => Op::Extend(items),
            Request::Steer(order) => Op::Steer(order),
            Request::Change(change) => Op::Change(change),
            Request::Publish(message) => Op::Publish(message),
        }
    }
}

/// Hands the names that the machine gave to the model.
#[derive(Clone, Debug, Default)]
struct Names {
    ids: VecDeque<JobId>,
    tokens: HashMap<JobId, VecDeque<Token>>,
}

impl Mint for Names {
    fn id(&mut self, _queue: &QueueName, _now: Now) -> JobId {
        self.ids
            .pop_front()
            .expect("the model took a job in that the machine did not")
    }

    fn token(&mut self, job: JobId) -> Token {
        self.tokens
            .get_mut(&job)
            .and_then(VecDeque::pop_front)
            .unwrap_or_else(|| panic!("the model lends job {job}, which the machine did not"))
    }

    fn dice(&mut self) -> u64 {
        0
    }
}

/// A round that is not known to be on the disk.
struct Open {
    now: Now,
    atoms: Vec<Atom>,
    names: Names,
    ends: Vec<Position>,
}

struct Waiter {
    ticket: Ticket,
    ask: Ask,
    until: Timestamp,
}

/// See the module.
pub struct Oracle {
    /// In step with the machine.
    model: Model,
    /// As it was at `safe`, with the rounds since.
    base: Model,
    base_now: Now,
    safe: Position,
    open: VecDeque<Open>,
    waiters: Vec<Waiter>,
    tickets: Ticket,
    /// Every job that ever was.
    pub known: BTreeSet<JobId>,
    /// The tokens of leases, running or not, newest last.
    pub tokens: Vec<Token>,
    /// How often everything was compared.
    pub checks: u64,
    /// The number of the newest lease that somebody knows of, and of those that nobody does yet.
    highest_counter: u64,
    counters: Vec<(Ticket, u64)>,
    pub promises: Promises,
}

impl Oracle {
    pub fn new(now: Now) -> Oracle {
        Oracle {
            model: Model::new(),
            base: Model::new(),
            base_now: now,
            safe: START,
            open: VecDeque::new(),
            waiters: Vec::new(),
            tickets: 0,
            known: BTreeSet::new(),
            tokens: Vec::new(),
            checks: 0,
            highest_counter: 0,
            counters: Vec::new(),
            promises: Promises::default(),
        }
    }

    /// Asks store and model the same, and compares what they say. Answers whether the store still runs.
    pub fn round(&mut self, store: &mut Store, now: Now, requests: Vec<Request>) -> bool {
        let first = self.tickets + 1;
        self.tickets += requests.len() as Ticket;
        let ops = requests.iter().enumerate();
        let ops = ops.map(|(i, request)| (first + i as Ticket, request.op()));
        let round = store.round(now, ops.collect());
        if round.broken.is_some() {
            return false;
        }
        let written = round.failed.is_none();
        self.follow(round, now, first, requests);
        written
    }

    /// Takes the model through a round of the machine.
    pub fn follow(&mut self, round: Round, now: Now, first: Ticket, requests: Vec<Request>) {
        let mut names = Names::default();
        names.ids.extend(
            round
                .notices
                .iter()
                .filter(|notice| notice.event == Event::Push)
                .map(|notice| notice.job),
        );
        self.known.extend(&names.ids);
        let mut answers: HashMap<Ticket, Result<Reply>> = HashMap::new();
        // An answer may rest on what an earlier round wrote, also where this one wrote nothing.
        let earlier = self.open.iter().flat_map(|open| &open.ends);
        let end = earlier.chain(&round.ends).last().copied().unwrap_or(START);
        for answer in round.answers {
            self.promises.make(&answer, end);
            if let Ok(Reply::Lease(leased)) = &answer.reply {
                for leased in leased {
                    self.note_token(answer.ticket, leased);
                    names
                        .tokens
                        .entry(leased.token.job)
                        .or_default()
                        .push_back(leased.token);
                }
            }
            let again = answers.insert(answer.ticket, answer.reply);
            assert!(again.is_none(), "two answers to one call");
        }
        let mut step = Following {
            atoms: Vec::new(),
            names: names.clone(),
            now,
        };
        let waits = self.awaited();
        step.take(&mut self.model, waits);
        step.take(&mut self.model, Atom::Advance);
        self.offer(&mut step, &mut answers);
        self.waiters.retain(|waiter| {
            let over = waiter.until <= now.steady;
            if over {
                let answer = answers.remove(&waiter.ticket);
                assert!(
                    matches!(&answer, Some(Ok(Reply::Lease(none))) if none.is_empty()),
                    "a call that waited long enough was not told"
                );
            }
            !over
        });
        for (i, request) in requests.into_iter().enumerate() {
            let ticket = first + i as Ticket;
            self.compare(&mut step, request, ticket, &mut answers);
        }
        self.offer(&mut step, &mut answers);
        let waits = self.awaited();
        step.take(&mut self.model, waits);
        assert!(
            answers.is_empty(),
            "answers that the model does not give: {:?}",
            answers.keys().collect::<Vec<_>>()
        );
        assert!(
            step.names.ids.is_empty(),
            "the machine took jobs in that the model did not"
        );
        self.model.take_notices();
        self.open.push_back(Open {
            now,
            atoms: step.atoms,
            names,
            ends: round.ends,
        });
    }

    fn awaited(&self) -> Atom {
        let waiters = self.waiters.iter();
        let queues = waiters.flat_map(|waiter| waiter.ask.queues.iter().cloned());
        Atom::Await(queues.collect())
    }

    fn note_token(&mut self, ticket: Ticket, leased: &Leased) {
        let counter = leased.token.counter;
        // What was delivered at most once has no lease.
        if counter > 0 {
            assert!(
                counter > self.highest_counter,
                "the counter of tokens does not rise"
            );
            self.counters.push((ticket, counter));
            self.tokens.push(leased.token);
        }
    }

    /// Callers have got these answers: what they say holds, and no later lease may have a smaller number.
    pub fn released(&mut self, tickets: &[Ticket]) {
        self.promises.give(tickets);
        self.counters.retain(|(ticket, counter)| {
            let released = tickets.contains(ticket);
            if released {
                self.highest_counter = self.highest_counter.max(*counter);
            }
            !released
        });
    }

    /// Serves those who wait, first come first served.
    fn offer(&mut self, step: &mut Following, answers: &mut HashMap<Ticket, Result<Reply>>) {
        let model = &mut self.model;
        self.waiters.retain(|waiter| {
            let said = step.take(model, Atom::Offer(waiter.ask.clone()));
            if said == Said::Leased(Vec::new()) {
                step.atoms.pop();
                return true;
            }
            let answer = answers.remove(&waiter.ticket);
            assert_eq!(
                answer.map(leased_said),
                Some(said),
                "a call that waits should have been served"
            );
            false
        });
    }

    fn compare(
        &mut self,
        step: &mut Following,
        request: Request,
        ticket: Ticket,
        answers: &mut HashMap<Ticket, Result<Reply>>,
    ) {
        if let Request::Lease(ask) = request {
            // Who waited longer comes first.
            self.offer(step, answers);
            let model = &mut self.model;
            let said = step.take(model, Atom::Lease(ask.clone()));
            if said == Said::Leased(Vec::new()) && !ask.wait.is_zero() {
                // It waits, and may be served at the end of this very round.
                step.atoms.pop();
                let until = step.now.steady.plus(ask.wait);
                self.waiters.push(Waiter { ticket, ask, until });
            } else {
                let answer = answers.remove(&ticket).expect("an answer at once");
                assert_eq!(leased_said(answer), said);
            }
            return;
        }
        let model = &mut self.model;
        let answer = answers.remove(&ticket);
        let answer = answer.unwrap_or_else(|| panic!("no answer to {request:?}"));
        match (request, answer) {
            (Request::Push(jobs), Ok(Reply::Push(pushed))) => {
                assert_eq!(jobs.len(), pushed.len());
                for (job, pushed) in jobs.into_iter().zip(pushed) {
                    if pushed.as_ref().is_err_and(starving) {
                        continue;
                    }
                    let said = step.take(model, Atom::Push(job));
                    assert_eq!(Said::Pushed(pushed.map_err(code)), said);
                }
            }
            (Request::Settle(items), Ok(Reply::Settle(settled))) => {
                for (item, settled) in items.into_iter().zip(settled) {
                    let said = step.take(model, Atom::Settle(item));
                    assert_eq!(Said::Settled(settled.map_err(code)), said);
                }
            }
            (Request::Extend(items), Ok(Reply::Extend(extended))) => {
                for (item, extended) in items.into_iter().zip(extended) {
                    let said = step.take(model, Atom::Extend(item));
                    assert_eq!(Said::Extended(extended.map_err(code)), said);
                }
            }
            (Request::Steer(order), Ok(Reply::Steer(steered))) => {
                let Target::Jobs(ids) = &order.target else {
                    panic!("only named jobs are steered here");
                };
                for (id, result) in ids.iter().zip(steered.results) {
                    let target = Target::Jobs(vec![*id]);
                    let one = Order {
                        target,
                        action: order.action.clone(),
                        mode: Mode::Act,
                    };
                    let said = step.take(model, Atom::Steer(one));
                    assert_eq!(Said::Steered(vec![result.map_err(code)]), said);
                }
            }
            (Request::Change(change), answer) => {
                let said = step.take(model, Atom::Change(change));
                assert_eq!(Said::Changed(answer.map(drop).map_err(code)), said);
            }
            (Request::Publish(_), Err(error)) if starving(&error) => {}
            (Request::Publish(message), Ok(Reply::Publish(pushed))) => {
                let said = step.take(model, Atom::Publish(message));
                assert_eq!(Said::Published(Ok(pushed)), said);
            }
            (Request::Publish(message), Err(_)) => {
                // The model tries and takes it back: with names of its own. Which of two reasons is told is free.
                let names = &mut Names {
                    ids: (0..10).map(JobId).collect(),
                    ..Names::default()
                };
                let said = take(model, Atom::Publish(message), step.now, names);
                assert!(matches!(said, Said::Published(Err(_))), "{said:?}");
            }
            (request, answer) => panic!("{request:?} failed: {:?}", answer.err()),
        }
    }

    /// Takes over what is safe on the disk by now, so that it need not be thought of again.
    pub fn settle(&mut self, safe: Position) {
        self.promises.settle(safe);
        while let Some(open) = self
            .open
            .front()
            .filter(|open| open.ends.last().is_none_or(|end| *end <= safe))
        {
            let mut names = open.names.clone();
            for atom in &open.atoms {
                take(&mut self.base, atom.clone(), open.now, &mut names);
            }
            self.base.take_notices();
            self.base_now = open.now;
            self.safe = open.ends.last().copied().unwrap_or(self.safe);
            self.open.pop_front();
        }
    }

    /// A new process opened the store: what it shows must be the model at the end of the group up to which it was
    /// recovered, and that must not be before `promised`. From here on model and store go on from there.
    pub fn restarted(&mut self, store: &mut Store, promised: Position) {
        let (found, mut model, now) = self.recover(store, promised);
        self.promises.judge(&mut model, found, now, &mut Nameless);
        model.restart();
        model.use_all(now);
        self.open.clear();
        self.waiters.clear();
        self.counters.clear();
        self.safe = found;
        self.base = model.clone();
        self.base_now = now;
        self.model = model;
        let round = store.round(now, Vec::new());
        assert!(round.broken.is_none(), "{:?}", round.broken);
        self.follow(round, now, 0, Vec::new());
        self.check(store, now);
    }

    /// The same for a store that is not gone on with.
    pub fn recognise(&self, store: &mut Store, promised: Position) {
        let (_, mut model, now) = self.recover(store, promised);
        store.machine.advance(now);
        if let Err(difference) = differences(store, &mut model, &self.known, now, 1_000) {
            panic!("after a power cut: {difference}");
        }
    }

    /// Finds the model that a store which was just opened must be.
    fn recover(&self, store: &mut Store, promised: Position) -> (Position, Model, Now) {
        let found = store.machine.synced.max(START);
        assert!(
            found >= promised,
            "what was promised is gone: the log ends at {found:?}, not at {promised:?}"
        );
        let found = self.behind_seal(found);
        let mut model = self.base.clone();
        let (mut safe, mut now) = (self.safe, self.base_now);
        for open in &self.open {
            if open.ends.last().is_some_and(|end| *end > found) {
                if safe == found {
                    break;
                }
                assert!(
                    open.ends.contains(&found),
                    "the log ends at {found:?}, where no group did"
                );
                return (found, self.find_inside(store, model, open), open.now);
            }
            let mut names = open.names.clone();
            for atom in &open.atoms {
                take(&mut model, atom.clone(), open.now, &mut names);
            }
            model.take_notices();
            now = open.now;
            safe = open.ends.last().copied().unwrap_or(safe);
        }
        assert_eq!(safe, found, "the log ends where no group did");
        (found, model, now)
    }

    /// The beginning of a segment is the end of the group that sealed the one before.
    fn behind_seal(&self, found: Position) -> Position {
        if found.offset > START.offset || found == START {
            return found;
        }
        let ends = self.open.iter().flat_map(|open| &open.ends);
        let before = ends.chain([&self.safe]).filter(|end| **end < found);
        before.max().copied().unwrap_or(found)
    }

    /// The log ends between two groups of one round: the store must be the model after one of its atoms.
    fn find_inside(&self, store: &mut Store, mut model: Model, open: &Open) -> Model {
        let mut names = open.names.clone();
        let mut told = Vec::new();
        // Ticks and deadlines of the round that had not happened do so when the new process first looks at the clock; the
        // model has had them.
        store.machine.advance(open.now);
        store.machine.out.notices.clear();
        // Whether queues had been forgotten in the round or not: the new process counts their hour anew.
        let (mut kept, mut kept_names) = (model.clone(), names.clone());
        kept.keep_queues(true);
        for atom in &open.atoms {
            take(&mut model, atom.clone(), open.now, &mut names);
            take(&mut kept, atom.clone(), open.now, &mut kept_names);
            if matches!(atom, Atom::Await(_)) {
                // It is no change of the store, and before the first one time has not come yet.
                continue;
            }
            match differences(store, &mut model.clone(), &self.known, open.now, PAGE) {
                Ok(()) => return model,
                Err(difference) => told.push(difference),
            }
            if differences(store, &mut kept.clone(), &self.known, open.now, PAGE).is_ok() {
                kept.keep_queues(false);
                return kept;
            }
        }
        panic!(
            "after a restart the store is no state that ever was:\n{}",
            told.join("\n")
        );
    }

    /// Looks at everything.
    pub fn check(&mut self, store: &mut Store, now: Now) {
        if let Err(difference) = differences(store, &mut self.model, &self.known, now, PAGE) {
            panic!("{difference}");
        }
        self.checks += 1;
    }

    /// Power went where nothing was promised to be on the disk.
    pub fn forget_promises(&mut self) {
        self.promises.forget();
        self.forget_tokens();
    }

    /// Even numbers of leases may come again.
    pub fn forget_tokens(&mut self) {
        self.highest_counter = 0;
    }
}

struct Following {
    atoms: Vec<Atom>,
    names: Names,
    now: Now,
}

impl Following {
    fn take(&mut self, model: &mut Model, atom: Atom) -> Said {
        self.atoms.push(atom.clone());
        take(model, atom, self.now, &mut self.names)
    }
}

fn code(error: auxo_core::Error) -> Code {
    error.code()
}

fn starving(error: &auxo_core::Error) -> bool {
    error.message().starts_with("the disk is full")
}

fn leased_said(answer: Result<Reply>) -> Said {
    match answer {
        Ok(Reply::Lease(leased)) => Said::Leased(leased.into_iter().map(loan).collect()),
        _ => panic!("a lease call failed"),
    }
}

fn loan(leased: Leased) -> Loan {
    Loan {
        id: leased.job.id,
        payload: (
            leased.job.payload.len(),
            crc32c::crc32c(&leased.job.payload),
        ),
        attempt: leased.job.attempt,
        token: leased.token,
        deadline: leased.deadline,
    }
}

/// Takes one atom with the model.
fn take(model: &mut Model, atom: Atom, now: Now, names: &mut Names) -> Said {
    let one = "one item has one answer";
    match atom {
        Atom::Advance => {
            model.advance(now, names);
            Said::Nothing
        }
        Atom::Await(queues) => {
            model.set_awaited(queues, now);
            Said::Nothing
        }
        Atom::Push(job) => {
            let pushed = model.push(vec![job], now, names).pop().expect(one);
            Said::Pushed(pushed.map_err(code))
        }
        Atom::Lease(ask) => Said::Leased(
            model
                .lease(&ask, now, names)
                .into_iter()
                .map(loan)
                .collect(),
        ),
        Atom::Offer(ask) => Said::Leased(
            model
                .offer(&ask, now, names)
                .into_iter()
                .map(loan)
                .collect(),
        ),
        Atom::Settle(item) => {
            let settled = model.settle(vec![item], now, names).pop().expect(one);
            Said::Settled(settled.map_err(code))
        }
        Atom::Extend(item) => {
            let extended = model.extend(vec![item], now, names).pop().expect(one);
            Said::Extended(extended.map_err(code))
        }
        Atom::Steer(order) => {
            let steered = model.steer(&order, now, names).expect("named jobs");
            let results = steered.results.into_iter();
            Said::Steered(results.map(|result| result.map_err(code)).collect())
        }
        Atom::Change(change) => Said::Changed(model.change(change, now, names).map_err(code)),
        Atom::Publish(message) => {
            Said::Published(model.publish(&message, now, names).map_err(code))
        }
    }
}
