//! What is set up besides jobs: queues and their settings, subscriptions, schedules.

use std::ops::Bound;

use auxo_core::engine::{Catalog, Change};
use auxo_core::queue::{Counts, QueueConfig, QueueInfo};
use auxo_core::schedule::Schedule;
use auxo_core::time::{Base, Now, Timestamp};
use auxo_core::topic::Subscription;
use auxo_core::{Code, Error, JobSpec, QueueName, Result, refusal};

use super::classes;
use super::queue::Lined;
use super::{Machine, Step};
use crate::index::StreamKey;
use crate::record::{Kept, Place, Record};
use crate::segment::Finder;

/// How much may be set up. All of it is kept in memory, so each kind has an end.
const SUBSCRIPTIONS: usize = 100_000;
const SCHEDULES: usize = 10_000;
/// Bytes of the payloads and headers of all schedules together: 64 MiB.
const SCHEDULED: usize = 64 << 20;

/// What a schedule's job takes that a caller can make long.
fn size(spec: &JobSpec) -> usize {
    let headers = spec.headers.iter();
    let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
    spec.payload.len() + headers
}

fn too_many(what: impl std::fmt::Display) -> Error {
    let message = format!("there are {what} already, the most there may be");
    Error::new(Code::TooLarge, message)
}

impl Machine {
    pub(super) fn change(&mut self, change: Change, now: Now) -> Step<Result<()>> {
        if let Some(error) = self.no_room(0) {
            return Ok(Err(error));
        }
        Ok(match change {
            Change::Queue(name, config) => {
                if let Some(wanted) = config.shards.filter(|wanted| *wanted > 1) {
                    return Ok(Err(refusal::too_few_shards(&name, wanted, 1)));
                }
                // One is what it has without a word.
                let config = QueueConfig {
                    shards: None,
                    ..config.kept_from(now.wall)
                };
                let number = match self.queue_number(&name) {
                    Ok(number) => number,
                    Err(error) => return Ok(Err(error)),
                };
                self.log.append(&Record::Queue {
                    number,
                    name: name.clone(),
                    config: config.clone(),
                });
                if self.absorb_queue(number, name, config) {
                    self.rebuild_lanes(number)?;
                }
                self.stir(number);
                Ok(())
            }
            Change::Subscribe(subscription) => {
                if let Err(error) = self.may_subscribe(&subscription) {
                    return Ok(Err(error));
                }
                self.log.append(&Record::Subscribe(subscription.clone()));
                self.absorb_subscribe(subscription);
                Ok(())
            }
            Change::Unsubscribe(topic, name) => {
                if !self.absorb_unsubscribe(topic.clone(), name.clone()) {
                    return Ok(Err(refusal::no_subscription(&topic, &name)));
                }
                self.log.append(&Record::Unsubscribe { topic, name });
                Ok(())
            }
            Change::Schedule(mut schedule) => {
                schedule.next = schedule.rearm(now);
                schedule.last = self.schedules.get(&schedule.name).and_then(|old| old.last);
                self.schedule(schedule, now)
            }
            Change::Arm(schedule) => self.schedule(schedule, now),
            Change::Unschedule(name) => self.unschedule(name, now),
            Change::Disarm(name, last) => match self.schedules.get(&name) {
                Some(schedule) if schedule.last != last => Err(refusal::ticked(&name)),
                _ => self.unschedule(name, now),
            },
        })
    }

    fn schedule(&mut self, schedule: Schedule, now: Now) -> Result<()> {
        self.may_schedule(&schedule)?;
        self.log
            .append(&Record::Schedule(Box::new(schedule.clone())));
        self.absorb_schedule(schedule);
        self.set_next_tick(now);
        Ok(())
    }

    fn unschedule(&mut self, name: String, now: Now) -> Result<()> {
        if !self.absorb_unschedule(&name) {
            return Err(refusal::no_schedule(&name));
        }
        self.log.append(&Record::Unschedule(name));
        self.set_next_tick(now);
        Ok(())
    }

    fn may_subscribe(&self, new: &Subscription) -> Result<()> {
        let key = (new.topic.clone(), new.name.clone());
        let known = self.subscriptions.contains_key(&key);
        match !known && self.subscriptions.len() >= SUBSCRIPTIONS {
            true => Err(too_many(format!("{SUBSCRIPTIONS} subscriptions"))),
            false => Ok(()),
        }
    }

    fn may_schedule(&self, new: &Schedule) -> Result<()> {
        let known = self.schedules.contains_key(&new.name);
        if !known && self.schedules.len() >= SCHEDULES {
            return Err(too_many(format!("{SCHEDULES} schedules")));
        }
        let others = self.schedules.values().filter(|old| old.name != new.name);
        let bytes: usize = others.map(|old| size(&old.spec)).sum();
        match bytes + size(&new.spec) > SCHEDULED {
            true => Err(Error::new(
                Code::TooLarge,
                format!(
                    "payload: with those and the headers of all other schedules it is over the limit of {SCHEDULED} bytes"
                ),
            )),
            false => Ok(()),
        }
    }

    pub(super) fn catalog(&self) -> Catalog {
        Catalog {
            subscriptions: self.subscriptions.values().cloned().collect(),
            schedules: self.schedules.values().cloned().collect(),
        }
    }

    pub(super) fn show_queues(
        &mut self,
        names: Option<Vec<QueueName>>,
        now: Now,
    ) -> Step<Vec<QueueInfo>> {
        self.forget_all_unused(now)?;
        let mut numbers: Vec<u32> = match names {
            None => self.queues.numbers().collect(),
            Some(names) => names
                .iter()
                .filter_map(|name| self.by_name.get(name).copied())
                .collect(),
        };
        numbers.sort_by(|a, b| {
            self.queues[*a as usize]
                .name
                .cmp(&self.queues[*b as usize].name)
        });
        numbers.dedup();
        numbers
            .into_iter()
            .map(|number| self.show_queue(number, now))
            .collect()
    }

    fn show_queue(&mut self, number: u32, now: Now) -> Step<QueueInfo> {
        for base in [Base::Steady, Base::Wall] {
            self.move_frontier(number, base, now.of(base).0)?;
        }
        let next_due = self.next_due_time(number, now)?;
        let queue = &mut self.queues[number as usize];
        let next_token = queue.next_token(now);
        let rate_wait =
            (next_token > now.steady).then(|| now.on_wall(super::view::steady(next_token.0)));
        let sum = |of: fn(&Lined) -> u64| queue.lined.iter().map(of).sum();
        Ok(QueueInfo {
            name: queue.name.clone(),
            config: queue.config.clone(),
            counts: Counts {
                scheduled: sum(|lined| lined.later),
                ready: sum(|lined| lined.ready),
                leased: queue.leased,
                dead: queue.books.dead + queue.books.expired,
                done: queue.done,
            },
            bytes: queue.bytes,
            books: queue.books,
            waiting: queue.waiters.len() as u64,
            last_asked: queue.last_asked,
            next_due,
            rate_wait,
        })
    }

    /// Counts the jobs between the frontier and now over to the other side.
    fn move_frontier(&mut self, number: u32, base: Base, now: u64) -> Step<()> {
        if self.queues[number as usize].lined(base).follow(now) {
            return Ok(());
        }
        let frontier = self.queues[number as usize].lined(base).frontier;
        let (low, high) = (frontier.min(now), frontier.max(now));
        let passed = self.count_line(number, base, low, high)?;
        self.queues[number as usize].lined(base).pass(now, passed);
        Ok(())
    }

    /// How many jobs in line have their time behind `low` and up to `high`.
    fn count_line(&mut self, number: u32, base: Base, low: u64, high: u64) -> Step<u64> {
        let mut count = 0;
        let span = (
            Bound::Excluded((low, u64::MAX)),
            Bound::Included((high, u64::MAX)),
        );
        for lane in self.queues[number as usize].lanes.values() {
            for line in lane.lines() {
                let stream = if base == Base::Steady {
                    &line.steady
                } else {
                    &line.wall
                };
                count += stream
                    .memory(span.0, span.1)
                    .filter(|spot| self.log.in_line(spot.place))
                    .count() as u64;
            }
        }
        for (segment, range) in self.line_ranges(number, base) {
            count += self.log.unmoved(|log| {
                let start = log.lower_bound(segment, range.clone(), (low + 1, 0))?;
                let end = log.lower_bound(segment, range.clone(), (high + 1, 0))?;
                let mut passed = 0;
                for at in start..end {
                    let spot = log.entry(segment, at)?;
                    passed += u64::from(log.in_line(spot.place));
                }
                Ok(passed)
            })?;
        }
        Ok(count)
    }

    /// Where index files keep the jobs of a queue that wait by one clock, whatever their priority.
    fn line_ranges(&self, number: u32, base: Base) -> Vec<(u32, std::ops::Range<u32>)> {
        let class = classes::line(base);
        let from = StreamKey {
            queue: number,
            class,
            priority: 0,
            group: 0,
        };
        let mut ranges = Vec::new();
        for segment in self.log.segments.values() {
            if let Finder::File(index) = &segment.finder {
                let streams = index
                    .streams_from(&from)
                    .take_while(|(key, _)| (key.queue, key.class) == (number, class));
                ranges.extend(streams.map(|(_, range)| (segment.number, range)));
            }
        }
        ranges
    }

    /// When the next job that is not due yet falls due, as the wall clock will show it.
    fn next_due_time(&mut self, number: u32, now: Now) -> Step<Option<Timestamp>> {
        let mut next: Option<Timestamp> = None;
        for base in [Base::Steady, Base::Wall] {
            if self.queues[number as usize].lined(base).later == 0 {
                continue;
            }
            let after = now.of(base).0;
            let mut best: Option<u64> = None;
            for lane in self.queues[number as usize].lanes.values() {
                for line in lane.lines() {
                    let stream = if base == Base::Steady {
                        &line.steady
                    } else {
                        &line.wall
                    };
                    let first = stream
                        .memory(Bound::Excluded((after, u64::MAX)), Bound::Unbounded)
                        .find(|spot| self.log.in_line(spot.place));
                    best = [best, first.map(|spot| spot.time)]
                        .into_iter()
                        .flatten()
                        .min();
                }
            }
            for (segment, range) in self.line_ranges(number, base) {
                let first = self.log.unmoved(|log| {
                    let start = log.lower_bound(segment, range.clone(), (after + 1, 0))?;
                    for at in start..range.end {
                        let spot = log.entry(segment, at)?;
                        if best.is_some_and(|best| best <= spot.time) {
                            break;
                        }
                        if log.in_line(spot.place) {
                            return Ok(Some(spot.time));
                        }
                    }
                    Ok(None)
                })?;
                best = first.or(best);
            }
            let on_wall = best.map(|at| {
                now.on_wall(auxo_core::Due {
                    at: Timestamp(at),
                    base,
                })
            });
            next = [next, on_wall].into_iter().flatten().min();
        }
        Ok(next)
    }

    /// Builds the lanes of a queue anew from what is stored: fair queues line their jobs up differently.
    pub(super) fn rebuild_lanes(&mut self, number: u32) -> Step<()> {
        self.queues[number as usize].lanes.clear();
        let segments: Vec<u32> = self.log.segments.keys().copied().collect();
        for segment in segments {
            let file = self.log.segment(segment);
            if matches!(file.finder, Finder::File(_)) {
                self.attach_lines(segment, Some(number))?;
                continue;
            }
            let places: Vec<Place> = match &file.finder {
                Finder::Memory(recent) => (0..file.count)
                    .filter(|ord| file.in_line(*ord))
                    .map(|ord| Place {
                        segment,
                        ord,
                        offset: recent.offset(ord),
                    })
                    .collect(),
                Finder::File(_) => Vec::new(),
            };
            for place in places {
                let job = self.log.read(place)?;
                if job.queue == number && job.kept == Kept::Waiting {
                    self.join_line(&job, place);
                }
            }
        }
        Ok(())
    }
}
