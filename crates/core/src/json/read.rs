//! JSON in.

use std::time::Duration;

use serde_json::value::RawValue;

use super::fields::{
    Fields, Null, boolean, duration, each, f64, list, parse, string, texts, time, u32, u64, word,
};
use crate::engine::{
    Action, Ask, Cursor, Extend, Filter, Message, Mode, Order, Outcome, Query, Retry, Settle,
    Target,
};
use crate::error::{Error, Result};
use crate::id::{JobId, Token};
use crate::job::{Backoff, DEFAULT_KEY_WINDOW, Jitter, JobSpec, Key, OnDuplicate, QueueName, Ttl};
use crate::life::State;
use crate::queue::{QueueConfig, Rate};
use crate::schedule::{Missed, Rhythm, Schedule};
use crate::time::When;
use crate::topic::{Pattern, Subscription};

/// The page size of a query that names none.
pub const DEFAULT_LIMIT: u32 = 100;

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
    let raw = parse(body)?;
    let item = |raw: &'a RawValue| Fields::item(raw).and_then(read);
    Ok(match list(raw, most)? {
        Some(items) => Batch::Many(items.into_iter().map(item).collect()),
        None => Batch::One(item(raw)),
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

fn spec(fields: &mut Fields<'_>) -> Result<JobSpec> {
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
    let on_duplicate = fields.get(
        "on_duplicate",
        word(&[
            ("reject", OnDuplicate::Reject),
            ("return", OnDuplicate::Return),
            ("replace", OnDuplicate::Replace),
        ]),
    )?;
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

fn backoff(fields: &mut Fields<'_>) -> Result<Backoff> {
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
            jitter: fields
                .get(
                    "jitter",
                    word(&[("full", Jitter::Full), ("none", Jitter::None)]),
                )?
                .unwrap_or(Jitter::Full),
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

/// A request for jobs: `queues`, and if need be `max` (1), `wait` (0), `ttr` and `worker`.
pub fn ask(body: &[u8]) -> Result<Ask> {
    let mut fields = Fields::of(body)?;
    let ask = Ask {
        queues: fields.need("queues", each("a list of queue names", 100_000, queue))?,
        max: fields.get("max", u32)?.unwrap_or(1),
        wait: fields.get("wait", duration)?.unwrap_or_default(),
        ttr: fields.get("ttr", duration)?,
        worker: fields.get("worker", string)?.unwrap_or_default().into(),
    };
    fields.finish()?;
    Ok(ask)
}

/// A filter with `cursor` and `limit` (100) beside its fields.
pub fn query(body: &[u8]) -> Result<Query> {
    let mut fields = Fields::of(body)?;
    let query = page(&mut fields, filter)?;
    fields.finish()?;
    Ok(query)
}

/// A query as it stands in a URL or in flags: pairs of texts. A pair without a value counts as absent, and `state` may be
/// given several times or as a list with commas.
pub fn query_pairs<'p>(pairs: impl IntoIterator<Item = (&'p str, &'p str)>) -> Result<Query> {
    let mut object = serde_json::Map::new();
    for (name, value) in pairs {
        let number = value.parse::<u64>().ok().filter(|_| name == "limit");
        let value = match (object.remove(name), number) {
            _ if value.is_empty() => continue,
            (None, Some(number)) => number.into(),
            (None, None) => value.into(),
            (Some(before), _) if name == "state" => {
                format!("{},{value}", before.as_str().unwrap_or_default()).into()
            }
            (Some(_), _) => {
                return Err(Error::bad_request(format!(
                    "{}: is there twice",
                    crate::id::clip(name)
                )));
            }
        };
        object.insert(name.to_owned(), value);
    }
    query(serde_json::Value::Object(object).to_string().as_bytes())
}

fn page<'a>(
    fields: &mut Fields<'a>,
    filter: impl FnOnce(&mut Fields<'a>) -> Result<Filter>,
) -> Result<Query> {
    Ok(Query {
        filter: filter(fields)?,
        cursor: fields.get("cursor", string)?.map(Cursor),
        limit: fields.get("limit", u32)?.unwrap_or(DEFAULT_LIMIT),
    })
}

fn filter(fields: &mut Fields<'_>) -> Result<Filter> {
    Ok(Filter {
        queue: fields.get("queue", queue)?,
        states: fields.get("state", states)?.unwrap_or_default(),
        kind: fields.get("kind", string)?,
        key: fields.get("key", string)?,
        group: fields.get("group", string)?,
        headers: fields.get("headers", texts)?.unwrap_or_default(),
        error: fields.get("error", string)?,
        search: fields.get("search", string)?,
        created_from: fields.get("created_from", time)?,
        created_before: fields.get("created_before", time)?,
        due_from: fields.get("due_from", time)?,
        due_before: fields.get("due_before", time)?,
    })
}

/// `"dead"`, `"dead,done"` or `["dead", "done"]`.
fn states(raw: &RawValue) -> Result<Vec<State>> {
    if raw.get().starts_with('[') {
        each("a list of states", 100, |raw| string(raw)?.parse())(raw)
    } else {
        string(raw)?.split(',').map(str::parse).collect()
    }
}

/// An operator's move on many jobs: `action` (kick, cancel, delete or reschedule with `run_at` or `delay`), either `ids` or
/// a `filter` with `cursor` and `limit`, and `dry_run`.
///
/// An empty `filter` means every job and must be written as `{}`: leaving it out is an error, not a wish.
pub fn order(body: &[u8]) -> Result<Order> {
    let mut fields = Fields::of(body)?;
    let action = fields.need(
        "action",
        word(&[
            ("kick", Action::Kick),
            ("cancel", Action::Cancel),
            ("delete", Action::Delete),
            ("reschedule", Action::Reschedule(When::Now)),
        ]),
    )?;
    let action = match (action, moment(&mut fields)?) {
        (Action::Reschedule(_), Some(when)) => Action::Reschedule(when),
        (Action::Reschedule(_), None) => {
            return Err(fields.wrong("run_at", "is missing, or delay: to when?"));
        }
        (_, Some(_)) => {
            return Err(fields.wrong("run_at", "and delay go with action reschedule only"));
        }
        (action, None) => action,
    };
    let mode = match fields.get("dry_run", boolean)? {
        Some(true) => Mode::DryRun,
        _ => Mode::Act,
    };
    let target = target(&mut fields)?;
    fields.finish()?;
    Ok(Order {
        target,
        action,
        mode,
    })
}

fn target(fields: &mut Fields<'_>) -> Result<Target> {
    let ids = fields.get("ids", each("a list of job ids", 100_000, id))?;
    let filter = fields.object("filter", filter)?;
    match (ids, filter) {
        (Some(ids), None) => Ok(Target::Jobs(ids)),
        (None, Some(filter)) => Ok(Target::Matching(page(fields, |_| Ok(filter))?)),
        (Some(_), Some(_)) => Err(fields.wrong("filter", "stands beside ids")),
        (None, None) => Err(fields.wrong("filter", "is missing, or ids: which jobs?")),
    }
}

/// An id is written as a text; a number is taken too, where it is exact.
fn id(raw: &RawValue) -> Result<JobId> {
    if raw.get().starts_with('"') {
        string(raw)?.parse()
    } else {
        u64(raw).map(JobId)
    }
}

/// The body of a reschedule: `run_at` or `delay`.
pub fn when(body: &[u8]) -> Result<When> {
    let mut fields = Fields::of(body)?;
    let when = moment(&mut fields)?
        .ok_or_else(|| fields.wrong("run_at", "is missing, or delay: to when?"))?;
    fields.finish()?;
    Ok(when)
}

/// A queue's settings. Fields that are not there stay as in `base`; a limit that is `null` is taken away.
pub fn queue_config(body: &[u8], base: QueueConfig) -> Result<QueueConfig> {
    let mut fields = Fields::of(body)?;
    let config = QueueConfig {
        paused_in: fields.get("paused_in", boolean)?.unwrap_or(base.paused_in),
        paused_out: fields
            .get("paused_out", boolean)?
            .unwrap_or(base.paused_out),
        max_jobs: set(&mut fields, "max_jobs", u64, base.max_jobs)?,
        max_bytes: set(&mut fields, "max_bytes", size, base.max_bytes)?,
        max_leased: set(&mut fields, "max_leased", u32, base.max_leased)?,
        rate: if fields.has("rate") {
            fields.object("rate", rate)?
        } else {
            base.rate
        },
        fair: fields.get("fair", boolean)?.unwrap_or(base.fair),
    };
    fields.finish()?;
    Ok(config)
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
        crate::text::parse_size(&string(raw)?)
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
    let schedule = Schedule {
        name: name.to_owned(),
        queue: fields.need("queue", queue)?,
        rhythm: rhythm(&mut fields)?,
        missed: fields
            .get(
                "missed",
                word(&[
                    ("skip", Missed::Skip),
                    ("once", Missed::Once),
                    ("all", Missed::All),
                ]),
            )?
            .unwrap_or_default(),
        spec: fields.object("job", ticked)?.unwrap_or_default(),
        next: None,
        last: None,
    };
    fields.finish()?;
    Ok(schedule)
}

/// A schedule's job. It is due when it ticks, so it has no due time of its own.
fn ticked(fields: &mut Fields<'_>) -> Result<JobSpec> {
    let spec = spec(fields)?;
    match spec.when {
        When::Now => Ok(spec),
        _ => Err(fields.wrong("delay", "and run_at are not for a schedule: it says when")),
    }
}

fn rhythm(fields: &mut Fields<'_>) -> Result<Rhythm> {
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
