//! Jobs as callers see them.

use auxo_core::job::{Holder, Job, Moment, TIMELINE_LENGTH};
use auxo_core::life::{Event, State};
use auxo_core::time::{Now, Timestamp};

use super::{Held, Machine};
use crate::record::{Kept, Stored};

impl Machine {
    /// A job that is not leased.
    pub(super) fn view(&self, job: Stored, now: Now) -> Job {
        let state = state(&job, now);
        let expired = job.kept == Kept::Waiting && state == State::Dead;
        let mut view = self.frame(job, state, now);
        if expired {
            // Its time ran out a moment ago and nobody has come by yet to note it.
            view.dead = Some(auxo_core::job::DeadReason::Expired);
            view.ended_at = view.expires_at;
        }
        view
    }

    /// A leased job.
    pub(super) fn view_held(&self, job: Stored, held: &Held, now: Now) -> Job {
        let mut view = self.frame(job, State::Leased, now);
        let deadline = now.on_wall(steady(held.deadline));
        view.attempt = held.attempt;
        view.progress = held.progress.clone().or(view.progress);
        extend(&mut view.timeline, held.moment());
        view.holder = Some(Holder {
            worker: held.worker.clone(),
            deadline,
            cancel: held.cancel,
        });
        view
    }

    fn frame(&self, job: Stored, state: State, now: Now) -> Job {
        let mut timeline = Vec::with_capacity(job.timeline.len() + 2);
        timeline.push(Moment {
            at: job.created_at,
            event: Event::Push,
            by: String::new(),
            note: String::new(),
        });
        timeline.extend(job.timeline);
        Job {
            id: job.id,
            queue: self.queues[job.queue as usize].name.clone(),
            kind: job.kind,
            payload: job.payload,
            headers: job.headers,
            priority: job.priority,
            state,
            run_at: now.on_wall(job.due),
            created_at: job.created_at,
            ttr: job.ttr,
            expires_at: job.expires.map(|due| now.on_wall(due)),
            max_attempts: job.max_attempts,
            backoff: job.backoff,
            key: job.key,
            key_window: job.window,
            group: job.group,
            retention: job.retention,
            attempt: job.attempt,
            failures: job.failures,
            vanished: job.vanished,
            last_error: job.last_error,
            dead: job.dead,
            ended_at: job.ended_at,
            progress: job.progress,
            result: job.result,
            holder: None,
            timeline,
        }
    }
}

impl Held {
    /// The entry of the timeline that the lease made.
    pub(super) fn moment(&self) -> Moment {
        Moment {
            at: self.leased_at,
            event: Event::Lease,
            by: self.worker.to_string(),
            note: String::new(),
        }
    }
}

/// The state of a job that is not leased.
pub(super) fn state(job: &Stored, now: Now) -> State {
    match job.kept {
        Kept::Dead => State::Dead,
        Kept::Done | Kept::Tomb => State::Done,
        Kept::Waiting if job.expires.is_some_and(|due| now.reached(due)) => State::Dead,
        Kept::Waiting if job.front || now.reached(job.due) => State::Ready,
        Kept::Waiting => State::Scheduled,
    }
}

/// Adds to a timeline as callers see it, with the push in front.
pub(super) fn extend(timeline: &mut Vec<Moment>, moment: Moment) {
    timeline.push(moment);
    if timeline.len() > TIMELINE_LENGTH {
        timeline.remove(1);
    }
}

/// Adds to a stored timeline. The push in front of it is not stored, so one less than the full length is kept: the oldest and the
/// newest entries.
pub(super) fn remember(timeline: &mut Vec<Moment>, moment: Moment) {
    timeline.push(moment);
    if timeline.len() > TIMELINE_LENGTH - 1 {
        timeline.remove(0);
    }
}

pub(super) fn steady(ms: u64) -> auxo_core::Due {
    auxo_core::Due {
        at: Timestamp(ms),
        base: auxo_core::time::Base::Steady,
    }
}
