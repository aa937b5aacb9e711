//! What is set up: queues, subscriptions, schedules; and messages for topics.

use std::time::Duration;

use serde_json::value::RawValue;

use super::super::fields::{Fields, boolean, duration, parsed, string, time, u16, u32, u64};
use super::{queue, spec};
use crate::engine::{Change, Message};
use crate::error::{Error, Result};
use crate::job::JobSpec;
use crate::queue::{QueueConfig, Rate, Side};
use crate::schedule::{Rhythm, Schedule};
use crate::text;
use crate::time::{Due, When};
use crate::topic::{Pattern, Subscription};

/// A queue's settings. Fields that are not there stay as in `base`; a limit that is `null` is taken away.
pub fn queue_config(body: &[u8], base: QueueConfig) -> Result<QueueConfig> {
    let mut fields = Fields::of(body)?;
    let config = QueueConfig {
        paused_in: fields.get("paused_in", boolean)?.unwrap_or(base.paused_in),
        paused_out: fields
            .get("paused_out", boolean)?
            .unwrap_or(base.paused_out),
        paused_until: paused_until(&mut fields, base.paused_until)?,
        max_jobs: set(&mut fields, "max_jobs", u64, base.max_jobs)?,
        max_bytes: set(&mut fields, "max_bytes", size, base.max_bytes)?,
        max_leased: set(&mut fields, "max_leased", u32, base.max_leased)?,
        rate: if fields.has("rate") {
            fields.object("rate", rate)?
        } else {
            base.rate
        },
        fair: fields.get("fair", boolean)?.unwrap_or(base.fair),
        shards: set(&mut fields, "shards", u16, base.shards)?,
    };
    fields.finish()?;
    Ok(config)
}

/// Which side of a queue is paused or resumed, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// The side; both unless said.
    pub side: Option<Side>,
    /// For how long; until somebody resumes it unless said.
    pub span: Option<Duration>,
}

/// A pause. Nothing at all says as much as an empty object.
pub fn pause(body: &[u8]) -> Result<Pause> {
    if matches!(body.trim_ascii(), b"" | b"null") {
        return Ok(Pause::default());
    }
    let mut fields = Fields::of(body)?;
    let pause = Pause {
        side: fields.get("what", side)?,
        span: fields.get("for", duration)?,
    };
    fields.finish()?;
    Ok(pause)
}

fn side(raw: &RawValue) -> Result<Side> {
    match &*string(raw)? {
        "in" => Ok(Side::In),
        "out" => Ok(Side::Out),
        "both" => Ok(Side::Both),
        _ => Err(Error::bad_request("expected \"in\", \"out\" or \"both\"")),
    }
}

/// `paused_until` a time, or `paused_for` a while.
fn paused_until(fields: &mut Fields<'_>, base: Option<When>) -> Result<Option<When>> {
    let said = fields.has("paused_until") || fields.has("paused_for");
    let until = fields.get("paused_until", time)?.map(When::At);
    let span = fields.get("paused_for", duration)?.map(When::After);
    match (until, span) {
        (Some(_), Some(_)) => Err(fields.wrong("paused_for", "stands beside paused_until")),
        (until, span) if said => Ok(until.or(span)),
        _ => Ok(base),
    }
}

fn set<'a, T>(
    fields: &mut Fields<'a>,
    name: &'static str,
    read: fn(&'a RawValue) -> Result<T>,
    base: Option<T>,
) -> Result<Option<T>> {
    let there = fields.has(name);
    let value = fields.get(name, read)?;
    Ok(if there { value } else { base })
}

fn size(raw: &RawValue) -> Result<u64> {
    if raw.get().starts_with('"') {
        text::parse_size(&string(raw)?)
    } else {
        u64(raw)
    }
}

fn rate(fields: &mut Fields<'_>) -> Result<Rate> {
    let count = fields.need("count", u32)?;
    Ok(Rate {
        count,
        per: fields
            .get("per", duration)?
            .unwrap_or(Duration::from_secs(1)),
        burst: fields.get("burst", u32)?.unwrap_or(count),
    })
}

/// The body of a subscription: `queue`, and if need be a `pattern`.
pub fn subscription(topic: &str, name: &str, body: &[u8]) -> Result<Subscription> {
    let mut fields = Fields::of(body)?;
    let subscription = Subscription {
        topic: topic.to_owned(),
        name: name.to_owned(),
        queue: fields.need("queue", queue)?,
        pattern: fields.get("pattern", |raw| Pattern::new(&string(raw)?))?,
    };
    fields.finish()?;
    Ok(subscription)
}

/// The body of a schedule: `queue`, `cron` with `zone` (UTC) or `every`, `missed` (once), and the `job`.
pub fn schedule(name: &str, body: &[u8]) -> Result<Schedule> {
    let mut fields = Fields::of(body)?;
    let schedule = schedule_of(name, &mut fields)?;
    fields.finish()?;
    Ok(schedule)
}

/// A schedule to add or replace. With `armed` it has the ticks that stand there, `next` and `last`, and ticks on as it did
/// elsewhere.
pub fn schedule_change(name: &str, body: &[u8]) -> Result<Change> {
    let mut fields = Fields::of(body)?;
    let schedule = schedule_of(name, &mut fields)?;
    let ticks = |armed: &mut Fields<'_>| Ok((armed.get("next", time)?, armed.get("last", time)?));
    let armed = fields.object("armed", ticks)?;
    fields.finish()?;
    Ok(match armed {
        None => Change::Schedule(schedule),
        Some((next, last)) => {
            let base = schedule.rhythm.base();
            let next = next.map(|at| Due { at, base });
            Change::Arm(Schedule {
                next,
                last,
                ..schedule
            })
        }
    })
}

/// A schedule to remove, with the pairs of the URL: with `last`, a time or `never`, only if that was its last tick.
pub fn unschedule<'p>(
    name: String,
    pairs: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Result<Change> {
    let mut pairs = pairs.into_iter();
    match (pairs.next(), pairs.next()) {
        (None, _) => Ok(Change::Unschedule(name)),
        (Some(("last", "never")), None) => Ok(Change::Disarm(name, None)),
        (Some(("last", at)), None) => Ok(Change::Disarm(name, Some(text::parse_timestamp(at)?))),
        _ => Err(Error::bad_request("only last can be said here, once")),
    }
}

fn schedule_of(name: &str, fields: &mut Fields<'_>) -> Result<Schedule> {
    Ok(Schedule {
        name: name.to_owned(),
        queue: fields.need("queue", queue)?,
        rhythm: rhythm(fields)?,
        missed: fields.get("missed", parsed)?.unwrap_or_default(),
        spec: fields.object("job", ticked)?.unwrap_or_default(),
        next: None,
        last: None,
    })
}

/// A schedule's job. It is due when it ticks, so it has no due time of its own.
fn ticked(fields: &mut Fields<'_>) -> Result<JobSpec> {
    let spec = spec(fields)?;
    match spec.when {
        When::Now => Ok(spec),
        _ => Err(fields.wrong("delay", "and run_at are not for a schedule: it says when")),
    }
}

pub(in super::super) fn rhythm(fields: &mut Fields<'_>) -> Result<Rhythm> {
    let cron = fields.get("cron", string)?;
    let every = fields.get("every", duration)?;
    let zone = fields.get("zone", string)?;
    match (cron, every) {
        (Some(expression), None) => Ok(Rhythm::Cron {
            expression,
            zone: zone.unwrap_or_else(|| "UTC".to_owned()),
        }),
        (None, Some(_)) if zone.is_some() => Err(fields.wrong("zone", "goes with cron only")),
        (None, Some(every)) => Ok(Rhythm::Every(every)),
        (Some(_), Some(_)) => Err(fields.wrong("every", "stands beside cron")),
        (None, None) => Err(fields.wrong("cron", "is missing, or every: when?")),
    }
}

/// A message for a topic: the fields of a push, and if need be a `routing_key`.
pub fn message(topic: &str, body: &[u8]) -> Result<Message> {
    let mut fields = Fields::of(body)?;
    let message = Message {
        topic: topic.to_owned(),
        routing_key: fields.get("routing_key", string)?,
        spec: spec(&mut fields)?,
    };
    fields.finish()?;
    Ok(message)
}
