//! What an operator sees and does: find, list, steer.

use auxo_core::engine::{Action, Cursor, Mode, Order, Page, Query, Steered, Target, Which};
use auxo_core::job::{DeadReason, Job};
use auxo_core::life::{self, Event, State};
use auxo_core::time::{Now, Timestamp, When};
use auxo_core::{Code, Error, JobId, QueueName, Result};

use super::record::{Phase, Record};
use super::{Mint, Model};

/// Where in a listing a job stands.
type Spot = (QueueName, u8, (u32, bool, Timestamp, JobId));

impl Model {
    /// Shows one job.
    pub fn find(&mut self, which: &Which, now: Now, mint: &mut dyn Mint) -> Option<Job> {
        self.advance(now, mint);
        let id = match which {
            Which::Id(id) => *id,
            // Who held the key last is shown while it is retained.
            Which::Key(queue, key) => match self.key_holder(queue, key, now) {
                Some(holder) => holder,
                None => *self
                    .ids(|job| job.queue == *queue && job.key() == Some(key))
                    .last()?,
            },
        };
        self.jobs.get(&id).map(|job| job.view(now))
    }

    /// Shows a page of jobs.
    pub fn list(&mut self, query: &Query, now: Now, mint: &mut dyn Mint) -> Result<Page> {
        self.advance(now, mint);
        let (ids, next) = self.page(query, now)?;
        Ok(Page {
            jobs: ids.iter().map(|id| self.jobs[id].view(now)).collect(),
            next,
        })
    }

    fn page(&self, query: &Query, now: Now) -> Result<(Vec<JobId>, Option<Cursor>)> {
        let after = query.cursor.as_ref().map(read).transpose()?;
        let mut found: Vec<Spot> = self
            .jobs
            .values()
            .filter(|job| !job.is_tombstone(now) && query.filter.matches(&job.view(now)))
            .map(|job| spot(job, now))
            .filter(|spot| after.as_ref().is_none_or(|after| spot > after))
            .collect();
        found.sort();
        let limit = query.limit as usize;
        let more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| more).map(write);
        Ok((found.into_iter().map(|spot| spot.2.3).collect(), next))
    }

    /// An operator's move.
    pub fn steer(&mut self, order: &Order, now: Now, mint: &mut dyn Mint) -> Result<Steered> {
        self.advance(now, mint);
        let mut steered = Steered::default();
        let ids = match &order.target {
            Target::Jobs(ids) => ids.clone(),
            Target::Matching(query) => {
                let (ids, next) = self.page(query, now)?;
                steered.next = next;
                ids
            }
        };
        for id in ids {
            let result = self.steer_one(id, order, now);
            steered.moved += u64::from(result.is_ok());
            if matches!(order.target, Target::Jobs(_)) {
                steered.results.push(result);
            }
        }
        Ok(steered)
    }

    fn steer_one(&mut self, id: JobId, order: &Order, now: Now) -> Result<State> {
        let shown = |job: &&Record| !job.is_tombstone(now);
        let Some(job) = self.jobs.get(&id).filter(shown) else {
            return Err(Error::new(Code::NotFound, "no such job").about(id));
        };
        let (from, event) = (job.state(now), order.action.event());
        let Some(to) = life::next(Some(from), event) else {
            let text = format!("a {from} job takes no {event}");
            return Err(Error::new(Code::Conflict, text).about(id));
        };
        let act = order.mode == Mode::Act;
        match (&order.action, &mut self.job(id).phase) {
            (Action::Cancel, Phase::Leased(lease)) => {
                lease.cancel |= act;
                Ok(State::Leased)
            }
            (Action::Cancel | Action::Delete, _) => {
                if act {
                    self.remove(id, event, now, "");
                }
                Ok(to)
            }
            (Action::Kick, _) => Ok(self.put_back(id, event, When::Now, now, act)),
            (Action::Reschedule(when), _) => Ok(self.put_back(id, event, *when, now, act)),
        }
    }

    /// Whether a job is ready, or could be made so for somebody who wants this very one.
    pub(super) fn made_ready(&mut self, id: JobId, now: Now) -> bool {
        let Some(job) = self.jobs.get(&id) else {
            return false;
        };
        match (job.state(now), &job.phase) {
            (State::Ready, _) => return true,
            (State::Dead, Phase::Dead { reason, .. }) if *reason == DeadReason::Expired => {
                return false;
            }
            (State::Scheduled | State::Dead, _) => {}
            _ => return false,
        }
        self.put_back(id, Event::Kick, When::Now, now, true);
        true
    }

    /// A new due time; a dead job starts again as if it had never failed.
    fn put_back(&mut self, id: JobId, event: Event, when: When, now: Now, act: bool) -> State {
        let due = when.due(now);
        if act {
            let from = self.job(id).state(now);
            self.step(id, Some(from), event, now, "", "");
            let job = self.job(id);
            job.due = due;
            job.front = false;
            if let Phase::Dead { reason, .. } = job.phase {
                job.failures = 0;
                job.vanished = 0;
                if reason == DeadReason::Expired || job.expired(now) {
                    job.expires = None;
                }
                job.phase = Phase::Waiting;
            }
        }
        match now.reached(due) {
            true => State::Ready,
            false => State::Scheduled,
        }
    }
}

fn spot(job: &Record, now: Now) -> Spot {
    let part = match job.phase {
        Phase::Waiting | Phase::Leased(_) => 0,
        Phase::Dead { .. } => 1,
        Phase::Done { .. } => 2,
    };
    (job.queue.clone(), part, job.place(now))
}

fn write(spot: &Spot) -> Cursor {
    let (queue, part, (priority, behind, due, id)) = spot;
    let behind = u8::from(*behind);
    Cursor(format!("{part},{priority},{behind},{},{id},{queue}", due.0))
}

fn read(cursor: &Cursor) -> Result<Spot> {
    let parse = || {
        let mut parts = cursor.0.splitn(6, ',');
        let mut number = || parts.next()?.parse::<u64>().ok();
        let (part, priority, behind) = (number()?, number()?, number()?);
        let (due, id) = (number()?, number()?);
        let place = (
            u32::try_from(priority).ok()?,
            behind == 1,
            Timestamp(due),
            JobId(id),
        );
        let queue = QueueName::new(parts.next()?).ok()?;
        Some((queue, u8::try_from(part).ok()?, place))
    };
    parse().ok_or_else(|| Error::bad_request("the cursor is not one of mine"))
}
