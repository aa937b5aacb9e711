//! The state in a file: everything that the records before a position made, except the jobs themselves.

use auxo_core::bucket::Bucket;
use auxo_core::queue::Books;
use auxo_core::time::Timestamp;
use auxo_core::{JobId, QueueName};
use hashbrown::HashMap;

use super::queue::{Lined, Queue};
use super::{Held, Machine};
use crate::bits::Bits;
use crate::codec::{Reader, Writer};
use crate::record::{self, Position};
use crate::segment::Segment;

/// What a checkpoint says of a segment.
pub struct Listed {
    pub number: u32,
    pub len: u32,
    pub count: u32,
    pub live_bytes: u64,
    pub salts: Vec<(u32, u32)>,
    pub live: Bits,
}

/// What a checkpoint says besides what goes into the machine at once.
pub struct Loaded {
    /// The records from here on are not in it.
    pub position: Position,
    pub segments: Vec<Listed>,
    held: Vec<(u64, Held)>,
}

impl Machine {
    /// Writes the state down, leaving out the segments that are given up with this checkpoint.
    pub(super) fn encode_checkpoint(&self, freed: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let w = &mut Writer(&mut bytes);
        let position = self.log.position();
        w.u32(position.segment);
        w.u32(position.offset);
        w.u64(self.last_id.0);
        w.u64(self.counter);
        w.u64(self.stamp.0);
        encode_books(&self.forgotten, w);
        w.u32(self.queues.len() as u32);
        for number in self.queues.numbers() {
            w.u32(number);
            encode_queue(&self.queues[number as usize], w);
        }
        w.u32(self.subscriptions.len() as u32);
        self.subscriptions
            .values()
            .for_each(|subscription| record::encode_subscription(subscription, w));
        w.u32(self.schedules.len() as u32);
        self.schedules
            .values()
            .for_each(|schedule| record::encode_schedule(schedule, w));
        w.u32(self.leases.len() as u32);
        for (id, held) in &self.leases {
            w.u64(*id);
            encode_held(held, w);
        }
        let segments: Vec<&Segment> = self
            .log
            .segments
            .values()
            .filter(|segment| !freed.contains(&segment.number))
            .collect();
        w.u32(segments.len() as u32);
        for segment in segments {
            w.u32(segment.number);
            w.u32(segment.len);
            w.u32(segment.count);
            w.u64(segment.live_bytes);
            w.u32(segment.salts.len() as u32);
            for (from, salt) in &segment.salts {
                w.u32(*from);
                w.u32(*salt);
            }
            let words = segment.live.words();
            w.u32(words.len() as u32);
            words.iter().for_each(|word| w.u64(*word));
        }
        w.text(&self.identity);
        w.u32(self.notes.len() as u32);
        for ((queue, way), note) in &self.notes {
            w.u32(*queue);
            record::encode_way(way, w);
            record::encode_note(note, w);
        }
        w.option(&self.boot, |w, boot| record::encode_boot(boot, w));
        bytes
    }

    /// Reads a checkpoint into a machine that has nothing yet.
    pub(super) fn load_checkpoint(&mut self, body: &[u8]) -> Option<Loaded> {
        let r = &mut Reader(body);
        let position = Position {
            segment: r.u32()?,
            offset: r.u32()?,
        };
        self.last_id = JobId(r.u64()?);
        self.counter = r.u64()?;
        self.stamp = r.time()?;
        self.forgotten = decode_books(r)?;
        for _ in 0..r.u32()? {
            let (number, queue) = (r.u32()?, decode_queue(r)?);
            self.by_name.insert(queue.name.clone(), number);
            self.queues.load(number, queue)?;
        }
        self.queues.note_free();
        for _ in 0..r.u32()? {
            let subscription = record::decode_subscription(r)?;
            self.absorb_subscribe(subscription);
        }
        for _ in 0..r.u32()? {
            let schedule = record::decode_schedule(r)?;
            self.absorb_schedule(schedule);
        }
        let held = r.list(|r| Some((r.u64()?, decode_held(r)?)))?;
        let segments = r.list(|r| {
            Some(Listed {
                number: r.u32()?,
                len: r.u32()?,
                count: r.u32()?,
                live_bytes: r.u64()?,
                salts: r.list(|r| Some((r.u32()?, r.u32()?)))?,
                live: Bits::from_words(r.list(Reader::u64)?),
            })
        })?;
        if !r.0.is_empty() {
            self.identity = r.text()?.to_owned();
            for _ in 0..r.u32()? {
                let key = (r.u32()?, record::decode_way(r)?);
                self.notes.insert(key, record::decode_note(r)?);
            }
        }
        if !r.0.is_empty() {
            self.boot = r.option(record::decode_boot)?;
        }
        let whole = r.0.is_empty() && segments.iter().all(|segment| !segment.salts.is_empty());
        let counts: HashMap<u32, u32> = segments
            .iter()
            .map(|segment| (segment.number, segment.count))
            .collect();
        // Whoever settles a lease goes to its record, so that must be one that there is.
        let known = |held: &Held| {
            let count = counts.get(&held.place.segment);
            self.queues.get(held.queue).is_some()
                && count.is_some_and(|count| held.place.ord < *count)
        };
        (whole && held.iter().all(|(_, held)| known(held))).then_some(Loaded {
            position,
            segments,
            held,
        })
    }

    /// Takes in the leases of a checkpoint, when its segments are there.
    pub(super) fn load_leases(&mut self, loaded: &mut Loaded) {
        for (id, held) in loaded.held.drain(..) {
            if let Some(segment) = self.log.segments.get_mut(&held.place.segment) {
                segment.taken.set(held.place.ord);
            }
            self.deadlines
                .push(std::cmp::Reverse((held.deadline, id, held.counter)));
            self.leases.insert(id, held);
        }
    }
}

fn encode_books(books: &Books, w: &mut Writer) {
    let Books {
        accepted,
        live,
        done,
        dead,
        expired,
        cancelled,
        deleted,
    } = *books;
    for number in [accepted, live, done, dead, expired, cancelled, deleted] {
        w.u64(number);
    }
}

fn decode_books(r: &mut Reader) -> Option<Books> {
    Some(Books {
        accepted: r.u64()?,
        live: r.u64()?,
        done: r.u64()?,
        dead: r.u64()?,
        expired: r.u64()?,
        cancelled: r.u64()?,
        deleted: r.u64()?,
    })
}

fn encode_queue(queue: &Queue, w: &mut Writer) {
    w.text(queue.name.as_str());
    record::encode_config(&queue.config, w);
    encode_books(&queue.books, w);
    for number in [queue.leased, queue.done, queue.tombs, queue.bytes] {
        w.u64(number);
    }
    for lined in &queue.lined {
        w.u64(lined.frontier);
        w.u64(lined.ready);
        w.u64(lined.later);
    }
    w.option(&queue.bucket, |w, bucket| {
        let (level, at) = bucket.raw();
        w.u64(level as u64);
        w.u64((level >> 64) as u64);
        w.u64(at.0);
    });
}

fn decode_queue(r: &mut Reader) -> Option<Queue> {
    let name = QueueName::new(r.text()?).ok()?;
    let mut queue = Queue::new(name, record::decode_config(r)?);
    queue.books = decode_books(r)?;
    queue.leased = r.u64()?;
    queue.done = r.u64()?;
    queue.tombs = r.u64()?;
    queue.bytes = r.u64()?;
    for lined in &mut queue.lined {
        *lined = Lined {
            frontier: r.u64()?,
            ready: r.u64()?,
            later: r.u64()?,
        };
    }
    queue.bucket = r.option(|r| {
        let level = u128::from(r.u64()?) | u128::from(r.u64()?) << 64;
        Some(Bucket::from_raw(level, r.time()?))
    })?;
    Some(queue)
}

fn encode_held(held: &Held, w: &mut Writer) {
    w.place(held.place);
    w.u32(held.queue);
    w.u64(held.counter);
    w.u64(held.nonce);
    w.u64(held.deadline);
    w.u32(held.ttr);
    w.u64(held.leased_at.0);
    w.text(&held.worker);
    w.u32(held.attempt);
    w.u32(held.payload);
    w.u32(held.weight);
    w.u8(u8::from(held.plain) | u8::from(held.cancel) << 1);
    w.option(&held.progress, |w, progress| w.blob(progress));
}

fn decode_held(r: &mut Reader) -> Option<Held> {
    let place = r.place()?;
    let (queue, counter, nonce) = (r.u32()?, r.u64()?, r.u64()?);
    let (deadline, ttr, leased_at) = (r.u64()?, r.u32()?, Timestamp(r.u64()?));
    let worker = r.text()?.into();
    let (attempt, payload, weight, flags) = (r.u32()?, r.u32()?, r.u32()?, r.u8()?);
    Some(Held {
        place,
        queue,
        counter,
        nonce,
        deadline,
        ttr,
        leased_at,
        worker,
        attempt,
        payload,
        weight,
        plain: flags & 1 != 0,
        cancel: flags & 2 != 0,
        progress: r.option(Reader::blob)?,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use auxo_core::queue::QueueConfig;

    use super::super::Settings;
    use super::*;
    use crate::dice::Dice;
    use crate::disk::SimDisk;
    use crate::options::MOST_QUEUES;

    fn machine() -> Machine {
        let settings = Settings {
            segment_size: 64 << 10,
            node: Arc::from(""),
            max_queues: 10,
            pave: false,
        };
        let disk = Arc::new(SimDisk::new());
        Machine::open(disk, settings, Dice::seeded(1)).expect("a new store")
    }

    /// A checkpoint with one queue, which has this number.
    fn with_number(number: u32) -> Vec<u8> {
        let mut machine = machine();
        let name = QueueName::new("q").expect("a name");
        let queue = Queue::new(name, QueueConfig::default());
        machine.queues.load(7, queue).expect("a queue");
        machine.queues.note_free();
        let mut body = machine.encode_checkpoint(&[]);
        // Position, last id, counter, stamp, seven books, the count of queues.
        let at = 8 + 3 * 8 + 7 * 8 + 4;
        assert_eq!(body[at..at + 4], 7_u32.to_le_bytes());
        body[at..at + 4].copy_from_slice(&number.to_le_bytes());
        body
    }

    /// Found by fuzzing: to make room for a number of half a million took from half a second to three.
    #[test]
    fn a_checkpoint_with_a_queue_number_that_no_store_has_is_refused() {
        for (number, read) in [(7, true), (MOST_QUEUES - 1, true), (MOST_QUEUES, false)] {
            let loaded = machine().load_checkpoint(&with_number(number));
            assert_eq!(loaded.is_some(), read, "{number}");
        }
    }
}
