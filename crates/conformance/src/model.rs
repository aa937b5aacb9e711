//! The whole contract in the simplest form: a map of jobs, the arrows of [`auxo_core::life`], and loops over all of it.
//!
//! The model is what the words of the contract mean when two readers disagree. It is slow on purpose: every question is
//! answered by looking at every job. Time is an argument. Names that an engine gives (ids, tokens) and its dice come from a
//! [`Mint`], so that the model can be told what an engine under test answered.
//!
//! Where a clock jumps over several moments at once, the model looks once, at `now`: first leases end, then lives, then
//! retention and keys, then schedules tick, then unused queues are forgotten.

mod engine;
mod forget;
mod lend;
mod operate;
mod passage;
mod record;
mod setup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use auxo_core::bucket::Bucket;
use auxo_core::engine::{Accepted, Pushed};
use auxo_core::event::Notice;
use auxo_core::job::{DeadReason, OnDuplicate};
use auxo_core::life::{self, Event, State};
use auxo_core::queue::{Books, Counts, QueueConfig, QueueInfo};
use auxo_core::schedule::Schedule;
use auxo_core::time::{Base, Now, Timestamp};
use auxo_core::topic::Subscription;
use auxo_core::{Code, Error, JobId, NewJob, QueueName, Result, Token};
use bytes::Bytes;

pub use engine::ModelEngine;
use record::{Phase, Record};

/// Where names and chance come from: an engine's answers, or a counter.
pub trait Mint {
    /// The id of the next new job of a queue.
    fn id(&mut self, queue: &QueueName, now: Now) -> JobId;
    /// A job of another store came with this id: new ones lie behind it.
    fn known(&mut self, _id: JobId) {}
    /// The token of the next lease, which is of this job.
    fn token(&mut self, job: JobId) -> Token;
    /// The dice for a wait with jitter.
    fn dice(&mut self) -> u64;
}

/// The contract as a program.
#[derive(Clone, Debug, Default)]
pub struct Model {
    jobs: BTreeMap<JobId, Record>,
    lines: BTreeMap<QueueName, Line>,
    subscriptions: BTreeMap<(String, String), Subscription>,
    schedules: BTreeMap<String, Schedule>,
    /// How moves from other stores stand, by queue and source.
    notes: BTreeMap<(QueueName, String), passage::Note>,
    /// Where the jobs of a queue go.
    leaving: BTreeMap<QueueName, String>,
    /// The books of all forgotten queues.
    forgotten: Books,
    /// Queues that a lease call waits for.
    awaited: BTreeSet<QueueName>,
    /// No queue is forgotten for its age.
    keeps_queues: bool,
    /// How many queues there may be.
    max_queues: Option<usize>,
    /// The steady clock at the last look.
    moment: Timestamp,
    /// Wall minus steady clock at the last look; a change of it is a step of the wall clock.
    offset: Option<i128>,
    sequence: u64,
    notices: Vec<Notice>,
}

/// A queue, without its jobs.
#[derive(Clone, Debug, Default)]
struct Line {
    config: QueueConfig,
    accepted: u64,
    done: u64,
    cancelled: u64,
    deleted: u64,
    asked: Option<Timestamp>,
    /// When it last had something or was asked for, on the steady clock.
    used: Timestamp,
    /// What the rate has left; `None` is a full one.
    bucket: Option<Bucket>,
    /// When each group last had its turn, as a count of turns.
    turns: BTreeMap<Option<String>, u64>,
    turn: u64,
}

impl Line {
    /// How many leases the rate allows now.
    fn tokens(&mut self, now: Now) -> usize {
        let Some(rate) = self.config.rate else {
            return usize::MAX;
        };
        let full = Bucket::full(rate, now.steady);
        let bucket = self.bucket.get_or_insert(full);
        bucket.available(rate, now.steady) as usize
    }

    fn rate_wait(&self, now: Now) -> Option<Timestamp> {
        let (rate, bucket) = (self.config.rate?, self.bucket?);
        let next = bucket.next_at(rate, now.steady);
        (next > now.steady).then(|| record::on_wall(next, now))
    }
}

impl Model {
    /// An empty one.
    pub fn new() -> Model {
        Model::default()
    }

    /// Lets everything happen whose time has come: vanished workers, ended lives, forgotten results and keys, ticks.
    pub fn advance(&mut self, now: Now, mint: &mut dyn Mint) {
        self.note_uses(now);
        let leases_over = self.ids(|job| job.lease().is_some_and(|l| l.deadline <= now.steady));
        for id in leases_over {
            self.vanish(id, now);
        }
        for id in self.ids(|job| job.expired(now)) {
            self.end_life(id, now);
        }
        self.jobs.retain(|_, job| match job.phase {
            Phase::Done {
                kept_until,
                key_until,
                ..
            } => kept_until > now.steady || key_until > now.steady,
            _ => true,
        });
        self.tick(now, mint);
        self.forget_unused(now);
    }

    /// Whether the next [`Model::advance`] makes jobs: who must name them asks before.
    pub fn ticks_at(&self, now: Now) -> bool {
        let next = |schedule: &Schedule| schedule.next.is_some_and(|due| now.reached(due));
        self.schedules.values().any(next)
    }

    fn tick(&mut self, now: Now, mint: &mut dyn Mint) {
        let offset = i128::from(now.wall.0) - i128::from(now.steady.0);
        let set_back = self.offset.replace(offset).is_some_and(|old| old > offset);
        let names: Vec<String> = self.schedules.keys().cloned().collect();
        for name in names {
            let Some(mut schedule) = self.schedules.remove(&name) else {
                continue;
            };
            // Set back, the wall clock would silence the schedule until it has caught up. Set forward, the policy for
            // missed ticks decides.
            if set_back && let Some(next) = schedule.next.filter(|next| next.base == Base::Wall) {
                let first = schedule.rearm(now).filter(|first| first.at < next.at);
                schedule.next = first.or(Some(next));
            }
            let tick = schedule.tick(now);
            for at in &tick.fire {
                let job = NewJob {
                    queue: schedule.queue.clone(),
                    spec: schedule.spec.clone(),
                };
                // A queue that takes no jobs now, or a key that is taken, drops the tick.
                if self.push_one(job, now, mint).is_ok() {
                    schedule.last = Some(*at);
                }
            }
            schedule.next = tick.next;
            self.schedules.insert(name, schedule);
        }
    }

    /// Keeps jobs.
    pub fn push(
        &mut self,
        jobs: Vec<NewJob>,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Vec<Result<Pushed>> {
        self.advance(now, mint);
        jobs.into_iter()
            .map(|job| self.push_one(job, now, mint))
            .collect()
    }

    fn push_one(&mut self, job: NewJob, now: Now, mint: &mut dyn Mint) -> Result<Pushed> {
        if let Some(key) = &job.spec.key
            && let Some(holder) = self.key_holder(&job.queue, &key.name, now)
        {
            return self.push_again(holder, job, now);
        }
        self.has_room(&job)?;
        self.make_line(&job.queue, now)?;
        let id = mint.id(&job.queue, now);
        let queue = job.queue.clone();
        self.jobs.insert(id, Record::new(id, job, now));
        self.step(id, None, Event::Push, now, "", "");
        self.line(&queue).accepted += 1;
        self.end_life(id, now);
        Ok(self.pushed(id, Accepted::New, now))
    }

    /// A push whose key is taken.
    fn push_again(&mut self, holder: JobId, job: NewJob, now: Now) -> Result<Pushed> {
        let policy = job.spec.key.as_ref().map(|key| key.on_duplicate);
        let state = self.jobs[&holder].state(now);
        match policy {
            Some(OnDuplicate::Return) => Ok(self.pushed(holder, Accepted::Existing, now)),
            Some(OnDuplicate::Replace) if life::next(Some(state), Event::Replace).is_some() => {
                self.may_replace(holder, &job)?;
                self.step(holder, Some(state), Event::Replace, now, "", "");
                let replaced = self.job(holder);
                replaced.set_spec(job.spec, now);
                // How far the work on another payload had come says nothing about this one.
                replaced.progress = None;
                self.end_life(holder, now);
                Ok(self.pushed(holder, Accepted::Replaced, now))
            }
            _ => Err(Error::new(Code::DuplicateKey, "the key is taken").about(holder)),
        }
    }

    /// Ends the life of a job that waits, if its time is over; it may be so from the first moment.
    fn end_life(&mut self, id: JobId, now: Now) {
        let job = self.job(id);
        if matches!(job.phase, Phase::Waiting) && job.expired(now) {
            self.die(id, Event::Expire, DeadReason::Expired, now, "", "");
        }
    }

    /// Whether the queue takes the job in the place of the other: it is none more, but it may be larger.
    fn may_replace(&self, holder: JobId, job: &NewJob) -> Result<()> {
        let config = &self.lines[&job.queue].config;
        if config.paused_in {
            return Err(Error::new(Code::QueuePaused, "the queue is paused"));
        }
        let (before, after) = (
            self.jobs[&holder].spec.payload.len(),
            job.spec.payload.len(),
        );
        let bytes = self.bytes(&job.queue) - before as u64 + after as u64;
        match config.max_bytes {
            Some(most) if after > before && bytes > most => {
                Err(Error::new(Code::QueueFull, "the queue is full"))
            }
            _ => Ok(()),
        }
    }

    fn has_room(&self, job: &NewJob) -> Result<()> {
        let Some(line) = self.lines.get(&job.queue) else {
            return Ok(());
        };
        let full = || Err(Error::new(Code::QueueFull, "the queue is full"));
        if line.config.paused_in {
            return Err(Error::new(Code::QueuePaused, "the queue is paused"));
        }
        if let Some(most) = line.config.max_jobs
            && self.stored(&job.queue).count() as u64 >= most
        {
            return full();
        }
        if let Some(most) = line.config.max_bytes
            && self.bytes(&job.queue) + job.spec.payload.len() as u64 > most
        {
            return full();
        }
        Ok(())
    }

    fn pushed(&self, id: JobId, how: Accepted, now: Now) -> Pushed {
        let job = &self.jobs[&id];
        Pushed {
            id,
            state: job.state(now),
            run_at: now.on_wall(job.due),
            how,
        }
    }

    /// The named queues, or all that ever were.
    pub fn queues(
        &mut self,
        names: Option<&[QueueName]>,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Vec<QueueInfo> {
        self.advance(now, mint);
        self.lines
            .keys()
            .filter(|name| names.is_none_or(|names| names.contains(name)))
            .map(|name| self.queue_info(name, now))
            .collect()
    }

    fn queue_info(&self, name: &QueueName, now: Now) -> QueueInfo {
        let line = &self.lines[name];
        let mut counts = Counts::default();
        let shown = |job: &&Record| job.queue == *name && !job.is_tombstone(now);
        for job in self.jobs.values().filter(shown) {
            match job.state(now) {
                State::Scheduled => counts.scheduled += 1,
                State::Ready => counts.ready += 1,
                State::Leased => counts.leased += 1,
                State::Dead => counts.dead += 1,
                State::Done => counts.done += 1,
                State::Cancelled => {}
            }
        }
        QueueInfo {
            name: name.clone(),
            config: line.config.clone(),
            counts,
            bytes: self.bytes(name),
            books: self.books(name),
            waiting: 0,
            last_asked: line.asked,
            next_due: self
                .stored(name)
                .filter(|job| job.state(now) == State::Scheduled)
                .map(|job| now.on_wall(job.due))
                .min(),
            rate_wait: line.rate_wait(now),
        }
    }

    fn books(&self, name: &QueueName) -> Books {
        let line = &self.lines[name];
        let mut books = Books {
            accepted: line.accepted,
            done: line.done,
            cancelled: line.cancelled,
            deleted: line.deleted,
            ..Books::default()
        };
        for job in self.stored(name) {
            match job.phase {
                Phase::Dead {
                    reason: DeadReason::Expired,
                    ..
                } => books.expired += 1,
                Phase::Dead { .. } => books.dead += 1,
                _ => books.live += 1,
            }
        }
        books
    }

    /// The jobs of a queue that are not done: what limits and bytes count.
    fn stored<'a>(&'a self, queue: &'a QueueName) -> impl Iterator<Item = &'a Record> {
        self.jobs
            .values()
            .filter(move |job| job.queue == *queue && !matches!(job.phase, Phase::Done { .. }))
    }

    fn bytes(&self, queue: &QueueName) -> u64 {
        self.stored(queue)
            .map(|job| job.spec.payload.len() as u64)
            .sum()
    }

    fn key_holder(&self, queue: &QueueName, key: &str, now: Now) -> Option<JobId> {
        self.jobs
            .values()
            .find(|job| job.queue == *queue && job.key() == Some(key) && job.holds_key(now))
            .map(|job| job.id)
    }

    fn ids(&self, which: impl Fn(&Record) -> bool) -> Vec<JobId> {
        let found = self.jobs.values().filter(|job| which(job));
        found.map(|job| job.id).collect()
    }

    fn job(&mut self, id: JobId) -> &mut Record {
        self.jobs.get_mut(&id).expect("the model knows the job")
    }

    fn line(&mut self, queue: &QueueName) -> &mut Line {
        let used = self.moment;
        let new = || Line {
            used,
            ..Line::default()
        };
        self.lines.entry(queue.clone()).or_insert_with(new)
    }

    /// Follows an arrow, and notes it. A move without an arrow is the model's own mistake.
    fn step(
        &mut self,
        id: JobId,
        from: Option<State>,
        event: Event,
        now: Now,
        by: &str,
        note: &str,
    ) -> State {
        let to = life::next(from, event);
        let to = to.unwrap_or_else(|| panic!("no arrow from {from:?} by {event}"));
        let job = self.job(id);
        job.note(now.wall, event, by, note);
        let queue = job.queue.clone();
        self.sequence += 1;
        self.notices.push(Notice {
            sequence: self.sequence,
            at: now.wall,
            queue,
            job: id,
            event,
            by: by.into(),
            note: note.into(),
        });
        to
    }

    fn die(&mut self, id: JobId, event: Event, reason: DeadReason, now: Now, by: &str, note: &str) {
        let from = self.job(id).state(now);
        self.step(id, Some(from), event, now, by, note);
        self.job(id).phase = Phase::Dead {
            reason,
            ended_at: now.wall,
        };
    }

    /// Done: kept for a while, or only its key, or nothing.
    fn finish(&mut self, id: JobId, event: Event, result: Option<Bytes>, now: Now, by: &str) {
        let from = match event {
            Event::Take => State::Ready,
            _ => State::Leased,
        };
        self.step(id, Some(from), event, now, by, "");
        let job = self.job(id);
        let window = job.spec.key.as_ref();
        let window = window.map_or(Duration::ZERO, |key| key.window);
        let (kept_until, key_until) =
            (now.steady.plus(job.spec.retention), now.steady.plus(window));
        job.phase = Phase::Done {
            ended_at: now.wall,
            kept_until,
            key_until,
            result,
        };
        let queue = job.queue.clone();
        if kept_until <= now.steady && key_until <= now.steady {
            self.jobs.remove(&id);
        }
        self.line(&queue).done += 1;
    }

    /// Takes a job out for good.
    fn remove(&mut self, id: JobId, event: Event, now: Now, by: &str) -> State {
        let from = self.job(id).state(now);
        let to = self.step(id, Some(from), event, now, by, "");
        let job = self.jobs.remove(&id).expect("the model knows the job");
        let line = self.line(&job.queue);
        match event {
            Event::Cancel => line.cancelled += 1,
            _ if from == State::Done => {}
            _ => line.deleted += 1,
        }
        to
    }

    /// What a restart forgets: who asked, since when.
    pub fn restart(&mut self) {
        for line in self.lines.values_mut() {
            line.asked = None;
        }
    }

    /// What happened since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The running leases, oldest job first.
    pub fn tokens(&self) -> Vec<Token> {
        let leases = self.jobs.values().filter_map(Record::lease);
        leases.map(|lease| lease.token).collect()
    }

    /// Gives a running lease the token that it really has.
    pub fn rename(&mut self, made_up: Token, real: Token) {
        if let Some(job) = self.jobs.get_mut(&made_up.job)
            && let Phase::Leased(lease) = &mut job.phase
            && lease.token == made_up
        {
            lease.token = real;
        }
    }

    /// Whether of a job only its key is left.
    pub fn is_shadow(&self, id: JobId, now: Now) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.is_tombstone(now))
    }

    /// Every job of which anything is stored.
    pub fn job_ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }
}

/// A worker's name, where none is known.
fn nobody() -> Arc<str> {
    "".into()
}
