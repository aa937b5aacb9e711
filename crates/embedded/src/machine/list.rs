//! Listing and searching: a walk over the streams, a bounded piece at a time.
//!
//! The walk goes queue by queue through four phases: waiting, leased, dead, done; one that is to find all there is has a fifth,
//! tombstones. Within a phase it merges what is in
//! memory with the index files, in the order of the streams, so any position can be found again without remembering
//! anything: a cursor is just the last position looked at.

use std::ops::{Bound, Range};

use auxo_core::engine::{Cursor, Filter, Page, Query};
use auxo_core::life::{Event, State};
use auxo_core::time::{Base, Now};
use auxo_core::{Error, JobId, Result};

use super::{Machine, Step, classes};
use crate::index::StreamKey;
use crate::record::{Kept, Place, Position, Stored};
use crate::segment::Finder;
use crate::stream::Spot;

/// How many entries of one source are looked at in one go.
const SPAN: usize = 512;
/// What one page may cost: entries, lanes and files passed over, jobs read, bytes read.
const ENTRIES: usize = 50_000;
const READS: usize = 2_000;
const BYTES: usize = 8 << 20;

/// Where a walk is: behind this place in the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    queue: u32,
    phase: Phase,
    /// Priority and group; a walk that has not entered the phase has none.
    lane: Option<(u32, u64)>,
    /// Time and id within the lane; a walk that has not entered it has none.
    order: Option<(u64, u64)>,
    /// Where the log was when the walk began.
    since: Position,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Waiting,
    Leased,
    Dead,
    Done,
    Tombs,
}

const PHASES: [Phase; 5] = [
    Phase::Waiting,
    Phase::Leased,
    Phase::Dead,
    Phase::Done,
    Phase::Tombs,
];

/// Whether a walk comes by the tombstones. They lie in one line for all queues, whichever is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tombs {
    Hidden,
    Shown,
}

/// What a walk is for.
#[derive(Clone, Copy)]
struct Scope<'a> {
    filter: &'a Filter,
    tombs: Tombs,
}

impl Scope<'_> {
    fn wants(&self, phase: Phase) -> bool {
        match phase {
            Phase::Tombs => self.tombs == Tombs::Shown,
            phase => phase.wanted(self.filter),
        }
    }
}

impl Machine {
    pub(super) fn list(&mut self, query: &Query, now: Now) -> Step<Result<Page>> {
        let mut jobs = Vec::new();
        let next = self.walk(query, Tombs::Hidden, now, |machine, job, _| {
            let view = machine.show(job, now);
            if query.filter.matches(&view) {
                jobs.push(view);
            }
            jobs.len()
        })?;
        Ok(next.map(|next| Page { jobs, next }))
    }

    /// The ids of the jobs that a query shows, for an operator's move. A job that the same walk has moved further on does
    /// not show again.
    pub(super) fn list_ids(
        &mut self,
        query: &Query,
        now: Now,
    ) -> Step<Result<(Vec<JobId>, Option<Cursor>)>> {
        let mut ids = Vec::new();
        let next = self.walk(query, Tombs::Hidden, now, |machine, job, (place, since)| {
            let moved = Position {
                segment: place.segment,
                offset: place.offset,
            } >= since
                && job
                    .timeline
                    .last()
                    .is_some_and(|moment| moment.event == Event::Reschedule);
            let view = machine.show(job, now);
            if !moved && query.filter.matches(&view) {
                ids.push(view.id);
            }
            ids.len()
        })?;
        Ok(next.map(|next| (ids, next)))
    }

    /// Shows jobs to `look` until it has found enough or the page costs too much. Answers where to go on.
    pub(super) fn walk(
        &mut self,
        query: &Query,
        tombs: Tombs,
        now: Now,
        mut look: impl FnMut(&Machine, Stored, (Place, Position)) -> usize,
    ) -> Step<Result<Option<Cursor>>> {
        let scope = Scope {
            filter: &query.filter,
            tombs,
        };
        let mut at = match &query.cursor {
            None => None,
            Some(cursor) => match parse(cursor).filter(|at| self.leads_on(at, scope)) {
                Some(at) => Some(at),
                None => {
                    return Ok(Err(Error::bad_request(
                        "cursor: this is not one that a listing gave out",
                    )));
                }
            },
        };
        if at.is_none() {
            at = self.first_phase(scope);
        }
        let (mut entries, mut reads, mut bytes, mut found) = (0, 0, 0, 0);
        let mut leased = None;
        while let Some(here) = at {
            if entries >= ENTRIES {
                return Ok(Ok(Some(print(&here))));
            }
            // A lane or a phase in which nothing is found is not free of charge, or a call could pass by any number.
            entries += 1;
            if self.queues.get(here.queue).is_none() {
                // Forgotten since the cursor was given out.
                at = self.next_queue(&here, scope);
                continue;
            }
            let Some(lane) = here.lane else {
                at = self.next_lane(&here, scope, now);
                continue;
            };
            entries += self.log.segments.len();
            let gathered = if here.phase == Phase::Leased {
                let leased = leased.get_or_insert_with(|| self.leased_after(&here));
                Gathered::leased(leased, &here)
            } else {
                self.gather(&here, lane, |base| here.phase.end(&query.filter, base, now))?
            };
            entries += gathered.spots.len();
            let (spots, reached) =
                gathered.finish(|place| here.phase == Phase::Leased || self.log.in_line(place));
            for spot in spots {
                at = Some(At {
                    order: Some(spot.order()),
                    ..here
                });
                let job = self.read_spot(spot.id, spot.place)?;
                reads += 1;
                bytes += job.payload.len();
                // In the line of tombstones are those of all queues, and what is still retained.
                if here.phase != Phase::Tombs || job.kept == Kept::Tomb && job.queue == here.queue {
                    found = look(self, job, (spot.place, here.since));
                }
                if found >= query.limit as usize || reads >= READS || bytes >= BYTES {
                    return Ok(Ok(at.map(|at| print(&at))));
                }
            }
            at = match reached {
                Some(order) => Some(At {
                    order: Some(order),
                    ..here
                }),
                None => self.next_lane(&here, scope, now),
            };
        }
        Ok(Ok(None))
    }

    /// Whether a cursor, which anybody can make up, stays with what is asked for.
    fn leads_on(&self, at: &At, scope: Scope<'_>) -> bool {
        let is_in = |name| self.by_name.get(name) == Some(&at.queue);
        let tombs = scope.tombs == Tombs::Shown || at.phase != Phase::Tombs;
        tombs && scope.filter.queue.as_ref().is_none_or(is_in)
    }

    fn first_phase(&self, scope: Scope<'_>) -> Option<At> {
        let queue = match &scope.filter.queue {
            Some(name) => *self.by_name.get(name)?,
            None => self.queues.first_from(0)?,
        };
        let phase = PHASES.into_iter().find(|phase| scope.wants(*phase))?;
        Some(At {
            queue,
            phase,
            lane: None,
            order: None,
            since: self.log.position(),
        })
    }

    fn next_phase(&self, at: &At, scope: Scope<'_>) -> Option<At> {
        let later = PHASES
            .into_iter()
            .find(|phase| *phase > at.phase && scope.wants(*phase));
        match later {
            Some(phase) => Some(At {
                phase,
                lane: None,
                order: None,
                ..*at
            }),
            None => self.next_queue(at, scope),
        }
    }

    /// The beginning of the next queue, if more than one is asked for.
    fn next_queue(&self, at: &At, scope: Scope<'_>) -> Option<At> {
        if scope.filter.queue.is_some() {
            return None;
        }
        Some(At {
            queue: self.queues.first_from(at.queue.checked_add(1)?)?,
            phase: PHASES.into_iter().find(|phase| scope.wants(*phase))?,
            lane: None,
            order: None,
            ..*at
        })
    }

    /// The beginning of the next lane, or of the next phase if there is none.
    fn next_lane(&self, at: &At, scope: Scope<'_>, now: Now) -> Option<At> {
        match self.lane_after(at) {
            Some(lane) => Some(At {
                lane: Some(lane),
                order: at.phase.start(scope.filter, now),
                ..*at
            }),
            None => self.next_phase(at, scope),
        }
    }

    /// The first priority and group of a phase behind a position. Every job that waits is in a lane in memory, though the
    /// lane's jobs may be in files.
    fn lane_after(&self, at: &At) -> Option<(u32, u64)> {
        if at.phase != Phase::Waiting {
            return at.lane.is_none().then_some((0, 0));
        }
        let lanes = &self.queues[at.queue as usize].lanes;
        let start = at.lane.map_or(0, |(priority, _)| priority);
        lanes.from(start).find_map(|(priority, lane)| {
            let same = at.lane.filter(|(at, _)| *at == priority);
            let group = lane.group_after(same.map(|(_, group)| group))?;
            Some((priority, group))
        })
    }

    /// The leases behind a position, by queue and id: as many as a page can show.
    fn leased_after(&self, at: &At) -> Vec<(u32, Spot)> {
        let after = at.order.map(|(_, id)| id);
        let behind = |queue: u32, id: u64| {
            queue > at.queue || (queue == at.queue && after.is_none_or(|after| id > after))
        };
        let mut leased: Vec<(u32, Spot)> = self
            .leases
            .iter()
            .filter(|(id, held)| behind(held.queue, **id))
            .map(|(&id, held)| {
                let place = held.place;
                (held.queue, Spot { time: 0, id, place })
            })
            .collect();
        let order = |(queue, spot): &(u32, Spot)| (*queue, spot.id);
        if leased.len() > READS {
            leased.select_nth_unstable_by_key(READS, order);
            leased.truncate(READS);
        }
        leased.sort_unstable_by_key(order);
        leased
    }

    /// The next entries of a lane. `end` tells for each clock behind which time nothing is of interest.
    fn gather(
        &mut self,
        at: &At,
        lane: (u32, u64),
        end: impl Fn(Base) -> Option<u64>,
    ) -> Step<Gathered> {
        let from = at.order.map_or(Bound::Unbounded, Bound::Excluded);
        let mut gathered = Gathered::default();
        match at.phase {
            Phase::Waiting => {
                let lane_in_memory = self.queues[at.queue as usize].lanes.get(lane.0);
                if let Some(line) = lane_in_memory.and_then(|lanes| lanes.line_of(lane.1)) {
                    for (stream, base) in [(&line.steady, Base::Steady), (&line.wall, Base::Wall)] {
                        let to = end(base)
                            .map_or(Bound::Unbounded, |time| Bound::Included((time, u64::MAX)));
                        // An order that is turned around is an empty one, but not to the map.
                        if !turned_around(from, to) {
                            gathered.add(stream.memory(from, to).take(SPAN).collect());
                        }
                    }
                }
            }
            Phase::Leased => {}
            Phase::Tombs => {
                let spots = self.keep.memory(from, Bound::Unbounded).take(SPAN);
                gathered.add(spots.collect());
            }
            Phase::Dead | Phase::Done => {
                let recent = if at.phase == Phase::Dead {
                    &self.recent_dead
                } else {
                    &self.recent_done
                };
                let start = match at.order {
                    None => Bound::Included((at.queue, 0, 0)),
                    Some((time, id)) => Bound::Excluded((at.queue, time, id)),
                };
                let spots = recent
                    .range((start, Bound::Included((at.queue, u64::MAX, u64::MAX))))
                    .map(|(&(_, time, id), &place)| Spot { time, id, place })
                    .take(SPAN);
                gathered.add(spots.collect());
            }
        }
        for (segment, base, range) in self.lane_ranges(at, lane) {
            let spots = self.log.unmoved(|log| {
                let mut range = range.clone();
                if let Some(time) = end(base) {
                    let behind = (time.saturating_add(1), 0);
                    range.end = log.lower_bound(segment, range.clone(), behind)?;
                }
                let start = match at.order {
                    None => range.start,
                    Some((time, id)) => {
                        log.lower_bound(segment, range.clone(), (time, id.saturating_add(1)))?
                    }
                };
                let end = range.end.min(start.saturating_add(SPAN as u32));
                (start..end)
                    .map(|at| log.entry(segment, at))
                    .collect::<Step<Vec<Spot>>>()
            })?;
            gathered.add(spots);
        }
        Ok(gathered)
    }

    /// Where index files keep the jobs of a lane, and by which clock.
    fn lane_ranges(&self, at: &At, (priority, group): (u32, u64)) -> Vec<(u32, Base, Range<u32>)> {
        let key = |class, priority, group| StreamKey {
            queue: at.queue,
            class,
            priority,
            group,
        };
        let fair = self.queues[at.queue as usize].config.fair;
        let mut keys = Vec::new();
        match at.phase {
            Phase::Leased => {}
            Phase::Dead => keys.push(key(classes::DEAD, 0, 0)),
            Phase::Done => keys.push(key(classes::DONE, 0, 0)),
            Phase::Tombs => keys.push(StreamKey {
                queue: classes::EVERYWHERE,
                ..key(classes::KEEP, 0, 0)
            }),
            Phase::Waiting => {
                for base in [Base::Steady, Base::Wall] {
                    if group == 0 {
                        keys.push(key(classes::line(base), priority, 0));
                    } else {
                        keys.push(key(classes::turn(base), priority, group));
                    }
                    if !fair {
                        keys.push(key(classes::line(base), priority, classes::GROUPED));
                    }
                }
            }
        }
        let mut ranges = Vec::new();
        for segment in self.log.segments.values() {
            if let Finder::File(index) = &segment.finder {
                ranges.extend(
                    keys.iter()
                        .map(|key| (segment.number, classes::base(key.class), index.range(key)))
                        .filter(|(_, _, range)| !range.is_empty()),
                );
            }
        }
        ranges
    }
}

/// Entries of several sources. Each was read up to some entry, so what lies behind the nearest of these must wait.
#[derive(Default)]
struct Gathered {
    spots: Vec<Spot>,
    reached: Option<(u64, u64)>,
}

impl Gathered {
    fn add(&mut self, spots: Vec<Spot>) {
        if let Some(last) = spots.last()
            && spots.len() >= SPAN
        {
            let order = last.order();
            self.reached = Some(self.reached.map_or(order, |reached| reached.min(order)));
        }
        self.spots.extend(spots);
    }

    /// The next ones of a queue among leases sorted by queue and id.
    fn leased(leased: &[(u32, Spot)], at: &At) -> Gathered {
        let after = at.order.map(|(_, id)| id);
        let from = leased.partition_point(|(queue, spot)| {
            *queue < at.queue || (*queue == at.queue && after.is_some_and(|after| spot.id <= after))
        });
        let spots = leased[from..]
            .iter()
            .take_while(|(queue, _)| *queue == at.queue)
            .map(|(_, spot)| *spot)
            .take(SPAN);
        let mut gathered = Gathered::default();
        gathered.add(spots.collect());
        gathered
    }

    /// The jobs among them in order, and up to which entry this goes; `None` if it goes to the end.
    fn finish(mut self, counts: impl Fn(Place) -> bool) -> (Vec<Spot>, Option<(u64, u64)>) {
        self.spots.sort_unstable_by_key(Spot::order);
        if let Some(reached) = self.reached {
            self.spots.retain(|spot| spot.order() <= reached);
        }
        self.spots.retain(|spot| counts(spot.place));
        (self.spots, self.reached)
    }
}

impl Phase {
    fn wanted(self, filter: &Filter) -> bool {
        let any = |states: &[State]| states.iter().any(|state| wants(filter, *state));
        match self {
            // A job whose life is over is buried before anybody asks, so the dead are not looked for here.
            Phase::Waiting => any(&[State::Scheduled, State::Ready]),
            Phase::Leased => any(&[State::Leased]),
            Phase::Dead => any(&[State::Dead]),
            Phase::Done => any(&[State::Done]),
            Phase::Tombs => false,
        }
    }

    /// Where to begin in a lane: who does not ask for ready jobs need not pass by those that are due.
    fn start(self, filter: &Filter, now: Now) -> Option<(u64, u64)> {
        let passes = self == Phase::Waiting && !wants(filter, State::Ready);
        passes.then(|| (now.steady.0.min(now.wall.0), 0))
    }

    /// Behind which time a lane by this clock has nothing to show: who does not ask for scheduled jobs need not look at
    /// those that are not due.
    fn end(self, filter: &Filter, base: Base, now: Now) -> Option<u64> {
        let stops = self == Phase::Waiting && !wants(filter, State::Scheduled);
        stops.then(|| now.of(base).0)
    }
}

/// Whether a range begins behind its end.
fn turned_around(from: Bound<(u64, u64)>, to: Bound<(u64, u64)>) -> bool {
    match (from, to) {
        (Bound::Excluded(from), Bound::Included(to)) => from >= to,
        _ => false,
    }
}

fn wants(filter: &Filter, state: State) -> bool {
    filter.states.is_empty() || filter.states.contains(&state)
}

fn print(at: &At) -> Cursor {
    let (priority, group) = at.lane.unwrap_or_default();
    let (time, id) = at.order.unwrap_or_default();
    let depth =
        usize::from(at.lane.is_some()) + usize::from(at.lane.is_some() && at.order.is_some());
    let phase = at.phase as u8;
    let Position { segment, offset } = at.since;
    Cursor(format!(
        "{:x}.{phase}.{depth}.{priority:x}.{group:x}.{time:x}.{id:x}.{segment:x}.{offset:x}",
        at.queue
    ))
}

fn parse(cursor: &Cursor) -> Option<At> {
    let numbers: Vec<u64> = cursor
        .0
        .split('.')
        .map(|part| u64::from_str_radix(part, 16))
        .collect::<std::result::Result<_, _>>()
        .ok()?;
    let [
        queue,
        phase,
        depth,
        priority,
        group,
        time,
        id,
        segment,
        offset,
    ] = numbers.try_into().ok()?;
    let narrow = |number: u64| u32::try_from(number).ok();
    Some(At {
        queue: narrow(queue)?,
        phase: *PHASES.get(usize::try_from(phase).ok()?)?,
        lane: if depth > 0 {
            Some((narrow(priority)?, group))
        } else {
            None
        },
        order: (depth > 1).then_some((time, id)),
        since: Position {
            segment: narrow(segment)?,
            offset: narrow(offset)?,
        },
    })
}
