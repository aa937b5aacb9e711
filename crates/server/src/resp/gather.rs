//! Commands that were sent one behind the other, in few calls.
//!
//! New jobs, and what ends leases or what prolongs them, do not depend on each other, so a row of them is one call of each kind, and
//! all share one sync of the disk. Within a kind their order is kept. Anything else waits until they are answered: what ends a
//! lease behind what prolongs one, whatever names a job without its lease, a job that is refused from a length on, and a key,
//! which may be free only once a job has ended.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Extend, Outcome, Retry, Settle};
use auxo_core::job::Ttl;
use auxo_core::json::show;
use auxo_core::{Code, Error, JobSpec, NewJob, Result, When};
use auxo_wire::resp::{AddJob, Command, Id, Item, Life, Reply};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};

use super::session::{Session, refusal};
use crate::answers::Answers;
use crate::auth::{Caller, Identity, Right, Via};
use crate::calls;
use crate::clock::within;
use crate::line::{LARGE, Line, unanswered};

/// A row of commands, and what must be asked for them.
#[derive(Default)]
struct Row {
    steps: Vec<Step>,
    pushes: Vec<Result<NewJob>>,
    settles: Vec<Result<Settle>>,
    extends: Vec<Result<Extend>>,
}

impl Row {
    fn settle_all(&mut self, ids: &[Id], outcome: fn() -> Outcome) -> Step {
        let before = self.settles.len();
        for id in ids {
            if let Id::Delivery(token) = *id {
                let outcome = outcome();
                self.settles.push(Ok(Settle { token, outcome }));
            }
        }
        Step::Count(self.settles.len() - before)
    }
}

/// Where the answer to a command comes from.
enum Step {
    /// It is this.
    Known(Reply),
    /// The next push; the job lives so long.
    Add(Life),
    /// The next push, all that is known of it.
    Push,
    /// The next so many settles: how many of them are well.
    Count(usize),
    /// The next settle.
    Settle,
    /// The next extend.
    Extend,
}

impl Session {
    /// Answers the row of commands at the beginning.
    pub(super) async fn gather<S>(
        &mut self,
        line: &mut Line<S>,
        items: &mut VecDeque<Item>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut row = Row::default();
        let asker = self.asker();
        while let Some(item) = items.pop_front() {
            match self.step(item, &mut row, asker.as_ref()) {
                Ok(step) => row.steps.push(step),
                Err(item) => {
                    items.push_front(item);
                    break;
                }
            }
        }
        if row.steps.is_empty() {
            return Ok(());
        }
        let app = self.app.clone();
        let identity = asker.unwrap_or_else(Identity::nobody);
        let calls = async {
            let from = self.ends.visitor.from;
            let pusher = Caller::new(identity.clone(), Right::Push, from, Via::Resp);
            let push = calls::jobs::push(&app, &pusher, row.pushes);
            // Most rows are of new jobs only. To wait for three calls, two of them about nothing, costs more than one does.
            if row.settles.is_empty() && row.extends.is_empty() {
                return (push.await, Ok(Vec::new()), Ok(Vec::new()));
            }
            let by = Caller::new(identity, Right::Lease, from, Via::Resp);
            let none = HashSet::new();
            tokio::join!(
                push,
                calls::leases::settle(&app, &by, row.settles, &none),
                calls::leases::extend(&app, &by, row.extends, &none)
            )
        };
        let answered = within(self.app.settings.answer_time, &mut self.clock, calls).await;
        let (pushed, settled, extended) = answered.map_err(unanswered)?;
        let (mut pushed, mut settled) = (Answers::new(pushed), Answers::new(settled));
        let mut extended = Answers::new(extended);
        for step in row.steps {
            let reply = match step {
                Step::Known(reply) => reply,
                Step::Add(life) => match pushed.next() {
                    Ok(pushed) => Reply::Id(Id::of_job(pushed.id, life)),
                    Err(error) => refusal(&error),
                },
                Step::Push => shown(pushed.next().map(|pushed| show::pushed(&pushed))),
                Step::Count(count) => counted((0..count).map(|_| settled.next())),
                Step::Settle => shown(settled.next().map(|settled| show::settled(&settled))),
                Step::Extend => shown(extended.next().map(|extended| show::extended(&extended))),
            };
            self.say(&reply, &mut line.output);
            if line.output.len() >= LARGE {
                line.flush().await?;
            }
        }
        Ok(())
    }

    /// Adds a command to the row, if it can be a part of it.
    fn step(&self, item: Item, row: &mut Row, asker: Option<&Arc<Identity>>) -> Result<Step, Item> {
        let command = match item {
            Item::Wrong(reply) => return Ok(Step::Known(reply)),
            Item::Command(command) => command,
        };
        if !can_be_joined(&command) {
            return Err(Item::Command(command));
        }
        if let Err(refusal) = self.admit(asker, &command) {
            return Ok(Step::Known(refusal));
        }
        match command {
            Command::AddJob(add) if add.maxlen.is_none() => {
                let life = life(&add);
                row.pushes.push(Ok(self.new_job(add)));
                Ok(Step::Add(life))
            }
            Command::AckJob(ids) | Command::FastAck(ids) if self.can_settle(&ids, row) => {
                Ok(row.settle_all(&ids, || ACK))
            }
            Command::Nack(ids) if self.can_settle(&ids, row) => Ok(row.settle_all(&ids, nack)),
            Command::Push(job) if job.spec.key.is_none() || row.settles.is_empty() => {
                row.pushes.push(Ok(*job));
                Ok(Step::Push)
            }
            Command::Settle(settle) if self.has_room(1, row) => {
                row.settles.push(Ok(*settle));
                Ok(Step::Settle)
            }
            Command::Extend(extend) if row.settles.is_empty() => {
                row.extends.push(Ok(*extend));
                Ok(Step::Extend)
            }
            other => Err(Item::Command(other)),
        }
    }

    /// Whether all of these ids carry leases that can be ended with the others.
    fn can_settle(&self, ids: &[Id], row: &Row) -> bool {
        self.has_room(ids.len(), row) && !ids.iter().any(|id| matches!(id, Id::Job(_)))
    }

    /// Whether so many leases more can be ended in the same call. One that is prolonged before is prolonged first.
    fn has_room(&self, settles: usize, row: &Row) -> bool {
        row.extends.is_empty() && row.settles.len() + settles <= self.app.service.limits().batch
    }

    pub(super) fn new_job(&self, add: AddJob) -> NewJob {
        NewJob {
            queue: add.queue,
            spec: JobSpec {
                payload: add.body,
                when: match add.delay.is_zero() {
                    true => When::Now,
                    false => When::After(add.delay),
                },
                ttr: add.retry,
                ttl: Ttl::After(add.ttl),
                // Disque hands a job out again for as long as it lives.
                max_attempts: self.app.service.limits().max_attempts,
                ..JobSpec::default()
            },
        }
    }
}

/// Whether a command may be a part of a row. What comes by itself is admitted when it is its turn.
fn can_be_joined(command: &Command) -> bool {
    matches!(
        command,
        Command::AddJob(_)
            | Command::AckJob(_)
            | Command::FastAck(_)
            | Command::Nack(_)
            | Command::Push(_)
            | Command::Settle(_)
            | Command::Extend(_)
    )
}

pub(super) fn life(add: &AddJob) -> Life {
    Life::new(Some(add.ttl), add.retry)
}

/// The job is done.
pub(super) const ACK: Outcome = Outcome::Ack { result: None };

/// The job failed, and goes back at once.
pub(super) fn nack() -> Outcome {
    Outcome::Fail {
        error: "nack".to_owned(),
        delay: Some(Duration::ZERO),
        retry: Retry::Policy,
    }
}

/// The job goes back to its place.
pub(super) fn release() -> Outcome {
    Outcome::Release {
        priority: None,
        delay: None,
    }
}

/// How many are well. A lease that is lost is just not counted; what an engine cannot say is told.
fn counted<T>(answers: impl Iterator<Item = Result<T>>) -> Reply {
    let (mut count, mut wrong) = (0, None);
    // To the last one, for the next command's answers are behind it.
    for answer in answers {
        match answer {
            Ok(_) => count += 1,
            Err(error) if is_gone(&error) => {}
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    wrong.map_or(Reply::Number(count), |error| refusal(&error))
}

/// Whether an error says that there is nothing left to do.
pub(super) fn is_gone(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::LeaseLost | Code::NotFound | Code::Conflict
    )
}

/// An answer as it is in JSON.
pub(super) fn shown(answer: Result<impl Serialize>) -> Reply {
    match answer {
        Err(error) => Reply::from(&error),
        Ok(answer) => match serde_json::to_value(answer) {
            Ok(value) => value.into(),
            Err(error) => Reply::from(&Error::new(Code::Internal, error.to_string())),
        },
    }
}
