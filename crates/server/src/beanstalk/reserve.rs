//! Waiting for jobs.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use auxo_core::engine::{Ask, Holds, NamedJob, Outcome, Pick, Settle};
use auxo_core::job::Leased;
use auxo_core::{Error, JobId, Result};
use auxo_wire::beanstalk::{Item, Reply};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::session::{Session, refusal};
use crate::calls::leases;
use crate::line::{Line, at_once, lease_now};
use crate::names::Holder;

/// How many reserves that were sent one behind the other are served together.
const TOGETHER: usize = 100;

/// How a wait ended.
enum Waited {
    /// With these jobs; none if the time is over.
    Jobs(Result<Vec<Leased>>),
    /// The client sends no more, and there is no job.
    HungUp,
}

impl Session {
    /// Serves the reserve at the beginning, and those behind it that are like it as far as there are jobs for them.
    pub(super) async fn reserve<S>(
        &mut self,
        line: &mut Line<S>,
        items: &mut VecDeque<Item>,
        timeout: Option<u32>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.consumes();
        let first = items.front().cloned();
        let alike = |item: &&Item| Some(*item) == first.as_ref();
        let max = items.iter().take(TOGETHER).take_while(alike).count();
        let begun = Instant::now();
        let end = timeout.map(|seconds| begun + Duration::from_secs(seconds.into()));
        let replies = loop {
            let overdue = self.held.forget_overdue();
            self.app
                .beanstalk
                .counts
                .timeouts
                .fetch_add(overdue, Relaxed);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let times = [left, self.held.until_warning()];
            let longest = self.app.service.limits().wait;
            let wait = times.into_iter().flatten().fold(longest, Duration::min);
            match self.wait(line, max, wait).await? {
                Waited::HungUp => break vec![Reply::TimedOut],
                Waited::Jobs(Err(error)) => break vec![refusal(&error)?],
                Waited::Jobs(Ok(jobs)) if !jobs.is_empty() => break self.take(jobs),
                Waited::Jobs(Ok(_)) => {}
            }
            if self.held.until_warning() == Some(Duration::ZERO) {
                break vec![Reply::DeadlineSoon];
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                break vec![Reply::TimedOut];
            }
        };
        for reply in replies {
            if let Some(Item::Request(request)) = items.pop_front() {
                self.app.beanstalk.counts.asked(&request);
            }
            reply.encode(&mut line.output);
        }
        Ok(())
    }

    /// Reserves this very job, unless another client has it. If its tube would not hand it out now, that is an operator's move.
    pub(super) async fn reserve_job(&mut self, id: u64) -> io::Result<Result<Reply>> {
        self.consumes();
        let id = JobId(id);
        let lease = async {
            let ask = self.asking_for_one();
            match leases::lease_unless_held(&self.app, ask.clone(), id).await? {
                Ok(leased) => Ok(leased),
                Err(_) => leases::lease_past_holds(&self.app, self.who(), ask, id).await,
            }
        };
        let leased = self.timely(lease).await?;
        Ok(leased.map(|jobs| self.take(jobs).pop().unwrap_or(Reply::NotFound)))
    }

    /// A lease call for one job that is named.
    fn asking_for_one(&self) -> Ask {
        Ask {
            queues: Vec::new(),
            job: None,
            pick: Pick::First,
            max: 1,
            wait: Duration::ZERO,
            ttr: None,
            worker: self.worker.clone(),
        }
    }

    /// Deletes a job that this connection held until its time was over, if nobody has it now. Its worker says that it is done. So it is
    /// leased once more and acked: it counts as done, and its key stays taken as that of any other job that was done. Neither a pause nor
    /// a limit stands in the way, as they do not of any other end of a lease.
    pub(super) async fn delete_late(&mut self, id: u64) -> io::Result<Result<Reply>> {
        let ask = Ask {
            job: Some(NamedJob {
                id: JobId(id),
                holds: Holds::Bypass,
            }),
            ..self.asking_for_one()
        };
        let leased = match self.timely(self.app.service.lease(ask)).await? {
            Ok(mut jobs) => jobs.pop(),
            Err(error) => return Ok(Err(error)),
        };
        let Some(leased) = leased else {
            return Ok(Ok(Reply::NotFound));
        };
        // If its end cannot be told, it is given back when the connection ends.
        self.held.insert(&leased);
        let ack = Settle {
            token: leased.token,
            outcome: Outcome::Ack { result: None },
        };
        let settled = self.timely(self.app.service.settle(vec![ack])).await?;
        match settled.map(|mut settled| settled.pop()) {
            Ok(Some(Ok(_))) => {
                self.deleted(id);
                Ok(Ok(Reply::Deleted))
            }
            Ok(Some(Err(error))) | Err(error) => Ok(Err(error)),
            Ok(None) => Ok(Ok(Reply::NotFound)),
        }
    }

    /// Lets go of a job that was acked, and counts it.
    pub(super) fn deleted(&mut self, id: u64) {
        let hold = self.held.remove(id);
        if let Some(tube) = hold.and_then(|hold| self.app.beanstalk.tubes.find(&hold.queue)) {
            tube.deletes.fetch_add(1, Relaxed);
        }
    }

    fn take(&mut self, jobs: Vec<Leased>) -> Vec<Reply> {
        let take = |leased: Leased| {
            self.held.insert(&leased);
            Reply::Reserved(leased.job.id.0, leased.job.payload)
        };
        jobs.into_iter().map(take).collect()
    }

    /// Leases jobs. Before it waits, what is answered already is sent.
    async fn wait<S>(
        &mut self,
        line: &mut Line<S>,
        max: usize,
        wait: Duration,
    ) -> io::Result<Waited>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let queues = self.watching.iter().map(|role| role.name().clone());
        let mut ask = Ask {
            queues: queues.collect(),
            job: None,
            pick: match self.watching.len() {
                1 => Pick::First,
                _ => Pick::MostUrgent,
            },
            max: max as u32,
            wait,
            ttr: None,
            worker: self.worker.clone(),
        };
        let app = &self.app;
        // A socket in the file system is this machine.
        let holder = || Holder::of(None, self.peer.from.unwrap_or(Ipv4Addr::LOCALHOST.into()));
        let Ok(_room) = app.names.take(&mut ask, holder) else {
            let text = "too many connections wait for too many tubes";
            let error = Error::new(auxo_core::Code::QueueFull, text);
            return Ok(Waited::Jobs(Err(error)));
        };
        let now = Ask {
            wait: Duration::ZERO,
            ..ask.clone()
        };
        let mut lease = pin!(app.service.lease(ask));
        if let Some(jobs) = at_once(lease.as_mut()).await {
            return Ok(Waited::Jobs(jobs));
        }
        let _waiting = Waiting::new(&app.beanstalk.counts.waiting);
        line.flush().await?;
        tokio::select! {
            biased;
            jobs = lease.as_mut() => return Ok(Waited::Jobs(jobs)),
            hung_up = line.hung_up() => hung_up?,
            () = app.stopped() => return Err(io::Error::other("the server stops")),
        }
        // The store may not have been asked yet. In a box: what comes rarely must not make every connection as large as it is.
        let look = Box::pin(lease_now(lease, app.service.lease(now)));
        match self.timely(look).await? {
            Ok(none) if none.is_empty() => Ok(Waited::HungUp),
            jobs => Ok(Waited::Jobs(jobs)),
        }
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
