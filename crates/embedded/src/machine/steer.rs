//! An operator's moves: kick, cancel, reschedule, delete.

use std::sync::Arc;

use auxo_core::engine::{Action, Mode, Order, Steered, Target, Which};
use auxo_core::job::{DeadReason, Job, Moment};
use auxo_core::life::{self, Event, State};
use auxo_core::time::{Now, When};
use auxo_core::{JobId, Result, refusal};

use super::view::{remember, state};
use super::{Machine, Step};
use crate::record::{Gone, Kept, Place, Record, Stored};

impl Machine {
    pub(super) fn steer(&mut self, order: Order, now: Now) -> Step<Result<Steered>> {
        let mut steered = Steered::default();
        match order.target {
            Target::Jobs(ids) => {
                for id in ids {
                    self.make_room(now)?;
                    let result = self.steer_one(id, &order.action, order.mode, now)?;
                    steered.moved += u64::from(result.is_ok());
                    steered.results.push(result);
                }
            }
            Target::Matching(query) => {
                let page = match self.list_ids(&query, now)? {
                    Ok(page) => page,
                    Err(error) => return Ok(Err(error)),
                };
                for id in page.0 {
                    self.make_room(now)?;
                    steered.moved +=
                        u64::from(self.steer_one(id, &order.action, order.mode, now)?.is_ok());
                }
                steered.next = page.1;
            }
        }
        Ok(Ok(steered))
    }

    fn steer_one(
        &mut self,
        id: JobId,
        action: &Action,
        mode: Mode,
        now: Now,
    ) -> Step<Result<State>> {
        if self.leases.contains_key(&id.0) {
            return Ok(self.steer_held(id, action, mode, now));
        }
        let missing = || Err(refusal::no_job(id));
        let Some(place) = self.log.find_id(id.0)? else {
            return Ok(missing());
        };
        let (place, job) = self.ripen(place, now)?;
        if job.kept == Kept::Tomb {
            return Ok(missing());
        }
        let before = state(&job, now);
        let event = action.event();
        let Some(after) = life::next(Some(before), event) else {
            return Ok(Err(refusal::no_arrow(id, before, event)));
        };
        if mode == Mode::DryRun {
            return Ok(Ok(after));
        }
        if let Some(error) = self.no_room(job.weight as usize) {
            return Ok(Err(error));
        }
        let queue = job.queue;
        let after = match action {
            Action::Cancel => {
                self.drop_job(&job, place, Gone::Cancelled);
                after
            }
            Action::Delete => {
                self.drop_job(&job, place, Gone::Deleted);
                after
            }
            Action::Kick => self.wake(place, job, When::Now, event, now),
            Action::Reschedule(when) => self.wake(place, job, *when, event, now),
        };
        self.notice(queue, id, event, now, &self.settings.node.clone(), "");
        Ok(Ok(after))
    }

    /// A job that nobody has, made ready if it is not; `None` if there is none that can be handed out.
    pub(super) fn ready_job(&mut self, id: JobId, now: Now) -> Step<Option<(Place, Stored)>> {
        let Some(place) = self.log.find_id(id.0)? else {
            return Ok(None);
        };
        let (place, job) = self.ripen(place, now)?;
        match state(&job, now) {
            State::Ready => return Ok(Some((place, job))),
            State::Scheduled => {}
            State::Dead if job.dead != Some(DeadReason::Expired) => {}
            _ => return Ok(None),
        }
        let queue = job.queue;
        self.wake(place, job, When::Now, Event::Kick, now);
        self.notice(queue, id, Event::Kick, now, &self.settings.node.clone(), "");
        let Some(place) = self.log.find_id(id.0)? else {
            return Ok(None);
        };
        Ok(Some((place, self.log.read(place)?)))
    }

    /// Reads a job, burying it first if its life has just run out.
    fn ripen(&mut self, place: Place, now: Now) -> Step<(Place, Stored)> {
        let job = self.log.read(place)?;
        if job.kept == Kept::Waiting && job.expires.is_some_and(|due| now.reached(due)) {
            let id = job.id.0;
            self.expire(place, job, now);
            if let Some(place) = self.log.find_id(id)? {
                return Ok((place, self.log.read(place)?));
            }
        }
        Ok((place, self.log.read(place)?))
    }

    /// Gives a job another due time; one that was dead starts afresh.
    fn wake(&mut self, place: Place, job: Stored, when: When, event: Event, now: Now) -> State {
        let mut next = job.clone();
        next.due = when.due(now);
        next.front = false;
        if job.kept == Kept::Dead {
            next.kept = Kept::Waiting;
            next.failures = 0;
            next.vanished = 0;
            next.ended_at = None;
            let expired = next.dead.take() == Some(DeadReason::Expired);
            next.expires = next.expires.filter(|due| !expired && !now.reached(*due));
        }
        let by = self.settings.node.to_string();
        remember(
            &mut next.timeline,
            Moment {
                at: now.wall,
                event,
                by,
                note: String::new(),
            },
        );
        let after = state(&next, now);
        self.rewrite(event, &job, place, next);
        after
    }

    /// A leased job can only be asked to stop.
    fn steer_held(&mut self, id: JobId, action: &Action, mode: Mode, now: Now) -> Result<State> {
        if *action != Action::Cancel {
            return Err(refusal::no_arrow(id, State::Leased, action.event()));
        }
        if mode == Mode::Act {
            self.log.append(&Record::Flag(id));
            self.absorb_flag(id);
            if let Some(queue) = self.leases.get(&id.0).map(|held| held.queue) {
                self.notice(
                    queue,
                    id,
                    Event::Cancel,
                    now,
                    &Arc::from(""),
                    "asked of its worker",
                );
            }
        }
        Ok(State::Leased)
    }

    pub(super) fn absorb_flag(&mut self, id: JobId) {
        if let Some(held) = self.leases.get_mut(&id.0) {
            held.cancel = true;
        }
    }

    pub(super) fn find(&mut self, which: &Which, now: Now) -> Step<Option<Job>> {
        let place = match which {
            Which::Id(id) => match self.leases.get(&id.0) {
                Some(held) => Some(held.place),
                None => self.log.find_id(id.0)?,
            },
            Which::Key(queue, key) => {
                let Some(number) = self.by_name.get(queue).copied() else {
                    return Ok(None);
                };
                match self.key_holder(number, key, now)? {
                    Some((place, _)) => Some(place),
                    None => self.with_key(number, key)?.last().map(|(place, _)| *place),
                }
            }
        };
        let Some(place) = place else { return Ok(None) };
        let job = self.log.read(place)?;
        let over = matches!(job.kept, Kept::Done | Kept::Tomb) && job.until <= now.steady;
        if over {
            return Ok(None);
        }
        Ok(Some(self.show(job, now)))
    }

    /// A job as callers see it, leased or not.
    pub(super) fn show(&self, job: Stored, now: Now) -> Job {
        match self.leases.get(&job.id.0) {
            Some(held) => self.view_held(job, held, now),
            None => self.view(job, now),
        }
    }
}
