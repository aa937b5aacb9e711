//! How large, long or many things may be, and the checks that hold callers to it.
//!
//! An engine may rely on these limits: nothing past one of them is ever stored. A size over its limit is answered
//! `too_large`, any other wrong value `bad_request`; the message names the field, the value and the limit. Only error texts
//! are clipped instead, because refusing a worker's report of a failure would lose the failure.

use std::time::Duration;

use crate::engine::{
    Action, Ask, Change, Extend, Filter, Message, Order, Outcome, Query, Settle, Target, Which,
};
use crate::error::{Code, Error, Result};
use crate::id::clip;
use crate::job::{Backoff, Headers, JobSpec, TIMELINE_LENGTH, Ttl};
use crate::life::State;
use crate::passage::{Departure, Passage};
use crate::queue::{QueueConfig, Rate};
use crate::schedule::{Rhythm, Schedule};
use crate::text;
use crate::time::{Timestamp, When};
use crate::topic::Subscription;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The limits of a service. The default is safe for a server that strangers can reach.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of a payload: 1 MiB.
    pub payload: usize,
    /// Headers of a job: 64.
    pub headers: usize,
    /// Bytes of one header, name and value together: 1 KiB.
    pub header: usize,
    /// Bytes of a kind: 200.
    pub kind: usize,
    /// Bytes of a key: 512.
    pub key: usize,
    /// Bytes of a group: 200.
    pub group: usize,
    /// Bytes of a worker's name: 200.
    pub worker: usize,
    /// Bytes of the name of a topic, a subscription or a schedule: 200.
    pub name: usize,
    /// Bytes of a routing key: 255, as in AMQP.
    pub routing_key: usize,
    /// Bytes that are kept of an error text: 8 KiB.
    pub error: usize,
    /// Bytes of a result: 1 MiB.
    pub result: usize,
    /// Bytes of a progress note, which is stored anew with each extend: 16 KiB.
    pub progress: usize,
    /// Bytes of each text to search for, and of a cursor: 1 KiB.
    pub search: usize,
    /// Items of one call, and jobs of one lease: 1,000.
    pub batch: usize,
    /// Queues that one call may name: 1,000.
    pub queues: usize,
    /// Jobs of one page: 1,000.
    pub page: u32,
    /// How long a lease call may wait: 60 s, less than what proxies usually allow.
    pub wait: Duration,
    /// How far ahead a due time may lie, and how long a period may be: 10 years.
    pub delay: Duration,
    /// How long a job may live: 20 years, so that the longest delay leaves as much time to run.
    pub life: Duration,
    /// The length of a lease: a day. Longer work extends its lease; a lease is also how long a dead worker is waited for.
    pub ttr: Duration,
    /// How long a done job, or its key, may be kept: 10 years.
    pub keep: Duration,
    /// Tries of a job: 1,000,000.
    pub max_attempts: u32,
    /// Waits in a backoff list: 100.
    pub backoff_delays: usize,
    /// The factor of an exponential backoff: 1,000.
    pub backoff_factor: f64,
}

impl Default for Limits {
    fn default() -> Limits {
        // Any ten years have at most three leap days.
        let ten_years = 3653 * DAY;
        Limits {
            payload: 1 << 20,
            headers: 64,
            header: 1 << 10,
            kind: 200,
            key: 512,
            group: 200,
            worker: 200,
            name: 200,
            routing_key: 255,
            error: 8 << 10,
            result: 1 << 20,
            progress: 16 << 10,
            search: 1 << 10,
            batch: 1000,
            queues: 1000,
            page: 1000,
            wait: Duration::from_secs(60),
            delay: ten_years,
            life: 2 * ten_years,
            ttr: DAY,
            keep: ten_years,
            max_attempts: 1_000_000,
            backoff_delays: 100,
            backoff_factor: 1000.0,
        }
    }
}

impl Limits {
    /// Checks everything a client said about a job. `now` is what the wall clock shows; absolute times are measured from
    /// it.
    pub fn check_spec(&self, spec: &JobSpec, now: Timestamp) -> Result<()> {
        size("payload", spec.payload.len(), self.payload)?;
        line("kind", &spec.kind, self.kind)?;
        self.check_headers(&spec.headers)?;
        self.check_when(spec.when, now)?;
        if !spec.ttr.is_zero() {
            span("ttr", spec.ttr, self.ttr)?;
        }
        self.check_ttl(spec.ttl, now)?;
        number(
            "max_attempts",
            spec.max_attempts.into(),
            self.max_attempts.into(),
        )?;
        self.check_backoff(&spec.backoff)?;
        if let Some(key) = &spec.key {
            named("key", &key.name, self.key)?;
            at_most("key_window", key.window, self.keep)?;
        }
        if let Some(group) = &spec.group {
            named("group", group, self.group)?;
        }
        at_most("retention", spec.retention, self.keep)
    }

    fn check_headers(&self, headers: &Headers) -> Result<()> {
        count("headers", headers.len(), self.headers)?;
        for (name, value) in headers {
            let field = format!("headers.{}", text::one_line(&clip(name)));
            size(&field, name.len() + value.len(), self.header)?;
            line(&field, name, self.header)?;
            if name.is_empty() {
                return Err(wrong("headers", "a name is empty"));
            }
            if value.contains(['\r', '\n', '\0']) {
                return Err(wrong(
                    &field,
                    "the value has a line break or a NUL character",
                ));
            }
        }
        Ok(())
    }

    fn check_when(&self, when: When, now: Timestamp) -> Result<()> {
        match when {
            When::Now => Ok(()),
            When::After(delay) => at_most("delay", delay, self.delay),
            When::At(at) => ahead("run_at", at, now, self.delay),
        }
    }

    fn check_ttl(&self, ttl: Ttl, now: Timestamp) -> Result<()> {
        match ttl {
            Ttl::None => Ok(()),
            Ttl::After(ttl) => span("ttl", ttl, self.life),
            Ttl::At(at) => ahead("expires_at", at, now, self.life),
        }
    }

    fn check_backoff(&self, backoff: &Backoff) -> Result<()> {
        match backoff {
            Backoff::Exponential {
                base, factor, cap, ..
            } => {
                at_most("backoff.base", *base, self.delay)?;
                at_most("backoff.cap", *cap, self.delay)?;
                if (1.0..=self.backoff_factor).contains(factor) {
                    Ok(())
                } else {
                    let problem = format!("{factor} is not from 1 to {}", self.backoff_factor);
                    Err(wrong("backoff.factor", problem))
                }
            }
            Backoff::Fixed { delay } => at_most("backoff.delay", *delay, self.delay),
            Backoff::List { delays } => {
                if delays.is_empty() {
                    return Err(wrong("backoff.delays", "the list is empty"));
                }
                count("backoff.delays", delays.len(), self.backoff_delays)?;
                delays
                    .iter()
                    .try_for_each(|delay| at_most("backoff.delays", *delay, self.delay))
            }
        }
    }

    /// Checks a request for jobs.
    pub fn check_ask(&self, ask: &Ask) -> Result<()> {
        if ask.job.is_some() && !(ask.queues.is_empty() && ask.wait.is_zero()) {
            return Err(wrong("job", "goes without queues, and is not waited for"));
        }
        if ask.job.is_none() && ask.queues.is_empty() {
            return Err(wrong("queues", "the list is empty"));
        }
        self.check_queues(ask.queues.len())?;
        number("max", ask.max.into(), self.batch as u64)?;
        at_most("wait", ask.wait, self.wait)?;
        ask.ttr
            .map_or(Ok(()), |ttr| span("ttr", ttr, self.ttr))
            .and_then(|()| line("worker", &ask.worker, self.worker))
    }

    /// Checks the end of a lease, and clips its error text.
    pub fn check_settle(&self, mut settle: Settle) -> Result<Settle> {
        match &mut settle.outcome {
            Outcome::Ack { result } => {
                size(
                    "result",
                    result.as_ref().map_or(0, |r| r.len()),
                    self.result,
                )?;
            }
            Outcome::Fail { error, delay, .. } => {
                self.clip_error(error);
                at_most("delay", delay.unwrap_or_default(), self.delay)?;
            }
            Outcome::Release { delay, .. } => {
                at_most("delay", delay.unwrap_or_default(), self.delay)?;
            }
            Outcome::Bury { error, .. } => {
                error.iter_mut().for_each(|error| self.clip_error(error));
            }
            Outcome::Snooze { delay } => at_most("delay", *delay, self.delay)?,
        }
        Ok(settle)
    }

    fn clip_error(&self, error: &mut String) {
        error.truncate(error.floor_char_boundary(self.error));
    }

    /// Checks a sign of life.
    pub fn check_extend(&self, extend: &Extend) -> Result<()> {
        if let Some(ttr) = extend.ttr {
            span("ttr", ttr, self.ttr)?;
        }
        let progress = extend.progress.as_ref().map_or(0, |p| p.len());
        size("progress", progress, self.progress)
    }

    /// Checks how a job is named.
    pub fn check_which(&self, which: &Which) -> Result<()> {
        match which {
            Which::Id(_) => Ok(()),
            Which::Key(_, key) => named("key", key, self.key),
        }
    }

    /// Checks a request for a page.
    pub fn check_query(&self, query: &Query) -> Result<()> {
        self.check_filter(&query.filter)?;
        let cursor = query.cursor.as_ref().map_or(0, |cursor| cursor.0.len());
        size("cursor", cursor, self.search)?;
        number("limit", query.limit.into(), self.page.into())
    }

    /// Checks a filter.
    pub fn check_filter(&self, filter: &Filter) -> Result<()> {
        self.check_headers(&filter.headers)?;
        let texts = [
            ("kind", &filter.kind),
            ("key", &filter.key),
            ("group", &filter.group),
            ("error", &filter.error),
            ("search", &filter.search),
        ];
        texts.iter().try_for_each(|(field, text)| match text {
            // Every text holds the empty one: an unset shell variable would choose all jobs of all queues. No job has an
            // empty key or group; jobs without a kind there are.
            Some(text) if text.is_empty() && *field != "kind" => Err(wrong(field, "is empty")),
            text => size(field, text.as_ref().map_or(0, String::len), self.search),
        })
    }

    /// Checks an operator's move.
    pub fn check_order(&self, order: &Order, now: Timestamp) -> Result<()> {
        if let Action::Reschedule(when) = order.action {
            self.check_when(when, now)?;
        }
        match &order.target {
            Target::Jobs(ids) => self.check_batch(ids.len()),
            Target::Matching(query) => self.check_query(query),
        }
    }

    /// Checks a request for jobs to move.
    pub fn check_departure(&self, departure: &Departure) -> Result<()> {
        let cursor = departure.cursor.as_ref();
        size(
            "cursor",
            cursor.map_or(0, |cursor| cursor.0.len()),
            self.search,
        )?;
        number("limit", departure.limit.into(), self.page.into())
    }

    /// Checks a job of another store. It was checked there when it was pushed, but that may have had other limits.
    pub fn check_passage(&self, passage: &Passage, now: Timestamp) -> Result<()> {
        let job = &passage.job;
        self.check_spec(&passage.spec(), now)?;
        passage.check_numbers()?;
        let bytes = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, |bytes| bytes.len());
        size("result", bytes(&job.result), self.result)?;
        size("progress", bytes(&job.progress), self.progress)?;
        let error = |text: &str| size("last_error", text.len(), self.error);
        job.last_error.as_deref().map_or(Ok(()), error)?;
        count("timeline", job.timeline.len(), TIMELINE_LENGTH)?;
        for moment in &job.timeline {
            line("by", &moment.by, self.worker)?;
            // A note may name the worker beside what it said.
            size("note", moment.note.len(), self.error + self.worker)?;
        }
        let whole = match job.state {
            State::Scheduled | State::Ready => true,
            State::Dead => job.dead.is_some() && job.ended_at.is_some(),
            State::Done => job.ended_at.is_some(),
            State::Leased | State::Cancelled => false,
        };
        match whole {
            true => Ok(()),
            false => Err(wrong(
                "state",
                format!("a {} job like this cannot move", job.state),
            )),
        }
    }

    /// Checks how many items a call has.
    pub fn check_batch(&self, items: usize) -> Result<()> {
        count("batch", items, self.batch)
    }

    /// Checks how many queues a call names.
    pub fn check_queues(&self, queues: usize) -> Result<()> {
        count("queues", queues, self.queues)
    }

    /// Checks a change that is not about one job.
    pub fn check_change(&self, change: &Change, now: Timestamp) -> Result<()> {
        match change {
            Change::Queue(_, config) => self.check_config(config, now),
            Change::Subscribe(subscription) => self.check_subscription(subscription),
            Change::Unsubscribe(topic, name) => self
                .check_name("topic", topic)
                .and_then(|()| self.check_name("subscription", name)),
            Change::Schedule(schedule) | Change::Arm(schedule) => {
                self.check_schedule(schedule, now)
            }
            Change::Unschedule(name) | Change::Disarm(name, _) => self.check_name("schedule", name),
        }
    }

    /// Checks a queue's settings. A limit of zero is refused: pausing says the same, and says it clearly.
    pub fn check_config(&self, config: &QueueConfig, now: Timestamp) -> Result<()> {
        match config.paused_until {
            Some(When::At(until)) => at_most("paused_until", until.since(now), self.delay)?,
            Some(When::After(span)) => at_most("paused_for", span, self.delay)?,
            Some(When::Now) | None => {}
        }
        let limits = [
            ("max_jobs", config.max_jobs),
            ("max_bytes", config.max_bytes),
            ("max_leased", config.max_leased.map(u64::from)),
            ("shards", config.shards.map(u64::from)),
        ];
        for (field, limit) in limits {
            number(field, limit.unwrap_or(1), u64::MAX)?;
        }
        config.rate.map_or(Ok(()), |rate| self.check_rate(rate))
    }

    fn check_rate(&self, rate: Rate) -> Result<()> {
        number("rate.count", rate.count.into(), u32::MAX.into())?;
        number("rate.burst", rate.burst.into(), u32::MAX.into())?;
        span("rate.per", rate.per, self.delay)
    }

    /// Checks a subscription.
    pub fn check_subscription(&self, subscription: &Subscription) -> Result<()> {
        self.check_name("topic", &subscription.topic)?;
        self.check_name("subscription", &subscription.name)
    }

    /// Checks a schedule.
    pub fn check_schedule(&self, schedule: &Schedule, now: Timestamp) -> Result<()> {
        self.check_name("schedule", &schedule.name)?;
        match &schedule.rhythm {
            Rhythm::Every(period) => span("every", *period, self.delay)?,
            Rhythm::Cron { expression, zone } => {
                size("cron", expression.len(), self.name)?;
                size("zone", zone.len(), self.name)?;
            }
        }
        schedule.rhythm.check()?;
        self.check_spec(&schedule.spec, now)
    }

    /// Checks a message for a topic.
    pub fn check_message(&self, message: &Message, now: Timestamp) -> Result<()> {
        self.check_name("topic", &message.topic)?;
        if let Some(key) = &message.routing_key {
            line("routing_key", key, self.routing_key)?;
        }
        self.check_spec(&message.spec, now)
    }

    /// Checks the name of a topic, a subscription or a schedule.
    pub fn check_name(&self, field: &str, name: &str) -> Result<()> {
        named(field, name, self.name)
    }
}

fn wrong(field: &str, problem: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("{field}: {problem}"))
}

fn size(field: &str, bytes: usize, limit: usize) -> Result<()> {
    if bytes <= limit {
        return Ok(());
    }
    let message = format!("{field}: {bytes} bytes are over the limit of {limit}");
    Err(Error::new(Code::TooLarge, message))
}

fn count(field: &str, items: usize, limit: usize) -> Result<()> {
    if items <= limit {
        return Ok(());
    }
    let message = format!("{field}: {items} items are over the limit of {limit}");
    Err(Error::new(Code::TooLarge, message))
}

/// Text that ends up in logs, headers and line protocols: control characters would forge lines there, and those that turn the direction of
/// writing would make it look like another text.
fn line(field: &str, text: &str, limit: usize) -> Result<()> {
    size(field, text.len(), limit)?;
    match text.chars().find(|c| text::is_deceptive(*c)) {
        None => Ok(()),
        Some(c) => Err(wrong(field, format!("has the control character {c:?}"))),
    }
}

fn named(field: &str, text: &str, limit: usize) -> Result<()> {
    if text.is_empty() {
        return Err(wrong(field, "is empty"));
    }
    line(field, text, limit)
}

fn number(field: &str, value: u64, limit: u64) -> Result<()> {
    if (1..=limit).contains(&value) {
        Ok(())
    } else {
        Err(wrong(field, format!("{value} is not from 1 to {limit}")))
    }
}

fn at_most(field: &str, value: Duration, limit: Duration) -> Result<()> {
    if value <= limit {
        return Ok(());
    }
    let (value, limit) = (text::duration(value), text::duration(limit));
    Err(wrong(
        field,
        format!("{value} is over the limit of {limit}"),
    ))
}

/// A duration that would mean nothing, or something else, if it were zero once in milliseconds.
fn span(field: &str, value: Duration, limit: Duration) -> Result<()> {
    if value < Duration::from_millis(1) {
        return Err(wrong(field, "is shorter than a millisecond"));
    }
    at_most(field, value, limit)
}

fn ahead(field: &str, at: Timestamp, now: Timestamp, limit: Duration) -> Result<()> {
    if at <= now.plus(limit) && at <= text::LAST_INSTANT {
        return Ok(());
    }
    let limit = text::duration(limit);
    Err(wrong(
        field,
        format!("{at} lies further ahead than the limit of {limit}"),
    ))
}
