//! The log: its segments, the group of records being built, and reading any record back.
//!
//! Nothing here decides anything about jobs. The machine appends records and asks for them again; whoever runs the machine
//! takes the finished groups with [`Log::commit`] and writes them to the disk. What was appended can be read at once: from
//! the group being built, from the tail of groups that may not be on the disk yet, and else from the files.

mod mend;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use auxo_core::time::Timestamp;
use bytes::Bytes;

use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile};
use crate::index::{Index, Pages};
use crate::record::{self, Framer, Place, Position, Put, Record, Stored};
use crate::road::Road;
use crate::segment::{Blank, Finder, Segment, log_name, spill};
use crate::stream::Spot;

/// How much of what was written last is kept in memory, so that a job pushed just now is leased without a read.
const TAIL: usize = 4 << 20;
/// The unit in which sealed segments are read, and how many of these are kept.
const CHUNK: u32 = 128 << 10;
const CHUNKS: usize = 24;
/// How many chunks that were wanted once are remembered: well below the number that is kept, or a round through more of
/// them than that would load each one and use none twice.
const MISSED: usize = 8;
/// How much is read for a single record; most fit.
const ALONE: usize = 512;
/// How many pages of index files are kept.
const PAGES: usize = 1024;

/// A finished group of records, to be written where it belongs.
pub struct Write {
    pub file: Arc<dyn DiskFile>,
    pub offset: u32,
    pub bytes: Bytes,
    /// The position behind it.
    pub end: Position,
}

/// See the module.
pub struct Log {
    pub disk: Arc<dyn Disk>,
    pub segments: BTreeMap<u32, Segment>,
    pub active: u32,
    /// The next segment, ready to be used.
    pub blank: Option<Blank>,
    /// The active segment's file, if this process made it anew.
    pub road: Option<Arc<Road>>,
    segment_size: u64,
    framer: Framer,
    /// How many records the group being built has.
    group: u32,
    tail: VecDeque<(Position, Bytes)>,
    tail_bytes: usize,
    chunks: VecDeque<(u32, u32, Bytes)>,
    /// Chunks of which a record was read alone, newest last.
    missed: VecDeque<(u32, u32)>,
    pages: Pages,
    /// Segments whose index was damaged and is now in memory, since this was last emptied.
    pub mended: Vec<u32>,
    /// How often that happened.
    mends: u64,
}

impl Log {
    /// A log whose segments are filled in by recovery.
    pub fn new(disk: Arc<dyn Disk>, segment_size: u64) -> Log {
        Log {
            disk,
            segments: BTreeMap::new(),
            active: 0,
            blank: None,
            road: None,
            segment_size,
            framer: Framer::new(0, 0),
            group: 0,
            tail: VecDeque::new(),
            tail_bytes: 0,
            chunks: VecDeque::new(),
            missed: VecDeque::new(),
            pages: Pages::new(PAGES),
            mended: Vec::new(),
            mends: 0,
        }
    }

    pub fn segment(&self, number: u32) -> &Segment {
        &self.segments[&number]
    }

    pub fn segment_mut(&mut self, number: u32) -> &mut Segment {
        self.segments
            .get_mut(&number)
            .expect("a place names a segment that is there")
    }

    /// Whether the record is current and its job in line.
    pub fn in_line(&self, place: Place) -> bool {
        self.segments
            .get(&place.segment)
            .is_some_and(|segment| segment.in_line(place.ord))
    }

    /// Whether the record is current.
    pub fn is_live(&self, place: Place) -> bool {
        self.segments
            .get(&place.segment)
            .is_some_and(|segment| segment.live.get(place.ord))
    }

    /// Where the next record goes.
    pub fn position(&self) -> Position {
        Position {
            segment: self.active,
            offset: self.framer.position(),
        }
    }

    /// Makes `number` the segment that is appended to, from `offset` on.
    pub fn activate(&mut self, number: u32, offset: u32, salt: u32) {
        self.active = number;
        self.framer = Framer::new(offset, salt);
    }

    /// Starts a new salt: what an earlier process may have left behind this point does not check out any more.
    pub fn reopen(&mut self, salt: u32) {
        let own = self.segment(self.active).own_salt();
        self.framer.set_salt(own);
        self.append(&Record::Open { salt });
        self.framer.set_salt(salt);
        let from = self.framer.position();
        self.segment_mut(self.active).salts.push((from, salt));
    }

    /// How many bytes the group being built has.
    pub fn pending(&self) -> usize {
        self.framer.bytes().len()
    }

    /// Whether the active segment has had its share and the next group should begin a new one.
    pub fn is_full(&self) -> bool {
        u64::from(self.framer.position()) >= self.segment_size - spill(self.segment_size)
    }

    /// Appends a record.
    pub fn append(&mut self, record: &Record) {
        self.framer.append(record);
        self.group += 1;
    }

    /// Appends a job record; answers its offset.
    pub fn append_put(&mut self, put: &Put) -> u32 {
        self.group += 1;
        self.framer.append_put(put)
    }

    /// Closes the group being built, if it has anything.
    pub fn commit(&mut self, synced: Position, at: Timestamp) -> Option<Write> {
        if self.group == 0 {
            return None;
        }
        let count = self.group;
        self.append(&Record::Commit { count, synced, at });
        self.group = 0;
        let start = Position {
            segment: self.active,
            offset: self.framer.base(),
        };
        let bytes = self.framer.take();
        self.tail_bytes += bytes.len();
        self.tail.push_back((start, bytes.clone()));
        let end = self.position();
        let segment = self.segment_mut(self.active);
        segment.len = end.offset;
        Some(Write {
            file: segment.file.clone(),
            offset: start.offset,
            bytes,
            end,
        })
    }

    /// Lets go of what lies safely in the files and is not needed for speed.
    pub fn trim_tail(&mut self, written: Position) {
        while self.tail_bytes > TAIL {
            match self.tail.get(1) {
                Some((next, _)) if *next <= written => {
                    let (_, bytes) = self.tail.pop_front().expect("there are two");
                    self.tail_bytes -= bytes.len();
                }
                _ => break,
            }
        }
    }

    /// Goes on in the next segment. The group being built must be empty but for what belongs in front of the seal.
    pub fn roll(&mut self, blank: Blank, synced: Position, at: Timestamp) -> Option<Write> {
        self.append(&Record::Seal);
        let last = self.commit(synced, at);
        let (number, salt) = (blank.number, blank.salt);
        self.road = blank.road;
        let segment = Segment::new(number, blank.file, salt);
        let start = segment.len;
        self.segments.insert(number, segment);
        self.activate(number, start, salt);
        last
    }

    /// Finds a segment's records by its index from now on; answers whether the segment is there.
    pub fn adopt(&mut self, number: u32, index: Index) -> bool {
        self.pages.forget(u64::from(number));
        let segment = self.segments.get_mut(&number);
        segment
            .map(|segment| segment.finder = Finder::File(index))
            .is_some()
    }

    /// Takes a segment out; answers it.
    pub fn remove(&mut self, number: u32) -> Option<Segment> {
        self.pages.forget(u64::from(number));
        self.chunks.retain(|(segment, ..)| *segment != number);
        self.segments.remove(&number)
    }

    /// The bytes of all records that are kept, needed or not.
    pub fn size(&self) -> u64 {
        self.segments
            .values()
            .map(|segment| u64::from(segment.len))
            .sum()
    }

    /// How many of them are needed.
    pub fn live_size(&self) -> u64 {
        self.segments
            .values()
            .map(|segment| segment.live_bytes)
            .sum()
    }

    /// An entry of a segment's index file.
    pub fn entry(&mut self, segment: u32, at: u32) -> Result<Spot, Trouble> {
        let entry = self.ask(segment, |index, pages| index.entry(at, pages))?;
        let place = Place {
            segment,
            ord: entry.ord,
            offset: entry.offset,
        };
        Ok(Spot {
            time: entry.time,
            id: entry.id,
            place,
        })
    }

    /// The current record of a job that is not leased.
    pub fn find_id(&mut self, id: u64) -> Result<Option<Place>, Trouble> {
        loop {
            match self.try_find_id(id) {
                Err(trouble) => self.mend(trouble)?,
                found => return found,
            }
        }
    }

    fn try_find_id(&mut self, id: u64) -> Result<Option<Place>, Trouble> {
        for segment in self.segments.values().rev() {
            let found = match &segment.finder {
                Finder::Memory(recent) => recent.find(id).into_iter().collect(),
                Finder::File(index) => match index.id_bounds() {
                    Some((first, last)) if (first..=last).contains(&id) => {
                        index.find_id(id, &mut self.pages)?
                    }
                    _ => Vec::new(),
                },
            };
            for (ord, offset) in found {
                if segment.live.get(ord) {
                    return Ok(Some(Place {
                        segment: segment.number,
                        ord,
                        offset,
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The records in index files whose key has this hash and that are current.
    pub fn find_key(&mut self, hash: u64) -> Result<Vec<Place>, Trouble> {
        loop {
            match self.try_find_key(hash) {
                Err(trouble) => self.mend(trouble)?,
                found => return found,
            }
        }
    }

    fn try_find_key(&mut self, hash: u64) -> Result<Vec<Place>, Trouble> {
        let mut places = Vec::new();
        for segment in self.segments.values() {
            if let Finder::File(index) = &segment.finder {
                for (ord, offset) in index.find_key(hash, &mut self.pages)? {
                    if segment.live.get(ord) {
                        places.push(Place {
                            segment: segment.number,
                            ord,
                            offset,
                        });
                    }
                }
            }
        }
        Ok(places)
    }

    /// The position of the first entry of `range` at or behind `(time, id)`, in a segment's index file.
    pub fn lower_bound(
        &mut self,
        segment: u32,
        range: std::ops::Range<u32>,
        (time, id): (u64, u64),
    ) -> Result<u32, Trouble> {
        self.ask(segment, |index, pages| {
            index.lower_bound(range.clone(), time, id, pages)
        })
    }

    /// Reads a job record back.
    pub fn read(&mut self, place: Place) -> Result<Stored, Trouble> {
        self.fetch(place, Payload::Copied)
    }

    /// Reads a job record back without copying its payload, which keeps the memory around it: for a moment only.
    pub fn lend(&mut self, place: Place) -> Result<Stored, Trouble> {
        self.fetch(place, Payload::Shared)
    }

    fn fetch(&mut self, place: Place, payload: Payload) -> Result<Stored, Trouble> {
        let at = Position {
            segment: place.segment,
            offset: place.offset,
        };
        if at.segment == self.active && at.offset >= self.framer.base() {
            let start = (at.offset - self.framer.base()) as usize;
            let bytes = self.framer.bytes().get(start..).unwrap_or_default();
            let job = record::unframe_own(bytes).and_then(|body| record::decode_job(body, None));
            return job.ok_or_else(|| not_here(place));
        }
        let behind = self.tail.partition_point(|(start, _)| *start <= at);
        if let Some((start, group)) = behind.checked_sub(1).map(|i| &self.tail[i])
            && start.segment == at.segment
            && let Some(bytes) = group
                .get((at.offset - start.offset) as usize..)
                .filter(|rest| !rest.is_empty())
        {
            let job = record::unframe_own(bytes)
                .and_then(|body| record::decode_job(body, payload.of(group)));
            return job.ok_or_else(|| not_here(place));
        }
        self.read_file(place, payload)
    }

    /// Reads a record that came from a file.
    fn check(&self, bytes: &[u8], place: Place, shared: Option<&Bytes>) -> Result<Stored, Trouble> {
        let segment = self.segment(place.segment);
        record::unframe(
            bytes,
            place.offset,
            segment.salt_at(place.offset),
            segment.own_salt(),
        )
        .and_then(|body| record::decode_job(body, shared))
        .ok_or_else(|| not_here(place))
    }

    fn read_file(&mut self, place: Place, payload: Payload) -> Result<Stored, Trouble> {
        let number = place.offset / CHUNK;
        let chunk = match self
            .chunks
            .iter()
            .rposition(|(s, n, _)| (*s, *n) == (place.segment, number))
        {
            Some(at) => at,
            None if !self.comes_back(place.segment, number) => return self.read_alone(place),
            None => match self.load_chunk(place.segment, number)? {
                Some(at) => at,
                None => return self.read_alone(place),
            },
        };
        let start = (place.offset % CHUNK) as usize;
        let chunk = &self.chunks[chunk].2;
        let bytes = chunk.get(start..).unwrap_or_default();
        match record::frame_len(bytes) {
            Some(len) if len <= bytes.len() => self.check(bytes, place, payload.of(chunk)),
            _ => self.read_alone(place),
        }
    }

    /// Whether a chunk that is not in the cache was wanted a short while ago already. The first time a record is read
    /// alone: of a queue that shares the log with a thousand others there is but one in each chunk.
    fn comes_back(&mut self, segment: u32, number: u32) -> bool {
        let chunk = (segment, number);
        if let Some(at) = self.missed.iter().position(|missed| *missed == chunk) {
            self.missed.swap_remove_back(at);
            return true;
        }
        if self.missed.len() == MISSED {
            self.missed.pop_front();
        }
        self.missed.push_back(chunk);
        false
    }

    /// Reads a chunk into the cache, unless a part of it is not on the disk yet.
    fn load_chunk(&mut self, segment: u32, number: u32) -> Result<Option<usize>, Trouble> {
        let end = (number + 1).saturating_mul(CHUNK);
        let settled = match self.tail.iter().find(|(start, _)| start.segment == segment) {
            Some((start, _)) => end <= start.offset,
            None => segment != self.active || end <= self.framer.base(),
        };
        if !settled {
            return Ok(None);
        }
        let mut bytes = vec![0; CHUNK as usize];
        let file = &self.segment(segment).file;
        let read = file
            .read_at(u64::from(number * CHUNK), &mut bytes)
            .map_err(|error| Trouble::io(log_name(segment), error))?;
        bytes.truncate(read);
        if self.chunks.len() == CHUNKS {
            self.chunks.pop_front();
        }
        self.chunks.push_back((segment, number, Bytes::from(bytes)));
        Ok(Some(self.chunks.len() - 1))
    }

    fn read_alone(&self, place: Place) -> Result<Stored, Trouble> {
        let file = &self.segment(place.segment).file;
        let io = |error| Trouble::io(log_name(place.segment), error);
        let offset = u64::from(place.offset);
        let rest = u64::from(self.segment(place.segment).len).saturating_sub(offset);
        let rest = usize::try_from(rest).unwrap_or(usize::MAX);
        let mut bytes = vec![0; rest.min(ALONE)];
        let mut read = file.read_at(offset, &mut bytes).map_err(io)?;
        // A damaged length must not make us ask for gigabytes.
        let len = record::frame_len(&bytes[..read]).unwrap_or(0).min(rest);
        if len > read {
            bytes.resize(len, 0);
            read = file.read_at(offset, &mut bytes).map_err(io)?;
        }
        self.check(&bytes[..read], place, None)
    }
}

/// What becomes of the payload of a record that is read.
#[derive(Clone, Copy)]
enum Payload {
    /// It gets memory of its own.
    Copied,
    /// It is a part of the block it was found in.
    Shared,
}

impl Payload {
    fn of(self, block: &Bytes) -> Option<&Bytes> {
        match self {
            Payload::Copied => None,
            Payload::Shared => Some(block),
        }
    }
}

fn not_here(place: Place) -> Trouble {
    Trouble::damaged(
        log_name(place.segment),
        u64::from(place.offset),
        "this is not the record that was written here",
    )
}
