//! JSON in.

mod setup;
mod steer;

use std::time::Duration;

use serde_json::value::RawValue;

use super::fields::{
    Fields, Null, boolean, duration, each, f64, list_of, parsed, string, texts, time, u32, word,
};
use crate::engine::{Ask, Extend, Holds, NamedJob, Outcome, Retry, Settle};
use crate::error::Result;
use crate::id::Token;
use crate::job::{Backoff, DEFAULT_KEY_WINDOW, Jitter, JobSpec, Key, OnDuplicate, QueueName, Ttl};
use crate::time::When;

pub(super) use self::setup::rhythm;
pub use self::setup::{
    Pause, message, pause, queue_config, schedule, schedule_change, subscription, unschedule,
};
pub use self::steer::{DEFAULT_LIMIT, order, page_pairs, query, query_pairs, when};

/// The fields of a push. A job that is shown has them under the same names, except `delay`, `ttl` and `on_duplicate`: its
/// times are absolute.
pub const PUSH_FIELDS: [&str; 17] = [
    "payload",
    "payload_base64",
    "kind",
    "headers",
    "priority",
    "run_at",
    "delay",
    "ttr",
    "ttl",
    "expires_at",
    "max_attempts",
    "backoff",
    "key",
    "on_duplicate",
    "key_window",
    "group",
    "retention",
];

/// One thing, or several that are answered each for itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Batch<T> {
    /// The body was an object.
    One(Result<T>),
    /// The body was a list.
    Many(Vec<Result<T>>),
}

impl<T> Batch<T> {
    /// The items, be it one or several.
    pub fn into_items(self) -> Vec<Result<T>> {
        match self {
            Batch::One(item) => vec![item],
            Batch::Many(items) => items,
        }
    }
}

/// Reads an object, or a list of at most `most` objects. The outer error means that nothing could be made of the body.
fn batch<'a, T>(
    body: &'a [u8],
    most: usize,
    read: fn(Fields<'a>) -> Result<T>,
) -> Result<Batch<T>> {
    let item = |raw: &'a RawValue| Fields::item(raw).and_then(read);
    Ok(match list_of(body, most)? {
        Some(items) => Batch::Many(items.into_iter().map(item).collect()),
        None => Batch::One(Fields::of(body).and_then(read)),
    })
}

/// A job, or a list of at most `most`.
pub fn pushes(body: &[u8], most: usize) -> Result<Batch<JobSpec>> {
    batch(body, most, |mut fields| {
        let spec = spec(&mut fields)?;
        fields.finish()?;
        Ok(spec)
    })
}

/// One job.
pub fn push(body: &[u8]) -> Result<JobSpec> {
    let mut fields = Fields::of(body)?;
    let spec = spec(&mut fields)?;
    fields.finish()?;
    Ok(spec)
}

pub(super) fn spec(fields: &mut Fields<'_>) -> Result<JobSpec> {
    let default = JobSpec::default();
    Ok(JobSpec {
        payload: fields
            .bytes("payload", "payload_base64", Null::IsJson)?
            .unwrap_or_default(),
        kind: fields.get("kind", string)?.unwrap_or_default(),
        headers: fields.get("headers", texts)?.unwrap_or_default(),
        priority: fields.get("priority", u32)?.unwrap_or(default.priority),
        when: moment(fields)?.unwrap_or_default(),
        ttr: fields.get("ttr", duration)?.unwrap_or(default.ttr),
        ttl: ttl(fields)?,
        max_attempts: fields
            .get("max_attempts", u32)?
            .unwrap_or(default.max_attempts),
        backoff: fields
            .object("backoff", backoff)?
            .unwrap_or(default.backoff),
        key: key(fields)?,
        group: fields.get("group", string)?,
        retention: fields.get("retention", duration)?.unwrap_or_default(),
    })
}

fn moment(fields: &mut Fields<'_>) -> Result<Option<When>> {
    let at = fields.get("run_at", time)?;
    let delay = fields.get("delay", duration)?;
    match (at, delay) {
        (Some(_), Some(_)) => Err(fields.wrong("delay", "stands beside run_at")),
        (at, delay) => Ok(at.map(When::At).or(delay.map(When::After))),
    }
}

fn ttl(fields: &mut Fields<'_>) -> Result<Ttl> {
    let after = fields.get("ttl", duration)?;
    let at = fields.get("expires_at", time)?;
    match (after, at) {
        (Some(_), Some(_)) => Err(fields.wrong("ttl", "stands beside expires_at")),
        (Some(after), None) => Ok(Ttl::After(after)),
        (None, Some(at)) => Ok(Ttl::At(at)),
        (None, None) => Ok(Ttl::None),
    }
}

fn key(fields: &mut Fields<'_>) -> Result<Option<Key>> {
    let name = fields.get("key", string)?;
    let on_duplicate: Option<OnDuplicate> = fields.get("on_duplicate", parsed)?;
    let window = fields.get("key_window", duration)?;
    match name {
        Some(name) => Ok(Some(Key {
            name,
            on_duplicate: on_duplicate.unwrap_or_default(),
            window: window.unwrap_or(DEFAULT_KEY_WINDOW),
        })),
        None if on_duplicate.is_some() => Err(fields.wrong("on_duplicate", "needs a key")),
        None if window.is_some() => Err(fields.wrong("key_window", "needs a key")),
        None => Ok(None),
    }
}

pub(super) fn backoff(fields: &mut Fields<'_>) -> Result<Backoff> {
    let seconds = |n| Duration::from_secs(n);
    let kind = fields.need(
        "kind",
        word(&[("exponential", 'e'), ("fixed", 'f'), ("list", 'l')]),
    )?;
    Ok(match kind {
        'e' => Backoff::Exponential {
            base: fields.get("base", duration)?.unwrap_or(seconds(1)),
            factor: fields.get("factor", f64)?.unwrap_or(2.0),
            cap: fields.get("cap", duration)?.unwrap_or(seconds(60 * 60)),
            jitter: fields.get("jitter", parsed)?.unwrap_or(Jitter::Full),
        },
        'f' => Backoff::Fixed {
            delay: fields.need("delay", duration)?,
        },
        _ => Backoff::List {
            delays: fields.need("delays", each("a list of durations", 1000, duration))?,
        },
    })
}

/// The ends of leases: a list of at most `most`, or one.
pub fn settles(body: &[u8], most: usize) -> Result<Batch<Settle>> {
    batch(body, most, |mut fields| {
        let settle = Settle {
            token: fields.need("token", token)?,
            outcome: outcome(&mut fields)?,
        };
        fields.finish()?;
        Ok(settle)
    })
}

fn outcome(fields: &mut Fields<'_>) -> Result<Outcome> {
    let name = fields.need(
        "outcome",
        word(&[
            ("ack", "ack"),
            ("fail", "fail"),
            ("release", "release"),
            ("bury", "bury"),
            ("snooze", "snooze"),
        ]),
    )?;
    let mut error = fields.get("error", string)?;
    let mut delay = fields.get("delay", duration)?;
    let mut retry = fields.get("retry", boolean)?;
    let mut priority = fields.get("priority", u32)?;
    let mut result = fields.bytes("result", "result_base64", Null::IsAbsent)?;
    let outcome = match name {
        "ack" => Outcome::Ack {
            result: result.take(),
        },
        "fail" => Outcome::Fail {
            error: error.take().unwrap_or_default(),
            delay: delay.take(),
            retry: match retry.take() {
                Some(false) => Retry::Never,
                _ => Retry::Policy,
            },
        },
        "release" => Outcome::Release {
            priority: priority.take(),
            delay: delay.take(),
        },
        "bury" => Outcome::Bury {
            error: error.take(),
            priority: priority.take(),
        },
        _ => Outcome::Snooze {
            delay: delay
                .take()
                .ok_or_else(|| fields.wrong("delay", "is missing: how much later?"))?,
        },
    };
    let unused = [
        ("error", error.is_some()),
        ("delay", delay.is_some()),
        ("retry", retry.is_some()),
        ("priority", priority.is_some()),
        ("result", result.is_some()),
    ];
    match unused.iter().find(|(_, there)| *there) {
        Some((field, _)) => Err(fields.wrong(field, format!("does not go with outcome {name}"))),
        None => Ok(outcome),
    }
}

fn token(raw: &RawValue) -> Result<Token> {
    string(raw)?.parse()
}

fn queue(raw: &RawValue) -> Result<QueueName> {
    QueueName::new(&string(raw)?)
}

/// Signs of life: a list of at most `most`, or one.
pub fn extends(body: &[u8], most: usize) -> Result<Batch<Extend>> {
    batch(body, most, |mut fields| {
        let extend = Extend {
            token: fields.need("token", token)?,
            ttr: fields.get("ttr", duration)?,
            progress: fields.bytes("progress", "progress_base64", Null::IsAbsent)?,
        };
        fields.finish()?;
        Ok(extend)
    })
}

/// A request for jobs: `queues`, or a `job`; and if need be `pick` (first), `max` (1), `wait` (0), `ttr` and `worker`.
pub fn ask(body: &[u8]) -> Result<Ask> {
    let mut fields = Fields::of(body)?;
    let queues = each("a list of queue names", 100_000, queue);
    let job = fields.get("job", parsed)?;
    let ask = Ask {
        queues: match job {
            Some(_) => fields.get("queues", queues)?.unwrap_or_default(),
            None => fields.need("queues", queues)?,
        },
        job: job.map(|id| NamedJob {
            id,
            holds: Holds::Respect,
        }),
        pick: fields.get("pick", parsed)?.unwrap_or_default(),
        max: fields.get("max", u32)?.unwrap_or(1),
        wait: fields.get("wait", duration)?.unwrap_or_default(),
        ttr: fields.get("ttr", duration)?,
        worker: fields.get("worker", string)?.unwrap_or_default().into(),
    };
    fields.finish()?;
    Ok(ask)
}

#[cfg(test)]
mod tests;
