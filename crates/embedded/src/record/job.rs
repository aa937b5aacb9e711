//! A job as the log keeps it, and how its record lies in bytes.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::JobId;
use auxo_core::job::{Backoff, DeadReason, Headers, Jitter, Moment};
use auxo_core::life::Event;
use auxo_core::time::{Base, Due, Timestamp};
use bytes::Bytes;

use super::{From, HEAD, Previous, from, kind};
use crate::codec::{Reader, Writer};
use crate::format::absent;

/// A job as one record keeps it. Each transition that leaves the job in the store writes a new one, which replaces the one
/// before: payload and all, so that a live job is exactly one record and nothing else has to be kept for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub id: JobId,
    pub queue: u32,
    pub kept: Kept,
    pub kind: Arc<str>,
    pub payload: Bytes,
    pub headers: Headers,
    pub priority: u32,
    /// When it may run. Scheduled and ready differ only in whether this moment has come.
    pub due: Due,
    /// At the front of its priority, because its last lease vanished.
    pub front: bool,
    pub created_at: Timestamp,
    pub ttr: Duration,
    pub expires: Option<Due>,
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub key: Option<String>,
    pub window: Duration,
    pub group: Option<String>,
    pub retention: Duration,
    pub attempt: u32,
    pub failures: u32,
    pub vanished: u32,
    pub last_error: Option<String>,
    pub dead: Option<DeadReason>,
    /// When it was done or died, on the wall clock.
    pub ended_at: Option<Timestamp>,
    /// Until when a done job or a tombstone is kept, on the steady clock.
    pub until: Timestamp,
    pub progress: Option<Bytes>,
    pub result: Option<Bytes>,
    pub timeline: Vec<Moment>,
    /// The length of the record it was read from; not stored.
    pub weight: u32,
}

impl Stored {
    /// Its place in line: a job whose lease vanished stands before all others of its priority.
    pub fn line(&self) -> Due {
        if self.front {
            Due {
                at: Timestamp(0),
                ..self.due
            }
        } else {
            self.due
        }
    }

    /// What its group is known by in the streams; zero for none.
    pub fn group_hash(&self) -> u64 {
        self.group
            .as_ref()
            .map_or(0, |group| hash(0, group.as_bytes()).max(2))
    }

    /// What its key is known by in the indexes.
    pub fn key_hash(&self) -> Option<u64> {
        self.key.as_ref().map(|key| key_hash(self.queue, key))
    }

    /// Until when a done job holds its key, on the steady clock.
    pub fn key_until(&self) -> Timestamp {
        match self.kept {
            Kept::Done => self.until.minus(self.retention).plus(self.window),
            _ => self.until,
        }
    }
}

/// What a key is known by in the indexes.
pub fn key_hash(queue: u32, key: &str) -> u64 {
    hash(u64::from(queue) + 1, key.as_bytes())
}

/// FNV-1a: it lies on disks, so it may never change. Two names with one hash are told apart by reading the records.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// What kind of place a stored job has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Scheduled, ready or leased.
    Waiting,
    /// Parked.
    Dead,
    /// Retained after it was done.
    Done,
    /// Only the key of a done job, without its payload.
    Tomb,
}

/// A job record.
#[derive(Clone, Debug, PartialEq)]
pub struct Put {
    /// What happened; `None` for a copy that compaction made.
    pub event: Option<Event>,
    pub from: From,
    pub previous: Option<Previous>,
    pub job: Stored,
}

/// Reads the job out of a job record's body. If that lies in `shared`, the payload is not copied but a part of it.
pub fn decode_job(body: &[u8], shared: Option<&Bytes>) -> Option<Stored> {
    let mut r = Reader(body);
    (r.u8()? == kind::PUT).then_some(())?;
    let put = decode_put(&mut r, shared)?;
    let weight = (HEAD + body.len()) as u32;
    Some(Stored { weight, ..put.job })
}

/// The parts of a job that are not in the record of every job have a bit each; what is not there takes no room, and is what
/// [`absent`] says.
mod has {
    pub const PREVIOUS: u32 = 1;
    pub const KIND: u32 = 1 << 1;
    pub const HEADERS: u32 = 1 << 2;
    pub const PRIORITY: u32 = 1 << 3;
    pub const FRONT: u32 = 1 << 4;
    pub const CREATED: u32 = 1 << 5;
    pub const TTR: u32 = 1 << 6;
    pub const EXPIRES: u32 = 1 << 7;
    pub const MAX_ATTEMPTS: u32 = 1 << 8;
    pub const BACKOFF: u32 = 1 << 9;
    pub const KEY: u32 = 1 << 10;
    pub const GROUP: u32 = 1 << 11;
    pub const RETENTION: u32 = 1 << 12;
    pub const TRIES: u32 = 1 << 13;
    pub const LAST_ERROR: u32 = 1 << 14;
    pub const END: u32 = 1 << 15;
    pub const PROGRESS: u32 = 1 << 16;
    pub const RESULT: u32 = 1 << 17;
    pub const TIMELINE: u32 = 1 << 18;
    pub const WALL: u32 = 1 << 19;
}

fn parts(put: &Put) -> u32 {
    let job = &put.job;
    let bit = |there: bool, bit: u32| if there { bit } else { 0 };
    bit(put.previous.is_some(), has::PREVIOUS)
        | bit(!job.kind.is_empty(), has::KIND)
        | bit(!job.headers.is_empty(), has::HEADERS)
        | bit(job.priority != absent::PRIORITY, has::PRIORITY)
        | bit(job.front, has::FRONT)
        | bit(job.created_at != job.due.at, has::CREATED)
        | bit(job.ttr != absent::TTR, has::TTR)
        | bit(job.expires.is_some(), has::EXPIRES)
        | bit(job.max_attempts != absent::MAX_ATTEMPTS, has::MAX_ATTEMPTS)
        | bit(job.backoff != absent::BACKOFF, has::BACKOFF)
        | bit(job.key.is_some(), has::KEY)
        | bit(job.group.is_some(), has::GROUP)
        | bit(!job.retention.is_zero(), has::RETENTION)
        | bit(job.attempt != 0, has::TRIES)
        | bit(job.last_error.is_some(), has::LAST_ERROR)
        | bit(job.ended_at.is_some(), has::END)
        | bit(job.progress.is_some(), has::PROGRESS)
        | bit(job.result.is_some(), has::RESULT)
        | bit(!job.timeline.is_empty(), has::TIMELINE)
        | bit(job.due.base == Base::Wall, has::WALL)
}

pub(super) fn encode_put(put: &Put, w: &mut Writer) {
    let job = &put.job;
    let parts = parts(put);
    w.u8(put.event.map_or(0, event_code));
    w.u8(put.from as u8);
    w.u8(job.kept as u8);
    w.u32(parts);
    w.u64(job.id.0);
    w.u32(job.queue);
    w.u64(job.due.at.0);
    if let Some(previous) = &put.previous {
        w.place(previous.place);
        w.u32(previous.payload);
        w.u32(previous.weight);
        w.due(previous.line);
    }
    if parts & has::KIND != 0 {
        w.text(&job.kind);
    }
    if parts & has::HEADERS != 0 {
        w.u32(job.headers.len() as u32);
        for (name, value) in &job.headers {
            w.text(name);
            w.text(value);
        }
    }
    if parts & has::PRIORITY != 0 {
        w.u32(job.priority);
    }
    if parts & has::CREATED != 0 {
        w.u64(job.created_at.0);
    }
    if parts & has::TTR != 0 {
        w.span(job.ttr);
    }
    if let Some(due) = job.expires {
        w.due(due);
    }
    if parts & has::MAX_ATTEMPTS != 0 {
        w.u32(job.max_attempts);
    }
    if parts & has::BACKOFF != 0 {
        encode_backoff(&job.backoff, w);
    }
    if let Some(key) = &job.key {
        w.text(key);
        w.span(job.window);
    }
    if let Some(group) = &job.group {
        w.text(group);
    }
    if parts & has::RETENTION != 0 {
        w.span(job.retention);
    }
    if parts & has::TRIES != 0 {
        w.u32(job.attempt);
        w.u32(job.failures);
        w.u32(job.vanished);
    }
    if let Some(error) = &job.last_error {
        w.text(error);
    }
    if let Some(ended) = job.ended_at {
        w.u64(ended.0);
        w.u64(job.until.0);
        w.u8(job.dead.map_or(0, |reason| reason as u8 + 1));
    }
    if let Some(progress) = &job.progress {
        w.blob(progress);
    }
    if let Some(result) = &job.result {
        w.blob(result);
    }
    if parts & has::TIMELINE != 0 {
        w.u32(job.timeline.len() as u32);
        for moment in &job.timeline {
            w.u64(moment.at.0);
            w.u8(event_code(moment.event));
            w.text(&moment.by);
            w.text(&moment.note);
        }
    }
    w.blob(&job.payload);
}

pub(super) fn decode_put(r: &mut Reader, shared: Option<&Bytes>) -> Option<Put> {
    let event = match r.u8()? {
        0 => None,
        code => Some(event_of(code)?),
    };
    let from = from(r.u8()?)?;
    let kept = *[Kept::Waiting, Kept::Dead, Kept::Done, Kept::Tomb].get(usize::from(r.u8()?))?;
    let parts = r.u32()?;
    let there = |bit: u32| parts & bit != 0;
    let (id, queue, due_at) = (JobId(r.u64()?), r.u32()?, r.time()?);
    let previous = if there(has::PREVIOUS) {
        Some(Previous {
            place: r.place()?,
            payload: r.u32()?,
            weight: r.u32()?,
            line: r.due()?,
        })
    } else {
        None
    };
    let kind = if there(has::KIND) {
        Arc::from(r.text()?)
    } else {
        empty()
    };
    let mut headers = Headers::new();
    if there(has::HEADERS) {
        for _ in 0..r.u32()? {
            headers.insert(r.text()?.into(), r.text()?.into());
        }
    }
    let priority = if there(has::PRIORITY) {
        r.u32()?
    } else {
        absent::PRIORITY
    };
    let created_at = if there(has::CREATED) {
        r.time()?
    } else {
        due_at
    };
    let ttr = if there(has::TTR) {
        r.span()?
    } else {
        absent::TTR
    };
    let expires = if there(has::EXPIRES) {
        Some(r.due()?)
    } else {
        None
    };
    let max_attempts = if there(has::MAX_ATTEMPTS) {
        r.u32()?
    } else {
        absent::MAX_ATTEMPTS
    };
    let backoff = if there(has::BACKOFF) {
        decode_backoff(r)?
    } else {
        absent::BACKOFF
    };
    let (key, window) = if there(has::KEY) {
        (Some(r.text()?.into()), r.span()?)
    } else {
        (None, Duration::ZERO)
    };
    let group = if there(has::GROUP) {
        Some(r.text()?.into())
    } else {
        None
    };
    let retention = if there(has::RETENTION) {
        r.span()?
    } else {
        Duration::ZERO
    };
    let (attempt, failures, vanished) = if there(has::TRIES) {
        (r.u32()?, r.u32()?, r.u32()?)
    } else {
        (0, 0, 0)
    };
    let last_error = if there(has::LAST_ERROR) {
        Some(r.text()?.into())
    } else {
        None
    };
    let (ended_at, until, dead) = if there(has::END) {
        (Some(r.time()?), r.time()?, dead_reason(r.u8()?)?)
    } else {
        (None, Timestamp(0), None)
    };
    let progress = if there(has::PROGRESS) {
        Some(r.blob()?)
    } else {
        None
    };
    let result = if there(has::RESULT) {
        Some(r.blob()?)
    } else {
        None
    };
    let timeline = if there(has::TIMELINE) {
        r.list(|r| {
            Some(Moment {
                at: r.time()?,
                event: event_of(r.u8()?)?,
                by: r.text()?.into(),
                note: r.text()?.into(),
            })
        })?
    } else {
        Vec::new()
    };
    let payload = r.slice()?;
    let payload = match shared {
        Some(shared) => shared.slice_ref(payload),
        None => Bytes::copy_from_slice(payload),
    };
    let base = if there(has::WALL) {
        Base::Wall
    } else {
        Base::Steady
    };
    let job = Stored {
        id,
        queue,
        kept,
        kind,
        payload,
        headers,
        priority,
        due: Due { at: due_at, base },
        front: there(has::FRONT),
        created_at,
        ttr,
        expires,
        max_attempts,
        backoff,
        key,
        window,
        group,
        retention,
        attempt,
        failures,
        vanished,
        last_error,
        dead,
        ended_at,
        until,
        progress,
        result,
        timeline,
        weight: 0,
    };
    Some(Put {
        event,
        from,
        previous,
        job,
    })
}

/// The kind of most jobs; shared, so that reading a job does not allocate for it.
pub fn empty() -> Arc<str> {
    static EMPTY: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
    EMPTY.clone()
}

fn dead_reason(code: u8) -> Option<Option<DeadReason>> {
    Some(match code {
        0 => None,
        1 => Some(DeadReason::Failed),
        2 => Some(DeadReason::Vanished),
        3 => Some(DeadReason::Buried),
        4 => Some(DeadReason::Expired),
        _ => return None,
    })
}

fn event_code(event: Event) -> u8 {
    Event::ALL
        .iter()
        .position(|each| *each == event)
        .map_or(0, |i| i as u8 + 1)
}

fn event_of(code: u8) -> Option<Event> {
    Event::ALL.get(usize::from(code).checked_sub(1)?).copied()
}

pub(super) fn encode_backoff(backoff: &Backoff, w: &mut Writer) {
    match backoff {
        Backoff::Exponential {
            base,
            factor,
            cap,
            jitter,
        } => {
            w.u8(0);
            w.span(*base);
            w.u64(factor.to_bits());
            w.span(*cap);
            w.u8(u8::from(*jitter == Jitter::Full));
        }
        Backoff::Fixed { delay } => {
            w.u8(1);
            w.span(*delay);
        }
        Backoff::List { delays } => {
            w.u8(2);
            w.u32(delays.len() as u32);
            delays.iter().for_each(|delay| w.span(*delay));
        }
    }
}

pub(super) fn decode_backoff(r: &mut Reader) -> Option<Backoff> {
    Some(match r.u8()? {
        0 => Backoff::Exponential {
            base: r.span()?,
            factor: f64::from_bits(r.u64()?),
            cap: r.span()?,
            jitter: if r.u8()? == 1 {
                Jitter::Full
            } else {
                Jitter::None
            },
        },
        1 => Backoff::Fixed { delay: r.span()? },
        2 => Backoff::List {
            delays: r.list(Reader::span)?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job of which nothing is said but what every record says: pushed, from nowhere, waiting, no parts, id 7, queue 3, due at
    /// 1,800,000,000,000, and the payload `x`.
    const BARE: &[u8] =
        b"\x01\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x03\0\0\0\x00\x50\x5c\x18\xa3\x01\0\0\x01\0\0\0x";

    #[test]
    fn what_a_record_leaves_out_is_what_the_format_says_whatever_the_product_defaults_to() {
        let mut r = Reader(BARE);
        let put = decode_put(&mut r, None).expect("a record");
        assert!(r.0.is_empty());
        let job = &put.job;
        assert_eq!((job.id, job.queue), (JobId(7), 3));
        assert_eq!(job.due.at, Timestamp(1_800_000_000_000));
        // Numbers on purpose, and not names: these lie on disks.
        assert_eq!(job.priority, 1024);
        assert_eq!(job.ttr, Duration::from_secs(60));
        assert_eq!(job.max_attempts, 10);
        let backoff = Backoff::Exponential {
            base: Duration::from_secs(1),
            factor: 2.0,
            cap: Duration::from_secs(3600),
            jitter: Jitter::Full,
        };
        assert_eq!(job.backoff, backoff);
        assert_eq!((job.window, job.retention), Default::default());
        let mut again = Vec::new();
        encode_put(&put, &mut Writer(&mut again));
        assert_eq!(again, BARE);
    }

    #[test]
    fn what_differs_from_the_format_is_said() {
        let mut put = decode_put(&mut Reader(BARE), None).expect("a record");
        put.job.priority = 1023;
        put.job.ttr = Duration::from_secs(61);
        put.job.max_attempts = 25;
        put.job.backoff = Backoff::Fixed {
            delay: Duration::from_secs(1),
        };
        let mut bytes = Vec::new();
        encode_put(&put, &mut Writer(&mut bytes));
        assert_eq!(decode_put(&mut Reader(&bytes), None), Some(put));
    }
}
