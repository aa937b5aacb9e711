//! Waiting for jobs.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use auxo_core::engine::{Ask, Pick};
use auxo_core::job::Leased;
use auxo_core::{Error, JobId, Result};
use auxo_wire::beanstalk::{Item, Reply};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::session::{Session, refusal};
use crate::line::{Line, at_once};
use crate::names::Holder;

/// How many reserves that were sent one behind the other are served together.
const TOGETHER: usize = 100;

/// How a wait ended.
enum Waited {
    /// With these jobs; none if the time is over.
    Jobs(Result<Vec<Leased>>),
    /// The client sends no more, and will not come for a job.
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

    /// Reserves this very job, if nobody has it.
    pub(super) async fn reserve_job(&mut self, id: u64) -> io::Result<Result<Reply>> {
        self.consumes();
        let ask = Ask {
            queues: Vec::new(),
            job: Some(JobId(id)),
            pick: Pick::First,
            max: 1,
            wait: Duration::ZERO,
            ttr: None,
            worker: self.worker.clone(),
        };
        let leased = self.timely(self.app.service.lease(ask)).await?;
        Ok(leased.map(|jobs| self.take(jobs).pop().unwrap_or(Reply::NotFound)))
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
        let mut lease = pin!(app.service.lease(ask));
        if let Some(jobs) = at_once(lease.as_mut()).await {
            return Ok(Waited::Jobs(jobs));
        }
        let _waiting = Waiting::new(&app.beanstalk.counts.waiting);
        line.flush().await?;
        tokio::select! {
            biased;
            jobs = lease => Ok(Waited::Jobs(jobs)),
            hung_up = line.hung_up() => hung_up.map(|()| Waited::HungUp),
            () = app.stopped() => Err(io::Error::other("the server stops")),
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
