//! Opening a store: the checkpoint, the records behind it, and the judgement of where the log ends.
//!
//! A record that does not check out is either the torn end of what was being written when the power went, or damage. It is
//! damage if anything says that the log was on the disk up to a later point: then a store refuses to open and names the
//! file and the byte. Otherwise nobody was ever told that what follows is safe, and it is cut off.

use std::cmp::Ordering;
use std::sync::Arc;

use auxo_core::time::Now;
use auxo_core::{Code, Error, JobId, Result, Timestamp};
use hashbrown::HashMap;

use super::checkpoint::Listed;
use super::upkeep::{CHECKPOINT, Upkeep};
use super::{Machine, Outbox, Settings, Step};
use crate::damage::Trouble;
use crate::dice::Dice;
use crate::disk::{Disk, DiskFile, is_unfinished, once_failed_always_failed, read_exact_at};
use crate::format::FORMAT;
use crate::index::Index;
use crate::log::Log;
use crate::mark::{self, Found, Mark, Marked};
use crate::record::{self, Position, Record};
use crate::segment::{
    Blank, Finder, HEADER, Header, Segment, index_name, log_name, parse_name, read_header,
};
use crate::snapshot;

/// More leases than can be on their way to the disk at any moment.
const LEAP: u64 = 1 << 24;

/// Where the log of a new store begins.
const FIRST: Position = Position {
    segment: 1,
    offset: HEADER,
};
/// So many bytes of a segment have its header and the first record, with which every log begins.
const FIRST_BYTES: u64 = 4096;

impl Machine {
    /// Opens what is on the disk, or begins anew if there is nothing.
    pub fn open(disk: Arc<dyn Disk>, settings: Settings, dice: Dice) -> Result<Machine> {
        let mut machine = Machine::blank(Log::new(disk, settings.segment_size), settings, dice);
        machine.recover().map_err(explain)?;
        Ok(machine)
    }

    pub(super) fn blank(log: Log, settings: Settings, dice: Dice) -> Machine {
        Machine {
            settings,
            log,
            dice,
            queues: Default::default(),
            by_name: HashMap::new(),
            leases: HashMap::new(),
            deadlines: Default::default(),
            expiry: Default::default(),
            keep: Default::default(),
            recent_keys: HashMap::new(),
            recent_dead: Default::default(),
            recent_done: Default::default(),
            subscriptions: Default::default(),
            schedules: Default::default(),
            bound: HashMap::new(),
            forgotten: Default::default(),
            unused: Default::default(),
            moment: Now::at(0),
            identity: String::new(),
            notes: Default::default(),
            last_id: JobId(0),
            counter: 0,
            opened: Position::default(),
            stamp: Timestamp(0),
            boot: None,
            waiting: HashMap::new(),
            strangers: HashMap::new(),
            arrivals: 0,
            wait_ends: Default::default(),
            alarms: Default::default(),
            dirty: Vec::new(),
            // Schedules are looked at with the first advance.
            next_tick: Some(0),
            lead: None,
            wall_steps: 0,
            synced: Position::default(),
            written: Position::default(),
            checkpointed: Position::default(),
            upkeep: Upkeep::default(),
            audits: Default::default(),
            watched: false,
            sequence: 0,
            broken: None,
            out: Outbox::default(),
        }
    }

    fn recover(&mut self) -> Step<()> {
        let disk = self.log.disk.clone();
        let names = disk.list().map_err(|error| Trouble::io("", error))?;
        let logs: Vec<u32> = names
            .iter()
            .filter_map(|name| parse_name(name, "log"))
            .collect();
        let found = Mark::read(&*disk)?;
        let mark = found.marked();
        let start = match snapshot::read(&*disk, CHECKPOINT)? {
            Some((version, body)) => self.restore(version, &body, &names)?,
            None if self.never_begun(&logs, mark)? => None,
            None => first_position(&logs, mark)?,
        };
        if let (Found::Cut(at), Some(start)) = (found, start)
            && self.has_begun(start)?
        {
            let what = "the file is missing or cut short, so nothing tells whether the log has lost its end";
            return Err(Trouble::damaged(mark::NAME, at, what));
        }
        let end = match start {
            Some(start) => self.replay(start, &logs, mark)?,
            None => self.begin()?,
        };
        self.tidy(&names, end.segment)?;
        self.leap(self.log.position());
        let salt = self.dice.roll() as u32;
        self.log.reopen(salt);
        for lane in self
            .queues
            .iter_mut()
            .flat_map(|queue| queue.lanes.values_mut())
        {
            lane.shuffle(self.dice.roll());
        }
        self.opened = self.log.position();
        Ok(())
    }

    /// A process opens the store here. The leases that the one before gave last may not be on the disk, so the counter of
    /// tokens leaves them room: no number is given out twice. The first process ever has none before it.
    fn leap(&mut self, at: Position) {
        if at != FIRST {
            self.counter = self.counter.saturating_add(LEAP);
        }
    }

    /// Whether the power went while the store was being made: the only segment has no header and nothing in it, and the
    /// mark, which is made after it, is not there.
    fn never_begun(&self, logs: &[u32], mark: Option<Marked>) -> Step<bool> {
        if logs != [1] || mark.is_some() {
            return Ok(false);
        }
        let file = open(&*self.log.disk, 1)?;
        if let Header::Good { .. } = read_header(&*file, 1)? {
            return Ok(false);
        }
        let bytes = read_up_to(&*file, 1, u64::MAX)?;
        Ok(bytes.iter().skip(HEADER as usize).all(|byte| *byte == 0))
    }

    /// Whether anything was ever written to the log: there is a checkpoint, or something behind the header of the first segment.
    fn has_begun(&self, start: Position) -> Step<bool> {
        if start != FIRST {
            return Ok(true);
        }
        let bytes = read_up_to(&*open(&*self.log.disk, 1)?, 1, FIRST_BYTES)?;
        Ok(bytes.iter().skip(HEADER as usize).any(|byte| *byte != 0))
    }

    /// Makes the first segment of a new store.
    fn begin(&mut self) -> Step<Position> {
        let salt = self.dice.roll() as u32;
        let blank = Blank::make(&*self.log.disk, 1, salt, self.settings.segment_size, None)
            .map_err(|error| Trouble::io(log_name(1), error))?;
        self.log.road = blank.road;
        self.log
            .segments
            .insert(1, Segment::new(1, blank.file, salt));
        self.log.activate(1, HEADER, salt);
        Ok(FIRST)
    }

    /// Reads the checkpoint and the segments it lists. Answers from where on the log is to be replayed.
    fn restore(&mut self, version: u32, body: &[u8], names: &[String]) -> Step<Option<Position>> {
        if version != FORMAT {
            return Err(Trouble::OtherFormat {
                file: CHECKPOINT.into(),
                format: version,
            });
        }
        let mut loaded = self
            .load_checkpoint(body)
            .ok_or_else(|| Trouble::damaged(CHECKPOINT, 0, "the checkpoint cannot be read"))?;
        self.checkpointed = loaded.position;
        for listed in &loaded.segments {
            let segment = self.open_segment(listed)?;
            self.log.segments.insert(listed.number, segment);
        }
        self.load_leases(&mut loaded);
        for listed in loaded.segments {
            let indexed = listed.number < loaded.position.segment
                && names.contains(&index_name(listed.number));
            let index = indexed.then(|| self.open_index(listed.number)).flatten();
            match index {
                Some(index) => {
                    self.log.segment_mut(listed.number).finder = Finder::File(index);
                    self.attach_lines(listed.number, None)?;
                }
                None => self.scan(&listed)?,
            }
        }
        Ok(Some(loaded.position))
    }

    fn open_segment(&self, listed: &Listed) -> Step<Segment> {
        let name = log_name(listed.number);
        let file = open(&*self.log.disk, listed.number)?;
        match read_header(&*file, listed.number)? {
            Header::Good { salt } if salt == listed.salts[0].1 => {}
            Header::Good { .. } => {
                return Err(Trouble::damaged(
                    name,
                    0,
                    "the file is not the one the checkpoint lists",
                ));
            }
            Header::Bad(what) => return Err(Trouble::damaged(name, 0, what)),
        }
        let len = file.len().map_err(|error| Trouble::io(&name, error))?;
        if len < u64::from(listed.len) {
            return Err(Trouble::damaged(
                name,
                len,
                format!("the file ends here, it should have {} bytes", listed.len),
            ));
        }
        let mut segment = Segment::new(listed.number, file, listed.salts[0].1);
        segment.len = listed.len;
        segment.salts = listed.salts.clone();
        segment.live = listed.live.clone();
        segment.live_count = listed.live.count();
        // More than there is would be too much for those who reckon with it.
        segment.live_bytes = listed.live_bytes.min(listed.len.into());
        segment.count = listed.count;
        Ok(segment)
    }

    /// An index that is damaged or cannot be read is not needed: what it says is in the segment.
    fn open_index(&self, number: u32) -> Option<Index> {
        Index::open(&*self.log.disk, &index_name(number), u64::from(number)).ok()
    }

    /// Reads a segment whose state is known, but of which no index file tells where its records are.
    fn scan(&mut self, listed: &Listed) -> Step<()> {
        let name = log_name(listed.number);
        let mut bytes = vec![0; listed.len as usize];
        read_exact_at(&*self.log.segment(listed.number).file, &name, 0, &mut bytes)?;
        let mut reader = Frames::new(&bytes, HEADER, listed.salts[0].1, listed.salts[0].1);
        let mut ord = 0;
        // The records are counted anew while they are read.
        let segment = self.log.segment_mut(listed.number);
        let (live, taken) = (std::mem::take(&mut segment.live), segment.taken.clone());
        let mut jobs = Vec::new();
        while reader.offset < listed.len {
            let offset = reader.offset;
            let bad = || {
                Trouble::damaged(
                    &name,
                    u64::from(offset),
                    "this is not the record that was written here",
                )
            };
            match reader.next().ok_or_else(bad)?.ok_or_else(bad)? {
                Record::Put(put) => {
                    jobs.push((ord, offset, put.job));
                    ord += 1;
                }
                Record::Open { salt } => reader.salt = salt,
                _ => {}
            }
            self.scan_jobs(listed.number, &mut jobs, &live);
        }
        let segment = self.log.segment_mut(listed.number);
        if ord != listed.count {
            let what = format!(
                "there are {ord} job records, there should be {}",
                listed.count
            );
            return Err(Trouble::damaged(name, 0, what));
        }
        segment.live = live;
        segment.taken = taken;
        Ok(())
    }

    fn scan_jobs(
        &mut self,
        segment: u32,
        jobs: &mut Vec<(u32, u32, record::Stored)>,
        live: &crate::bits::Bits,
    ) {
        for (ord, offset, job) in jobs.drain(..) {
            let file = self.log.segment_mut(segment);
            if let Finder::Memory(recent) = &mut file.finder {
                recent.add(job.id.0, ord, offset);
            }
            if live.get(ord) {
                let place = record::Place {
                    segment,
                    ord,
                    offset,
                };
                if let Some(hash) = job.key_hash() {
                    self.recent_keys.entry(hash).or_default().push(place);
                }
                self.line_up(&job, place);
            }
        }
    }

    /// Takes in the records from a position on; answers where the log ends.
    fn replay(&mut self, start: Position, logs: &[u32], mark: Option<Marked>) -> Step<Position> {
        let mut number = start.segment;
        let mut offset = start.offset;
        let mut turned = Vec::new();
        let safe = mark.map_or(start, |mark| mark.synced.max(start));
        loop {
            if !self.log.segments.contains_key(&number) {
                let file = open(&*self.log.disk, number)?;
                match read_header(&*file, number)? {
                    Header::Good { salt } => {
                        self.log
                            .segments
                            .insert(number, Segment::new(number, file, salt));
                    }
                    Header::Bad(what) => return Err(Trouble::damaged(log_name(number), 0, what)),
                }
            }
            // After a clean end there is nothing behind it to look at.
            let clean = mark.filter(|mark| mark.clean && mark.synced.segment == number);
            let most = clean.map_or(u64::MAX, |mark| u64::from(mark.synced.offset));
            let bytes = read_up_to(&*self.log.segment(number).file, number, most)?;
            if bytes.len() < offset as usize {
                let what = format!("the file ends here, the checkpoint goes on at byte {offset}");
                return Err(Trouble::damaged(log_name(number), bytes.len() as u64, what));
            }
            let segment = self.log.segment(number);
            let file = segment.file.clone();
            let (salt, own) = (segment.salt_at(offset), segment.own_salt());
            let mut frames = Frames::new(&bytes, offset, salt, own);
            let mut end = (offset, salt);
            let sealed = self.replay_segment(&mut frames, number, &mut end, &mut turned)?;
            self.log.segment_mut(number).len = end.0;
            if sealed {
                make_safe(number, &*file, &bytes[..end.0 as usize], safe)?;
                number += 1;
                offset = HEADER;
                continue;
            }
            let position = Position {
                segment: number,
                offset: end.0,
            };
            self.judge(position, frames.offset, &bytes, (end.1, own), logs, mark)?;
            self.log.activate(number, end.0, end.1);
            turned.sort_unstable();
            turned.dedup();
            for queue in turned {
                // It may be forgotten by now.
                if self.queues.get(queue).is_some() {
                    self.rebuild_lanes(queue)?;
                }
            }
            make_safe(number, &*file, &bytes[..end.0 as usize], safe)?;
            self.synced = position;
            self.written = position;
            return Ok(position);
        }
    }

    /// Takes in the whole groups of one segment. `end` is moved behind each, with the salt that holds there. Answers whether
    /// the segment was sealed.
    fn replay_segment(
        &mut self,
        frames: &mut Frames,
        number: u32,
        end: &mut (u32, u32),
        turned: &mut Vec<u32>,
    ) -> Step<bool> {
        let mut group: Vec<((u32, u32), Record)> = Vec::new();
        loop {
            let offset = frames.offset;
            let Some(record) = frames.next() else {
                return Ok(false);
            };
            let Some(record) = record else {
                let what =
                    "a whole record of an unknown kind; was it written by a newer version of Auxo?";
                return Err(Trouble::damaged(log_name(number), u64::from(offset), what));
            };
            if let Record::Open { salt } = record {
                frames.salt = salt;
            }
            let Record::Commit { count, at, .. } = record else {
                group.push(((offset, frames.offset - offset), record));
                continue;
            };
            if count as usize != group.len() {
                let what = format!(
                    "a group of {} records says that it has {count}",
                    group.len()
                );
                return Err(Trouble::damaged(log_name(number), u64::from(offset), what));
            }
            self.stamp = self.stamp.max(at);
            let mut sealed = false;
            for ((offset, weight), record) in group.drain(..) {
                sealed |= record == Record::Seal;
                self.absorb(number, (offset, weight), record, turned)
                    .ok_or_else(|| {
                        Trouble::damaged(
                            log_name(number),
                            u64::from(offset),
                            "the record contradicts those before it",
                        )
                    })?;
            }
            *end = (frames.offset, frames.salt);
            if sealed {
                return Ok(true);
            }
        }
    }

    /// Takes in one record. `None` when it speaks of something that is not there.
    fn absorb(
        &mut self,
        segment: u32,
        (offset, weight): (u32, u32),
        record: Record,
        turned: &mut Vec<u32>,
    ) -> Option<()> {
        let known = |machine: &Machine, queue: u32| machine.queues.get(queue).map(drop);
        let place = |machine: &Machine, place: record::Place| {
            let segment = machine.log.segments.get(&place.segment)?;
            (place.ord < segment.count).then_some(())
        };
        match record {
            Record::Put(put) => {
                known(self, put.job.queue)?;
                if let Some(previous) = put.previous {
                    place(self, previous.place)?;
                }
                self.absorb_put(&put, segment, offset, weight);
            }
            Record::Lease(lease) => {
                known(self, lease.queue)?;
                for item in &lease.items {
                    place(self, item.place)?;
                }
                self.absorb_lease(&lease);
            }
            Record::Ack(ids) => ids.into_iter().for_each(|id| self.absorb_ack(id)),
            Record::Remove(remove) => {
                known(self, remove.queue)?;
                place(self, remove.place)?;
                self.absorb_remove(&remove);
            }
            Record::Extend {
                id,
                deadline,
                ttr,
                progress,
            } => self.absorb_extend(id, deadline, ttr, progress),
            Record::Flag(id) => self.absorb_flag(id),
            Record::Queue {
                number,
                name,
                config,
            } => {
                let known = self.queues.get(number);
                match known {
                    Some(queue) => (queue.name == name).then_some(())?,
                    None => {
                        let new = number == self.queues.vacant();
                        (new && !self.by_name.contains_key(&name)).then_some(())?;
                    }
                }
                if self.absorb_queue(number, name, config) {
                    turned.push(number);
                }
            }
            Record::Forget(number) => self.absorb_forget(number)?,
            Record::Subscribe(subscription) => self.absorb_subscribe(subscription),
            Record::Unsubscribe { topic, name } => {
                self.absorb_unsubscribe(topic, name);
            }
            Record::Schedule(schedule) => self.absorb_schedule(*schedule),
            Record::Unschedule(name) => {
                self.absorb_unschedule(&name);
            }
            Record::Tick { name, next, last } => self.absorb_tick(&name, next, last),
            Record::Open { salt } => {
                self.leap(Position { segment, offset });
                // The length of the record itself: the salt holds for what follows.
                let own = self.log.segment(segment).own_salt();
                let from = Frames::after_open(offset, own, salt);
                self.log.segment_mut(segment).salts.push((from, salt));
            }
            Record::Identity(name) => self.identity = name,
            Record::Note { queue, way, note } => {
                known(self, queue)?;
                self.absorb_note(queue, way, note);
            }
            Record::Spend { queue, count, at } => {
                known(self, queue)?;
                self.queues[queue as usize].pay(count, at);
            }
            Record::Boot(boot) => self.boot = Some(boot),
            Record::Commit { .. } | Record::Seal => {}
        }
        Some(())
    }

    /// Decides whether the log may end at `end`, although it does not go on with a good record at `bad`.
    fn judge(
        &self,
        end: Position,
        bad: u32,
        bytes: &[u8],
        (salt, own): (u32, u32),
        logs: &[u32],
        mark: Option<Marked>,
    ) -> Step<()> {
        let mut synced = mark.map_or(Position::default(), |mark| mark.synced);
        let clean = mark.is_some_and(|mark| mark.clean && mark.synced == end);
        if !clean && synced <= end {
            synced = synced.max(last_synced(bytes, bad, salt, own));
            for later in logs.iter().filter(|number| **number > end.segment) {
                let file = open(&*self.log.disk, *later)?;
                if let Header::Good { salt } = read_header(&*file, *later)? {
                    let bytes = read_up_to(&*file, *later, u64::MAX)?;
                    synced = synced.max(last_synced(&bytes, HEADER, salt, salt));
                }
            }
        }
        if synced > end {
            let what = format!(
                "a record that was safely on the disk is damaged or missing (the log was synced to segment {} byte {})",
                synced.segment, synced.offset
            );
            return Err(Trouble::damaged(
                log_name(end.segment),
                u64::from(bad),
                what,
            ));
        }
        Ok(())
    }

    /// Removes what a crash left behind, and finds work that was not finished.
    fn tidy(&mut self, names: &[String], active: u32) -> Step<()> {
        // What is removed below is not missed by the checkpoint that was read. Its name must be safe first.
        self.log
            .disk
            .sync_dir()
            .map_err(|error| Trouble::io("", error))?;
        for name in names {
            let number = parse_name(name, "log").or(parse_name(name, "idx"));
            let kept = match number {
                None => !is_unfinished(name),
                Some(number) => match self.log.segments.get(&number) {
                    None => false,
                    Some(segment) => {
                        name.ends_with(".log") || matches!(segment.finder, Finder::File(_))
                    }
                },
            };
            if !kept {
                self.log
                    .disk
                    .remove(name)
                    .map_err(|error| Trouble::io(name, error))?;
            }
        }
        let sealed: Vec<u32> = self
            .log
            .segments
            .keys()
            .copied()
            .filter(|number| *number != active)
            .collect();
        for number in sealed {
            if matches!(self.log.segment(number).finder, Finder::Memory(_)) {
                self.index_if_worth(number);
            }
        }
        Ok(())
    }
}

/// Where to begin without a checkpoint: at the first segment there ever was.
fn first_position(logs: &[u32], mark: Option<Marked>) -> Step<Option<Position>> {
    match (logs.first(), mark) {
        (None, None) => Ok(None),
        (Some(1), _) => Ok(Some(FIRST)),
        (None, Some(mark)) if mark.synced == Position::default() => Ok(None),
        (None, Some(_)) => Err(Trouble::damaged(log_name(1), 0, "the file is missing")),
        (Some(_), _) => Err(Trouble::damaged(CHECKPOINT, 0, "the file is missing")),
    }
}

fn open(disk: &dyn Disk, number: u32) -> Step<Arc<dyn DiskFile>> {
    let name = log_name(number);
    let file = disk.open(&name).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Trouble::damaged(name, 0, "the file is missing"),
        _ => Trouble::io(name, error),
    })?;
    Ok(once_failed_always_failed(file))
}

/// Makes sure that what was read is on the disk, because from here on it counts as safe. What lies behind the point up to
/// which it is known to be is written again: after a sync that failed, the system may have it in memory and believe that
/// the disk has it too, and another sync alone would do nothing.
fn make_safe(number: u32, file: &dyn DiskFile, bytes: &[u8], safe: Position) -> Step<()> {
    let from = match safe.segment.cmp(&number) {
        Ordering::Less => HEADER,
        Ordering::Equal => safe.offset,
        Ordering::Greater => return Ok(()),
    };
    match bytes.get(from as usize..) {
        None | Some([]) => Ok(()),
        Some(rest) => file
            .write_at(u64::from(from), rest)
            .and_then(|()| file.sync())
            .map_err(|error| Trouble::io(log_name(number), error)),
    }
}

fn read_up_to(file: &dyn DiskFile, number: u32, most: u64) -> Step<Vec<u8>> {
    let io = |error| Trouble::io(log_name(number), error);
    let len = file.len().map_err(io)?.min(most);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let read = file.read_at(0, &mut bytes).map_err(io)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The records of a segment, one after the other.
struct Frames<'a> {
    bytes: &'a [u8],
    offset: u32,
    salt: u32,
    own: u32,
}

impl<'a> Frames<'a> {
    fn new(bytes: &'a [u8], offset: u32, salt: u32, own: u32) -> Frames<'a> {
        Frames {
            bytes,
            offset,
            salt,
            own,
        }
    }

    /// The next record: `None` when there is none that checks out, `Some(None)` when it is of an unknown kind.
    fn next(&mut self) -> Option<Option<Record>> {
        let rest = self.bytes.get(self.offset as usize..)?;
        let body = record::unframe(rest, self.offset, self.salt, self.own)?;
        self.offset += (record::HEAD + body.len()) as u32;
        Some(record::decode(body))
    }

    /// Where the record behind an `Open` record begins.
    fn after_open(offset: u32, own: u32, salt: u32) -> u32 {
        let mut framer = record::Framer::new(offset, own);
        framer.append(&Record::Open { salt });
        framer.position()
    }
}

/// The furthest point that any commit behind `from` says was synced. Every byte is tried as the start of a record, because
/// damage may have swallowed the ones before.
fn last_synced(bytes: &[u8], from: u32, mut salt: u32, own: u32) -> Position {
    let mut synced = Position::default();
    let mut at = from as usize;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.iter().take(64).all(|byte| *byte == 0) {
            // Nothing can begin in what was never written, up to the three zero bytes in front of a short length.
            at += rest.len().min(60);
            continue;
        }
        // Only these two matter, and to compute a checksum over whatever length stands there would take for ever.
        let body = record::is_mark(rest).then(|| record::unframe(rest, at as u32, salt, own));
        match body.flatten() {
            Some(body) => {
                match record::decode(body) {
                    Some(Record::Commit { synced: said, .. }) => synced = synced.max(said),
                    Some(Record::Open { salt: new }) => salt = new,
                    _ => {}
                }
                at += record::HEAD + body.len();
            }
            None => at += 1,
        }
    }
    synced
}

/// Adds what a person can do about it.
fn explain(trouble: Trouble) -> Error {
    match &trouble {
        Trouble::Damaged(damage) => Error::new(
            Code::Internal,
            format!(
                "the store is damaged and was not opened: {damage}; `auxo salvage` copies what is whole to a new directory"
            ),
        ),
        Trouble::Io { file, error } => Error::new(
            Code::Unavailable,
            format!("cannot read the store: file {file}: {error}"),
        ),
        Trouble::OtherFormat { .. } => trouble.into(),
    }
}
