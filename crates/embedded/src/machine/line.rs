//! The jobs of a queue that wait: one lane per priority, and within a lane one line, or one per group that take turns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use auxo_core::time::{Base, Due, Now, Timestamp};

use crate::damage::Trouble;
use crate::log::Log;
use crate::stream::{Spot, Stream};

/// Jobs of one line. Those due by the steady clock and those due by the wall clock are kept apart, because a step of the
/// wall clock shifts one against the other.
#[derive(Default)]
pub struct Line {
    pub steady: Stream,
    pub wall: Stream,
}

impl Line {
    pub fn stream(&mut self, base: Base) -> &mut Stream {
        match base {
            Base::Steady => &mut self.steady,
            Base::Wall => &mut self.wall,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.steady.is_empty() && self.wall.is_empty()
    }

    /// The first job in line, and when it is due on the steady clock.
    fn head(&mut self, log: &mut Log, now: Now) -> Result<Option<(u64, Spot)>, Trouble> {
        let steady = self.steady.head(log)?.map(|spot| (spot.time, spot));
        let wall = self
            .wall
            .head(log)?
            .map(|spot| (on_steady(spot.time, now), spot));
        Ok([steady, wall]
            .into_iter()
            .flatten()
            .min_by_key(|(time, spot)| (*time, spot.id)))
    }
}

/// A place in a wall clock's line, as the steady clock will show it. The front stays the front.
fn on_steady(time: u64, now: Now) -> u64 {
    if time == 0 {
        0
    } else {
        now.on_steady(Due {
            at: Timestamp(time),
            base: Base::Wall,
        })
        .0
    }
}

/// The jobs of one priority.
pub enum Lane {
    Plain(Line),
    Fair(Turns),
}

/// Groups that take turns.
#[derive(Default)]
pub struct Turns {
    groups: BTreeMap<u64, Group>,
    /// The groups that may have something due, in the order of their turns.
    ring: VecDeque<u64>,
    /// The groups that have nothing due, by when they will.
    parked: BTreeSet<(u64, u64)>,
}

#[derive(Default)]
struct Group {
    line: Line,
    parked: Option<u64>,
}

impl Lane {
    pub fn new(fair: bool) -> Lane {
        if fair {
            Lane::Fair(Turns::default())
        } else {
            Lane::Plain(Line::default())
        }
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Lane::Plain(line) => line.is_empty(),
            Lane::Fair(turns) => turns.groups.is_empty(),
        }
    }

    /// The line a job of this group waits in; asking for it means that it is about to get a job.
    pub fn line(&mut self, group: u64) -> &mut Line {
        match self {
            Lane::Plain(line) => line,
            Lane::Fair(turns) => turns.line(group),
        }
    }

    /// The first group behind `after`, or the first of all.
    pub fn group_after(&self, after: Option<u64>) -> Option<u64> {
        match self {
            Lane::Plain(_) => after.is_none().then_some(0),
            Lane::Fair(turns) => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                turns
                    .groups
                    .range((from, Bound::Unbounded))
                    .next()
                    .map(|(hash, _)| *hash)
            }
        }
    }

    /// The line of a group, if it has one.
    pub fn line_of(&self, group: u64) -> Option<&Line> {
        match self {
            Lane::Plain(line) => (group == 0).then_some(line),
            Lane::Fair(turns) => turns.groups.get(&group).map(|group| &group.line),
        }
    }

    /// Every line of the lane.
    pub fn lines(&self) -> Vec<&Line> {
        match self {
            Lane::Plain(line) => vec![line],
            Lane::Fair(turns) => turns.groups.values().map(|group| &group.line).collect(),
        }
    }

    pub fn lines_mut(&mut self) -> Vec<&mut Line> {
        match self {
            Lane::Plain(line) => vec![line],
            Lane::Fair(turns) => turns
                .groups
                .values_mut()
                .map(|group| &mut group.line)
                .collect(),
        }
    }

    /// The next job to hand out, if one is due. It stays in line until its segment says otherwise.
    pub fn due(&mut self, log: &mut Log, now: Now) -> Result<Option<Spot>, Trouble> {
        match self {
            Lane::Plain(line) => Ok(line
                .head(log, now)?
                .filter(|(time, _)| *time <= now.steady.0)
                .map(|(_, spot)| spot)),
            Lane::Fair(turns) => turns.due(log, now),
        }
    }

    /// When the next job is due on the steady clock; asked after [`Lane::due`] found none.
    pub fn next(&mut self, log: &mut Log, now: Now) -> Result<Option<u64>, Trouble> {
        match self {
            Lane::Plain(line) => Ok(line.head(log, now)?.map(|(time, _)| time)),
            Lane::Fair(turns) if turns.ring.is_empty() => {
                Ok(turns.parked.first().map(|(time, _)| *time))
            }
            Lane::Fair(_) => Ok(Some(now.steady.0)),
        }
    }

    /// Begins the turns at another group: which one was served last is not stored, and with a fixed beginning a store that
    /// is opened for one lease at a time would serve the same group for ever.
    pub fn shuffle(&mut self, dice: u64) {
        if let Lane::Fair(turns) = self
            && !turns.ring.is_empty()
        {
            let by = dice % turns.ring.len() as u64;
            turns.ring.rotate_left(by as usize);
        }
    }

    /// Looks at every group again: the wall clock was stepped.
    pub fn unpark(&mut self) {
        if let Lane::Fair(turns) = self {
            for (_, hash) in std::mem::take(&mut turns.parked) {
                if let Some(group) = turns.groups.get_mut(&hash) {
                    group.parked = None;
                }
                turns.ring.push_back(hash);
            }
        }
    }
}

impl Turns {
    fn line(&mut self, hash: u64) -> &mut Line {
        let mut new = false;
        let group = self.groups.entry(hash).or_insert_with(|| {
            new = true;
            Group::default()
        });
        if let Some(time) = group.parked.take() {
            self.parked.remove(&(time, hash));
            new = true;
        }
        if new {
            self.ring.push_back(hash);
        }
        &mut group.line
    }

    fn due(&mut self, log: &mut Log, now: Now) -> Result<Option<Spot>, Trouble> {
        while let Some((time, hash)) = self
            .parked
            .first()
            .copied()
            .filter(|(time, _)| *time <= now.steady.0)
        {
            self.parked.remove(&(time, hash));
            self.ring.push_back(hash);
            if let Some(group) = self.groups.get_mut(&hash) {
                group.parked = None;
            }
        }
        while let Some(hash) = self.ring.pop_front() {
            let Some(group) = self.groups.get_mut(&hash) else {
                continue;
            };
            match group.line.head(log, now)? {
                Some((time, spot)) if time <= now.steady.0 => {
                    self.ring.push_back(hash);
                    return Ok(Some(spot));
                }
                Some((time, _)) => {
                    group.parked = Some(time);
                    self.parked.insert((time, hash));
                }
                None => {
                    self.groups.remove(&hash);
                }
            }
        }
        Ok(None)
    }
}
