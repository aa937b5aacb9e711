//! The records of the log: what they mean and how they lie in bytes.
//!
//! A record is `len u32 | crc32c u32 | kind u8 | body`, little endian, `len` counting kind and body. The checksum starts
//! from the segment's salt and the record's offset, so a record that lies in the wrong place, or is left over from an
//! earlier use of the file, does not check out. Records are grouped: a [`Record::Commit`] closes a group, and a group
//! without its commit never happened. `docs/FORMAT.md` has the layout field by field.

mod frame;
mod job;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use auxo_core::passage::Leaving;
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::Schedule;
use auxo_core::time::{Due, Timestamp, millis};
use auxo_core::topic::Subscription;
use auxo_core::{JobId, QueueName};
use bytes::Bytes;

pub use self::frame::{Framer, HEAD, frame_len, is_mark, unframe, unframe_own};
pub use self::job::{Kept, Put, Stored, decode_job, empty, key_hash};
use self::job::{decode_put, encode_put};
pub use self::settings::{
    decode_config, decode_schedule, decode_subscription, encode_config, encode_schedule,
    encode_subscription,
};
use crate::clock::Boot;
use crate::codec::{Reader, Writer};

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
    /// It is at another store now, and was never here.
    Moved,
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
    /// A queue that had nothing is gone; its number is free, and its books are with those of all forgotten ones.
    Forget(u32),
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
    /// What the store is known by.
    Identity(String),
    /// How a move of a queue stands; without a note it is over.
    Note {
        queue: u32,
        way: Way,
        note: Option<Note>,
    },
    /// Where the steady clock stands in this boot of the machine.
    Boot(Boot),
    /// Jobs that were handed out without a lease, which the rate of their queue pays for.
    Spend {
        queue: u32,
        count: u32,
        at: Timestamp,
    },
}

/// Whether jobs come from another store or go there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    From(String),
    To(String),
}

pub fn encode_way(way: &Way, w: &mut Writer) {
    let (code, store) = match way {
        Way::From(store) => (0, store),
        Way::To(store) => (1, store),
    };
    w.u8(code);
    w.text(store);
}

pub fn decode_way(r: &mut Reader) -> Option<Way> {
    match r.u8()? {
        0 => Some(Way::From(r.text()?.to_owned())),
        1 => Some(Way::To(r.text()?.to_owned())),
        _ => None,
    }
}

/// How a move of a queue stands: who makes it, and what was taken in last.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub run: u64,
    pub last: Vec<Leaving>,
}

pub fn encode_note(note: &Note, w: &mut Writer) {
    w.u64(note.run);
    w.u32(note.last.len() as u32);
    for leaving in &note.last {
        w.u64(leaving.id.0);
        w.u64(leaving.version.unwrap_or_default());
    }
}

pub fn decode_note(r: &mut Reader) -> Option<Note> {
    Some(Note {
        run: r.u64()?,
        last: r.list(|r| {
            Some(Leaving {
                id: JobId(r.u64()?),
                version: Some(r.u64()?),
            })
        })?,
    })
}

pub fn encode_boot(boot: &Boot, w: &mut Writer) {
    w.text(&boot.id);
    w.u64(boot.began.as_secs());
    w.u32(boot.began.subsec_nanos());
}

pub fn decode_boot(r: &mut Reader) -> Option<Boot> {
    let (id, seconds, nanos) = (r.text()?.to_owned(), r.u64()?, r.u32()?);
    (nanos < 1_000_000_000).then_some(Boot {
        id,
        began: Duration::new(seconds, nanos),
    })
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
    pub const IDENTITY: u8 = 16;
    pub const NOTE: u8 = 17;
    pub const SPEND: u8 = 18;
    pub const BOOT: u8 = 19;
    pub const FORGET: u8 = 20;
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
        Record::Forget(number) => {
            w.u8(kind::FORGET);
            w.u32(*number);
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
        Record::Identity(name) => {
            w.u8(kind::IDENTITY);
            w.text(name);
        }
        Record::Note { queue, way, note } => {
            w.u8(kind::NOTE);
            w.u32(*queue);
            encode_way(way, w);
            w.option(note, |w, note| encode_note(note, w));
        }
        Record::Boot(boot) => {
            w.u8(kind::BOOT);
            encode_boot(boot, w);
        }
        Record::Spend { queue, count, at } => {
            w.u8(kind::SPEND);
            w.u32(*queue);
            w.u32(*count);
            w.u64(at.0);
        }
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
            how: *[
                Gone::Cancelled,
                Gone::Deleted,
                Gone::Forgotten,
                Gone::Taken,
                Gone::Moved,
            ]
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
        kind::FORGET => Record::Forget(r.u32()?),
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
        kind::IDENTITY => Record::Identity(r.text()?.into()),
        kind::NOTE => Record::Note {
            queue: r.u32()?,
            way: decode_way(&mut r)?,
            note: r.option(decode_note)?,
        },
        kind::BOOT => Record::Boot(decode_boot(&mut r)?),
        kind::SPEND => Record::Spend {
            queue: r.u32()?,
            count: r.u32()?,
            at: r.time()?,
        },
        _ => return None,
    };
    r.0.is_empty().then_some(record)
}

/// Whether a record's body is that of a job record.
pub fn is_job(body: &[u8]) -> bool {
    body.first() == Some(&kind::PUT)
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

/// A lease length as the log keeps it; leases are at most days long.
pub fn lease_millis(ttr: Duration) -> u32 {
    u32::try_from(millis(ttr)).unwrap_or(u32::MAX)
}
