//! A client that writes down what it does: before each call that it is about to be made, and then what came of it.

use std::sync::Arc;

use auxo_core::engine::*;
use auxo_core::job::Leased;
use auxo_core::time::millis;
use auxo_core::{Error, JobId, NewJob, Result, State};

use crate::history::{Event, Op, Phase, Recorder, hash};

/// One producer or worker whose calls are recorded. A future that is dropped leaves its call without an answer.
#[derive(Clone)]
pub struct Witness {
    engine: Arc<dyn Engine>,
    recorder: Arc<Recorder>,
    process: u32,
}

impl Witness {
    /// A client of this engine that goes by this number.
    pub fn new(engine: Arc<dyn Engine>, recorder: Arc<Recorder>, process: u32) -> Witness {
        Witness {
            engine,
            recorder,
            process,
        }
    }

    /// Pushes jobs, with an event for each.
    pub async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        let calls: Vec<u64> = jobs.iter().map(|job| self.invoke(pushing(job))).collect();
        let answers = self.engine.push(jobs).await;
        self.answers(Op::Push, &calls, &answers, |pushed| Event {
            id: Some(pushed.id),
            due: Some(pushed.run_at.0),
            state: Some(pushed.state),
            how: Some(pushed.how),
            ..Event::default()
        });
        answers
    }

    /// Leases jobs. Each `ok` says how many jobs the answer had, so that one cut short can be told.
    pub async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        let ttr = ask.ttr;
        let call = self.invoke(Event {
            op: Op::Lease,
            limit: Some(ask.max),
            ..Event::default()
        });
        let answer = self.engine.lease(ask).await;
        match &answer {
            Err(error) => self.refused(Op::Lease, call, error),
            Ok(leased) if leased.is_empty() => self.answer(Event {
                op: Op::Lease,
                call,
                limit: Some(0),
                ..Event::default()
            }),
            Ok(leased) => {
                for one in leased {
                    let length = ttr.unwrap_or(one.job.ttr);
                    self.answer(Event {
                        op: Op::Lease,
                        call,
                        engine: Some(one.deadline.minus(length).0),
                        id: Some(one.job.id),
                        token: Some(one.token),
                        attempt: Some(one.job.attempt),
                        deadline: Some(one.deadline.0),
                        due: Some(one.job.run_at.0),
                        hash: Some(hash(&one.job.payload)),
                        limit: Some(leased.len() as u32),
                        ..Event::default()
                    });
                }
            }
        }
        answer
    }

    /// Settles one lease.
    pub async fn settle(&self, item: Settle) -> Result<Settled> {
        let op = Op::of(&item.outcome);
        let call = self.invoke(Event {
            op,
            token: Some(item.token),
            ..Event::default()
        });
        let answers = self.engine.settle(vec![item]).await;
        self.answers(op, &[call], &answers, |settled| Event {
            id: Some(settled.id),
            state: Some(settled.state),
            due: settled.run_at.map(|at| at.0),
            ..Event::default()
        });
        only(answers)
    }

    /// Extends one lease.
    pub async fn extend(&self, item: Extend) -> Result<Extended> {
        let call = self.invoke(Event {
            op: Op::Extend,
            token: Some(item.token),
            ..Event::default()
        });
        let answers = self.engine.extend(vec![item]).await;
        self.answers(Op::Extend, &[call], &answers, |extended| Event {
            id: Some(extended.id),
            deadline: Some(extended.deadline.0),
            ..Event::default()
        });
        only(answers)
    }

    /// Kicks one job.
    pub async fn kick(&self, id: JobId) -> Result<State> {
        self.steer(Op::Kick, Action::Kick, id).await
    }

    /// Cancels one job.
    pub async fn cancel(&self, id: JobId) -> Result<State> {
        self.steer(Op::Cancel, Action::Cancel, id).await
    }

    async fn steer(&self, op: Op, action: Action, id: JobId) -> Result<State> {
        let call = self.invoke(Event {
            op,
            id: Some(id),
            ..Event::default()
        });
        let order = Order {
            target: Target::Jobs(vec![id]),
            action,
            mode: Mode::Act,
        };
        let steered = self.engine.steer(order).await;
        let answers = steered.map(|steered| steered.results);
        self.answers(op, &[call], &answers, |state| Event {
            id: Some(id),
            state: Some(*state),
            ..Event::default()
        });
        only(answers)
    }

    fn invoke(&self, event: Event) -> u64 {
        let process = self.process;
        self.recorder.invoke(Event { process, ..event })
    }

    fn answer(&self, event: Event) {
        let process = self.process;
        self.recorder.answer(Event { process, ..event });
    }

    fn refused(&self, op: Op, call: u64, error: &Error) {
        self.answer(Event {
            op,
            call,
            phase: Phase::after(error.code()),
            code: Some(error.code()),
            ..Event::default()
        });
    }

    fn answers<T>(
        &self,
        op: Op,
        calls: &[u64],
        answers: &Result<Vec<Result<T>>>,
        show: impl Fn(&T) -> Event,
    ) {
        for (index, call) in calls.iter().enumerate() {
            let answer = match answers {
                Ok(items) => items.get(index).map(Result::as_ref),
                Err(error) => Some(Err(error)),
            };
            match answer {
                Some(Ok(item)) => self.answer(Event {
                    op,
                    call: *call,
                    ..show(item)
                }),
                Some(Err(error)) => self.refused(op, *call, error),
                // An engine that leaves an answer out leaves its effect open.
                None => {}
            }
        }
    }
}

fn pushing(job: &NewJob) -> Event {
    let key = job.spec.key.as_ref();
    Event {
        op: Op::Push,
        hash: Some(hash(&job.spec.payload)),
        queue: Some(job.queue.to_string()),
        priority: Some(job.spec.priority),
        key: key.map(|key| format!("{}/{}", job.queue, key.name)),
        window: key.map(|key| millis(key.window)),
        limit: Some(job.spec.max_attempts),
        ..Event::default()
    }
}

/// The answer to a call with one item.
fn only<T>(answers: Result<Vec<Result<T>>>) -> Result<T> {
    let missing = || Error::new(auxo_core::Code::Internal, "no answer for the item");
    answers?.pop().unwrap_or_else(|| Err(missing()))
}
