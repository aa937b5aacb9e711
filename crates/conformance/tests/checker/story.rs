//! Words to write a history by hand with. Every lease lasts 100 ms and every job may be tried three times.

use auxo_conformance::checker::{FinalState, Found, Kind, Outcome, Rules, Verdict, check};
use auxo_conformance::history::{Event, History, Op, Phase};
use auxo_core::engine::Accepted;
use auxo_core::{JobId, State, Token};

/// How long a key stays taken after its job was done, in milliseconds.
pub const WINDOW: u64 = 60_000;

/// A history in the making. The payload hash of a push is the number it is called by.
#[derive(Clone, Default)]
pub struct Story {
    pub history: History,
    clock: u64,
    call: u64,
}

impl Story {
    fn event(&mut self, event: Event) -> &mut Story {
        self.clock += 1;
        let (at, call, process) = (self.clock, self.call, 1);
        self.history.events.push(Event {
            at,
            call,
            process,
            ..event
        });
        self
    }

    fn call(&mut self, invoke: Event, answer: Option<Event>) -> &mut Story {
        self.call += 1;
        let op = invoke.op;
        self.event(Event {
            phase: Phase::Invoke,
            ..invoke
        });
        if let Some(answer) = answer {
            self.event(Event { op, ..answer });
        }
        self
    }

    pub fn now(&self) -> u64 {
        self.clock + 1
    }

    pub fn pass(&mut self, micros: u64) -> &mut Story {
        self.clock += micros;
        self
    }

    pub fn mark(&mut self, op: Op) -> &mut Story {
        self.call += 1;
        self.event(Event {
            op,
            ..Event::default()
        })
    }

    pub fn pushed(&mut self, id: u64) -> &mut Story {
        self.push(id, Phase::Ok)
    }

    pub fn pushed_due(&mut self, id: u64, due: u64) -> &mut Story {
        self.push(id, Phase::Ok);
        let answer = self.history.events.last_mut().expect("an answer");
        answer.due = Some(due);
        self
    }

    /// Ready at once, in a queue and with a priority.
    pub fn pushed_to(&mut self, queue: &str, priority: u32, id: u64) -> &mut Story {
        self.push(id, Phase::Ok);
        let last = self.history.events.len() - 1;
        let events = &mut self.history.events;
        events[last].state = Some(State::Ready);
        events[last - 1].queue = Some(queue.to_owned());
        events[last - 1].priority = Some(priority);
        self
    }

    /// The second is told while the first, one call, is under way.
    pub fn meanwhile(
        &mut self,
        first: impl FnOnce(&mut Story) -> &mut Story,
        second: impl FnOnce(&mut Story) -> &mut Story,
    ) -> &mut Story {
        first(self);
        let answer = self.history.events.pop().expect("an answer");
        second(self);
        self.history.events.push(answer);
        self
    }

    pub fn push(&mut self, id: u64, phase: Phase) -> &mut Story {
        self.push_with(id, id, None, phase, Accepted::New)
    }

    pub fn keyed(&mut self, id: u64, key: &str, phase: Phase) -> &mut Story {
        self.push_with(id, id, Some(key), phase, Accepted::New)
    }

    pub fn keyed_as(&mut self, hash: u64, id: u64, key: &str, how: Accepted) -> &mut Story {
        self.push_with(hash, id, Some(key), Phase::Ok, how)
    }

    fn push_with(
        &mut self,
        hash: u64,
        id: u64,
        key: Option<&str>,
        phase: Phase,
        how: Accepted,
    ) -> &mut Story {
        let invoke = Event {
            op: Op::Push,
            hash: Some(hash),
            key: key.map(str::to_owned),
            window: key.map(|_| WINDOW),
            limit: Some(3),
            ..Event::default()
        };
        let answer = match phase {
            Phase::Ok => Some(Event {
                id: Some(JobId(id)),
                due: Some(0),
                how: Some(how),
                ..Event::default()
            }),
            Phase::Fail => Some(Event {
                phase,
                ..Event::default()
            }),
            _ => None,
        };
        self.call(invoke, answer)
    }

    pub fn leased(&mut self, id: u64, counter: u64, attempt: u32, at: u64) -> &mut Story {
        let answer = Event {
            engine: Some(at),
            id: Some(JobId(id)),
            token: Some(token(id, counter)),
            attempt: Some(attempt),
            deadline: Some(at + 100),
            hash: Some(id),
            limit: Some(1),
            ..Event::default()
        };
        self.call(asked(), Some(answer))
    }

    /// One job of an answer that had `count`; the others were never written down.
    pub fn leased_of(&mut self, count: u32, id: u64, counter: u64) -> &mut Story {
        self.leased(id, counter, 1, 10);
        let answer = self.history.events.last_mut().expect("an answer");
        answer.limit = Some(count);
        self
    }

    pub fn lease_unanswered(&mut self) -> &mut Story {
        self.call(asked(), None)
    }

    pub fn settled(&mut self, op: Op, id: u64, counter: u64) -> &mut Story {
        let state = match op {
            Op::Ack => State::Done,
            Op::Bury => State::Dead,
            _ => State::Ready,
        };
        self.end(op, id, counter, state, None)
    }

    pub fn retried(&mut self, id: u64, counter: u64, due: u64) -> &mut Story {
        self.end(Op::Fail, id, counter, State::Scheduled, Some(due))
    }

    pub fn failed_for_good(&mut self, id: u64, counter: u64) -> &mut Story {
        self.end(Op::Fail, id, counter, State::Dead, None)
    }

    fn end(&mut self, op: Op, id: u64, counter: u64, state: State, due: Option<u64>) -> &mut Story {
        let answer = Event {
            id: Some(JobId(id)),
            state: Some(state),
            due,
            ..Event::default()
        };
        self.call(about(op, id, counter), Some(answer))
    }

    pub fn refused(&mut self, op: Op, id: u64, counter: u64) -> &mut Story {
        let answer = Event {
            phase: Phase::Fail,
            ..Event::default()
        };
        self.call(about(op, id, counter), Some(answer))
    }

    pub fn unanswered(&mut self, op: Op, id: u64, counter: u64) -> &mut Story {
        self.call(about(op, id, counter), None)
    }

    pub fn extended(&mut self, id: u64, counter: u64, deadline: u64) -> &mut Story {
        let answer = Event {
            deadline: Some(deadline),
            ..Event::default()
        };
        self.call(about(Op::Extend, id, counter), Some(answer))
    }

    pub fn kicked(&mut self, id: u64) -> &mut Story {
        self.steered(Op::Kick, id, State::Ready)
    }

    pub fn cancelled(&mut self, id: u64) -> &mut Story {
        self.steered(Op::Cancel, id, State::Cancelled)
    }

    fn steered(&mut self, op: Op, id: u64, state: State) -> &mut Story {
        let invoke = Event {
            op,
            id: Some(JobId(id)),
            ..Event::default()
        };
        let answer = Event {
            state: Some(state),
            ..Event::default()
        };
        self.call(invoke, Some(answer))
    }

    pub fn check(&self, found: &[Found]) -> Verdict {
        let rules = Rules {
            min_accepted: 0,
            ..Rules::default()
        };
        check(&self.history, &end(found), &rules)
    }

    /// Fails unless this job breaks this promise, and nothing else is broken.
    #[track_caller]
    pub fn expect(&self, verdict: &Verdict, kind: Kind, id: u64) {
        let seen: Vec<_> = verdict
            .anomalies
            .iter()
            .map(|it| (it.kind, it.job))
            .collect();
        assert_eq!(seen, [(kind, Some(JobId(id)))], "{verdict}");
        assert_eq!(verdict.outcome, Outcome::Violated);
    }

    #[track_caller]
    pub fn expect_none(&self, verdict: &Verdict) {
        assert_eq!(verdict.outcome, Outcome::Pass, "{verdict}");
    }
}

fn token(id: u64, counter: u64) -> Token {
    Token {
        job: JobId(id),
        counter,
        nonce: counter * 31,
    }
}

fn asked() -> Event {
    Event {
        op: Op::Lease,
        limit: Some(1),
        ..Event::default()
    }
}

fn about(op: Op, id: u64, counter: u64) -> Event {
    Event {
        op,
        token: Some(token(id, counter)),
        ..Event::default()
    }
}

/// A job that was found at the end.
pub fn found(id: u64, state: State, attempt: u32) -> Found {
    Found {
        id: JobId(id),
        hash: id,
        state,
        attempt: Some(attempt),
        dead: None,
        error: state == State::Dead,
    }
}

/// What was found at the end, without books.
pub fn end(jobs: &[Found]) -> FinalState {
    FinalState {
        jobs: jobs.to_vec(),
        books: None,
    }
}
