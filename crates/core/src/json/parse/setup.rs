//! What is set up, and how queues stand.

use super::super::fields::{Fields, each, parsed, string, u64};
use super::super::read;
use super::{MOST_ITEMS, instant, items};
use crate::engine::{Audit, Outage, QueueList};
use crate::error::Result;
use crate::queue::{Books, Counts, QueueConfig, QueueInfo};
use crate::schedule::{Rhythm, Schedule};
use crate::time::{Base, Due};
use crate::topic::{Pattern, Subscription};

/// All queues that the server can reach: `{"queues": […], "unavailable"?: [{part, why}]}`.
pub fn queues(body: &[u8]) -> Result<QueueList> {
    let mut fields = Fields::of(body)?;
    let outage = |raw| outage_of(&mut Fields::item(raw)?);
    Ok(QueueList {
        queues: items(&mut fields, "queues", queue_of)?,
        unavailable: fields
            .get("unavailable", each("a list", MOST_ITEMS, outage))?
            .unwrap_or_default(),
    })
}

fn outage_of(fields: &mut Fields<'_>) -> Result<Outage> {
    Ok(Outage {
        part: fields.need("part", string)?,
        why: fields.need("why", string)?,
    })
}

/// The books of all forgotten queues, beside the queues: `{"queues": […], "forgotten": {…}}`. Left out where there is nothing in them.
pub fn forgotten(body: &[u8]) -> Result<Books> {
    forgotten_of(&mut Fields::of(body)?)
}

fn forgotten_of(fields: &mut Fields<'_>) -> Result<Books> {
    let books = fields.get("forgotten", |raw| books(&mut Fields::item(raw)?))?;
    Ok(books.unwrap_or_default())
}

/// One queue.
pub fn queue(body: &[u8]) -> Result<QueueInfo> {
    queue_of(&mut Fields::of(body)?)
}

fn queue_of(fields: &mut Fields<'_>) -> Result<QueueInfo> {
    Ok(QueueInfo {
        name: fields.need("name", parsed)?,
        config: fields.need("config", |raw| {
            read::queue_config(raw.get().as_bytes(), QueueConfig::default())
        })?,
        counts: fields.need("counts", |raw| counts(&mut Fields::item(raw)?))?,
        bytes: fields.need("bytes", u64)?,
        books: fields.need("books", |raw| books(&mut Fields::item(raw)?))?,
        waiting: fields.need("waiting", u64)?,
        last_asked: fields.get("last_asked", instant)?,
        next_due: fields.get("next_due", instant)?,
        rate_wait: fields.get("rate_wait", instant)?,
    })
}

fn counts(fields: &mut Fields<'_>) -> Result<Counts> {
    Ok(Counts {
        scheduled: fields.need("scheduled", u64)?,
        ready: fields.need("ready", u64)?,
        leased: fields.need("leased", u64)?,
        dead: fields.need("dead", u64)?,
        done: fields.need("done", u64)?,
    })
}

fn books(fields: &mut Fields<'_>) -> Result<Books> {
    Ok(Books {
        accepted: fields.need("accepted", u64)?,
        live: fields.need("live", u64)?,
        done: fields.need("done", u64)?,
        dead: fields.need("dead", u64)?,
        expired: fields.need("expired", u64)?,
        cancelled: fields.need("cancelled", u64)?,
        deleted: fields.need("deleted", u64)?,
    })
}

/// An audit.
pub fn audit(body: &[u8]) -> Result<Audit> {
    let mut fields = Fields::of(body)?;
    Ok(Audit {
        queues: items(&mut fields, "queues", |queue| {
            let name = queue.need("name", parsed)?;
            let books = queue.need("books", |raw| books(&mut Fields::item(raw)?))?;
            Ok((name, books))
        })?,
        forgotten: forgotten_of(&mut fields)?,
        jobs: fields.need("jobs", u64)?,
        problems: fields.need("problems", each("a list of texts", usize::MAX, string))?,
    })
}

/// All subscriptions: `{"subscriptions": […]}`.
pub fn subscriptions(body: &[u8]) -> Result<Vec<Subscription>> {
    items(&mut Fields::of(body)?, "subscriptions", |fields| {
        Ok(Subscription {
            topic: fields.need("topic", string)?,
            name: fields.need("name", string)?,
            queue: fields.need("queue", parsed)?,
            pattern: fields.get("pattern", |raw| Pattern::new(&string(raw)?))?,
        })
    })
}

/// All schedules: `{"schedules": […]}`.
pub fn schedules(body: &[u8]) -> Result<Vec<Schedule>> {
    items(&mut Fields::of(body)?, "schedules", |fields| {
        let rhythm = read::rhythm(fields)?;
        let base = match rhythm {
            Rhythm::Cron { .. } => Base::Wall,
            Rhythm::Every(_) => Base::Steady,
        };
        Ok(Schedule {
            name: fields.need("name", string)?,
            queue: fields.need("queue", parsed)?,
            rhythm,
            missed: fields.get("missed", parsed)?.unwrap_or_default(),
            spec: fields.object("job", read::spec)?.unwrap_or_default(),
            next: fields.get("next", instant)?.map(|at| Due { at, base }),
            last: fields.get("last", instant)?,
        })
    })
}
