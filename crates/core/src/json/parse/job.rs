//! Jobs, and the right to them.

use bytes::{BufMut, Bytes, BytesMut};

use super::super::fields::{
    Fields, Null, boolean, duration, each, parsed, string, texts, u32, word,
};
use super::super::read::backoff;
use super::{instant, items};
use crate::engine::{Cursor, Page};
use crate::error::Result;
use crate::job::{DeadReason, Holder, Job, Leased, Moment};
use crate::life::Event;

/// One job.
pub fn job(body: &[u8]) -> Result<Job> {
    job_of(&mut Fields::of(body)?)
}

/// The answer to a lease: `{"jobs": […]}`.
pub fn leases(body: &[u8]) -> Result<Vec<Leased>> {
    items(&mut Fields::of(body)?, "jobs", |fields| {
        Ok(Leased {
            token: fields.need("token", parsed)?,
            deadline: fields.need("deadline", instant)?,
            job: job_of(fields)?,
        })
    })
}

/// A page of jobs.
pub fn page(body: &[u8]) -> Result<Page> {
    let mut fields = Fields::of(body)?;
    Ok(Page {
        jobs: items(&mut fields, "jobs", job_of)?,
        next: fields.get("next_cursor", string)?.map(Cursor),
    })
}

pub(in super::super) fn job_of(fields: &mut Fields<'_>) -> Result<Job> {
    let key = fields.get("key", string)?;
    let window = fields.get("key_window", duration)?;
    Ok(Job {
        id: fields.need("id", parsed)?,
        queue: fields.need("queue", parsed)?,
        kind: fields.get("kind", string)?.unwrap_or_default().into(),
        payload: payload(fields)?,
        headers: fields.get("headers", texts)?.unwrap_or_default(),
        priority: fields.need("priority", u32)?,
        state: fields.need("state", parsed)?,
        run_at: fields.need("run_at", instant)?,
        created_at: fields.need("created_at", instant)?,
        ttr: fields.need("ttr", duration)?,
        expires_at: fields.get("expires_at", instant)?,
        max_attempts: fields.need("max_attempts", u32)?,
        backoff: fields.object("backoff", backoff)?.unwrap_or_default(),
        // Without a key there is nothing to be held.
        key_window: window.filter(|_| key.is_some()).unwrap_or_default(),
        key,
        group: fields.get("group", string)?,
        retention: fields.get("retention", duration)?.unwrap_or_default(),
        attempt: fields.need("attempt", u32)?,
        failures: fields.get("failures", u32)?.unwrap_or_default(),
        vanished: fields.get("vanished", u32)?.unwrap_or_default(),
        last_error: fields.get("last_error", string)?,
        dead: fields.get("dead_reason", word(&REASONS))?,
        ended_at: fields.get("ended_at", instant)?,
        progress: fields.bytes("progress", "progress_base64", Null::IsJson)?,
        result: fields.bytes("result", "result_base64", Null::IsJson)?,
        holder: fields.get("lease", |raw| holder(&mut Fields::item(raw)?))?,
        timeline: match fields.has("timeline") {
            true => items(fields, "timeline", moment)?,
            false => Vec::new(),
        },
    })
}

const REASONS: [(&str, DeadReason); 4] = [
    ("failed", DeadReason::Failed),
    ("vanished", DeadReason::Vanished),
    ("buried", DeadReason::Buried),
    ("expired", DeadReason::Expired),
];

/// The payload byte for byte, with the space around its JSON.
fn payload(fields: &mut Fields<'_>) -> Result<Bytes> {
    let inner = fields.bytes("payload", "payload_base64", Null::IsJson)?;
    let inner = inner.unwrap_or_default();
    let space = fields.get("payload_space", each("two texts", 2, string))?;
    let Some([before, after]) = space.as_deref() else {
        return Ok(inner);
    };
    let mut whole = BytesMut::with_capacity(before.len() + inner.len() + after.len());
    for part in [before.as_bytes(), &inner, after.as_bytes()] {
        whole.put_slice(part);
    }
    Ok(whole.freeze())
}

fn holder(fields: &mut Fields<'_>) -> Result<Holder> {
    Ok(Holder {
        worker: fields.need("worker", string)?.into(),
        deadline: fields.need("deadline", instant)?,
        cancel: fields.need("cancel", boolean)?,
    })
}

fn moment(fields: &mut Fields<'_>) -> Result<Moment> {
    Ok(Moment {
        at: fields.need("at", instant)?,
        event: fields.need("event", |raw| event(&string(raw)?))?,
        by: fields.get("by", string)?.unwrap_or_default(),
        note: fields.get("note", string)?.unwrap_or_default(),
    })
}

/// What happened to a job, by its word.
pub(super) fn event(name: &str) -> Result<Event> {
    crate::text::word(name, &Event::ALL, Event::as_str)
}
