//! What time brings: leases that run out, lives that end, memories that fade, ticks of schedules.

use std::cmp::Reverse;
use std::time::Duration;

use auxo_core::JobId;
use auxo_core::life::Event;
use auxo_core::time::{Base, Due, Now, Timestamp};

use super::settle::strip;
use super::{After, Answer, Machine, Reply, Step};
use crate::record::{Gone, Kept, Record};

/// How much overdue work of one kind is done before others get their turn. There is no waiting in between.
const BITE: usize = 4096;
/// While something waits for the wall clock, it is looked at this often: it may be stepped.
const WALL_LOOK: Duration = Duration::from_secs(10);
/// A change between the clocks that may be rounding, and one that somebody made, in milliseconds.
const DRIFT: i64 = 1;
const STEP: i64 = 1000;

impl Machine {
    /// Does what has come due. Answers whether there is more to do right away.
    pub fn advance(&mut self, now: Now) -> bool {
        if self.broken.is_some() {
            return false;
        }
        match self.try_advance(now) {
            Ok(more) => more,
            Err(trouble) => {
                self.fail(trouble);
                false
            }
        }
    }

    fn try_advance(&mut self, now: Now) -> Step<bool> {
        self.moment = now;
        self.make_room(now)?;
        self.watch_wall(now);
        let mut more = false;
        // What time has brought waits as long as it cannot be written down.
        if self.no_room(0).is_none() {
            more |= self.end_leases(now)?;
            more |= self.end_lives(now)?;
            more |= self.forget(now)?;
            self.tick(now)?;
            more |= self.forget_unused(now)?;
        }
        while let Some((_, number)) = self
            .alarms
            .first()
            .copied()
            .filter(|(time, _)| *time <= now.steady.0)
        {
            self.alarms.pop_first();
            self.queues[number as usize].alarm = None;
            self.stir(number);
        }
        self.serve_dirty(now)?;
        self.end_waits(now);
        self.go_on_auditing()?;
        Ok(more || self.auditing())
    }

    /// How long until time brings something; `None` while it does not.
    pub fn next_wake(&mut self, now: Now) -> Option<Duration> {
        if self.broken.is_some() {
            return None;
        }
        if self.auditing() {
            return Some(Duration::ZERO);
        }
        if self.no_room(0).is_some() {
            // Nothing can be written down; only space changes that.
            let next = self.upkeep_due(now)?;
            return Some(Timestamp(next).since(now.steady));
        }
        let lease = self.next_deadline();
        let alarm = self.alarms.first().map(|(time, _)| *time);
        let wait = self.wait_ends.first().map(|(time, _)| *time);
        let unused = self.unused.first().map(|(time, _)| *time);
        let Machine {
            expiry: [by_steady, by_wall],
            keep,
            log,
            ..
        } = self;
        // A disk in trouble shows at the next advance.
        let life = by_steady.head(log).ok().flatten().map(|spot| spot.time);
        let memory = keep.head(log).ok().flatten().map(|spot| spot.time);
        let wall_life = by_wall.head(log).ok().flatten();
        let wall_life = wall_life.map(|spot| {
            now.on_steady(Due {
                at: Timestamp(spot.time),
                base: Base::Wall,
            })
            .0
        });
        let upkeep = self.upkeep_due(now);
        let all = [
            lease,
            alarm,
            wait,
            unused,
            life,
            memory,
            wall_life,
            self.next_tick,
            upkeep,
        ];
        let next = all.into_iter().flatten().min()?;
        let wait = Timestamp(next).since(now.steady);
        let looks_at_wall =
            wall_life.is_some() || self.next_tick.is_some() || !self.alarms.is_empty();
        Some(if looks_at_wall {
            wait.min(WALL_LOOK)
        } else {
            wait
        })
    }

    /// Notices a step of the wall clock.
    fn watch_wall(&mut self, now: Now) {
        let lead = now.wall.0 as i64 - now.steady.0 as i64;
        let Some(before) = self.lead else {
            self.lead = Some(lead);
            self.touch_all();
            // It may have been set back while nobody was there.
            return self.rearm_schedules(now);
        };
        if (lead - before).abs() <= DRIFT {
            return;
        }
        self.lead = Some(lead);
        let numbers: Vec<u32> = self.queues.numbers().collect();
        for number in numbers {
            let queue = &mut self.queues[number as usize];
            queue.lanes.unpark();
            if !queue.waiters.is_empty() {
                self.stir(number);
            }
            self.look_at_pause(number);
        }
        if (lead - before).abs() > STEP {
            self.wall_steps += 1;
        }
        if before - lead > STEP {
            self.rearm_schedules(now);
        }
        self.set_next_tick(now);
    }

    /// A clock that was set back must not silence what runs by it.
    fn rearm_schedules(&mut self, now: Now) {
        let late: Vec<(String, Due, Option<Timestamp>)> = self
            .schedules
            .values()
            .filter_map(|schedule| {
                let next = schedule.next.filter(|next| next.base == Base::Wall)?;
                let first = schedule.rearm(now).filter(|first| first.at < next.at)?;
                Some((schedule.name.clone(), first, schedule.last))
            })
            .collect();
        for (name, first, last) in late {
            self.pass_tick(&name, Some(first), last);
        }
    }

    fn next_deadline(&mut self) -> Option<u64> {
        // Entries of ended leases would pile up behind a long one.
        if self.deadlines.len() > 2 * self.leases.len() + 1024 {
            let leases = &self.leases;
            self.deadlines.retain(|Reverse((deadline, id, counter))| {
                leases
                    .get(id)
                    .is_some_and(|held| (held.deadline, held.counter) == (*deadline, *counter))
            });
        }
        while let Some(Reverse((deadline, id, counter))) = self.deadlines.peek() {
            let runs = self
                .leases
                .get(id)
                .is_some_and(|held| (held.deadline, held.counter) == (*deadline, *counter));
            if runs {
                return Some(*deadline);
            }
            self.deadlines.pop();
        }
        None
    }

    fn end_leases(&mut self, now: Now) -> Step<bool> {
        for _ in 0..BITE {
            match self.next_deadline() {
                Some(deadline) if deadline <= now.steady.0 => {
                    let Some(Reverse((_, id, _))) = self.deadlines.pop() else {
                        return Ok(false);
                    };
                    self.make_room(now)?;
                    self.vanish(JobId(id), now)?;
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn end_lives(&mut self, now: Now) -> Step<bool> {
        for base in [Base::Steady, Base::Wall] {
            for _ in 0..BITE {
                let Some(spot) = self.expiry[base as usize].head(&mut self.log)? else {
                    break;
                };
                if spot.time > now.of(base).0 {
                    break;
                }
                let job = self.read_spot(spot.id, spot.place)?;
                self.make_room(now)?;
                self.expire(spot.place, job, now);
            }
        }
        let Machine { expiry, log, .. } = self;
        let mut more = false;
        for base in [Base::Steady, Base::Wall] {
            more |= expiry[base as usize]
                .head(log)?
                .is_some_and(|spot| spot.time <= now.of(base).0);
        }
        Ok(more)
    }

    /// Forgets done jobs and keys whose time is over.
    fn forget(&mut self, now: Now) -> Step<bool> {
        for _ in 0..BITE {
            let Some(spot) = self.keep.head(&mut self.log)? else {
                return Ok(false);
            };
            if spot.time > now.steady.0 {
                return Ok(false);
            }
            let job = self.read_spot(spot.id, spot.place)?;
            self.make_room(now)?;
            let held_until = job.key_until();
            if job.kept == Kept::Done && job.key.is_some() && held_until > now.steady {
                let mut tomb = job.clone();
                strip(&mut tomb);
                tomb.kept = Kept::Tomb;
                tomb.until = held_until;
                self.rewrite(Event::Ack, &job, spot.place, tomb);
            } else {
                self.drop_job(&job, spot.place, Gone::Forgotten);
            }
        }
        Ok(true)
    }

    fn tick(&mut self, now: Now) -> Step<()> {
        if self.next_tick.is_none_or(|next| next > now.steady.0) {
            return Ok(());
        }
        let due: Vec<String> = self
            .schedules
            .values()
            .filter(|schedule| schedule.next.is_some_and(|next| now.reached(next)))
            .map(|schedule| schedule.name.clone())
            .collect();
        for name in due {
            let Some(schedule) = self.schedules.get(&name).cloned() else {
                continue;
            };
            let base = schedule.next.map_or(Base::Steady, |next| next.base);
            let tick = schedule.tick(now);
            let mut last = schedule.last;
            for (i, at) in tick.fire.iter().enumerate() {
                // A job and the note that its tick is over lie in one group: no crash lets a tick fire twice.
                self.make_room(now)?;
                // A queue that takes nothing now lets the tick pass; the next one tries again.
                let pushed = self.push(&schedule.queue, schedule.spec.clone(), now)?;
                if pushed.is_ok() {
                    last = Some(*at);
                }
                let next = tick.fire.get(i + 1).map(|at| Due { at: *at, base });
                self.pass_tick(&name, next.or(tick.next), last);
            }
            if tick.fire.is_empty() {
                self.pass_tick(&name, tick.next, last);
            }
        }
        self.set_next_tick(now);
        Ok(())
    }

    fn pass_tick(&mut self, name: &str, next: Option<Due>, last: Option<Timestamp>) {
        self.log.append(&Record::Tick {
            name: name.to_owned(),
            next,
            last,
        });
        self.absorb_tick(name, next, last);
    }

    pub(super) fn absorb_tick(&mut self, name: &str, next: Option<Due>, last: Option<Timestamp>) {
        if let Some(schedule) = self.schedules.get_mut(name) {
            schedule.next = next;
            schedule.last = last;
        }
    }

    pub(super) fn set_next_tick(&mut self, now: Now) {
        self.next_tick = self
            .schedules
            .values()
            .filter_map(|schedule| schedule.next)
            .map(|due| now.on_steady(due).0)
            .min();
    }

    fn end_waits(&mut self, now: Now) {
        while let Some((_, ticket)) = self
            .wait_ends
            .first()
            .copied()
            .filter(|(time, _)| *time <= now.steady.0)
        {
            self.abandon(ticket);
            self.out.answers.push(Answer {
                ticket,
                reply: Ok(Reply::Lease(Vec::new())),
                after: After::Nothing,
            });
        }
    }
}
