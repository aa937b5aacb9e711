//! A job as it is packed in Redis. The scripts read and write the same: see `scripts/part_records.lua`.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::job::{Backoff, DeadReason, Headers, Holder, Jitter, Job, JobSpec, Leased, Moment};
use auxo_core::life::{Event, State};
use auxo_core::passage::Passage;
use auxo_core::time::{Base, Timestamp, When};
use auxo_core::{Code, Error, JobId, QueueName, Result, Token};
use bytes::Bytes;

use crate::bytes::{Pack, Unpack};

const RETENTION: u8 = 1;
const KEY: u8 = 2;
const GROUP: u8 = 4;
const BACKOFF: u8 = 8;
const MORE: u8 = 16;

/// The backoff of a job whose record has none; `scripts/part_records.lua` has the same. It is a constant of the format and not the
/// default of the product, which may change: then jobs with the new one say so in their records.
const ABSENT_BACKOFF: Backoff = Backoff::Exponential {
    base: Duration::from_secs(1),
    factor: 2.0,
    cap: Duration::from_secs(60 * 60),
    jitter: Jitter::Full,
};

/// In the place of the time of creation: the id says it.
const BY_ID: u64 = (1 << 48) - 2;
/// So it does, and then the job was due.
const AT_ONCE: u64 = (1 << 48) - 1;

/// A record as it is stored, of a job without an end, if its id runs with the clock.
pub fn pack_record(queue: &QueueName, spec: &JobSpec) -> Vec<u8> {
    let created = match spec.when {
        When::Now => AT_ONCE,
        When::After(_) | When::At(_) => BY_ID,
    };
    let mut pack = Pack(Vec::with_capacity(
        52 + queue.as_str().len() + spec.payload.len(),
    ));
    pack.time(Timestamp(created)).time(Timestamp(0));
    add_spec(&mut pack, queue, spec);
    pack.0
}

/// What a client said about a job, with the length of all before the payload first.
pub fn pack_spec(queue: &QueueName, spec: &JobSpec) -> Vec<u8> {
    let mut pack = Pack(Vec::with_capacity(
        40 + queue.as_str().len() + spec.payload.len(),
    ));
    add_spec(&mut pack, queue, spec);
    pack.0
}

fn add_spec(pack: &mut Pack, queue: &QueueName, spec: &JobSpec) {
    let begin = pack.0.len();
    let more = !spec.kind.is_empty() || !spec.headers.is_empty();
    let custom = spec.backoff != ABSENT_BACKOFF;
    let mut flags = 0;
    for (flag, is) in [
        (RETENTION, !spec.retention.is_zero()),
        (KEY, spec.key.is_some()),
        (GROUP, spec.group.is_some()),
        (BACKOFF, custom),
        (MORE, more),
    ] {
        flags |= if is { flag } else { 0 };
    }
    pack.u32(0)
        .u32(spec.priority)
        .span(spec.ttr)
        .u32(spec.max_attempts)
        .short(queue.as_str())
        .u8(flags);
    if !spec.retention.is_zero() {
        pack.span(spec.retention);
    }
    if let Some(key) = &spec.key {
        pack.span(key.window).text(&key.name);
    }
    if let Some(group) = &spec.group {
        pack.text(group);
    }
    if custom {
        let backoff = pack_backoff(&spec.backoff);
        pack.u16(backoff.len()).raw(&backoff);
    }
    if more {
        pack.text(&spec.kind).u16(spec.headers.len());
        for (name, value) in &spec.headers {
            pack.text(name).text(value);
        }
    }
    let head = (pack.0.len() - begin) as u32;
    pack.0[begin..begin + 4].copy_from_slice(&head.to_be_bytes());
    pack.0.extend_from_slice(&spec.payload);
}

fn pack_backoff(backoff: &Backoff) -> Vec<u8> {
    let mut pack = Pack::default();
    match backoff {
        Backoff::Exponential {
            base,
            factor,
            cap,
            jitter,
        } => pack
            .u8(0)
            .span(*base)
            .raw(&factor.to_be_bytes())
            .span(*cap)
            .flag(*jitter == Jitter::Full),
        Backoff::Fixed { delay } => pack.u8(1).span(*delay),
        Backoff::List { delays } => {
            pack.u8(2);
            delays
                .iter()
                .fold(&mut pack, |pack, delay| pack.span(*delay))
        }
    };
    pack.0
}

fn unpack_backoff(bytes: &[u8]) -> Option<Backoff> {
    let mut unpack = Unpack(bytes);
    Some(match unpack.u8()? {
        0 => Backoff::Exponential {
            base: unpack.span()?,
            factor: f64::from_be_bytes(unpack.raw(8)?.try_into().ok()?),
            cap: unpack.span()?,
            jitter: match unpack.u8()? {
                1 => Jitter::Full,
                _ => Jitter::None,
            },
        },
        1 => Backoff::Fixed {
            delay: unpack.span()?,
        },
        _ => Backoff::List {
            delays: std::iter::from_fn(|| unpack.span()).collect(),
        },
    })
}

/// A job as a script shows it: where it stands in its line, its record, and its life if it has one.
pub struct Shown<'a> {
    pub id: &'a [u8],
    pub record: &'a Bytes,
    pub life: &'a Bytes,
    /// The due time of a job that waits; -1 for one whose worker vanished.
    pub score: Option<i64>,
}

/// What happened to a job since its push.
struct Life {
    state: u8,
    flags: u8,
    attempt: u32,
    failures: u32,
    vanished: u32,
    due: Timestamp,
    counter: u64,
    nonce: u64,
    deadline: Timestamp,
    worker: Arc<str>,
    error: Bytes,
    progress: Bytes,
    reason: u8,
    ended: Timestamp,
    kept: Timestamp,
    result: Bytes,
    timeline: Vec<Moment>,
}

const FRONT: u8 = 1;
const CANCEL: u8 = 2;
const ERROR: u8 = 4;
const PROGRESS: u8 = 8;
const RESULT: u8 = 16;
const RICH: u8 = 32;

const WAITING: u8 = 0;
const LEASED: u8 = 1;
const DEAD: u8 = 2;
const DONE: u8 = 3;

impl Life {
    fn unpack(life: &Bytes) -> Option<Life> {
        let mut unpack = Unpack(life);
        let (state, flags) = (unpack.u8()?, unpack.u8()?);
        let (attempt, failures, vanished) = (unpack.u32()?, unpack.u32()?, unpack.u32()?);
        let due = unpack.time()?;
        let (counter, nonce) = (unpack.time()?.0, unpack.u64()?);
        let deadline = unpack.time()?;
        unpack.time()?; // the length of the lease
        unpack.u32()?; // the size of the payload
        unpack.short()?; // the queue
        let worker = unpack.short()?.into();
        let mut blob = || Some(life.slice_ref(unpack.blob()?));
        let (error, progress) = (blob()?, blob()?);
        let (reason, ended, kept) = (unpack.u8()?, unpack.time()?, unpack.time()?);
        unpack.time()?; // until when the key is held
        let result = life.slice_ref(unpack.blob()?);
        let moments = unpack.u8()?;
        let timeline = (0..moments)
            .map(|_| moment(&mut unpack))
            .collect::<Option<_>>()?;
        Some(Life {
            state,
            flags,
            attempt,
            failures,
            vanished,
            due,
            counter,
            nonce,
            deadline,
            worker,
            error,
            progress,
            reason,
            ended,
            kept,
            result,
            timeline,
        })
    }

    fn new(due: Timestamp) -> Life {
        Life {
            state: WAITING,
            flags: 0,
            attempt: 0,
            failures: 0,
            vanished: 0,
            due,
            counter: 0,
            nonce: 0,
            deadline: Timestamp(0),
            worker: "".into(),
            error: Bytes::new(),
            progress: Bytes::new(),
            reason: 0,
            ended: Timestamp(0),
            kept: Timestamp(0),
            result: Bytes::new(),
            timeline: Vec::new(),
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn state(&self, now: Timestamp) -> State {
        match self.state {
            WAITING if self.has(FRONT) || self.due <= now => State::Ready,
            WAITING => State::Scheduled,
            LEASED => State::Leased,
            DEAD => State::Dead,
            _ => State::Done,
        }
    }
}

/// The life of a job that had it elsewhere, and is not leased.
pub fn pack_life(queue: &QueueName, passage: &Passage, reason: u8, timeline: &[Moment]) -> Vec<u8> {
    let job = &passage.job;
    let rich = !job.retention.is_zero() || job.key.is_some();
    let flags = [
        (FRONT, passage.front),
        (ERROR, job.last_error.is_some()),
        (PROGRESS, job.progress.is_some()),
        (RESULT, job.result.is_some()),
        (RICH, rich),
    ];
    let flags = flags.iter().map(|(flag, is)| if *is { *flag } else { 0 });
    let state = match job.state {
        State::Dead => DEAD,
        State::Done => DONE,
        _ => WAITING,
    };
    let (kept, held) = passage.kept().unwrap_or_default();
    let mut pack = Pack::default();
    pack.u8(state)
        .u8(flags.sum())
        .u32(job.attempt)
        .u32(job.failures)
        .u32(job.vanished)
        .time(job.run_at);
    // Nobody holds a lease.
    pack.raw(&[0; 6 + 8 + 6 + 6])
        .u32(u32::try_from(job.payload.len()).unwrap_or(u32::MAX))
        .short(queue.as_str())
        .short("");
    let error = job.last_error.as_ref().map(|error| error.as_bytes());
    for blob in [error, job.progress.as_deref()] {
        pack.blob(blob.unwrap_or_default());
    }
    pack.u8(reason)
        .time(job.ended_at.unwrap_or_default())
        .time(kept)
        .time(held)
        .blob(job.result.as_deref().unwrap_or_default())
        .u8(u8::try_from(timeline.len()).unwrap_or(u8::MAX));
    for moment in timeline {
        pack.u8(number_of(moment.event))
            .time(moment.at)
            .short(&moment.by)
            .blob(moment.note.as_bytes());
    }
    pack.0
}

fn moment(unpack: &mut Unpack) -> Option<Moment> {
    Some(Moment {
        event: event(unpack.u8()?)?,
        at: unpack.time()?,
        by: unpack.short()?.to_owned(),
        note: String::from_utf8_lossy(unpack.blob()?).into_owned(),
    })
}

/// The events by the numbers that scripts know them by.
const EVENTS: [Event; 18] = [
    Event::Push,
    Event::Due,
    Event::Lease,
    Event::Take,
    Event::Ack,
    Event::Retry,
    Event::Fail,
    Event::Release,
    Event::Snooze,
    Event::Bury,
    Event::Vanish,
    Event::Exhaust,
    Event::Expire,
    Event::Kick,
    Event::Reschedule,
    Event::Replace,
    Event::Cancel,
    Event::Delete,
];

/// The event of this number.
pub fn event(number: u8) -> Option<Event> {
    EVENTS.get(usize::from(number).checked_sub(1)?).copied()
}

fn number_of(event: Event) -> u8 {
    let place = EVENTS.iter().position(|known| *known == event);
    place.map_or(0, |place| place as u8 + 1)
}

/// The state of this number.
pub fn state(number: u8) -> Option<State> {
    use State::*;
    let states = [Scheduled, Ready, Leased, Done, Dead, Cancelled];
    states.get(usize::from(number)).copied()
}

/// The id in the eight bytes that are a field or a member in Redis.
pub fn id_of(bytes: &[u8]) -> Result<JobId> {
    let bytes: [u8; 8] = bytes.try_into().map_err(|_| garbled("an id"))?;
    Ok(JobId(u64::from_be_bytes(bytes)))
}

/// An answer that no script of ours gives.
pub fn garbled(what: &str) -> Error {
    let text = format!(
        "Redis answered with {what} that does not make sense; were its keys changed by hand?"
    );
    Error::new(Code::Internal, text)
}

impl Shown<'_> {
    /// The job as it is at this time.
    pub fn job(&self, now: Timestamp) -> Result<Job> {
        self.view(now)
            .map(|(job, _)| job)
            .ok_or_else(|| garbled("a job"))
    }

    /// The job on its way to another store; `version` is what this state of it is known by.
    pub fn passage(&self, now: Timestamp, version: u64) -> Result<Passage> {
        let (job, life) = self.view(now).ok_or_else(|| garbled("a job"))?;
        // There is one clock here, and people read it.
        Ok(Passage {
            job,
            front: life.state == WAITING && life.has(FRONT),
            due: Base::Wall,
            expires: Base::Wall,
            version,
        })
    }

    /// The job that was just leased.
    pub fn leased(&self, now: Timestamp) -> Result<Leased> {
        let (mut job, life) = self.view(now).ok_or_else(|| garbled("a job"))?;
        let token = Token {
            job: job.id,
            counter: life.counter,
            nonce: life.nonce,
        };
        if job.state == State::Done {
            // Handed out whole, whatever is kept of it.
            job.payload = payload(self.record).ok_or_else(|| garbled("a record"))?;
        }
        Ok(Leased {
            job,
            token,
            deadline: life.deadline,
        })
    }

    fn view(&self, now: Timestamp) -> Option<(Job, Life)> {
        let mut unpack = Unpack(self.record);
        let id = id_of(self.id).ok()?;
        let created_at = match unpack.time()? {
            Timestamp(BY_ID | AT_ONCE) => id.at(),
            said => said,
        };
        let expires = unpack.time()?;
        unpack.u32()?; // where the payload begins
        let (priority, ttr, max_attempts) = (unpack.u32()?, unpack.span()?, unpack.u32()?);
        let queue = QueueName::new(unpack.short()?).ok()?;
        let flags = unpack.u8()?;
        let has = |flag: u8| flags & flag != 0;
        let retention = match has(RETENTION) {
            true => unpack.span()?,
            false => Duration::ZERO,
        };
        let (key_window, key) = match has(KEY) {
            true => (unpack.span()?, Some(unpack.text()?.to_owned())),
            false => (Duration::ZERO, None),
        };
        let group = match has(GROUP) {
            true => Some(unpack.text()?.to_owned()),
            false => None,
        };
        let backoff = match has(BACKOFF) {
            true => unpack_backoff(unpack.text_bytes()?)?,
            false => ABSENT_BACKOFF,
        };
        let (mut kind, mut headers) = ("", Headers::new());
        if has(MORE) {
            kind = unpack.text()?;
            let count = u16::from_be_bytes(unpack.raw(2)?.try_into().ok()?);
            for _ in 0..count {
                headers.insert(unpack.text()?.to_owned(), unpack.text()?.to_owned());
            }
        }
        let life = match (self.life.is_empty(), self.score) {
            (true, Some(score)) => Life::new(Timestamp(score.max(0) as u64)),
            (true, None) => Life::new(created_at),
            (false, score) => {
                let mut life = Life::unpack(self.life)?;
                if let Some(score) = score.filter(|_| life.state == WAITING && !life.has(FRONT)) {
                    life.due = Timestamp(score.max(0) as u64);
                }
                life
            }
        };
        let state = life.state(now);
        let gone = state == State::Done && life.kept <= now;
        let over = matches!(state, State::Dead | State::Done);
        let mut timeline = vec![Moment {
            at: created_at,
            event: Event::Push,
            by: String::new(),
            note: String::new(),
        }];
        timeline.extend(life.timeline.iter().cloned());
        let job = Job {
            id,
            queue,
            kind: kind.into(),
            payload: match gone {
                true => Bytes::new(),
                false => payload(self.record)?,
            },
            headers,
            priority,
            state,
            run_at: life.due,
            created_at,
            ttr,
            expires_at: (expires.0 > 0).then_some(expires),
            max_attempts,
            backoff,
            key,
            key_window,
            group,
            retention,
            attempt: life.attempt,
            failures: life.failures,
            vanished: life.vanished,
            last_error: life
                .has(ERROR)
                .then(|| String::from_utf8_lossy(&life.error).into_owned()),
            dead: match (state, life.reason) {
                (State::Dead, 1) => Some(DeadReason::Failed),
                (State::Dead, 2) => Some(DeadReason::Vanished),
                (State::Dead, 3) => Some(DeadReason::Buried),
                (State::Dead, _) => Some(DeadReason::Expired),
                _ => None,
            },
            ended_at: over.then_some(life.ended),
            progress: life.has(PROGRESS).then(|| life.progress.clone()),
            result: (life.has(RESULT) && !gone).then(|| life.result.clone()),
            holder: (state == State::Leased).then(|| Holder {
                worker: life.worker.clone(),
                deadline: life.deadline,
                cancel: life.has(CANCEL),
            }),
            timeline,
        };
        Some((job, life))
    }
}

fn payload(record: &Bytes) -> Option<Bytes> {
    let mut unpack = Unpack(record);
    unpack.raw(12)?;
    let head = unpack.u32()? as usize;
    (12 + head <= record.len()).then(|| record.slice(12 + head..))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Created at 1, without an end, priority 7, a lease of 60 s, 10 attempts, queue `q`, no flags, and the payload `x`.
    const BARE: &[u8] =
        b"\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\x15\0\0\0\x07\0\0\0\0\xea\x60\0\0\0\x0a\x01q\0x";

    #[test]
    fn what_a_record_leaves_out_is_what_the_layout_says_whatever_the_product_defaults_to() {
        let shown = Shown {
            id: &7u64.to_be_bytes(),
            record: &Bytes::from_static(BARE),
            life: &Bytes::new(),
            score: Some(1),
        };
        let job = shown.job(Timestamp(1)).expect("a record");
        assert_eq!((job.priority, job.max_attempts), (7, 10));
        // Numbers on purpose, and not names: these lie in stores.
        let backoff = Backoff::Exponential {
            base: Duration::from_secs(1),
            factor: 2.0,
            cap: Duration::from_secs(3600),
            jitter: Jitter::Full,
        };
        assert_eq!(job.backoff, backoff);
        assert_eq!((job.key_window, job.retention), Default::default());
        let lua = include_str!("scripts/part_records.lua");
        assert!(lua.contains(
            "local BACKOFF_BASE, BACKOFF_FACTOR, BACKOFF_CAP, BACKOFF_JITTER = 1000, 2, 3600000, 1\n"
        ));
        let spec = JobSpec {
            priority: 7,
            ttr: Duration::from_secs(60),
            max_attempts: 10,
            backoff,
            payload: "x".into(),
            ..JobSpec::default()
        };
        let packed = pack_spec(&QueueName::new("q").expect("a name"), &spec);
        assert_eq!(packed, BARE[12..]);
    }
}
