//! Keeping the log short: sealing, checkpoints, compaction, and the files behind them.
//!
//! The machine only says what it wants; a [`Task`] does the slow part elsewhere and reports back with [`Done`]. A segment
//! is given up when none of its records is current any more and a checkpoint that knows so is on the disk. When the log is
//! more than twice as long as what is live in it, the segment with the least left is emptied by copying that to the end,
//! so neither endless retries nor one old job can keep disk space for themselves.

mod compact;
mod lines;
mod task;

use std::collections::BTreeSet;
use std::sync::Arc;

use auxo_core::time::Now;
use auxo_core::{Code, Error};

pub use self::task::{Done, Reserve, Task};
use self::task::{blank, is_full};
use super::{Machine, Step};
use crate::damage::Trouble;
use crate::disk::DiskFile;
use crate::record::Position;
use crate::road::PIECE;
use crate::sealed::Sealed;
use crate::segment::{Finder, index_name, log_name, spill};

pub const CHECKPOINT: &str = "checkpoint";
/// A segment's file in waiting, for when the disk is full. Leases and acks leave nothing behind that is needed for long: a
/// segment of them is empty by the next checkpoint, so with one file more than the last one they can go on for ever.
const RESERVE: &str = "reserve";
/// What a record takes besides its payload, roughly and rather more.
const SLACK: u64 = 4096;
/// How long to wait before asking a full disk again, in milliseconds.
const PATIENCE: u64 = 1000;

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
    /// How much space the next checkpoint may need.
    ballast: u64,
    paving: bool,
    /// How many bytes a group has, over the last few.
    usual: usize,
    /// Segments whose index file was made anew because it was damaged.
    replaced: BTreeSet<u32>,
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
        let write = self.log.roll(blank, self.safe(), self.stamp);
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
        let (sync, sealed) = (self.unsynced(), Sealed::of(self.log.segment(number)));
        self.out.tasks.push(Task::Index { sync, sealed });
    }

    /// Segments whose index turned out to be damaged get a new file. Once is enough: where that one is damaged as well,
    /// the disk is not to be trusted with a third, and the index stays in memory.
    fn replace_mended(&mut self) {
        let emptying = self.upkeep.compacting.map(|(number, _)| number);
        for number in std::mem::take(&mut self.log.mended) {
            let there = self.log.segments.contains_key(&number) && Some(number) != emptying;
            if there && self.upkeep.replaced.insert(number) {
                self.index(number);
            }
        }
    }

    /// Why something that takes about `bytes` cannot be written now: the disk is full, and so is what was kept for that.
    pub fn no_room(&self, bytes: usize) -> Option<Error> {
        let size = self.settings.segment_size;
        let end = u64::from(self.log.position().offset) + bytes as u64 + SLACK;
        let full = self.starved() && end > size;
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
    pub fn takes_nothing(&self) -> bool {
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
        self.replace_mended();
        self.prepare(now);
        self.pave();
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

    /// Asks for zeros in front of the log, in steps that hold up a sync for a few milliseconds only. A store that stays small
    /// does without. So does one whose groups are large: there a sync takes the time that its bytes take, and zeros would be
    /// as many again.
    fn pave(&mut self) {
        let size = self.settings.segment_size;
        let at = u64::from(self.log.position().offset);
        let begun = at * 512 >= size;
        self.upkeep.usual = match (self.upkeep.usual, self.log.pending()) {
            (usual, 0) => usual,
            (0, first) => first,
            (usual, group) => (usual * 7 + group) / 8,
        };
        let is_much = self.upkeep.usual > PIECE;
        if !self.settings.pave || !begun || is_much || self.upkeep.paving {
            return;
        }
        let Some(road) = &self.log.road else { return };
        // The group of this round is not in the file yet.
        let (paved, last) = (road.end().max(at), size - spill(size));
        if paved < last && paved < at + size / 32 {
            self.upkeep.paving = true;
            let upto = (paved + (size / 128).max(PIECE as u64)).min(last);
            let road = road.clone();
            let number = self.log.active;
            self.out.tasks.push(Task::Pave { number, road, upto });
        }
    }

    fn ask_for_reserve(&mut self, reuse: Option<String>) {
        if !self.upkeep.reserving {
            self.upkeep.reserving = true;
            let size = self.settings.segment_size;
            let ballast = self.ballast();
            self.out.tasks.push(Task::Reserve {
                size,
                ballast,
                reuse,
            });
        }
    }

    fn ask_for_blank(&mut self, reuse: Option<String>) {
        self.upkeep.preparing = true;
        let (number, salt, size) = (
            self.log.active + 1,
            self.dice.roll() as u32,
            self.settings.segment_size,
        );
        let ballast = self.ballast();
        self.out.tasks.push(Task::Prepare {
            number,
            salt,
            size,
            ballast,
            reuse,
        });
    }

    /// Asks for the next segment's file again, because a task made space after the last try failed. Until the file is there, the machine
    /// may have to refuse settles.
    fn ask_again(&mut self) {
        if self.starved() && !self.upkeep.preparing {
            self.ask_for_blank(None);
        }
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
        let sync = self.unsynced();
        self.upkeep.checkpointing = Some((freed, position));
        // The next one may be larger: by what a segment of leases adds, and that is not known before.
        self.upkeep.ballast = 2 * body.len() as u64;
        let ballast = self.ballast();
        self.out.tasks.push(Task::Checkpoint {
            sync,
            body,
            ballast,
        });
    }

    /// The files with records that may not be on the disk.
    fn unsynced(&self) -> Vec<Arc<dyn DiskFile>> {
        let unsynced = self.log.segments.range(self.safe().segment..);
        unsynced.map(|(_, segment)| segment.file.clone()).collect()
    }

    /// How much space is kept for the next checkpoint: it is written beside the last one.
    fn ballast(&self) -> u64 {
        let least = (self.settings.segment_size / 16).max(64 << 10);
        self.upkeep.ballast.max(least)
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
                    // Read back at once and already damaged: the segment does without.
                    Err(trouble) if trouble.is_damage() && trouble.file() == index_name(number) => {
                    }
                    Err(trouble) => return Err(trouble),
                }
            }
            Done::Checkpointed(written) => {
                let Some((freed, position)) = self.upkeep.checkpointing.take() else {
                    return Ok(());
                };
                match written {
                    Ok(reserve) => {
                        self.give_up(freed, position);
                        if reserve == Reserve::Missing {
                            self.note_reserve(reserve, now.steady.0 + PATIENCE);
                        }
                    }
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
                if reserve == Reserve::Kept {
                    self.ask_again();
                }
            }
            Done::Paved(number, paved) => {
                self.upkeep.paving = false;
                match paved {
                    Ok(()) => {}
                    // What was reserved is not there after all: it is found out when it is needed, and not here.
                    Err(error) if is_full(&error) => {
                        self.log.road.take_if(|_| number == self.log.active);
                    }
                    Err(error) => return Err(Trouble::io(log_name(number), error)),
                }
            }
            Done::Discarded => self.ask_again(),
        }
        Ok(())
    }

    /// Lets go of segments that the checkpoint on the disk does without.
    fn give_up(&mut self, freed: Vec<u32>, position: Position) {
        self.checkpointed = position;
        self.detach(&freed);
        let mut names = Vec::new();
        for number in freed {
            let indexed = self
                .log
                .remove(number)
                .is_some_and(|segment| matches!(segment.finder, Finder::File(_)));
            self.upkeep.replaced.remove(&number);
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
}
