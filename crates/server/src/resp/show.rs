//! Jobs to look at: `SHOW`, `QPEEK` and `JSCAN`.

use std::collections::VecDeque;
use std::time::Duration;

use auxo_core::engine::{Filter, Query};
use auxo_core::job::Moment;
use auxo_core::life::Event;
use auxo_core::{Error, Job, QueueName, Result, State};
use auxo_wire::resp::{Id, JScan, Reply};

use super::get::{counters, life};
use super::session::Session;
use crate::auth::Caller;

/// The most jobs of one answer, where a client asks for all.
const MOST: usize = 100_000;
/// The most bytes of jobs in one answer. There is always one job.
pub(super) const ROOM: usize = 16 << 20;

impl Session {
    /// Tells all about a job.
    pub(super) async fn show(&self, id: Id, by: &Caller) -> Result<Reply> {
        let job = self.find(id, by).await?;
        Ok(job.map_or(Reply::Null, |job| self.whole(&job)))
    }

    /// The fields of a job, in the order of Disque.
    fn whole(&self, job: &Job) -> Reply {
        let now = self.app.service.now();
        let left = job.expires_at.map(|end| end.since(now));
        let next = match job.state {
            State::Scheduled => Some(job.run_at.since(now)),
            State::Leased => job.holder.as_ref().map(|holder| holder.deadline.since(now)),
            _ => None,
        };
        let awake = match job.state {
            State::Done | State::Dead | State::Cancelled => None,
            _ => next.into_iter().chain(left).min(),
        };
        let (nacks, again) = counters(job);
        let nodes = vec![Reply::text(self.node())];
        let fields = [
            ("id", bare(job)),
            ("queue", Reply::text(job.queue.as_str())),
            ("state", Reply::text(state(job.state))),
            ("repl", Reply::Number(self.copies.into())),
            ("ttl", left.map_or(Reply::Null, seconds)),
            ("ctime", Reply::Number(ctime(job))),
            ("delay", seconds(delay(job))),
            ("retry", seconds(job.ttr)),
            ("nacks", Reply::Number(nacks)),
            ("additional-deliveries", Reply::Number(again)),
            ("nodes-delivered", Reply::Array(nodes)),
            ("nodes-confirmed", Reply::Array(Vec::new())),
            ("next-requeue-within", next.map_or(Reply::Null, millis)),
            ("next-awake-within", awake.map_or(Reply::Null, millis)),
            ("body", Reply::Bulk(job.payload.clone())),
        ];
        let pair = |(name, value)| [Reply::text(name), value];
        Reply::Array(fields.into_iter().flat_map(pair).collect())
    }

    /// Shows jobs that can be handed out: the next ones, or the last ones.
    pub(super) async fn peek(&self, queue: QueueName, count: i64) -> Result<Reply> {
        let limits = self.app.service.limits();
        let most = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        if most == 0 {
            return Ok(Reply::Array(Vec::new()));
        }
        let mut query = Query {
            filter: Filter {
                queue: Some(queue),
                states: vec![State::Ready],
                ..Filter::default()
            },
            cursor: None,
            limit: limits.page,
        };
        let _alone = self.app.listing.lock().await;
        let mut jobs = Room::new(most.min(limits.batch));
        loop {
            let page = self.app.service.list(query.clone()).await?;
            match count < 0 {
                true => page.jobs.into_iter().for_each(|job| jobs.push_last(job)),
                false => page.jobs.into_iter().for_each(|job| jobs.push_first(job)),
            }
            match page.next {
                next @ Some(_) if !jobs.is_full => query.cursor = next,
                _ => break,
            }
        }
        let triple = |job: Job| {
            let id = bare(&job);
            Reply::Array(vec![
                Reply::text(job.queue.as_str()),
                id,
                Reply::Bulk(job.payload),
            ])
        };
        let mut shown: Vec<Reply> = jobs.jobs.into_iter().map(triple).collect();
        if count < 0 {
            shown.reverse();
        }
        Ok(Reply::Array(shown))
    }

    /// Names or shows all jobs, some at a time.
    pub(super) async fn scan_jobs(&self, scan: JScan) -> Result<Reply> {
        if scan.states.as_ref().is_some_and(Vec::is_empty) {
            return Ok(scanned(0, Vec::new()));
        }
        let cursors = &self.app.resp.cursors;
        let cursor = match scan.cursor {
            0 => None,
            number => {
                let cursor = cursors.find(number);
                Some(cursor.ok_or_else(|| Error::bad_request("invalid cursor"))?)
            }
        };
        let page = self.app.service.limits().page;
        let mut query = Query {
            filter: Filter {
                queue: scan.queue,
                states: scan.states.unwrap_or_default(),
                ..Filter::default()
            },
            cursor,
            limit: match scan.all {
                true => page,
                false => scan.count.min(page),
            },
        };
        let _alone = self.app.listing.lock().await;
        let (mut shown, mut bytes) = (Vec::new(), 0);
        loop {
            let page = self.app.service.list(query.clone()).await?;
            for job in page.jobs {
                bytes += job.payload.len();
                shown.push(match scan.whole {
                    true => self.whole(&job),
                    false => Reply::Id(id(&job)),
                });
            }
            let is_enough = !scan.all || shown.len() >= MOST || scan.whole && bytes >= ROOM;
            match page.next {
                None => return Ok(scanned(0, shown)),
                Some(next) if is_enough => return Ok(scanned(cursors.keep(next), shown)),
                next => query.cursor = next,
            }
        }
    }
}

/// Where a walk goes on, and what it found.
pub(super) fn scanned(cursor: u64, found: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::text(cursor.to_string()), Reply::Array(found)])
}

fn id(job: &Job) -> [u8; 40] {
    Id::of_job(job.id, life(job))
}

/// The id of a job, as bytes.
fn bare(job: &Job) -> Reply {
    Reply::Bulk(id(job).to_vec().into())
}

fn state(state: State) -> &'static str {
    match state {
        State::Scheduled | State::Leased => "active",
        State::Ready => "queued",
        State::Done => "acked",
        State::Dead => "dead",
        State::Cancelled => "unknown",
    }
}

/// When the job was made: nanoseconds, as far as they are known.
fn ctime(job: &Job) -> i64 {
    i64::try_from(job.created_at.0.saturating_mul(1_000_000)).unwrap_or(i64::MAX)
}

/// The delay that it was added with, as long as its due time still tells: nothing has given the job another one since.
fn delay(job: &Job) -> Duration {
    let is_first = job.attempt == u32::from(job.state == State::Leased);
    let is_moved = |seen: &Moment| matches!(seen.event, Event::Kick | Event::Reschedule);
    if is_first && job.dead.is_none() && !job.timeline.iter().any(is_moved) {
        job.run_at.since(job.created_at)
    } else {
        Duration::ZERO
    }
}

fn seconds(time: Duration) -> Reply {
    Reply::Number(i64::try_from(time.as_secs()).unwrap_or(i64::MAX))
}

fn millis(time: Duration) -> Reply {
    Reply::Number(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// Jobs for one answer, within its bounds.
struct Room {
    jobs: VecDeque<Job>,
    bytes: usize,
    most: usize,
    is_full: bool,
}

impl Room {
    fn new(most: usize) -> Room {
        Room {
            jobs: VecDeque::new(),
            bytes: 0,
            most,
            is_full: false,
        }
    }

    /// Adds a job, if there is room for it.
    fn push_first(&mut self, job: Job) {
        let is_over = self.bytes + job.payload.len() > ROOM && !self.jobs.is_empty();
        self.is_full |= is_over || self.jobs.len() >= self.most;
        if !self.is_full {
            self.bytes += job.payload.len();
            self.jobs.push_back(job);
        }
    }

    /// Adds a job, and forgets the first ones if there is no room for all.
    fn push_last(&mut self, job: Job) {
        self.bytes += job.payload.len();
        self.jobs.push_back(job);
        while self.jobs.len() > self.most || self.bytes > ROOM && self.jobs.len() > 1 {
            let first = self.jobs.pop_front();
            self.bytes -= first.map_or(0, |job| job.payload.len());
        }
    }
}
