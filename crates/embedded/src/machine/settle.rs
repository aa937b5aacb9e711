//! Leases end, or go on.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Extend, Extended, Outcome, Retry, Settle, Settled};
use auxo_core::job::{DeadReason, Moment};
use auxo_core::life::{Event, State};
use auxo_core::retry::{self, Verdict};
use auxo_core::time::{Base, Due, Now};
use auxo_core::{JobId, Result, Timestamp, Token, refusal};
use bytes::Bytes;

use super::lease::kept_after;
use super::view::{remember, state, steady};
use super::{Held, Machine, Step};
use crate::record::{From, Gone, Kept, Place, Previous, Record, Remove, Stored, lease_millis};

/// How a job ends well.
pub(super) struct Ending {
    pub event: Event,
    pub by: Arc<str>,
    pub result: Option<Bytes>,
    pub attempt: u32,
}

impl Machine {
    pub(super) fn settle_all(
        &mut self,
        items: Vec<Settle>,
        now: Now,
    ) -> Step<Vec<Result<Settled>>> {
        let mut acks = Vec::new();
        let mut results = Vec::with_capacity(items.len());
        for item in items {
            let held = match self.held(item.token, now) {
                Ok(held) => held,
                Err(error) => {
                    results.push(Err(error));
                    continue;
                }
            };
            let id = item.token.job;
            if matches!(item.outcome, Outcome::Ack { .. }) && held.plain {
                let (queue, worker) = (held.queue, held.worker.clone());
                self.freed(queue);
                self.absorb_ack(id);
                acks.push(id);
                self.notice(queue, id, Event::Ack, now, &worker, "");
                results.push(Ok(Settled {
                    id,
                    state: State::Done,
                    run_at: None,
                }));
                continue;
            }
            let held = held.clone();
            // Records of one call keep their order.
            self.write_acks(&mut acks);
            self.make_room(now)?;
            if let Some(error) = self.no_room(held.weight as usize) {
                results.push(Err(error));
                continue;
            }
            results.push(Ok(self.settle(held, id, item.outcome, now)?));
        }
        self.write_acks(&mut acks);
        Ok(results)
    }

    fn write_acks(&mut self, acks: &mut Vec<JobId>) {
        if !acks.is_empty() {
            self.log.append(&Record::Ack(std::mem::take(acks)));
        }
    }

    /// The lease a token stands for, if it still runs.
    fn held(&self, token: Token, now: Now) -> Result<&Held> {
        self.leases
            .get(&token.job.0)
            .filter(|held| {
                (held.counter, held.nonce) == (token.counter, token.nonce)
                    && held.deadline > now.steady.0
            })
            .ok_or_else(|| refusal::lease_lost(token.job))
    }

    /// A lease of a queue ended: its limit may let another one in.
    fn freed(&mut self, queue: u32) {
        let queue_state = &self.queues[queue as usize];
        if queue_state.config.max_leased.is_some() && !queue_state.waiters.is_empty() {
            self.stir(queue);
        }
    }

    fn settle(&mut self, held: Held, id: JobId, outcome: Outcome, now: Now) -> Step<Settled> {
        let job = self.read_spot(id.0, held.place)?;
        self.freed(held.queue);
        if let Outcome::Ack { result } = outcome {
            let ending = Ending {
                event: Event::Ack,
                by: held.worker.clone(),
                result,
                attempt: held.attempt,
            };
            self.finish_job(held.place, job, Some(&held), ending, now);
            return Ok(Settled {
                id,
                state: State::Done,
                run_at: None,
            });
        }
        if held.cancel {
            return Ok(self.cancel_held(held, id, now));
        }
        let mut next = self.after_lease(&job, &held);
        let expired = next.expires.is_some_and(|due| now.reached(due));
        let (event, note) = match outcome {
            Outcome::Ack { .. } => unreachable!("an ack was answered above"),
            Outcome::Fail {
                error,
                delay,
                retry,
            } => self.failed(&mut next, error, delay, retry, now),
            Outcome::Release { priority, delay } => {
                next.priority = priority.unwrap_or(next.priority);
                if let Some(delay) = delay {
                    reschedule(&mut next, delay, now);
                }
                (Event::Release, String::new())
            }
            Outcome::Bury { error, priority } => {
                next.priority = priority.unwrap_or(next.priority);
                let note = error.clone().unwrap_or_default();
                next.last_error = error.or(next.last_error);
                bury(&mut next, DeadReason::Buried, now);
                (Event::Bury, note)
            }
            Outcome::Snooze { delay } => {
                reschedule(&mut next, delay, now);
                (Event::Snooze, String::new())
            }
        };
        let event = match event {
            // Too old to be tried again.
            Event::Retry | Event::Release | Event::Snooze if expired => {
                next.due = job.due;
                bury(&mut next, DeadReason::Expired, now);
                Event::Expire
            }
            event => event,
        };
        remember(
            &mut next.timeline,
            Moment {
                at: now.wall,
                event,
                by: held.worker.to_string(),
                note: note.clone(),
            },
        );
        let settled = Settled {
            id,
            state: state(&next, now),
            run_at: (next.kept == Kept::Waiting).then(|| now.on_wall(next.due)),
        };
        self.replace_held(event, &held, next);
        self.notice(held.queue, id, event, now, &held.worker, &note);
        Ok(settled)
    }

    /// Takes back jobs that were leased for a call that ended before it had its answer. No worker has these tokens, so the leases
    /// never were: no attempt is counted, and the timelines do not have them.
    pub fn take_back(&mut self, tokens: Vec<Token>, now: Now) {
        if self.broken.is_some() {
            return;
        }
        self.moment = now;
        if let Err(trouble) = self.take_back_all(tokens, now) {
            self.fail(trouble);
        }
    }

    fn take_back_all(&mut self, tokens: Vec<Token>, now: Now) -> Step<()> {
        for token in tokens {
            let Ok(held) = self.held(token, now).cloned() else {
                continue;
            };
            self.make_room(now)?;
            // Without room for the record, the lease ends at its deadline.
            if self.no_room(held.weight as usize).is_none() {
                self.take_back_one(held, token.job, now)?;
            }
        }
        Ok(())
    }

    fn take_back_one(&mut self, held: Held, id: JobId, now: Now) -> Step<()> {
        let mut job = self.read_spot(id.0, held.place)?;
        self.freed(held.queue);
        if held.cancel {
            self.cancel_held(held, id, now);
            return Ok(());
        }
        let expired = job.expires.is_some_and(|due| now.reached(due));
        let event = if expired {
            bury(&mut job, DeadReason::Expired, now);
            remember(
                &mut job.timeline,
                Moment {
                    at: now.wall,
                    event: Event::Expire,
                    by: held.worker.to_string(),
                    note: String::new(),
                },
            );
            Event::Expire
        } else {
            Event::Release
        };
        self.replace_held(event, &held, job);
        self.notice(held.queue, id, event, now, &held.worker, "");
        Ok(())
    }

    fn failed(
        &mut self,
        job: &mut Stored,
        error: String,
        delay: Option<Duration>,
        retry: Retry,
        now: Now,
    ) -> (Event, String) {
        job.failures += 1;
        job.last_error = Some(error.clone());
        let spent = job.failures.saturating_add(job.vanished);
        let dice = self.dice.roll();
        let verdict = match retry {
            Retry::Never => Verdict::Dead,
            Retry::Policy => {
                retry::after_failure(spent, job.failures, job.max_attempts, &job.backoff, dice)
            }
        };
        match verdict {
            Verdict::Retry(wait) => {
                reschedule(job, delay.unwrap_or(wait), now);
                (Event::Retry, error)
            }
            Verdict::Dead => {
                bury(job, DeadReason::Failed, now);
                (Event::Fail, error)
            }
        }
    }

    /// The job as it is when its lease ends.
    fn after_lease(&self, job: &Stored, held: &Held) -> Stored {
        let mut next = job.clone();
        next.attempt = held.attempt;
        next.progress = held.progress.clone().or(next.progress);
        remember(&mut next.timeline, held.moment());
        next
    }

    fn replace_held(&mut self, event: Event, held: &Held, next: Stored) -> Place {
        let previous = Previous {
            place: held.place,
            payload: held.payload,
            weight: held.weight,
            line: steady(0),
        };
        self.put(Some(event), From::Leased, Some(previous), next)
    }

    /// Ends a job well: what its retention or its key asks for is kept, the rest goes.
    pub(super) fn finish_job(
        &mut self,
        place: Place,
        job: Stored,
        held: Option<&Held>,
        ending: Ending,
        now: Now,
    ) {
        let (id, queue) = (job.id, job.queue);
        let before = match held {
            Some(held) => Previous {
                place,
                payload: held.payload,
                weight: held.weight,
                line: steady(0),
            },
            None => Previous {
                place,
                payload: job.payload.len() as u32,
                weight: job.weight,
                line: job.line(),
            },
        };
        let from = if held.is_some() {
            From::Leased
        } else {
            From::Waiting
        };
        match kept_after(&job, now) {
            None => {
                // Only a job that was handed out at most once comes here; an ack that leaves nothing is a record of its own.
                let Previous {
                    place,
                    payload,
                    weight,
                    line,
                } = before;
                self.remove(Remove {
                    how: Gone::Taken,
                    from,
                    queue,
                    id,
                    place,
                    payload,
                    weight,
                    line,
                });
            }
            Some((kept, until)) => {
                let mut next = match held {
                    Some(held) => self.after_lease(&job, held),
                    None => job,
                };
                next.attempt = ending.attempt;
                next.kept = kept;
                next.until = until;
                next.ended_at = Some(now.wall);
                next.result = ending.result;
                remember(
                    &mut next.timeline,
                    Moment {
                        at: now.wall,
                        event: ending.event,
                        by: ending.by.to_string(),
                        note: String::new(),
                    },
                );
                if kept == Kept::Tomb {
                    strip(&mut next);
                }
                self.put(Some(ending.event), from, Some(before), next);
            }
        }
        self.notice(queue, id, ending.event, now, &ending.by, "");
    }

    /// A job that was to be cancelled comes back from its worker.
    fn cancel_held(&mut self, held: Held, id: JobId, now: Now) -> Settled {
        self.remove(Remove {
            how: Gone::Cancelled,
            from: From::Leased,
            queue: held.queue,
            id,
            place: held.place,
            payload: held.payload,
            weight: held.weight,
            line: steady(0),
        });
        self.notice(held.queue, id, Event::Cancel, now, &held.worker, "");
        Settled {
            id,
            state: State::Cancelled,
            run_at: None,
        }
    }

    pub(super) fn extend_all(&mut self, items: Vec<Extend>, now: Now) -> Vec<Result<Extended>> {
        items
            .into_iter()
            .map(|item| self.extend(item, now))
            .collect()
    }

    fn extend(&mut self, item: Extend, now: Now) -> Result<Extended> {
        let held = self.held(item.token, now)?;
        let (id, cancel) = (item.token.job, held.cancel);
        let ttr = item.ttr.map_or(held.ttr, lease_millis);
        let deadline = Timestamp(now.ceiling.0.saturating_add(u64::from(ttr)));
        self.log.append(&Record::Extend {
            id,
            deadline,
            ttr,
            progress: item.progress.clone(),
        });
        self.absorb_extend(id, deadline, ttr, item.progress);
        Ok(Extended {
            id,
            deadline: now.on_wall(steady(deadline.0)),
            cancel,
        })
    }

    /// A lease ran out: nobody settled it.
    pub(super) fn vanish(&mut self, id: JobId, now: Now) -> Step<()> {
        let Some(held) = self.leases.get(&id.0).cloned() else {
            return Ok(());
        };
        self.freed(held.queue);
        if held.cancel {
            self.cancel_held(held, id, now);
            return Ok(());
        }
        let job = self.read_spot(id.0, held.place)?;
        let mut next = self.after_lease(&job, &held);
        next.vanished += 1;
        let spent = next.failures.saturating_add(next.vanished);
        let ended = Now {
            steady: Timestamp(held.deadline),
            ..now
        };
        let expired = next
            .expires
            .is_some_and(|due| due.base == Base::Steady && ended.reached(due) || now.reached(due));
        let event = if retry::exhausted(spent, next.max_attempts) {
            bury(&mut next, DeadReason::Vanished, now);
            Event::Exhaust
        } else if expired {
            bury(&mut next, DeadReason::Expired, now);
            Event::Expire
        } else {
            next.front = true;
            Event::Vanish
        };
        let note = format!(
            "{} did not settle it in time",
            if held.worker.is_empty() {
                "its worker"
            } else {
                &held.worker
            }
        );
        remember(
            &mut next.timeline,
            Moment {
                at: now.wall,
                event,
                by: held.worker.to_string(),
                note: note.clone(),
            },
        );
        self.replace_held(event, &held, next);
        self.notice(held.queue, id, event, now, &held.worker, &note);
        Ok(())
    }

    /// A job that waits has reached the end of its life.
    pub(super) fn expire(&mut self, place: Place, job: Stored, now: Now) {
        let (queue, id) = (job.queue, job.id);
        let mut next = job.clone();
        bury(&mut next, DeadReason::Expired, now);
        let node = self.settings.node.clone();
        remember(
            &mut next.timeline,
            Moment {
                at: now.wall,
                event: Event::Expire,
                by: node.to_string(),
                note: String::new(),
            },
        );
        self.rewrite(Event::Expire, &job, place, next);
        self.notice(queue, id, Event::Expire, now, &node, "");
    }
}

/// A tombstone keeps the key and who it was, not what it carried.
pub(super) fn strip(job: &mut Stored) {
    job.payload = Bytes::new();
    job.headers.clear();
    job.result = None;
    job.progress = None;
    job.last_error = None;
    job.timeline.clear();
}

fn reschedule(job: &mut Stored, delay: Duration, now: Now) {
    job.due = Due {
        at: now.ceiling.plus(delay),
        base: Base::Steady,
    };
    job.front = false;
}

fn bury(job: &mut Stored, reason: DeadReason, now: Now) {
    job.kept = Kept::Dead;
    job.dead = Some(reason);
    job.ended_at = Some(now.wall);
    job.front = false;
}
