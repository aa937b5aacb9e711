//! Waiting for jobs, and handing them out.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use auxo_core::engine::{Ask, Pick, Settle};
use auxo_core::job::Leased;
use auxo_core::json::show;
use auxo_core::{Code, Error, Job, QueueName, Result, State};
use auxo_wire::resp::{Command, GetJob, Id, Item, Life, Reply, array, bulk, number};
use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::gather::{release, shown};
use super::own::Contents;
use super::rights::not_known;
use super::session::{Session, refusal};
use super::show::ROOM;
use crate::auth::Caller;
use crate::calls;
use crate::line::{LARGE, Line, at_once, lease_now};
use crate::names::Holder;

/// How many commands that were sent one behind the other are served together.
const TOGETHER: usize = 100;

/// How a wait ended.
enum Waited {
    /// With these jobs; none if the time is over.
    Jobs(Result<Vec<Leased>>),
    /// The client sends no more, and there is no job.
    HungUp,
    /// The server stops.
    Stopping,
    /// The client is not any more who it said it was.
    Revoked,
}

impl Session {
    /// Serves a `GETJOB`, and those behind it that are like it as far as there are jobs for them.
    pub(super) async fn get<S>(
        &mut self,
        line: &mut Line<S>,
        get: GetJob,
        by: &Caller,
        items: &mut VecDeque<Item>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let alike =
            |item: &&Item| matches!(item, Item::Command(Command::GetJob(other)) if *other == get);
        let behind = items.iter().take(TOGETHER).take_while(alike).count();
        let batch = self.app.service.limits().batch;
        let count = usize::try_from(get.count).unwrap_or(batch).min(batch);
        let max = (count * (1 + behind)).min(batch);
        let jobs = match self.take(line, &get, max, by).await? {
            Ok(jobs) => jobs,
            Err(reply) => {
                self.say(&reply, &mut line.output);
                return Ok(());
            }
        };
        if jobs.is_empty() {
            // There is nothing for the others either, if they do not want to wait.
            let answered = match get.wait {
                Some(Duration::ZERO) => 1 + behind,
                _ => 1,
            };
            items.drain(..answered - 1);
            (0..answered).for_each(|_| self.say(&Reply::NullArray, &mut line.output));
            return Ok(());
        }
        for (place, jobs) in jobs.chunks(count).enumerate() {
            if place > 0 {
                items.pop_front();
            }
            self.hand_out(jobs, &get, line).await?;
        }
        Ok(())
    }

    /// Leases jobs for a `GETJOB`, or waits for some. An error is what to answer.
    async fn take<S>(
        &mut self,
        line: &mut Line<S>,
        get: &GetJob,
        max: usize,
        by: &Caller,
    ) -> io::Result<Result<Vec<Leased>, Reply>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let begun = Instant::now();
        // A time without end is none.
        let end = get.wait.and_then(|wait| begun.checked_add(wait));
        let mut jobs = loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let longest = self.app.service.limits().wait;
            let ask = self.ask(
                get.queues.clone(),
                max,
                left.map_or(longest, |left| left.min(longest)),
            );
            match self.wait(line, ask, by).await? {
                Waited::Revoked => return Ok(Err(not_known())),
                Waited::HungUp => return Ok(Ok(Vec::new())),
                Waited::Stopping => {
                    return Ok(Err(Reply::Error("LEAVING the server stops".into())));
                }
                Waited::Jobs(Err(error)) => return Ok(Err(refusal(&error))),
                Waited::Jobs(Ok(jobs)) if !jobs.is_empty() => break jobs,
                Waited::Jobs(Ok(_)) if end.is_some_and(|end| end <= Instant::now()) => {
                    return Ok(Ok(Vec::new()));
                }
                Waited::Jobs(Ok(_)) => {}
            }
        };
        self.fill_up(&mut jobs, &get.queues, max).await;
        match jobs.iter().all(|leased| delivery(leased).is_some()) {
            true => {
                let lent = jobs.iter().filter(is_lent);
                lent.for_each(|leased| self.held.insert(leased.token));
                Ok(Ok(jobs))
            }
            false => Ok(Err(self.give_back(&jobs).await)),
        }
    }

    /// An engine takes jobs from the first queue that has any, as many as there are or as an answer has room for. If there is room
    /// for more, the queues behind it are asked, too.
    async fn fill_up(&self, jobs: &mut Vec<Leased>, queues: &[QueueName], max: usize) {
        let mut rest = queues.to_vec();
        let size = |jobs: &[Leased]| jobs.iter().map(|leased| leased.job.payload.len()).sum();
        let mut bytes: usize = size(jobs);
        while jobs.len() < max && bytes < ROOM {
            let last = jobs.last().map(|leased| &leased.job.queue);
            let place = rest.iter().position(|queue| Some(queue) == last);
            rest.drain(..place.map_or(rest.len(), |place| place + 1));
            // One that is named twice has given what it has.
            rest.retain(|queue| Some(queue) != last);
            if rest.is_empty() {
                return;
            }
            let ask = self.ask(rest.clone(), max - jobs.len(), Duration::ZERO);
            match self.timely(self.app.service.lease(ask)).await {
                Ok(Ok(more)) if !more.is_empty() => {
                    bytes += size(&more);
                    jobs.extend(more);
                }
                // Those that there are must be handed out all the same.
                _ => return,
            }
        }
    }

    fn ask(&self, queues: Vec<QueueName>, max: usize, wait: Duration) -> Ask {
        Ask {
            queues,
            job: None,
            pick: Pick::First,
            max: max as u32,
            wait,
            ttr: None,
            worker: self.worker.clone(),
        }
    }

    /// Gives back jobs whose leases cannot be named.
    async fn give_back(&self, jobs: &[Leased]) -> Reply {
        let release = |leased: &Leased| Settle {
            token: leased.token,
            outcome: release(),
        };
        let settles = jobs.iter().map(release).collect();
        // What cannot be given back comes back at its deadline.
        let _ = self.app.service.settle(settles).await;
        let text = "this store has given out more leases than an id of Disque can name";
        Reply::from(&Error::new(Code::Internal, text))
    }

    /// Writes the jobs of one `GETJOB`.
    async fn hand_out<S>(
        &mut self,
        jobs: &[Leased],
        get: &GetJob,
        line: &mut Line<S>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if !self.is_heard() {
            return Ok(());
        }
        array(&mut line.output, jobs.len());
        for leased in jobs {
            write(leased, get.counters, &mut line.output);
            if line.output.len() >= LARGE {
                line.flush().await?;
            }
        }
        Ok(())
    }

    /// Serves an `AUXO.LEASE`.
    pub(super) async fn lease<S>(
        &mut self,
        line: &mut Line<S>,
        mut ask: Ask,
        by: &Caller,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if ask.worker.is_empty() {
            ask.worker = self.worker.clone();
        }
        let waited = match ask.job {
            Some(named) => {
                let lease = calls::leases::lease_named(&self.app, by, ask, named.id);
                Waited::Jobs(self.timely(lease).await?)
            }
            None => self.wait(line, ask, by).await?,
        };
        let jobs = match waited {
            Waited::HungUp | Waited::Stopping => Vec::new(),
            Waited::Revoked => {
                self.say(&not_known(), &mut line.output);
                return Ok(());
            }
            Waited::Jobs(Ok(jobs)) => jobs,
            Waited::Jobs(Err(error)) => {
                self.say(&refused(&error), &mut line.output);
                return Ok(());
            }
        };
        let lent = jobs.iter().filter(is_lent);
        lent.for_each(|leased| self.held.insert(leased.token));
        if !self.is_heard() {
            return Ok(());
        }
        array(&mut line.output, jobs.len());
        for mut leased in jobs {
            let contents = Contents::take(&mut leased.job);
            let reply = contents.put(shown(Ok(show::leased(&leased))));
            reply.encode(self.version, &mut line.output);
            if line.output.len() >= LARGE {
                line.flush().await?;
            }
        }
        Ok(())
    }

    /// Leases jobs. Before it waits, what is answered already is sent.
    async fn wait<S>(&self, line: &mut Line<S>, mut ask: Ask, by: &Caller) -> io::Result<Waited>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let app = &self.app;
        let holder = || Holder::of(self.identity.as_deref(), self.ends.visitor.from);
        let _room = match app.names.take(&mut ask, holder) {
            Ok(room) => room,
            Err(error) => return Ok(Waited::Jobs(Err(error))),
        };
        let now = Ask {
            wait: Duration::ZERO,
            ..ask.clone()
        };
        let mut lease = pin!(app.service.lease(ask));
        if let Some(jobs) = at_once(lease.as_mut()).await {
            return Ok(Waited::Jobs(jobs));
        }
        let _waiting = Waiting::new(&app.resp.waiting);
        line.flush().await?;
        tokio::select! {
            biased;
            jobs = lease.as_mut() => return Ok(Waited::Jobs(jobs)),
            hung_up = line.hung_up() => hung_up?,
            () = app.stopped() => return Ok(Waited::Stopping),
            () = app.auth.revoked(by.identity()) => return Ok(Waited::Revoked),
        }
        // The store may not have been asked yet. In a box: what comes rarely must not make every connection as large as it is.
        let look = Box::pin(lease_now(lease, app.service.lease(now)));
        match self.timely(look).await? {
            Ok(none) if none.is_empty() => Ok(Waited::HungUp),
            jobs => Ok(Waited::Jobs(jobs)),
        }
    }
}

/// What `AUXO.LEASE` is told instead of jobs.
fn refused(error: &Error) -> Reply {
    match error.code() {
        Code::Forbidden => Reply::Error(format!("NOPERM {}", error.message()).into()),
        _ => Reply::from(error),
    }
}

/// Whether somebody has to say how it went with a job.
fn is_lent(leased: &&Leased) -> bool {
    !leased.job.ttr.is_zero()
}

/// The id of a job that is handed out. One that is delivered at most once has no lease: it is gone.
fn delivery(leased: &Leased) -> Option<[u8; 40]> {
    let life = life(&leased.job);
    match is_lent(&leased) {
        true => Id::of_delivery(leased.token, life),
        false => Some(Id::of_job(leased.job.id, life)),
    }
}

/// How long a job lives, as its id says it.
pub(super) fn life(job: &Job) -> Life {
    let ttl = job.expires_at.map(|end| end.since(job.created_at));
    Life::new(ttl, job.ttr)
}

/// How often a job was given back, and how often it was handed out again for another reason.
pub(super) fn counters(job: &Job) -> (i64, i64) {
    let is_out = matches!(job.state, State::Leased | State::Done);
    let before = job.attempt.saturating_sub(u32::from(is_out));
    let again = before.saturating_sub(job.failures);
    (job.failures.into(), again.into())
}

fn write(leased: &Leased, with_counters: bool, out: &mut BytesMut) {
    let job = &leased.job;
    let id = delivery(leased).unwrap_or([b'-'; 40]);
    array(out, if with_counters { 7 } else { 3 });
    bulk(out, job.queue.as_str().as_bytes());
    bulk(out, &id);
    bulk(out, &job.payload);
    if with_counters {
        let (nacks, again) = counters(job);
        bulk(out, b"nacks");
        number(out, nacks);
        bulk(out, b"additional-deliveries");
        number(out, again);
    }
}

/// Counts a connection while it waits.
struct Waiting<'a>(&'a AtomicU64);

impl Waiting<'_> {
    fn new(count: &AtomicU64) -> Waiting<'_> {
        count.fetch_add(1, Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
