//! The directory of streams: which streams a segment has, and how many entries each.
//!
//! With a stream per fairness group there may be nearly as many streams as records, so the directory stays packed in
//! memory as it is in the file: each stream says only how it differs from the one before. Every 32nd stream says all,
//! and those are found by a small table, so that a lookup unpacks at most 32.

use std::ops::Range;

use super::StreamKey;

const BLOCK: u32 = 32;

/// Which fields follow; each level includes those after it.
const QUEUE: u8 = 3;
const CLASS: u8 = 2;
const PRIORITY: u8 = 1;
const GROUP: u8 = 0;

pub(super) struct Directory {
    bytes: Box<[u8]>,
    streams: u32,
    blocks: Box<[Block]>,
}

#[derive(Clone, Copy)]
struct Block {
    first: StreamKey,
    /// Where its bytes begin.
    at: usize,
    /// The position of its first entry.
    start: u32,
}

/// Packs streams that are sorted and have at least one entry each.
pub(super) fn pack(streams: impl Iterator<Item = (StreamKey, u32)>) -> (Vec<u8>, u32) {
    let (mut bytes, mut count) = (Vec::new(), 0_u32);
    let mut before = None;
    for (key, entries) in streams {
        let known = before.filter(|_| !count.is_multiple_of(BLOCK));
        put_key(&mut bytes, known, key);
        put(&mut bytes, entries.into());
        before = Some(key);
        count += 1;
    }
    (bytes, count)
}

fn put_key(bytes: &mut Vec<u8>, before: Option<StreamKey>, key: StreamKey) {
    let level = match before {
        Some(b) if (b.queue, b.class, b.priority) == (key.queue, key.class, key.priority) => GROUP,
        Some(b) if (b.queue, b.class) == (key.queue, key.class) => PRIORITY,
        Some(b) if b.queue == key.queue => CLASS,
        _ => QUEUE,
    };
    bytes.push(level);
    if level >= QUEUE {
        put(bytes, key.queue.into());
    }
    if level >= CLASS {
        bytes.push(key.class);
    }
    if level >= PRIORITY {
        put(bytes, key.priority.into());
    }
    // Groups rise while the rest is equal: their distance is shorter to write.
    let base = before.filter(|_| level == GROUP).map_or(0, |b| b.group);
    put(bytes, key.group.wrapping_sub(base));
}

/// Seven bits at a time, the low ones first, the highest bit for "more".
fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

impl Directory {
    /// Checks all of it: afterwards unpacking cannot fail. The error says what is wrong.
    pub fn parse(bytes: Box<[u8]>, streams: u32, entries: u32) -> Result<Directory, &'static str> {
        let mut blocks = Vec::new();
        let mut reader = Reader::new(&bytes);
        let mut before = None;
        for number in 0..streams {
            let block = Block {
                first: StreamKey::default(),
                at: reader.at,
                start: reader.start,
            };
            let (key, _) = reader.step(number).ok_or("a stream cannot be unpacked")?;
            if before.is_some_and(|before| before >= key) {
                return Err("the streams are not in order");
            }
            if number.is_multiple_of(BLOCK) {
                blocks.push(Block {
                    first: key,
                    ..block
                });
            }
            before = Some(key);
        }
        if reader.at != bytes.len() || reader.start != entries {
            return Err("streams and entries do not add up");
        }
        Ok(Directory {
            streams,
            blocks: blocks.into(),
            bytes,
        })
    }

    pub fn iter(&self) -> Streams<'_> {
        self.block(0)
    }

    pub fn iter_from(&self, key: StreamKey) -> impl Iterator<Item = (StreamKey, Range<u32>)> + '_ {
        let after = self.blocks.partition_point(|block| block.first <= key);
        let streams = self.block(after.saturating_sub(1));
        streams.skip_while(move |(found, _)| *found < key)
    }

    pub fn memory(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.blocks)
    }

    fn block(&self, number: usize) -> Streams<'_> {
        let mut reader = Reader::new(&self.bytes);
        if let Some(block) = self.blocks.get(number) {
            (reader.at, reader.start) = (block.at, block.start);
        }
        Streams {
            reader,
            next: number as u32 * BLOCK,
            end: self.streams,
        }
    }
}

pub(super) struct Streams<'d> {
    reader: Reader<'d>,
    next: u32,
    end: u32,
}

impl Iterator for Streams<'_> {
    type Item = (StreamKey, Range<u32>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.next >= self.end {
            return None;
        }
        self.next += 1;
        self.reader.step(self.next - 1)
    }
}

struct Reader<'d> {
    bytes: &'d [u8],
    at: usize,
    key: StreamKey,
    start: u32,
}

impl<'d> Reader<'d> {
    fn new(bytes: &'d [u8]) -> Reader<'d> {
        Reader {
            bytes,
            at: 0,
            key: StreamKey::default(),
            start: 0,
        }
    }

    /// Unpacks the stream with this number, which must be the next. None if the bytes make no sense.
    fn step(&mut self, number: u32) -> Option<(StreamKey, Range<u32>)> {
        let level = self.byte()?;
        if level > QUEUE || (number.is_multiple_of(BLOCK) && level < QUEUE) {
            return None;
        }
        if level >= QUEUE {
            self.key.queue = self.number()?;
        }
        if level >= CLASS {
            self.key.class = self.byte()?;
        }
        if level >= PRIORITY {
            self.key.priority = self.number()?;
        }
        let base = if level == GROUP { self.key.group } else { 0 };
        self.key.group = base.checked_add(self.varint()?)?;
        let count: u32 = self.number()?;
        let start = self.start;
        self.start = start.checked_add(count).filter(|&end| end > start)?;
        Some((self.key, start..self.start))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn number(&mut self) -> Option<u32> {
        self.varint()?.try_into().ok()
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sim::Rng;

    fn some_streams(rng: &mut Rng, count: u64) -> Vec<(StreamKey, u32)> {
        let mut streams: Vec<_> = (0..count)
            .map(|_| {
                let key = StreamKey {
                    queue: rng.below(3) as u32,
                    class: rng.below(3) as u8,
                    priority: [0, 1024, u32::MAX][rng.below(3) as usize],
                    group: rng.bits() >> rng.below(64),
                };
                (key, 1 + rng.below(300) as u32)
            })
            .collect();
        streams.sort_unstable();
        streams.dedup_by_key(|stream| stream.0);
        streams
    }

    fn parsed(streams: &[(StreamKey, u32)]) -> Directory {
        let (bytes, count) = pack(streams.iter().copied());
        let entries = streams.iter().map(|stream| stream.1).sum();
        Directory::parse(bytes.into(), count, entries).unwrap()
    }

    #[test]
    fn streams_come_back_in_order_with_their_positions() {
        let mut rng = Rng::new(1);
        for count in [0, 1, 31, 32, 33, 64, 500] {
            let streams = some_streams(&mut rng, count);
            let directory = parsed(&streams);
            let found: Vec<_> = directory
                .iter()
                .map(|(key, range)| (key, range.len() as u32))
                .collect();
            assert_eq!(found, streams);
            let mut end = 0;
            for (_, range) in directory.iter() {
                assert_eq!(range.start, end);
                end = range.end;
            }
        }
    }

    #[test]
    fn a_listing_begins_at_the_first_stream_not_before_the_key() {
        let mut rng = Rng::new(2);
        let streams = some_streams(&mut rng, 300);
        let directory = parsed(&streams);
        let others = some_streams(&mut rng, 300);
        for (key, _) in streams.iter().chain(&others) {
            let found: Vec<_> = directory.iter_from(*key).map(|(key, _)| key).collect();
            let expected = streams.iter().map(|stream| stream.0);
            let expected: Vec<_> = expected.filter(|other| other >= key).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_stream_per_job_of_nearby_groups_packs_into_few_bytes() {
        let streams = (0..10_000).map(|group| {
            let key = StreamKey {
                group: (1 << 40) + group * 3,
                ..StreamKey::default()
            };
            (key, 1)
        });
        let streams: Vec<_> = streams.collect();
        assert!(parsed(&streams).memory() < 50_000);
    }

    #[test]
    fn changed_bytes_are_refused_or_still_make_an_ordered_directory() {
        let mut rng = Rng::new(3);
        let streams = some_streams(&mut rng, 100);
        let (bytes, count) = pack(streams.iter().copied());
        let entries: u32 = streams.iter().map(|stream| stream.1).sum();
        let mut refused = 0;
        for _ in 0..5000 {
            let mut bytes = bytes.clone();
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] = rng.bits() as u8;
            }
            bytes.truncate(bytes.len() - rng.below(2) as usize);
            match Directory::parse(bytes.into(), count, entries) {
                Ok(directory) => {
                    let keys: Vec<_> = directory.iter().map(|(key, _)| key).collect();
                    assert!(keys.is_sorted() && keys.len() == count as usize);
                }
                Err(_) => refused += 1,
            }
        }
        assert!(refused > 4000, "{refused}");
    }
}
