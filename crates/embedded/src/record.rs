//! The records of the log: what they mean and how they lie in bytes.
//!
//! A record is `len u32 | crc32c u32 | kind u8 | body`, little endian, `len` counting kind and body. The checksum starts
//! from the segment's salt and the record's offset, so a record that lies in the wrong place, or is left over from an
//! earlier use of the file, does not check out. Records are grouped: a [`Record::Commit`] closes a group, and a group
//! without its commit never happened. `docs/FORMAT.md` has the layout field by field.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::JobId;
use auxo_core::job::{
    Backoff, DEFAULT_MAX_ATTEMPTS, DEFAULT_PRIORITY, DEFAULT_TTR, DeadReason, Headers, Jitter,
    Moment,
};
use auxo_core::life::Event;
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::{Base, Due, Timestamp, millis};
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{QueueName, job};
use bytes::Bytes;

use crate::codec::{Reader, Writer};

/// Length and checksum in front of a record.
pub const HEAD: usize = 8;

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

/// Where a job was before a record moved it; decides what happens to the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Nowhere,
    Waiting,
    Leased,
    Dead,
    Expired,
    Done,
    Tomb,
}

/// A place in the log: the segment, the number of the job record in it, and its offset in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub segment: u32,
    pub ord: u32,
    pub offset: u32,
}

/// The record that a new one replaces, with what the counts need to know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previous {
    pub place: Place,
    pub payload: u32,
    /// The length of its record.
    pub weight: u32,
    /// Its place in line, if it was in line.
    pub line: Due,
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

/// One job of a lease call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseItem {
    pub id: JobId,
    pub place: Place,
    pub payload: u32,
    pub weight: u32,
    pub attempt: u32,
    /// The length of the lease in milliseconds.
    pub ttr: u32,
    /// Its place in line before.
    pub line: Due,
    /// Nothing of it is kept when it is acked.
    pub plain: bool,
}

/// All jobs of one lease call: they come from one queue and go to one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub queue: u32,
    pub worker: Arc<str>,
    /// The counter of the first item's token; the others follow.
    pub counter: u64,
    pub nonce: u64,
    /// Steady and wall time of the call.
    pub at: Timestamp,
    pub wall: Timestamp,
    pub items: Vec<LeaseItem>,
}

/// Why a job that nobody holds left the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    Cancelled,
    Deleted,
    /// Its retention or key window is over; it was counted as done before.
    Forgotten,
    /// Handed out at most once.
    Taken,
}

/// A job that left the store without a lease being settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove {
    pub how: Gone,
    pub from: From,
    pub queue: u32,
    pub id: JobId,
    pub place: Place,
    pub payload: u32,
    pub weight: u32,
    /// Its place in line, if it was in line.
    pub line: Due,
}

/// Everything the log can say.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Put(Box<Put>),
    Lease(Lease),
    /// Leases that ended with `ack` and left nothing to keep.
    Ack(Vec<JobId>),
    Remove(Remove),
    Extend {
        id: JobId,
        deadline: Timestamp,
        ttr: u32,
        progress: Option<Bytes>,
    },
    /// A leased job is to be cancelled.
    Flag(JobId),
    Queue {
        number: u32,
        name: QueueName,
        config: QueueConfig,
    },
    Subscribe(Subscription),
    Unsubscribe {
        topic: String,
        name: String,
    },
    Schedule(Box<Schedule>),
    Unschedule(String),
    Tick {
        name: String,
        next: Option<Due>,
        last: Option<Timestamp>,
    },
    /// Closes a group of `count` records. Everything before `synced` was on the disk when this was written.
    Commit {
        count: u32,
        synced: Position,
        at: Timestamp,
    },
    /// The store was opened here; what follows in this segment is salted anew.
    Open {
        salt: u32,
    },
    /// The log goes on in the next segment.
    Seal,
}

/// A position in the whole log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub segment: u32,
    pub offset: u32,
}

mod kind {
    pub const PUT: u8 = 1;
    pub const LEASE: u8 = 2;
    pub const ACK: u8 = 3;
    pub const REMOVE: u8 = 4;
    pub const EXTEND: u8 = 5;
    pub const FLAG: u8 = 6;
    pub const QUEUE: u8 = 7;
    pub const SUBSCRIBE: u8 = 8;
    pub const UNSUBSCRIBE: u8 = 9;
    pub const SCHEDULE: u8 = 10;
    pub const UNSCHEDULE: u8 = 11;
    pub const TICK: u8 = 12;
    pub const COMMIT: u8 = 13;
    pub const OPEN: u8 = 14;
    pub const SEAL: u8 = 15;
}

/// Appends records to a buffer that will lie at `base` in a segment.
pub struct Framer {
    buf: Vec<u8>,
    base: u32,
    salt: u32,
}

impl Framer {
    pub fn new(base: u32, salt: u32) -> Framer {
        Framer {
            buf: Vec::new(),
            base,
            salt,
        }
    }

    /// Where the next record will begin.
    pub fn position(&self) -> u32 {
        self.base + self.buf.len() as u32
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buf
    }

    pub fn base(&self) -> u32 {
        self.base
    }

    /// Changes the salt for the records to come.
    pub fn set_salt(&mut self, salt: u32) {
        self.salt = salt;
    }

    /// Hands out what was appended and goes on behind it. A copy of just the right size, because it is kept for a while:
    /// the buffer itself, which grew to fit the largest group, stays here.
    pub fn take(&mut self) -> Bytes {
        self.base = self.position();
        let bytes = Bytes::copy_from_slice(&self.buf);
        self.buf.clear();
        self.buf.shrink_to(1 << 20);
        bytes
    }

    /// Appends a record; answers its offset.
    pub fn append(&mut self, record: &Record) -> u32 {
        self.frame(|w| encode(record, w))
    }

    /// Appends a job record without boxing it first.
    pub fn append_put(&mut self, put: &Put) -> u32 {
        self.frame(|w| {
            w.u8(kind::PUT);
            encode_put(put, w);
        })
    }

    fn frame(&mut self, body: impl FnOnce(&mut Writer)) -> u32 {
        let start = self.buf.len();
        let offset = self.position();
        self.buf.extend_from_slice(&[0; HEAD]);
        body(&mut Writer(&mut self.buf));
        let len = (self.buf.len() - start - HEAD) as u32;
        let crc = checksum(self.salt, offset, &self.buf[start + HEAD..]);
        self.buf[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.buf[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        offset
    }
}

fn checksum(salt: u32, offset: u32, body: &[u8]) -> u32 {
    crc32c::crc32c_append(salt ^ offset.rotate_left(16), body)
}

/// The body of the record at the start of `bytes`, if there is a whole one that checks out. `Open` records are salted with
/// the segment's own salt, so that they are found whatever came before.
pub fn unframe(bytes: &[u8], offset: u32, salt: u32, segment_salt: u32) -> Option<&[u8]> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    let body = bytes.get(HEAD..HEAD.checked_add(len)?)?;
    let first = *body.first()?;
    let salt = if first == kind::OPEN {
        segment_salt
    } else {
        salt
    };
    (checksum(salt, offset, body) == crc).then_some(body)
}

/// The body of the record at the start of bytes that never left the memory: there is nothing to check.
pub fn unframe_own(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(HEAD..frame_len(bytes)?)
}

/// The body at the start of `bytes` of a record whose salt is not known: only its length is trusted. For reading a record
/// through a checksum that was verified when the log was opened or written, use [`unframe`].
pub fn frame_len(bytes: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    HEAD.checked_add(len)
}

fn encode(record: &Record, w: &mut Writer) {
    match record {
        Record::Put(put) => {
            w.u8(kind::PUT);
            encode_put(put, w);
        }
        Record::Lease(lease) => {
            w.u8(kind::LEASE);
            w.u32(lease.queue);
            w.text(&lease.worker);
            w.u64(lease.counter);
            w.u64(lease.nonce);
            w.u64(lease.at.0);
            w.u64(lease.wall.0);
            w.u32(lease.items.len() as u32);
            for item in &lease.items {
                w.u64(item.id.0);
                w.place(item.place);
                w.u32(item.payload);
                w.u32(item.weight);
                w.u32(item.attempt);
                w.u32(item.ttr);
                w.due(item.line);
                w.u8(u8::from(item.plain));
            }
        }
        Record::Ack(ids) => {
            w.u8(kind::ACK);
            w.u32(ids.len() as u32);
            ids.iter().for_each(|id| w.u64(id.0));
        }
        Record::Remove(remove) => {
            w.u8(kind::REMOVE);
            w.u8(remove.how as u8);
            w.u8(remove.from as u8);
            w.u32(remove.queue);
            w.u64(remove.id.0);
            w.place(remove.place);
            w.u32(remove.payload);
            w.u32(remove.weight);
            w.due(remove.line);
        }
        Record::Extend {
            id,
            deadline,
            ttr,
            progress,
        } => {
            w.u8(kind::EXTEND);
            w.u64(id.0);
            w.u64(deadline.0);
            w.u32(*ttr);
            w.option(progress, |w, bytes| w.blob(bytes));
        }
        Record::Flag(id) => {
            w.u8(kind::FLAG);
            w.u64(id.0);
        }
        Record::Queue {
            number,
            name,
            config,
        } => {
            w.u8(kind::QUEUE);
            w.u32(*number);
            w.text(name.as_str());
            encode_config(config, w);
        }
        Record::Subscribe(subscription) => {
            w.u8(kind::SUBSCRIBE);
            encode_subscription(subscription, w);
        }
        Record::Unsubscribe { topic, name } => {
            w.u8(kind::UNSUBSCRIBE);
            w.text(topic);
            w.text(name);
        }
        Record::Schedule(schedule) => {
            w.u8(kind::SCHEDULE);
            encode_schedule(schedule, w);
        }
        Record::Unschedule(name) => {
            w.u8(kind::UNSCHEDULE);
            w.text(name);
        }
        Record::Tick { name, next, last } => {
            w.u8(kind::TICK);
            w.text(name);
            w.option(next, |w, due| w.due(*due));
            w.option(last, |w, at| w.u64(at.0));
        }
        Record::Commit { count, synced, at } => {
            w.u8(kind::COMMIT);
            w.u32(*count);
            w.u32(synced.segment);
            w.u32(synced.offset);
            w.u64(at.0);
        }
        Record::Open { salt } => {
            w.u8(kind::OPEN);
            w.u32(*salt);
        }
        Record::Seal => w.u8(kind::SEAL),
    }
}

/// Reads a record's body. `None` when it is not one that this version writes.
pub fn decode(body: &[u8]) -> Option<Record> {
    let mut r = Reader(body);
    let record = match r.u8()? {
        kind::PUT => Record::Put(Box::new(decode_put(&mut r, None)?)),
        kind::LEASE => {
            let (queue, worker) = (r.u32()?, Arc::from(r.text()?));
            let (counter, nonce) = (r.u64()?, r.u64()?);
            let (at, wall) = (r.time()?, r.time()?);
            let items = r.list(|r| {
                Some(LeaseItem {
                    id: JobId(r.u64()?),
                    place: r.place()?,
                    payload: r.u32()?,
                    weight: r.u32()?,
                    attempt: r.u32()?,
                    ttr: r.u32()?,
                    line: r.due()?,
                    plain: r.u8()? == 1,
                })
            })?;
            Record::Lease(Lease {
                queue,
                worker,
                counter,
                nonce,
                at,
                wall,
                items,
            })
        }
        kind::ACK => Record::Ack(r.list(|r| r.u64().map(JobId))?),
        kind::REMOVE => Record::Remove(Remove {
            how: *[Gone::Cancelled, Gone::Deleted, Gone::Forgotten, Gone::Taken]
                .get(usize::from(r.u8()?))?,
            from: from(r.u8()?)?,
            queue: r.u32()?,
            id: JobId(r.u64()?),
            place: r.place()?,
            payload: r.u32()?,
            weight: r.u32()?,
            line: r.due()?,
        }),
        kind::EXTEND => Record::Extend {
            id: JobId(r.u64()?),
            deadline: r.time()?,
            ttr: r.u32()?,
            progress: r.option(Reader::blob)?,
        },
        kind::FLAG => Record::Flag(JobId(r.u64()?)),
        kind::QUEUE => Record::Queue {
            number: r.u32()?,
            name: QueueName::new(r.text()?).ok()?,
            config: decode_config(&mut r)?,
        },
        kind::SUBSCRIBE => Record::Subscribe(decode_subscription(&mut r)?),
        kind::UNSUBSCRIBE => Record::Unsubscribe {
            topic: r.text()?.into(),
            name: r.text()?.into(),
        },
        kind::SCHEDULE => Record::Schedule(Box::new(decode_schedule(&mut r)?)),
        kind::UNSCHEDULE => Record::Unschedule(r.text()?.into()),
        kind::TICK => Record::Tick {
            name: r.text()?.into(),
            next: r.option(Reader::due)?,
            last: r.option(Reader::time)?,
        },
        kind::COMMIT => Record::Commit {
            count: r.u32()?,
            synced: Position {
                segment: r.u32()?,
                offset: r.u32()?,
            },
            at: r.time()?,
        },
        kind::OPEN => Record::Open { salt: r.u32()? },
        kind::SEAL => Record::Seal,
        _ => return None,
    };
    r.0.is_empty().then_some(record)
}

/// Whether a commit or an open record may begin here, by its length and kind.
pub fn is_mark(bytes: &[u8]) -> bool {
    let Some(head) = bytes.get(..HEAD + 1) else {
        return false;
    };
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    matches!(
        (len, head[HEAD]),
        (COMMIT_LEN, kind::COMMIT) | (OPEN_LEN, kind::OPEN)
    )
}

/// The lengths of these two.
const COMMIT_LEN: u32 = 21;
const OPEN_LEN: u32 = 5;

/// Whether a record's body is that of a job record.
pub fn is_job(body: &[u8]) -> bool {
    body.first() == Some(&kind::PUT)
}

/// Reads the job out of a job record's body. If that lies in `shared`, the payload is not copied but a part of it.
pub fn decode_job(body: &[u8], shared: Option<&Bytes>) -> Option<Stored> {
    let mut r = Reader(body);
    (r.u8()? == kind::PUT).then_some(())?;
    let put = decode_put(&mut r, shared)?;
    let weight = (HEAD + body.len()) as u32;
    Some(Stored { weight, ..put.job })
}

fn from(code: u8) -> Option<From> {
    let all = [
        From::Nowhere,
        From::Waiting,
        From::Leased,
        From::Dead,
        From::Expired,
        From::Done,
        From::Tomb,
    ];
    all.get(usize::from(code)).copied()
}

/// The parts of a job that most jobs leave at their default have a bit each; what is not there takes no room.
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
    let default_backoff = matches!(&job.backoff, backoff if *backoff == Backoff::default());
    let bit = |there: bool, bit: u32| if there { bit } else { 0 };
    bit(put.previous.is_some(), has::PREVIOUS)
        | bit(!job.kind.is_empty(), has::KIND)
        | bit(!job.headers.is_empty(), has::HEADERS)
        | bit(job.priority != DEFAULT_PRIORITY, has::PRIORITY)
        | bit(job.front, has::FRONT)
        | bit(job.created_at != job.due.at, has::CREATED)
        | bit(job.ttr != DEFAULT_TTR, has::TTR)
        | bit(job.expires.is_some(), has::EXPIRES)
        | bit(job.max_attempts != DEFAULT_MAX_ATTEMPTS, has::MAX_ATTEMPTS)
        | bit(!default_backoff, has::BACKOFF)
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

fn encode_put(put: &Put, w: &mut Writer) {
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

fn decode_put(r: &mut Reader, shared: Option<&Bytes>) -> Option<Put> {
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
        DEFAULT_PRIORITY
    };
    let created_at = if there(has::CREATED) {
        r.time()?
    } else {
        due_at
    };
    let ttr = if there(has::TTR) {
        r.span()?
    } else {
        DEFAULT_TTR
    };
    let expires = if there(has::EXPIRES) {
        Some(r.due()?)
    } else {
        None
    };
    let max_attempts = if there(has::MAX_ATTEMPTS) {
        r.u32()?
    } else {
        DEFAULT_MAX_ATTEMPTS
    };
    let backoff = if there(has::BACKOFF) {
        decode_backoff(r)?
    } else {
        Backoff::default()
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

fn encode_backoff(backoff: &Backoff, w: &mut Writer) {
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

fn decode_backoff(r: &mut Reader) -> Option<Backoff> {
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

pub fn encode_config(config: &QueueConfig, w: &mut Writer) {
    w.u8(u8::from(config.paused_in)
        | u8::from(config.paused_out) << 1
        | u8::from(config.fair) << 2);
    w.option(&config.max_jobs, |w, n| w.u64(*n));
    w.option(&config.max_bytes, |w, n| w.u64(*n));
    w.option(&config.max_leased, |w, n| w.u32(*n));
    w.option(&config.rate, |w, rate| {
        w.u32(rate.count);
        w.span(rate.per);
        w.u32(rate.burst);
    });
}

pub fn decode_config(r: &mut Reader) -> Option<QueueConfig> {
    let flags = r.u8()?;
    Some(QueueConfig {
        paused_in: flags & 1 != 0,
        paused_out: flags & 2 != 0,
        fair: flags & 4 != 0,
        max_jobs: r.option(Reader::u64)?,
        max_bytes: r.option(Reader::u64)?,
        max_leased: r.option(Reader::u32)?,
        rate: r.option(|r| {
            Some(Rate {
                count: r.u32()?,
                per: r.span()?,
                burst: r.u32()?,
            })
        })?,
    })
}

pub fn encode_subscription(subscription: &Subscription, w: &mut Writer) {
    w.text(&subscription.topic);
    w.text(&subscription.name);
    w.text(subscription.queue.as_str());
    w.option(&subscription.pattern, |w, pattern| w.text(pattern.as_str()));
}

pub fn decode_subscription(r: &mut Reader) -> Option<Subscription> {
    Some(Subscription {
        topic: r.text()?.into(),
        name: r.text()?.into(),
        queue: QueueName::new(r.text()?).ok()?,
        pattern: r.option(|r| Pattern::new(r.text()?).ok())?,
    })
}

pub fn encode_schedule(schedule: &Schedule, w: &mut Writer) {
    w.text(&schedule.name);
    w.text(schedule.queue.as_str());
    match &schedule.rhythm {
        Rhythm::Cron { expression, zone } => {
            w.u8(0);
            w.text(expression);
            w.text(zone);
        }
        Rhythm::Every(period) => {
            w.u8(1);
            w.span(*period);
        }
    }
    w.u8(match schedule.missed {
        Missed::Skip => 0,
        Missed::Once => 1,
        Missed::All => 2,
    });
    w.option(&schedule.next, |w, due| w.due(*due));
    w.option(&schedule.last, |w, at| w.u64(at.0));
    encode_spec(&schedule.spec, w);
}

pub fn decode_schedule(r: &mut Reader) -> Option<Schedule> {
    Some(Schedule {
        name: r.text()?.into(),
        queue: QueueName::new(r.text()?).ok()?,
        rhythm: match r.u8()? {
            0 => Rhythm::Cron {
                expression: r.text()?.into(),
                zone: r.text()?.into(),
            },
            1 => Rhythm::Every(r.span()?),
            _ => return None,
        },
        missed: *[Missed::Skip, Missed::Once, Missed::All].get(usize::from(r.u8()?))?,
        next: r.option(Reader::due)?,
        last: r.option(Reader::time)?,
        spec: decode_spec(r)?,
    })
}

/// A schedule's job is stored as what a client may say about a job; `when` plays no part in it.
fn encode_spec(spec: &job::JobSpec, w: &mut Writer) {
    w.text(&spec.kind);
    w.blob(&spec.payload);
    w.u32(spec.headers.len() as u32);
    for (name, value) in &spec.headers {
        w.text(name);
        w.text(value);
    }
    w.u32(spec.priority);
    w.span(spec.ttr);
    match spec.ttl {
        job::Ttl::None => w.u8(0),
        job::Ttl::After(span) => {
            w.u8(1);
            w.span(span);
        }
        job::Ttl::At(at) => {
            w.u8(2);
            w.u64(at.0);
        }
    }
    w.u32(spec.max_attempts);
    encode_backoff(&spec.backoff, w);
    w.option(&spec.key, |w, key| {
        w.text(&key.name);
        w.u8(key.on_duplicate as u8);
        w.span(key.window);
    });
    w.option(&spec.group, |w, group| w.text(group));
    w.span(spec.retention);
}

fn decode_spec(r: &mut Reader) -> Option<job::JobSpec> {
    use job::OnDuplicate::{Reject, Replace, Return};
    Some(job::JobSpec {
        kind: r.text()?.into(),
        payload: r.blob()?,
        headers: r
            .list(|r| Some((r.text()?.to_owned(), r.text()?.to_owned())))?
            .into_iter()
            .collect(),
        priority: r.u32()?,
        when: auxo_core::When::Now,
        ttr: r.span()?,
        ttl: match r.u8()? {
            0 => job::Ttl::None,
            1 => job::Ttl::After(r.span()?),
            2 => job::Ttl::At(r.time()?),
            _ => return None,
        },
        max_attempts: r.u32()?,
        backoff: decode_backoff(r)?,
        key: r.option(|r| {
            Some(job::Key {
                name: r.text()?.into(),
                on_duplicate: *[Reject, Return, Replace].get(usize::from(r.u8()?))?,
                window: r.span()?,
            })
        })?,
        group: r.option(|r| r.text().map(String::from))?,
        retention: r.span()?,
    })
}

/// A lease length as the log keeps it; leases are at most days long.
pub fn lease_millis(ttr: Duration) -> u32 {
    u32::try_from(millis(ttr)).unwrap_or(u32::MAX)
}
