//! Compaction: the segment that has the least left is emptied by copying that to the end of the log.

use auxo_core::time::Now;

use super::super::{Machine, Step};
use crate::damage::Trouble;
use crate::record::{From, Place, Position, Previous};
use crate::segment::{Finder, log_name};

/// How much compaction copies before others get their turn.
const BITE: usize = 256 << 10;

impl Machine {
    /// Empties the segment that has the least left, a bite at a time, while the log is longer than it should be.
    pub(super) fn compact(&mut self, now: Now) -> Step<()> {
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
