//! Commands that move jobs, one call for each or a few for all.
//!
//! An id that a `GETJOB` gave out carries its lease: it moves the job only as long as that lease runs. An id without one means the lease
//! that this very connection was given, if it still runs, and otherwise the job itself, whoever has it. What can be
//! done to a job that somebody else has is what an operator can do: to ask for its end. It is then not handed out
//! again, and its worker may still finish it.

use std::collections::HashSet;
use std::future::Future;
use std::time::Duration;

use auxo_core::engine::{Action, Extend, Mode, Order, Outcome, Settle, Target, Which};
use auxo_core::{Code, Job, JobId, Result, State, Token, When};
use auxo_wire::resp::{AddJob, Id, Reply};

use super::gather::{ACK, is_gone, life, nack, release};
use super::session::Session;
use crate::auth::{Caller, Right};
use crate::calls;
use crate::trail::Move;

/// What an id means to a connection.
enum Meant {
    /// This lease, and nothing else.
    Lease(Token),
    /// This lease, or the job if it is lost.
    Own(Token),
    /// The job.
    Job(JobId),
}

impl Session {
    /// Adds a job, unless the queue is too long.
    pub(super) async fn add(&self, add: AddJob, by: &Caller) -> Result<Reply> {
        let length = self.ready(&add.queue).await?;
        if add.maxlen.is_some_and(|maxlen| length >= maxlen) {
            let text = "MAXLEN Queue is already longer than the specified MAXLEN count";
            return Ok(Reply::Error(text.into()));
        }
        let life = life(&add);
        let jobs = vec![Ok(self.new_job(add))];
        let mut pushed = calls::jobs::push(&self.app, by, jobs).await?;
        match pushed.pop() {
            Some(pushed) => Ok(Reply::Id(Id::of_job(pushed?.id, life))),
            None => Ok(Reply::Null),
        }
    }

    fn meant(&self, id: Id) -> Option<Meant> {
        match id {
            Id::Delivery(token) => Some(Meant::Lease(token)),
            Id::Job(job) => Some(match self.held.find(job) {
                Some(token) => Meant::Own(token),
                None => Meant::Job(job),
            }),
            Id::Stranger => None,
        }
    }

    /// Ends the leases that are meant. Answers which jobs that was well for, and which are meant themselves.
    async fn settle(
        &self,
        ids: Vec<Id>,
        outcome: fn() -> Outcome,
        by: &Caller,
    ) -> Result<(Vec<JobId>, Vec<JobId>)> {
        let (mut settled, mut bare, mut leases) = (Vec::new(), Vec::new(), Vec::new());
        for meant in ids.into_iter().filter_map(|id| self.meant(id)) {
            match meant {
                Meant::Lease(token) => leases.push((token, false)),
                Meant::Own(token) => leases.push((token, true)),
                Meant::Job(job) => bare.push(job),
            }
        }
        for leases in leases.chunks(self.app.service.limits().batch) {
            let item = |(token, _): &(Token, bool)| Settle {
                token: *token,
                outcome: outcome(),
            };
            let items = leases.iter().map(item).map(Ok).collect();
            let answers = calls::leases::settle(&self.app, by, items, &HashSet::new()).await?;
            for ((token, is_own), answer) in leases.iter().zip(answers) {
                match answer {
                    Ok(_) => settled.push(token.job),
                    Err(error) if is_gone(&error) && *is_own => bare.push(token.job),
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        bare.sort_unstable();
        bare.dedup();
        Ok((settled, bare))
    }

    /// Makes a move on jobs, whoever has them. Answers how many it was legal for, and which somebody is at work on.
    async fn steer(
        &self,
        jobs: &[JobId],
        action: Action,
        by: &Caller,
    ) -> Result<(usize, Vec<JobId>)> {
        let (mut moved, mut refused) = (0, Vec::new());
        for jobs in jobs.chunks(self.app.service.limits().batch) {
            let order = Order {
                target: Target::Jobs(jobs.to_vec()),
                action: action.clone(),
                mode: Mode::Act,
            };
            let steered = calls::jobs::steer_own(&self.app, by, order).await?;
            for (job, result) in jobs.iter().zip(steered.results) {
                match result {
                    Ok(_) => moved += 1,
                    Err(error) if error.code() == Code::Conflict => refused.push(*job),
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((moved, refused))
    }

    /// `ACKJOB` and `FASTACK` of jobs that are not all named by their leases. To call off a job that one was not given is an
    /// operator's move, and nothing happens where the caller is none.
    pub(super) async fn ack(&self, ids: Vec<Id>, by: &Caller) -> Result<Reply> {
        let (done, bare) = self.settle(ids, || ACK, by).await?;
        let operator = by.with(Right::Operate);
        if bare.is_empty() || operator.check_somewhere().is_err() {
            return Ok(count(done.len()));
        }
        let call = async {
            let (called_off, _) = self.steer(&bare, Action::Cancel, &operator).await?;
            Ok(called_off)
        };
        let called_off = self.noted("cancel", &bare, call, &operator).await?;
        Ok(count(done.len() + called_off))
    }

    /// `NACK`: only whoever has a job can give it back.
    pub(super) async fn nack(&self, ids: Vec<Id>, by: &Caller) -> Result<Reply> {
        let (given_back, _) = self.settle(ids, nack, by).await?;
        Ok(count(given_back.len()))
    }

    /// Makes an operator's move on jobs between its two lines in the audit log.
    async fn noted(
        &self,
        what: &str,
        jobs: &[JobId],
        call: impl Future<Output = Result<usize>>,
        by: &Caller,
    ) -> Result<usize> {
        let what = Move::new(what).jobs(jobs);
        let moved = |moved: &usize| *moved as u64;
        self.app.trail.noted(by, what, call, moved).await
    }

    /// `ENQUEUE`: a job that somebody has goes back to its place, one that waits for its time is due.
    pub(super) async fn enqueue(&self, ids: Vec<Id>, by: &Caller) -> Result<Reply> {
        let jobs = named(&ids);
        let call = async {
            let (released, bare) = self.settle(ids, release, by).await?;
            let (kicked, _) = self.steer(&bare, Action::Kick, by).await?;
            Ok(released.len() + kicked)
        };
        self.noted("kick", &jobs, call, by).await.map(count)
    }

    /// `DELJOB`: whatever state a job is in. One that somebody else has goes when that worker lets go of it.
    pub(super) async fn delete(&self, ids: Vec<Id>, by: &Caller) -> Result<Reply> {
        let jobs = named(&ids);
        let call = self.delete_all(ids, by);
        self.noted("delete", &jobs, call, by).await.map(count)
    }

    async fn delete_all(&self, ids: Vec<Id>, by: &Caller) -> Result<usize> {
        let bury = || Outcome::Bury {
            error: Some("deleted".to_owned()),
            priority: None,
        };
        let (buried, bare) = self.settle(ids, bury, by).await?;
        let jobs = [buried, bare].concat();
        let (deleted, leased) = self.steer(&jobs, Action::Delete, by).await?;
        let (called_off, _) = self.steer(&leased, Action::Cancel, by).await?;
        Ok(deleted + called_off)
    }

    /// `DEQUEUE`: jobs that could be handed out wait for as long as for a worker.
    pub(super) async fn dequeue(&self, ids: Vec<Id>, by: &Caller) -> Result<Reply> {
        let jobs = named(&ids);
        let call = self.put_off(ids, by);
        self.noted("reschedule", &jobs, call, by).await.map(count)
    }

    async fn put_off(&self, ids: Vec<Id>, by: &Caller) -> Result<usize> {
        let mut moved = 0;
        for id in ids {
            let Some(job) = self.find(id, by).await? else {
                continue;
            };
            if job.state == State::Ready {
                let wait = match job.ttr.is_zero() {
                    // It is not handed out again by itself.
                    true => self.app.service.limits().delay,
                    false => job.ttr,
                };
                let action = Action::Reschedule(When::After(wait));
                moved += self.steer(&[job.id], action, by).await?.0;
            }
        }
        Ok(moved)
    }

    /// The job that an id names, whatever else it says.
    pub(super) async fn find(&self, id: Id, by: &Caller) -> Result<Option<Job>> {
        let Some(id) = id.job() else {
            return Ok(None);
        };
        match calls::jobs::find(&self.app, by, Which::Id(id)).await {
            Err(error) if error.code() == Code::NotFound => Ok(None),
            found => found.map(Some),
        }
    }

    /// `WORKING`: more time for whoever has the job, but no more than half of its life.
    pub(super) async fn working(&self, id: Id, by: &Caller) -> Result<Reply> {
        let unknown = Reply::Error("NOJOB Job not known in the context of this node.".into());
        let token = match self.meant(id) {
            Some(Meant::Lease(token) | Meant::Own(token)) => token,
            Some(Meant::Job(_)) | None => return Ok(unknown),
        };
        let Some(job) = self.find(id, by).await? else {
            return Ok(unknown);
        };
        // Somebody said that it is done.
        if job.holder.as_ref().is_none_or(|holder| holder.cancel) {
            return Ok(unknown);
        }
        let elapsed = self.app.service.now().since(job.created_at);
        let life = job.expires_at.map(|end| end.since(job.created_at));
        if life.is_some_and(|life| elapsed > life / 2) {
            let text = "TOOLATE Half of job TTL already elapsed, you are no longer allowed to postpone the next delivery.";
            return Ok(Reply::Error(text.into()));
        }
        let extend = Extend {
            token,
            ttr: None,
            progress: None,
        };
        let mut extended = self.app.service.extend(vec![extend]).await?;
        match extended.pop() {
            Some(Ok(_)) => Ok(seconds(job.ttr)),
            Some(Err(error)) if !is_gone(&error) => Err(error),
            _ => Ok(unknown),
        }
    }
}

/// The jobs that are meant, whatever else is said of them.
fn named(ids: &[Id]) -> Vec<JobId> {
    ids.iter().filter_map(Id::job).collect()
}

fn count(count: usize) -> Reply {
    Reply::Number(count as i64)
}

fn seconds(time: Duration) -> Reply {
    Reply::Number(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}
