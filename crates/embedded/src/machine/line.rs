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
    pub fn of(&self, base: Base) -> &Stream {
        match base {
            Base::Steady => &self.steady,
            Base::Wall => &self.wall,
        }
    }

    pub fn stream(&mut self, base: Base) -> &mut Stream {
        match base {
            Base::Steady => &mut self.steady,
            Base::Wall => &mut self.wall,
        }
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

/// The next job of a queue.
#[derive(Clone, Copy)]
pub struct Head {
    priority: u32,
    /// When it was due, on the steady clock.
    time: u64,
    pub spot: Spot,
}

/// The order in which the next jobs of several queues are handed out: priority, due time, age.
pub type Rank = (u32, u64, u64);

impl Head {
    pub fn rank(&self) -> Rank {
        (self.priority, self.time, self.spot.id)
    }
}

/// Whether the group of a job that was found has had its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    Taken,
    /// It was only looked at.
    Kept,
}

/// Empty lanes are kept for the next job of their priority, up to so many.
const SPARE_LANES: usize = 64;

/// The lanes of a queue. What is handed out comes from the first lane that has something due, and finding it must not
/// mean to pass by all the others each time: there may be one for every job.
#[derive(Default)]
pub struct Lanes {
    lanes: BTreeMap<u32, Slot>,
    /// The lanes that may have something due.
    open: BTreeSet<u32>,
    /// The lanes that have nothing due, by when they will on the steady clock.
    parked: BTreeSet<(u64, u32)>,
}

struct Slot {
    lane: Lane,
    parked: Option<u64>,
}

impl Lanes {
    /// The line a job waits in; asking for it means that it is about to get a job.
    pub fn line(&mut self, priority: u32, group: u64, fair: bool) -> &mut Line {
        let slot = self.lanes.entry(priority).or_insert_with(|| Slot {
            lane: Lane::new(fair),
            parked: None,
        });
        if let Some(time) = slot.parked.take() {
            self.parked.remove(&(time, priority));
        }
        self.open.insert(priority);
        slot.lane.line(group)
    }

    pub fn clear(&mut self) {
        *self = Lanes::default();
    }

    pub fn get(&self, priority: u32) -> Option<&Lane> {
        self.lanes.get(&priority).map(|slot| &slot.lane)
    }

    /// The lanes from a priority on.
    pub fn from(&self, priority: u32) -> impl Iterator<Item = (u32, &Lane)> {
        let slots = self.lanes.range(priority..);
        slots.map(|(priority, slot)| (*priority, &slot.lane))
    }

    pub fn values(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.values().map(|slot| &slot.lane)
    }

    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.lanes.values_mut().map(|slot| &mut slot.lane)
    }

    /// The next job to hand out, if one is due. It stays in line until its segment says otherwise.
    pub fn due(&mut self, log: &mut Log, now: Now, turn: Turn) -> Result<Option<Head>, Trouble> {
        while let Some((time, priority)) = self
            .parked
            .first()
            .copied()
            .filter(|(time, _)| *time <= now.steady.0)
        {
            self.parked.remove(&(time, priority));
            self.open.insert(priority);
            if let Some(slot) = self.lanes.get_mut(&priority) {
                slot.parked = None;
            }
        }
        while let Some(priority) = self.open.first().copied() {
            if let Some(slot) = self.lanes.get_mut(&priority) {
                if let Some((time, spot)) = slot.lane.due(log, now, turn)? {
                    return Ok(Some(Head {
                        priority,
                        time,
                        spot,
                    }));
                }
                let next = slot.lane.next(log, now)?;
                slot.parked = next;
                match next {
                    Some(time) => {
                        self.parked.insert((time, priority));
                    }
                    None if self.lanes.len() > SPARE_LANES => {
                        self.lanes.remove(&priority);
                    }
                    None => {}
                }
            }
            self.open.remove(&priority);
        }
        Ok(None)
    }

    /// When to look for the next due job, on the steady clock: now, unless [`Lanes::due`] has just found none.
    pub fn next(&self, now: Now) -> Option<u64> {
        if self.open.is_empty() {
            self.parked.first().map(|(time, _)| *time)
        } else {
            Some(now.steady.0)
        }
    }

    /// Looks at every lane again: the wall clock was stepped.
    pub fn unpark(&mut self) {
        for (_, priority) in std::mem::take(&mut self.parked) {
            self.open.insert(priority);
        }
        for slot in self.lanes.values_mut() {
            slot.parked = None;
            slot.lane.unpark();
        }
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
    fn new(fair: bool) -> Lane {
        if fair {
            Lane::Fair(Turns::default())
        } else {
            Lane::Plain(Line::default())
        }
    }

    /// The line a job of this group waits in; asking for it means that it is about to get a job.
    fn line(&mut self, group: u64) -> &mut Line {
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

    /// The next job to hand out, if one is due, and since when on the steady clock.
    fn due(&mut self, log: &mut Log, now: Now, turn: Turn) -> Result<Option<(u64, Spot)>, Trouble> {
        match self {
            Lane::Plain(line) => Ok(line
                .head(log, now)?
                .filter(|(time, _)| *time <= now.steady.0)),
            Lane::Fair(turns) => turns.due(log, now, turn),
        }
    }

    /// When the next job is due on the steady clock; asked after [`Lane::due`] found none.
    fn next(&mut self, log: &mut Log, now: Now) -> Result<Option<u64>, Trouble> {
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
    fn unpark(&mut self) {
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

    fn due(&mut self, log: &mut Log, now: Now, turn: Turn) -> Result<Option<(u64, Spot)>, Trouble> {
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
                    match turn {
                        Turn::Taken => self.ring.push_back(hash),
                        Turn::Kept => self.ring.push_front(hash),
                    }
                    return Ok(Some((time, spot)));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use auxo_core::clock::{Clock, ManualClock};
    use auxo_core::engine::{Ask, Pick};
    use auxo_core::time::When;
    use auxo_core::{JobSpec, NewJob, QueueName};

    use super::super::{Machine, Op, Settings};
    use super::*;
    use crate::dice::Dice;
    use crate::disk::SimDisk;

    fn name() -> QueueName {
        QueueName::new("q").expect("a good name")
    }

    fn push(machine: &mut Machine, priority: u32, when: When, now: Now) {
        let spec = JobSpec {
            priority,
            when,
            ..JobSpec::default()
        };
        let queue = name();
        machine.apply(1, Op::Push(vec![NewJob { queue, spec }]), now);
    }

    fn lease(machine: &mut Machine, now: Now) -> usize {
        let ask = Ask {
            queues: vec![name()],
            job: None,
            pick: Pick::First,
            max: 1,
            wait: Duration::ZERO,
            ttr: None,
            worker: Arc::from("w"),
        };
        let before = machine.leases.len();
        machine.apply(2, Op::Lease(ask), now);
        machine.leases.len() - before
    }

    #[test]
    fn lanes_without_a_due_job_are_passed_by_once() {
        let settings = Settings {
            segment_size: 64 << 10,
            node: Arc::from(""),
            max_queues: 10,
            pave: false,
        };
        let disk = Arc::new(SimDisk::new());
        let mut machine = Machine::open(disk, settings, Dice::seeded(1)).expect("a new store");
        let clock = ManualClock::at(1_700_000_000_000);
        let now = clock.now();
        for priority in 0..200 {
            push(
                &mut machine,
                priority,
                When::After(Duration::from_secs(9)),
                now,
            );
        }
        for _ in 0..3 {
            push(&mut machine, 200, When::Now, now);
        }
        let lanes = |machine: &Machine| {
            let lanes = &machine.queues[0].lanes;
            (lanes.open.len(), lanes.parked.len(), lanes.lanes.len())
        };
        assert_eq!(lanes(&machine), (201, 0, 201));
        assert_eq!(lease(&mut machine, now), 1);
        assert_eq!(lanes(&machine), (1, 200, 201));
        // A lane that gets a job is looked at again, and so are all when the wall clock is stepped.
        push(&mut machine, 7, When::Now, now);
        assert_eq!(lanes(&machine), (2, 199, 201));
        machine.queues[0].lanes.unpark();
        assert_eq!(lanes(&machine), (201, 0, 201));
        for _ in 0..3 {
            assert_eq!(lease(&mut machine, now), 1);
        }
        // What is empty goes, as there are more than enough.
        assert_eq!(lease(&mut machine, now), 0);
        assert_eq!(lanes(&machine), (0, 200, 200));
        clock.advance(Duration::from_secs(9));
        assert_eq!(lease(&mut machine, clock.now()), 1);
        assert_eq!(lanes(&machine), (200, 0, 200));
    }
}
