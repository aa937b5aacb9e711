//! Requests that were sent one behind the other, in few calls.
//!
//! Puts, and what ends or prolongs a reservation, do not depend on each other, so a row of them is one call of each kind, and all
//! share one sync of the disk. Anything else waits until they are answered, and so does a second request about the same job.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::Duration;

use auxo_core::engine::{Extend, Extended, Outcome, Pushed, Settle, Settled};
use auxo_core::{Code, JobSpec, NewJob, Result, When};
use auxo_wire::beanstalk::{Item, Reply, Request};
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::session::{Session, refusal};
use crate::answers::Answers;
use crate::clock::within;
use crate::line::{Line, unanswered};

/// A row of requests, and what must be asked for them.
#[derive(Default)]
struct Row {
    steps: Vec<Step>,
    pushes: Vec<NewJob>,
    settles: Vec<Settle>,
    extends: Vec<Extend>,
    jobs: HashSet<u64>,
}

/// Where the answer to a request comes from.
enum Step {
    /// It is this.
    Known(Reply),
    /// The next push.
    Push,
    /// The next settle; if it is well, this.
    Settle(u64, Reply),
    /// The next extend.
    Extend(u64),
}

impl Session {
    /// Answers the row of requests at the beginning; says whether there was one.
    pub(super) async fn gather<S>(
        &mut self,
        line: &mut Line<S>,
        items: &mut VecDeque<Item>,
    ) -> io::Result<bool>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut row = Row::default();
        while let Some(item) = items.front_mut() {
            match self.step(item, &mut row) {
                Some(step) => row.steps.push(step),
                None => break,
            }
            if let Some(Item::Request(request)) = items.pop_front() {
                self.app.beanstalk.counts.asked(&request);
            }
        }
        if row.steps.is_empty() {
            return Ok(false);
        }
        let service = self.app.service.clone();
        let calls = async {
            let push = service.push(row.pushes);
            // Most rows are of new jobs only. To wait for three calls, two of them about nothing, costs more than one does.
            if row.settles.is_empty() && row.extends.is_empty() {
                return (push.await, Ok(Vec::new()), Ok(Vec::new()));
            }
            tokio::join!(
                push,
                service.settle(row.settles),
                service.extend(row.extends)
            )
        };
        let answered = within(self.app.settings.answer_time, &mut self.clock, calls).await;
        let (pushed, settled, extended) = answered.map_err(unanswered)?;
        let (mut pushed, mut settled) = (Answers::new(pushed), Answers::new(settled));
        let mut extended = Answers::new(extended);
        for step in row.steps {
            let reply = match step {
                Step::Known(reply) => Ok(reply),
                Step::Push => inserted(pushed.next()),
                Step::Settle(id, reply) => self.settled(id, reply, settled.next()).await,
                Step::Extend(id) => self.touched(id, extended.next()),
            };
            match reply {
                Ok(reply) => reply.encode(&mut line.output),
                Err(unknown) => {
                    // It has no answer, and ends the connection; but those before it have one, and nobody is to repeat them.
                    line.flush().await?;
                    return Err(unknown);
                }
            }
        }
        Ok(true)
    }

    /// Adds a request to the row, if it can be a part of it.
    fn step(&mut self, item: &mut Item, row: &mut Row) -> Option<Step> {
        let request = match item {
            Item::Wrong(reply) => return Some(Step::Known(reply.clone())),
            Item::Request(request) => request,
        };
        let settle = |row: &mut Row, id, outcome, reply| {
            if !row.jobs.insert(id) {
                return None;
            }
            let hold = self.held.get(id);
            let Some(token) = hold.and_then(|hold| hold.token) else {
                return Some(Step::Known(Reply::NotFound));
            };
            row.settles.push(Settle { token, outcome });
            Some(Step::Settle(id, reply))
        };
        match request {
            Request::Put {
                priority,
                delay,
                ttr,
                body,
            } => {
                let body = std::mem::take(body);
                let (priority, delay, ttr) = (*priority, *delay, *ttr);
                row.pushes.push(self.new_job(priority, delay, ttr, body));
                self.produces();
                Some(Step::Push)
            }
            Request::Delete(id) => match self.held.get(*id) {
                None => None,
                Some(hold) if hold.token.is_none() => {
                    self.held.remove(*id);
                    Some(Step::Known(Reply::Deleted))
                }
                Some(_) => settle(row, *id, Outcome::Ack { result: None }, Reply::Deleted),
            },
            Request::Release {
                id,
                priority,
                delay,
            } => {
                let outcome = Outcome::Release {
                    priority: Some(*priority),
                    // Without one it goes back to its old place.
                    delay: (*delay > 0).then_some(seconds(*delay)),
                };
                settle(row, *id, outcome, Reply::Released)
            }
            Request::Bury { id, priority } => {
                let outcome = Outcome::Bury {
                    error: None,
                    priority: Some(*priority),
                };
                settle(row, *id, outcome, Reply::Buried)
            }
            Request::Touch(id) => {
                if !row.jobs.insert(*id) {
                    return None;
                }
                let hold = self.held.get(*id);
                let Some(token) = hold.and_then(|hold| hold.token) else {
                    return Some(Step::Known(Reply::NotFound));
                };
                row.extends.push(Extend {
                    token,
                    ttr: None,
                    progress: None,
                });
                Some(Step::Extend(*id))
            }
            _ => None,
        }
    }

    fn new_job(&self, priority: u32, delay: u32, ttr: u32, payload: Bytes) -> NewJob {
        NewJob {
            queue: self.using.name().clone(),
            spec: JobSpec {
                payload,
                priority,
                when: match delay {
                    0 => When::Now,
                    delay => When::After(seconds(delay)),
                },
                ttr: seconds(ttr),
                // beanstalkd hands a job out again for as long as it takes.
                max_attempts: self.app.service.limits().max_attempts,
                ..JobSpec::default()
            },
        }
    }

    async fn settled(
        &mut self,
        id: u64,
        reply: Reply,
        settled: Result<Settled>,
    ) -> io::Result<Reply> {
        let error = match settled {
            Ok(_) => {
                match reply {
                    Reply::Deleted => self.deleted(id),
                    _ => drop(self.held.remove(id)),
                }
                return Ok(reply);
            }
            Err(error) => error,
        };
        if error.code() == Code::LeaseLost {
            self.held.lapse(id);
            if reply == Reply::Deleted {
                let deleted = Box::pin(self.delete_late(id)).await?;
                return deleted.or_else(|error| refusal(&error));
            }
        }
        refusal(&error)
    }

    fn touched(&mut self, id: u64, extended: Result<Extended>) -> io::Result<Reply> {
        match extended {
            Ok(_) => {
                self.held.prolong(id);
                Ok(Reply::Touched)
            }
            Err(error) => {
                if error.code() == Code::LeaseLost {
                    self.held.lapse(id);
                }
                refusal(&error)
            }
        }
    }
}

fn seconds(count: u32) -> Duration {
    Duration::from_secs(count.into())
}

fn inserted(pushed: Result<Pushed>) -> io::Result<Reply> {
    match pushed {
        Ok(pushed) => Ok(Reply::Inserted(pushed.id.0)),
        Err(error) => refusal(&error),
    }
}
