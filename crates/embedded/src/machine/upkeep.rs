//! Keeping the log short: sealing, checkpoints, compaction, and the files behind them.
//!
//! The machine only says what it wants; a [`Task`] does the slow part elsewhere and reports back with [`Done`]. A segment
//! is given up when none of its records is current any more and a checkpoint that knows so is on the disk. When the log is
//! more than twice as long as what is live in it, the segment with the least left is emptied by copying that to the end,
//! so neither endless retries nor one old job can keep disk space for themselves.

use std::io;
use std::sync::Arc;

use auxo_core::time::Now;
use auxo_core::{Code, Error};

use super::{Machine, Step, classes};
use crate::bits::Bits;
use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile};
use crate::index::{Draft, Index};
use crate::record::{self, From, HEAD, Place, Position, Previous};
use crate::segment::{Blank, Finder, HEADER, index_name, log_name, spill};
use crate::snapshot;

pub const CHECKPOINT: &str = "checkpoint";
/// Space that is given back when the disk is full, so that a checkpoint can still be written and segments freed.
const BALLAST: &str = "ballast";
/// A segment's file in waiting, for when the disk is full. Leases and acks leave nothing behind that is needed for long: a
/// segment of them is empty by the next checkpoint, so with one file more than the last one they can go on for ever.
const RESERVE: &str = "reserve";
/// How much compaction copies before others get their turn.
const BITE: usize = 256 << 10;
/// What a record takes besides its payload, roughly and rather more.
const SLACK: u64 = 4096;
/// How much of a sealed segment is read at once.
const PIECE: usize = 1 << 20;
/// How long to wait before asking a full disk again, in milliseconds.
const PATIENCE: u64 = 1000;

/// Slow work, to be done in the order given, after everything written before it.
pub enum Task {
    /// Makes the next segment's file.
    Prepare {
        number: u32,
        salt: u32,
        size: u64,
        reuse: Option<String>,
    },
    /// Writes the index file of a sealed segment.
    Index(Sealed),
    /// Syncs these files, then writes a checkpoint.
    Checkpoint {
        sync: Vec<Arc<dyn DiskFile>>,
        body: Vec<u8>,
    },
    /// Makes the reserve, out of an old file if there is one.
    Reserve { size: u64, reuse: Option<String> },
    /// Removes files.
    Discard(Vec<String>),
}

/// What is needed to index a segment.
pub struct Sealed {
    pub number: u32,
    pub file: Arc<dyn DiskFile>,
    pub len: u32,
    pub salts: Vec<(u32, u32)>,
    pub live: Bits,
}

/// What became of a [`Task`].
pub enum Done {
    Prepared(io::Result<(Blank, Reserve)>),
    Reserved(io::Result<Reserve>),
    Indexed(u32, std::result::Result<Index, Trouble>),
    Checkpointed(io::Result<()>),
    Discarded,
}

/// Whether there is a segment's file to fall back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    Kept,
    Missing,
}

#[derive(Default)]
pub struct Upkeep {
    preparing: bool,
    /// The reserve is used up, and when it is asked for again. Nothing new is taken in until then.
    thin_until: Option<u64>,
    reserving: bool,
    /// When the disk, which was full, is asked again.
    starved_until: Option<u64>,
    /// The segment whose index is being written.
    indexing: Vec<u32>,
    /// The segments to be given up when the checkpoint under way is on the disk, and its position.
    checkpointing: Option<(Vec<u32>, Position)>,
    /// When a checkpoint, for which there was no space, is tried again.
    refused_until: Option<u64>,
    /// The segment being emptied, and how far that is.
    compacting: Option<(u32, u32)>,
}

impl Machine {
    /// Goes on in a new segment if the active one has had its share. Called between operations, so that what one operation
    /// writes lies in one segment.
    pub(super) fn make_room(&mut self, now: Now) -> Step<()> {
        if !self.log.is_full() {
            return Ok(());
        }
        let blank = match self.log.blank.take() {
            Some(blank) => blank,
            None if self.upkeep.starved_until.is_some() || self.upkeep.preparing => return Ok(()),
            None => {
                let salt = self.dice.roll() as u32;
                match blank(
                    &*self.log.disk,
                    self.log.active + 1,
                    salt,
                    self.settings.segment_size,
                    None,
                ) {
                    Ok((blank, reserve)) => {
                        self.note_reserve(reserve, now.steady.0);
                        blank
                    }
                    Err(error) if is_full(&error) => {
                        self.upkeep.starved_until = Some(now.steady.0 + PATIENCE);
                        return Ok(());
                    }
                    Err(error) => return Err(Trouble::io(log_name(self.log.active + 1), error)),
                }
            }
        };
        let sealed = self.log.active;
        self.stamp = self.stamp.max(now.steady);
        let write = self.log.roll(blank, self.synced, self.stamp);
        self.out.writes.extend(write);
        self.index_stragglers(sealed);
        self.index_if_worth(sealed);
        self.checkpoint(now);
        Ok(())
    }

    /// A segment that should have been empty soon and is not gets its index after all, when the one after it is full.
    fn index_stragglers(&mut self, sealed: u32) {
        let in_memory = |number: &u32| {
            let segment = self.log.segment(*number);
            *number < sealed
                && segment.live_count > 0
                && matches!(segment.finder, Finder::Memory(_))
        };
        let emptying = self.upkeep.compacting.map(|(number, _)| number);
        let stragglers: Vec<u32> = self
            .log
            .segments
            .keys()
            .copied()
            .filter(in_memory)
            .collect();
        for number in stragglers
            .into_iter()
            .filter(|number| Some(*number) != emptying)
        {
            self.index(number);
        }
    }

    /// A sealed segment gets an index file, unless so little of it is left that it will be emptied soon.
    pub(super) fn index_if_worth(&mut self, number: u32) {
        let segment = self.log.segment(number);
        if segment.live_bytes * 4 >= u64::from(segment.len) {
            self.index(number);
        }
    }

    fn index(&mut self, number: u32) {
        if self.upkeep.indexing.contains(&number) {
            return;
        }
        self.upkeep.indexing.push(number);
        let segment = self.log.segment(number);
        self.out.tasks.push(Task::Index(Sealed {
            number,
            file: segment.file.clone(),
            len: segment.len,
            salts: segment.salts.clone(),
            live: segment.live.clone(),
        }));
    }

    /// Why something that takes about `bytes` cannot be written now: the disk is full, and so is what was kept for that.
    pub(super) fn no_room(&self, bytes: usize) -> Option<Error> {
        let size = self.settings.segment_size;
        let end = u64::from(self.log.position().offset) + bytes as u64 + SLACK;
        let full = self.starved() && end > size + spill(size);
        full.then(|| {
            let message = "the disk is full and no space could be made: free some, then try again";
            Error::new(Code::QueueFull, message)
        })
    }

    /// Whether operations had better wait: the next segment is just being made, and without one in reserve a full disk
    /// could leave no room for leases to end.
    pub fn stalled(&self) -> bool {
        let far = u64::from(self.log.position().offset) * 4 >= self.settings.segment_size;
        let making =
            self.upkeep.preparing || self.log.is_full() && self.upkeep.checkpointing.is_some();
        self.broken.is_none() && self.log.blank.is_none() && far && making
    }

    /// Whether what would stay must be refused, because the disk has no room for it and the reserve.
    pub(super) fn takes_nothing(&self) -> bool {
        self.starved() || self.upkeep.thin_until.is_some()
    }

    fn note_reserve(&mut self, reserve: Reserve, again: u64) {
        self.upkeep.thin_until = (reserve == Reserve::Missing).then_some(again);
    }

    /// Whether the disk has no room for another segment.
    pub(super) fn starved(&self) -> bool {
        self.upkeep.starved_until.is_some() && self.log.blank.is_none()
    }

    /// When upkeep wants to be called, on the steady clock.
    pub(super) fn upkeep_due(&self, now: Now) -> Option<u64> {
        if self.upkeep.compacting.is_some() {
            return Some(now.steady.0);
        }
        let asking = self.upkeep.preparing;
        let space = self
            .upkeep
            .starved_until
            .filter(|_| !asking && self.log.blank.is_none());
        let refused = self
            .upkeep
            .refused_until
            .filter(|_| !self.empty_segments().is_empty());
        let thin = self
            .upkeep
            .thin_until
            .filter(|_| !self.upkeep.reserving && !asking);
        [space, refused, thin].into_iter().flatten().min()
    }

    /// Does a bite of what keeps the log short.
    pub(super) fn tend(&mut self, now: Now) {
        if self.broken.is_some() {
            return;
        }
        if let Err(trouble) = self.compact(now) {
            self.fail(trouble);
            return;
        }
        self.prepare(now);
        let wait = self
            .upkeep
            .refused_until
            .is_some_and(|until| until > now.steady.0);
        if !wait && self.upkeep.checkpointing.is_none() && !self.empty_segments().is_empty() {
            self.commit(now);
            self.checkpoint(now);
        }
    }

    /// Asks for the next segment's file soon after this one was begun: it is the reserve for when the disk is full. A new
    /// store that stays small does without.
    fn prepare(&mut self, now: Now) {
        let begun = u64::from(self.log.position().offset) * 8 >= self.settings.segment_size;
        let wait = self
            .upkeep
            .starved_until
            .is_some_and(|until| until > now.steady.0);
        if self.log.blank.is_none() && !self.upkeep.preparing && begun && !wait {
            self.ask_for_blank(None);
        }
        let thin = self.upkeep.thin_until;
        if thin.is_some_and(|until| until <= now.steady.0) && !self.upkeep.preparing {
            self.ask_for_reserve(None);
        }
    }

    fn ask_for_reserve(&mut self, reuse: Option<String>) {
        if !self.upkeep.reserving {
            self.upkeep.reserving = true;
            let size = self.settings.segment_size;
            self.out.tasks.push(Task::Reserve { size, reuse });
        }
    }

    fn ask_for_blank(&mut self, reuse: Option<String>) {
        self.upkeep.preparing = true;
        let (number, salt, size) = (
            self.log.active + 1,
            self.dice.roll() as u32,
            self.settings.segment_size,
        );
        self.out.tasks.push(Task::Prepare {
            number,
            salt,
            size,
            reuse,
        });
    }

    /// Sealed segments of which nothing is needed any more.
    fn empty_segments(&self) -> Vec<u32> {
        let busy = &self.upkeep.indexing;
        let empty = |number: &&u32| {
            let segment = &self.log.segments[*number];
            segment.live_count == 0 && **number != self.log.active && !busy.contains(number)
        };
        self.log.segments.keys().filter(empty).copied().collect()
    }

    /// Asks for a checkpoint of the state as it is now. The group being built must be empty.
    fn checkpoint(&mut self, _now: Now) {
        if self.upkeep.checkpointing.is_some() {
            return;
        }
        let freed = self.empty_segments();
        let position = self.log.position();
        let body = self.encode_checkpoint(&freed);
        let unsynced = self.log.segments.range(self.synced.segment..);
        let sync = unsynced.map(|(_, segment)| segment.file.clone()).collect();
        self.upkeep.checkpointing = Some((freed, position));
        self.out.tasks.push(Task::Checkpoint { sync, body });
    }

    /// Takes in what became of a task.
    pub fn done(&mut self, done: Done, now: Now) {
        if self.broken.is_some() {
            return;
        }
        if let Err(trouble) = self.take_done(done, now) {
            self.fail(trouble);
        }
    }

    fn take_done(&mut self, done: Done, now: Now) -> Step<()> {
        match done {
            Done::Prepared(made) => {
                self.upkeep.preparing = false;
                self.upkeep.starved_until = None;
                if let Ok((_, reserve)) = &made {
                    self.note_reserve(*reserve, now.steady.0 + PATIENCE);
                }
                match made {
                    Ok((blank, _))
                        if blank.number == self.log.active + 1 && self.log.blank.is_none() =>
                    {
                        self.log.blank = Some(blank);
                    }
                    // The active segment has moved on meanwhile.
                    Ok(_) => {}
                    Err(error) if is_full(&error) => {
                        self.upkeep.starved_until = Some(now.steady.0 + PATIENCE)
                    }
                    Err(error) => return Err(Trouble::io(log_name(self.log.active + 1), error)),
                }
            }
            Done::Indexed(number, index) => {
                self.upkeep.indexing.retain(|other| *other != number);
                match index {
                    Ok(index) => self.adopt_index(number, index)?,
                    // It stays in memory until there is space.
                    Err(Trouble::Io { error, .. }) if is_full(&error) => {}
                    Err(trouble) => return Err(trouble),
                }
            }
            Done::Checkpointed(written) => {
                let Some((freed, position)) = self.upkeep.checkpointing.take() else {
                    return Ok(());
                };
                match written {
                    Ok(()) => self.give_up(freed, position),
                    Err(error) if is_full(&error) => {
                        self.upkeep.refused_until = Some(now.steady.0 + PATIENCE);
                    }
                    Err(error) => return Err(Trouble::io(CHECKPOINT, error)),
                }
            }
            Done::Reserved(reserve) => {
                self.upkeep.reserving = false;
                let reserve = reserve.map_err(|error| Trouble::io(RESERVE, error))?;
                self.note_reserve(reserve, now.steady.0 + PATIENCE);
            }
            Done::Discarded => {}
        }
        Ok(())
    }

    /// Lets go of segments that the checkpoint on the disk does without.
    fn give_up(&mut self, freed: Vec<u32>, position: Position) {
        self.checkpointed = position.segment;
        let mut names = Vec::new();
        for number in freed {
            let indexed = self
                .log
                .remove(number)
                .is_some_and(|segment| matches!(segment.finder, Finder::File(_)));
            self.detach(number);
            if indexed {
                names.push(index_name(number));
            }
            if self.log.blank.is_none() && !self.upkeep.preparing {
                self.ask_for_blank(Some(log_name(number)));
            } else if self.upkeep.thin_until.is_some() && !self.upkeep.reserving {
                self.ask_for_reserve(Some(log_name(number)));
            } else {
                names.push(log_name(number));
            }
        }
        if !names.is_empty() {
            self.out.tasks.push(Task::Discard(names));
        }
    }

    /// The index file takes over from memory.
    fn adopt_index(&mut self, number: u32, index: Index) -> Step<()> {
        if let Some(segment) = self.log.segments.get_mut(&number) {
            segment.finder = Finder::File(index);
            self.detach(number);
            self.attach_lines(number, None)?;
        }
        Ok(())
    }

    /// Forgets what the streams and maps know about a segment's records.
    fn detach(&mut self, number: u32) {
        for queue in &mut self.queues {
            for lane in queue.lanes.values_mut() {
                for line in lane.lines_mut() {
                    line.steady.detach(number);
                    line.wall.detach(number);
                }
            }
        }
        self.expiry
            .iter_mut()
            .chain([&mut self.keep])
            .for_each(|stream| stream.detach(number));
        self.recent_dead.retain(|_, place| place.segment != number);
        self.recent_done.retain(|_, place| place.segment != number);
        self.recent_keys.retain(|_, places| {
            places.retain(|place| place.segment != number);
            !places.is_empty()
        });
    }

    /// Lines up what a segment's index file has, for all queues or for one.
    pub(super) fn attach_lines(&mut self, number: u32, only: Option<u32>) -> Step<()> {
        let Finder::File(index) = &self.log.segment(number).finder else {
            return Ok(());
        };
        let streams: Vec<_> = match only {
            None => index.streams().collect(),
            Some(queue) => {
                let from = crate::index::StreamKey {
                    queue,
                    ..Default::default()
                };
                index
                    .streams_from(&from)
                    .take_while(|(key, _)| key.queue == queue)
                    .collect()
            }
        };
        for (key, range) in streams {
            let base = classes::base(key.class);
            let Machine {
                queues,
                expiry,
                keep,
                log,
                ..
            } = self;
            match key.class & !1 {
                classes::EXPIRY => expiry[base as usize].attach(log, number, range)?,
                classes::KEEP => keep.attach(log, number, range)?,
                class @ (classes::LINE | classes::TURN) => {
                    let queue = &mut queues[key.queue as usize];
                    let fair = queue.config.fair;
                    // A fair queue goes by its groups; the others by the one line of all.
                    let group = match (class, fair) {
                        (classes::LINE, false) => 0,
                        (classes::LINE, true) if key.group == 0 => 0,
                        (classes::TURN, true) => key.group,
                        _ => continue,
                    };
                    let line = queue.lanes.line(key.priority, group, fair);
                    line.stream(base).attach(log, number, range)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Empties the segment that has the least left, a bite at a time, while the log is longer than it should be.
    fn compact(&mut self, now: Now) -> Step<()> {
        if self.upkeep.compacting.is_none() {
            self.upkeep.compacting = self.worst_segment().map(|number| (number, 0));
        }
        let Some((number, mut at)) = self.upkeep.compacting else {
            return Ok(());
        };
        let stop = self.log.position();
        let start = self.log_bytes();
        loop {
            let Some(segment) = self
                .log
                .segments
                .get(&number)
                .filter(|segment| segment.live_count > 0)
            else {
                self.upkeep.compacting = None;
                return Ok(());
            };
            let (place, end) = match &segment.finder {
                Finder::Memory(recent) => {
                    let place = (at < segment.count).then(|| Place {
                        segment: number,
                        ord: at,
                        offset: recent.offset(at),
                    });
                    (place, segment.count)
                }
                Finder::File(index) => {
                    let end = index.entries();
                    let place = if at < end {
                        Some(self.log.entry(number, at)?.place)
                    } else {
                        None
                    };
                    (place, end)
                }
            };
            let Some(place) = place else {
                let what = format!("{} current records are not in the segment's index", end);
                return Err(Trouble::damaged(log_name(number), 0, what));
            };
            at += 1;
            self.upkeep.compacting = Some((number, at));
            if self.log.is_live(place) {
                self.make_room(now)?;
                if self.starved() && self.log.is_full() {
                    // There is no room to copy to; it comes with the next segment that empties by itself.
                    self.upkeep.compacting = None;
                    return Ok(());
                }
                self.copy(place)?;
            }
            let moved = self.log_bytes().saturating_sub(start);
            if moved >= BITE as u64
                || at.is_multiple_of(4096)
                || self.log.position().segment > stop.segment
            {
                return Ok(());
            }
        }
    }

    fn log_bytes(&self) -> u64 {
        let Position { segment, offset } = self.log.position();
        u64::from(segment) << 32 | u64::from(offset)
    }

    /// The segment to be emptied next, if the log is too long.
    fn worst_segment(&self) -> Option<u32> {
        if self.starved() && self.log.is_full() {
            return None;
        }
        let size = self.settings.segment_size;
        let emptied: u64 = self
            .empty_segments()
            .iter()
            .map(|number| u64::from(self.log.segment(*number).len))
            .sum();
        if self.log.size() - emptied <= 2 * self.log.live_size() + size && !self.takes_nothing() {
            return None;
        }
        let share = |number: &u32| {
            let segment = &self.log.segments[number];
            segment.live_bytes * 1000 / u64::from(segment.len).max(1)
        };
        let idle = |number: &&u32| {
            **number != self.log.active
                && !self.upkeep.indexing.contains(number)
                && self.log.segments[*number].live_count > 0
        };
        let worst = self
            .log
            .segments
            .keys()
            .filter(idle)
            .min_by_key(|number| share(number))
            .copied()?;
        // Copying what is nearly all live would gain nothing, and on a full disk there is no room for much.
        let most = if self.takes_nothing() { 500 } else { 900 };
        (share(&worst) < most).then_some(worst)
    }

    /// Copies a current record to the end of the log.
    fn copy(&mut self, place: Place) -> Step<()> {
        let job = self.log.lend(place)?;
        let leased = self.leases.contains_key(&job.id.0);
        let from = if leased {
            From::Leased
        } else {
            Machine::gone_from(&job)
        };
        let previous = Previous {
            place,
            payload: job.payload.len() as u32,
            weight: job.weight,
            line: job.line(),
        };
        self.put(None, from, Some(previous), job);
        Ok(())
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl Task {
    /// Does the work.
    pub fn run(self, disk: &dyn Disk) -> Done {
        match self {
            Task::Prepare {
                number,
                salt,
                size,
                reuse,
            } => {
                let made = blank(disk, number, salt, size, reuse.as_deref());
                Done::Prepared(made.and_then(|(blank, _)| Ok((blank, fill_up(disk, size)?))))
            }
            Task::Reserve { size, reuse } => {
                if let Some(old) = reuse {
                    // If it cannot be had, it is made anew below, or not at all.
                    let _ = disk.rename(&old, RESERVE);
                }
                Done::Reserved(fill_up(disk, size))
            }
            Task::Index(sealed) => Done::Indexed(sealed.number, sealed.index(disk)),
            Task::Checkpoint { sync, body } => {
                Done::Checkpointed(write_checkpoint(disk, &sync, &body))
            }
            Task::Discard(names) => {
                // What stays behind is removed at the next start.
                names.iter().for_each(|name| drop(disk.remove(name)));
                Done::Discarded
            }
        }
    }
}

/// Makes the next segment's file; on a full disk out of the reserve, which is then missing.
fn blank(
    disk: &dyn Disk,
    number: u32,
    salt: u32,
    size: u64,
    reuse: Option<&str>,
) -> io::Result<(Blank, Reserve)> {
    match Blank::make(disk, number, salt, size, reuse) {
        Err(error) if is_full(&error) => Blank::make(disk, number, salt, size, Some(RESERVE))
            .map(|blank| (blank, Reserve::Missing))
            .map_err(|_| error),
        made => made.map(|blank| (blank, Reserve::Kept)),
    }
}

/// Sees to it that what a full disk is got out of with is there: without it nothing is lost, but nothing more is taken in.
fn fill_up(disk: &dyn Disk, size: u64) -> io::Result<Reserve> {
    let ballast = weigh_down(disk, BALLAST, (size / 16).max(64 << 10));
    let reserve = weigh_down(disk, RESERVE, size + spill(size));
    match ballast.and(reserve) {
        Ok(()) => Ok(Reserve::Kept),
        Err(error) if is_full(&error) => Ok(Reserve::Missing),
        Err(error) => Err(error),
    }
}

fn weigh_down(disk: &dyn Disk, name: &str, size: u64) -> io::Result<()> {
    if disk
        .open(name)
        .and_then(|file| file.len())
        .is_ok_and(|len| len >= size)
    {
        return Ok(());
    }
    let made = disk.create(name).and_then(|file| file.allocate(size));
    if made.is_err() {
        // Half of it would count as all of it next time.
        let _ = disk.remove(name);
    }
    made
}

fn write_checkpoint(disk: &dyn Disk, sync: &[Arc<dyn DiskFile>], body: &[u8]) -> io::Result<()> {
    for file in sync {
        file.sync()?;
    }
    match snapshot::write(disk, CHECKPOINT, super::checkpoint::VERSION, body) {
        Err(error) if is_full(&error) => {
            // It may be gone already; then there is nothing to give.
            let _ = disk.remove(BALLAST);
            snapshot::write(disk, CHECKPOINT, super::checkpoint::VERSION, body)
        }
        other => other,
    }
}

impl Sealed {
    /// Reads the segment and writes its index file, with the records that are current.
    fn index(self, disk: &dyn Disk) -> std::result::Result<Index, Trouble> {
        let draft = self.draft()?;
        let name = index_name(self.number);
        draft
            .write(disk, &name)
            .map_err(|error| Trouble::io(&name, error))?;
        Index::open(disk, &name, u64::from(self.number))
    }

    fn draft(&self) -> std::result::Result<Draft, Trouble> {
        let mut draft = Draft {
            segment: u64::from(self.number),
            entries: Vec::new(),
            ids: Vec::new(),
            keys: Vec::new(),
        };
        let name = log_name(self.number);
        // A piece at a time: a whole segment would be most of the memory the store takes.
        let (mut piece, mut start) = (Vec::new(), HEADER);
        let own = self.salts.first().map_or(0, |(_, salt)| *salt);
        let (mut offset, mut ord) = (HEADER, 0);
        while offset < self.len {
            let rest: &[u8] = piece.get((offset - start) as usize..).unwrap_or_default();
            let len = record::frame_len(rest);
            let left = (self.len - offset) as usize;
            if len.is_none_or(|len| len > rest.len()) && rest.len() < left {
                piece.resize(len.unwrap_or(0).max(PIECE).min(left), 0);
                crate::disk::read_exact_at(&*self.file, &name, u64::from(offset), &mut piece)?;
                start = offset;
                continue;
            }
            let bad = || {
                Trouble::damaged(
                    &name,
                    u64::from(offset),
                    "this is not the record that was written here",
                )
            };
            // Every record is checked, needed or not: one that is taken for another kind would shift the numbers of all
            // that follow, and jobs would be missing from the index.
            let after = self.salts.partition_point(|(from, _)| *from <= offset);
            let salt = self.salts[after.saturating_sub(1)].1;
            let body = record::unframe(rest, offset, salt, own).ok_or_else(bad)?;
            if record::is_job(body) {
                if self.live.get(ord) {
                    let job = record::decode_job(body, None).ok_or_else(bad)?;
                    classes::streams(&job, ord, offset, |key, entry| {
                        draft.entries.push((key, entry))
                    });
                    draft.ids.push((job.id.0, ord, offset));
                    draft
                        .keys
                        .extend(job.key_hash().map(|hash| (hash, ord, offset)));
                }
                ord += 1;
            }
            offset += (HEAD + body.len()) as u32;
        }
        Ok(draft)
    }
}
