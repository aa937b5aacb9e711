//! Calls that count only when replicas have confirmed them.
//!
//! `WAIT` holds up whatever comes after it on the same connection, so these calls have one of their own, and go in groups: all
//! that came while the last group waited are sent together, and one `WAIT` behind them is for all.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::connection::Connection;
use super::dial::is_primary;
use super::door::Door;
use super::fault::Fault;
use super::lane::Lane;

/// How much later than it should Redis may end a `WAIT`.
const TICK: Duration = Duration::from_millis(150);
/// How many calls go together.
const GROUP: usize = 256;

/// The way of such calls to one server.
pub(super) struct Commits {
    door: Arc<Door>,
    queue: Mutex<Option<mpsc::Sender<Item>>>,
}

/// How many replicas must confirm: this many, or all that are connected.
pub(super) type Asked = Option<u32>;

/// An answer, and how many replicas have the change of those that must.
pub(super) struct Committed {
    pub(super) answer: Value,
    pub(super) confirmed: u32,
    pub(super) asked: u32,
}

struct Item {
    commands: Vec<Cmd>,
    asked: Asked,
    since: Instant,
    until: Instant,
    answer: oneshot::Sender<Result<Committed, Fault>>,
}

impl Commits {
    pub(super) fn new(door: Arc<Door>) -> Commits {
        Commits {
            door,
            queue: Mutex::default(),
        }
    }

    /// Sends commands that belong together, and answers with the answer of the last when it is confirmed, or the time for
    /// that is over.
    pub(super) async fn ask(
        &self,
        commands: Vec<Cmd>,
        asked: Asked,
        until: Instant,
    ) -> Result<Committed, Fault> {
        let (answer, answered) = oneshot::channel();
        let item = Item {
            commands,
            asked,
            since: Instant::now(),
            until,
            answer,
        };
        let full = || Fault::Away("too many calls wait for replicas".to_owned());
        let queued = tokio::time::timeout_at(until, self.queue().send(item)).await;
        queued.map_err(|_| full())?.map_err(|_| full())?;
        match tokio::time::timeout_at(until, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(Fault::Lost("redis did not answer in time".to_owned())),
        }
    }

    fn queue(&self) -> mpsc::Sender<Item> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match &*queue {
            Some(queue) if !queue.is_closed() => queue.clone(),
            _ => {
                let (sender, items) = mpsc::channel(GROUP);
                tokio::spawn(serve(Lane::new(self.door.clone()), items));
                queue.insert(sender).clone()
            }
        }
    }
}

/// Until nobody can ask any more.
async fn serve(lane: Lane, mut items: mpsc::Receiver<Item>) {
    let mut group = Vec::new();
    while items.recv_many(&mut group, GROUP).await > 0 {
        // Whoever gave up is not to be surprised by a change.
        group.retain(|item| !item.answer.is_closed());
        // What has little time left would hardly be confirmed in it: it is better not done.
        let late: Vec<Item> = group.extract_if(.., |item| item.is_late()).collect();
        all(
            late,
            &Fault::Away("replicas are slow to confirm".to_owned()),
        );
        let Some(first) = group.iter().map(|item| item.until).min() else {
            continue;
        };
        match lane.get(first).await {
            Ok(connection) => {
                let lost = send(&connection, std::mem::take(&mut group), first).await;
                if lost.is_err() {
                    lane.leave(&connection);
                }
            }
            Err(fault) => all(group.drain(..), &fault),
        }
    }
}

impl Item {
    /// Whether it was in line for most of its time.
    fn is_late(&self) -> bool {
        let left = self.until.saturating_duration_since(Instant::now());
        left < (self.until - self.since) / 4
    }
}

fn all(items: impl IntoIterator<Item = Item>, fault: &Fault) {
    for item in items {
        let _ = item.answer.send(Err(fault.clone()));
    }
}

/// Sends a group and answers each of it. An error is that the connection is of no use any more.
async fn send(connection: &Connection, group: Vec<Item>, until: Instant) -> Result<(), ()> {
    match confirmed(connection, &group, until).await {
        Err(fault) => {
            all(group, &fault);
            Err(())
        }
        Ok((answers, confirmed, asked)) => {
            for (item, answer) in group.into_iter().zip(answers) {
                let _ = item.answer.send(answer.map(|answer| Committed {
                    answer,
                    confirmed,
                    asked,
                }));
            }
            Ok(())
        }
    }
}

type Answers = Vec<Result<Value, Fault>>;

/// The answers, how many replicas confirmed all of it, and how many had to.
async fn confirmed(
    connection: &Connection,
    group: &[Item],
    until: Instant,
) -> Result<(Answers, u32, u32), Fault> {
    let mut commands = redis::pipe();
    for command in group.iter().flat_map(|item| &item.commands) {
        commands.add_command(command.clone());
    }
    let fixed = group.iter().map(|item| item.asked).max().flatten();
    match fixed {
        Some(asked) => {
            add_wait(&mut commands, asked, until);
            let mut answers = connection.ask_all(&commands, until).await?;
            let waited = answers.pop().transpose();
            Ok((last_of_each(group, answers), count(waited)?, asked))
        }
        None => {
            // Asked behind the changes: a replica that comes later begins with a copy that has them.
            commands.cmd("ROLE");
            let mut answers = connection.ask_all(&commands, until).await?;
            let Some(replicas) = answers.pop().and_then(replicas) else {
                return Ok((last_of_each(group, answers), 0, 1));
            };
            let asked = replicas.max(1);
            let mut wait = redis::pipe();
            add_wait(&mut wait, asked, until);
            let waited = match connection.ask_all(&wait, until).await {
                Ok(mut waited) => waited.pop().transpose(),
                // The changes were sent, only this was not.
                Err(Fault::Away(why)) => Err(Fault::Lost(why)),
                Err(fault) => Err(fault),
            };
            Ok((last_of_each(group, answers), count(waited)?, asked))
        }
    }
}

fn add_wait(commands: &mut Pipeline, asked: u32, until: Instant) {
    // A little less than there is, so that "too few" is what the caller hears, rather than nothing. Redis looks ten times in
    // a second whose time is over.
    let left = until.saturating_duration_since(Instant::now());
    let left = left.saturating_sub(TICK).min(left * 9 / 10).as_millis();
    // Zero would be for ever.
    let left = u64::try_from(left).unwrap_or(u64::MAX).max(1);
    commands.cmd("WAIT").arg(asked).arg(left);
}

fn last_of_each(group: &[Item], answers: Answers) -> Answers {
    let mut answers = answers.into_iter();
    let last = |item: &Item| {
        let skipped = item.commands.len().saturating_sub(1);
        answers.nth(skipped).unwrap_or_else(|| {
            Err(Fault::Lost(
                "redis gave fewer answers than it was asked for".to_owned(),
            ))
        })
    };
    group.iter().map(last).collect()
}

/// What `WAIT` answered. The changes are made, so an error of it leaves them unconfirmed.
fn count(waited: Result<Option<Value>, Fault>) -> Result<u32, Fault> {
    match waited {
        Ok(Some(Value::Int(count))) => Ok(u32::try_from(count).unwrap_or(0)),
        Ok(other) => Err(Fault::Lost(format!("redis answered WAIT with {other:?}"))),
        Err(Fault::Refused(refusal)) => Err(Fault::Lost(format!("redis refused WAIT: {refusal}"))),
        Err(Fault::Denied(why)) => Err(Fault::Lost(format!("redis refused WAIT: {why}"))),
        Err(fault) => Err(fault),
    }
}

/// How many replicas are connected, as `ROLE` tells. Nothing, if it is a primary no longer.
fn replicas(role: Result<Value, Fault>) -> Option<u32> {
    let role = role.ok().filter(is_primary)?;
    let Value::Array(parts) = role else {
        return None;
    };
    match parts.get(2) {
        Some(Value::Array(replicas)) => u32::try_from(replicas.len()).ok(),
        _ => None,
    }
}
