//! What is set up, and how queues stand.

use serde::Serialize;
use serde_json::{Value, json};

use super::{SpecOut, Text, put_times, span, spec_out};
use crate::engine::{Audit, Outage};
use crate::queue::{Books, Counts, QueueConfig, QueueInfo, Rate};
use crate::schedule::{Rhythm, Schedule};
use crate::text;
use crate::time::Timestamp;
use crate::topic::Subscription;

fn no(flag: &bool) -> bool {
    !flag
}

#[derive(Serialize)]
struct ConfigOut {
    paused_in: bool,
    paused_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    paused_until: Option<Text<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_jobs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_leased: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<Value>,
    #[serde(skip_serializing_if = "no")]
    fair: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u16>,
}

/// A queue's settings; [`read::queue_config`](crate::json::read::queue_config) makes the same of it again.
pub fn queue_config(config: &QueueConfig) -> impl Serialize + use<> {
    ConfigOut {
        paused_in: config.paused_in,
        paused_out: config.paused_out,
        paused_until: config.resumes_at().map(Text),
        max_jobs: config.max_jobs,
        max_bytes: config.max_bytes,
        max_leased: config.max_leased,
        rate: config.rate.map(rate),
        fair: config.fair,
        shards: config.shards,
    }
}

fn rate(rate: Rate) -> Value {
    json!({ "count": rate.count, "per": text::duration(rate.per), "burst": rate.burst })
}

/// What a store refuses for now: `{part, why}`.
pub fn outage(outage: &Outage) -> impl Serialize + use<> {
    json!({ "part": outage.part, "why": outage.why })
}

/// A queue: `{name, config, counts, bytes, books, waiting, last_asked?, next_due?, rate_wait?}`.
pub fn queue(info: &QueueInfo) -> Value {
    let mut out = json!({
        "name": info.name.as_str(),
        "config": queue_config(&info.config),
        "counts": counts(&info.counts),
        "bytes": info.bytes,
        "books": books(&info.books),
        "waiting": info.waiting,
    });
    let times = [
        ("last_asked", info.last_asked),
        ("next_due", info.next_due),
        ("rate_wait", info.rate_wait),
    ];
    put_times(&mut out, times);
    out
}

fn counts(counts: &Counts) -> Value {
    json!({
        "scheduled": counts.scheduled,
        "ready": counts.ready,
        "leased": counts.leased,
        "dead": counts.dead,
        "done": counts.done,
    })
}

/// Where the jobs of a queue, or of all forgotten ones, went.
pub fn books(books: &Books) -> Value {
    json!({
        "accepted": books.accepted,
        "live": books.live,
        "done": books.done,
        "dead": books.dead,
        "expired": books.expired,
        "cancelled": books.cancelled,
        "deleted": books.deleted,
    })
}

/// An audit: `{ok, jobs, queues: [{name, books, balanced}], forgotten?, problems}`.
pub fn audit(audit: &Audit) -> Value {
    let queues: Vec<Value> = audit
        .queues
        .iter()
        .map(|(name, all)| {
            json!({ "name": name.as_str(), "books": books(all), "balanced": all.balanced() })
        })
        .collect();
    let mut out = json!({
        "ok": audit.problems.is_empty(),
        "jobs": audit.jobs,
        "queues": queues,
        "problems": audit.problems,
    });
    if !audit.forgotten.is_empty() {
        out["forgotten"] = books(&audit.forgotten);
    }
    out
}

/// A subscription: `{topic, name, queue, pattern?}`.
pub fn subscription(subscription: &Subscription) -> Value {
    let mut out = json!({
        "topic": subscription.topic,
        "name": subscription.name,
        "queue": subscription.queue.as_str(),
    });
    if let Some(pattern) = &subscription.pattern {
        out["pattern"] = pattern.as_str().into();
    }
    out
}

#[derive(Serialize)]
struct ScheduleOut<'a> {
    name: &'a str,
    queue: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every: Option<Text<String>>,
    missed: &'static str,
    job: SpecOut<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<Text<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Text<Timestamp>>,
}

/// A schedule: `{name, queue, cron and zone or every, missed, job, next?, last?}`.
pub fn schedule(schedule: &Schedule) -> impl Serialize {
    let (cron, zone, every) = match &schedule.rhythm {
        Rhythm::Cron { expression, zone } => (Some(expression.as_str()), Some(zone.as_str()), None),
        Rhythm::Every(period) => (None, None, Some(span(*period))),
    };
    ScheduleOut {
        name: &schedule.name,
        queue: schedule.queue.as_str(),
        cron,
        zone,
        every,
        missed: schedule.missed.as_str(),
        job: spec_out(&schedule.spec),
        next: schedule.next.map(|due| Text(due.at)),
        last: schedule.last.map(Text),
    }
}
