//! Why a job is not running: one reason, one sentence. Pure, so that each case is a line of a table.

use std::sync::Arc;
use std::time::Duration;

use crate::id::{JobId, clip};
use crate::job::{DeadReason, Job, QueueName};
use crate::life::State;
use crate::queue::QueueInfo;
use crate::text;
use crate::time::Timestamp;

/// A queue that nobody asked for during this long, while none of its jobs is leased, has no consumer. It is the longest time
/// that a lease call may wait by default, so a living idle worker asks more often.
pub const SILENCE: Duration = Duration::from_secs(60);

/// Why a job is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No such job is stored.
    UnknownJob,
    /// Its time has not come.
    NotDue,
    /// Its queue hands out nothing.
    QueuePaused,
    /// As many jobs of its queue are leased as may be.
    LeaseLimit,
    /// Its queue has handed out as many jobs as it may for now.
    RateLimit,
    /// No worker asks for jobs of its queue.
    NoConsumer,
    /// It is ready; others come first or the workers are busy.
    Waiting,
    /// It is running.
    Leased,
    /// It is dead.
    Dead,
    /// It is done.
    Done,
    /// It was called off.
    Cancelled,
    /// A job has the key.
    KeyHeld,
    /// No job has the key.
    KeyFree,
}

impl Reason {
    /// Every reason.
    pub const ALL: [Reason; 13] = [
        Reason::UnknownJob,
        Reason::NotDue,
        Reason::QueuePaused,
        Reason::LeaseLimit,
        Reason::RateLimit,
        Reason::NoConsumer,
        Reason::Waiting,
        Reason::Leased,
        Reason::Dead,
        Reason::Done,
        Reason::Cancelled,
        Reason::KeyHeld,
        Reason::KeyFree,
    ];

    /// The reason as it is spelled in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::UnknownJob => "unknown_job",
            Reason::NotDue => "not_due",
            Reason::QueuePaused => "queue_paused",
            Reason::LeaseLimit => "lease_limit",
            Reason::RateLimit => "rate_limit",
            Reason::NoConsumer => "no_consumer",
            Reason::Waiting => "waiting",
            Reason::Leased => "leased",
            Reason::Dead => "dead",
            Reason::Done => "done",
            Reason::Cancelled => "cancelled",
            Reason::KeyHeld => "key_held",
            Reason::KeyFree => "key_free",
        }
    }
}

/// A reason with its sentence and, as far as they matter for it, the facts in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The reason.
    pub reason: Reason,
    /// The sentence.
    pub text: String,
    /// The job.
    pub job: Option<JobId>,
    /// Its state.
    pub state: Option<State>,
    /// Its queue.
    pub queue: Option<QueueName>,
    /// When the reason ends by itself: the due time, the next token, the lease's deadline, the end of retention or of the
    /// hold on a key.
    pub until: Option<Timestamp>,
    /// Since when it holds: the end of the job, or the last time that somebody asked for the queue, or the opening of the
    /// store when nobody has since.
    pub since: Option<Timestamp>,
    /// Who has the job.
    pub worker: Option<Arc<str>>,
    /// What the last failure said.
    pub error: Option<String>,
}

impl Explanation {
    fn new(reason: Reason, text: impl Into<String>) -> Explanation {
        Explanation {
            reason,
            text: text.into(),
            job: None,
            state: None,
            queue: None,
            until: None,
            since: None,
            worker: None,
            error: None,
        }
    }

    fn until(self, at: impl Into<Option<Timestamp>>) -> Explanation {
        Explanation {
            until: at.into(),
            ..self
        }
    }

    fn since(self, at: impl Into<Option<Timestamp>>) -> Explanation {
        Explanation {
            since: at.into(),
            ..self
        }
    }
}

/// When it is, and since when there is something to go by: who asked for a queue is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// When the store was opened, or later; `None` for who has not watched and can say nothing of workers.
    pub since: Option<Timestamp>,
    /// What the wall clock shows.
    pub now: Timestamp,
}

/// Explains a job by itself and its queue.
pub fn explain(job: Option<&Job>, queue: Option<&QueueInfo>, watch: Watch) -> Explanation {
    let now = watch.now;
    let Some(job) = job else {
        return Explanation::new(
            Reason::UnknownJob,
            "no such job is stored: it never was, or it is done and no longer retained, or it was cancelled or deleted",
        );
    };
    let explanation = match job.state {
        State::Scheduled => not_due(job, queue, now),
        State::Ready => ready(queue, watch),
        State::Leased => leased(job, now),
        State::Dead => dead(job),
        State::Done => done(job),
        State::Cancelled => Explanation::new(Reason::Cancelled, "cancelled").since(job.ended_at),
    };
    Explanation {
        job: Some(job.id),
        state: Some(job.state),
        queue: Some(job.queue.clone()),
        error: job.last_error.clone(),
        ..explanation
    }
}

/// Explains who has a key.
pub fn explain_key(
    key: &str,
    job: Option<&Job>,
    queue: Option<&QueueInfo>,
    watch: Watch,
) -> Explanation {
    let key = clip(key);
    let Some(job) = job else {
        return Explanation::new(
            Reason::KeyFree,
            format!("no job holds the key {key:?}; a push with it makes a new one"),
        );
    };
    let inner = explain(Some(job), queue, watch);
    let freed = job
        .ended_at
        .filter(|_| job.state == State::Done)
        .map(|ended| ended.plus(job.key_window));
    let hold = match freed {
        Some(at) => format!("until {at}"),
        None if job.key_window.is_zero() => "until it is done".to_owned(),
        None => format!("until {} after it is done", about(job.key_window)),
    };
    Explanation {
        reason: Reason::KeyHeld,
        text: format!(
            "the key {key:?} is held by job {} {hold}; that job is {}: {}",
            job.id, job.state, inner.text
        ),
        until: freed,
        ..inner
    }
}

fn not_due(job: &Job, queue: Option<&QueueInfo>, now: Timestamp) -> Explanation {
    let mut text = format!(
        "not due until {}, in {}",
        job.run_at,
        about(job.run_at.since(now))
    );
    let spent = job.failures.saturating_add(job.vanished);
    if spent > 0 {
        text += &format!(
            "; try {} of {} failed or vanished{}",
            spent,
            job.max_attempts,
            last_error(job)
        );
    }
    if queue.is_some_and(|queue| queue.config.holds_back(job.run_at)) {
        text += "; its queue is paused, too";
    }
    Explanation::new(Reason::NotDue, text).until(job.run_at)
}

fn ready(queue: Option<&QueueInfo>, watch: Watch) -> Explanation {
    let Some(queue) = queue else {
        return Explanation::new(Reason::Waiting, "ready, waiting for a worker");
    };
    let name = &queue.name;
    if queue.config.paused_out {
        return Explanation::new(
            Reason::QueuePaused,
            format!("ready, but queue {name} is paused and hands out nothing until it is resumed"),
        );
    }
    if let Some(until) = queue.config.pause_ends(watch.now) {
        let left = about(until.since(watch.now));
        let text = format!("ready, but queue {name} is paused until {until}, for {left}");
        return Explanation::new(Reason::QueuePaused, text).until(until);
    }
    if let Some(limit) = queue
        .config
        .max_leased
        .filter(|limit| queue.counts.leased >= u64::from(*limit))
    {
        return Explanation::new(
            Reason::LeaseLimit,
            format!(
                "ready, but queue {name} has {} jobs leased and its limit is {limit}",
                queue.counts.leased
            ),
        );
    }
    rate_limited(queue)
        .or_else(|| unasked(queue, watch))
        .unwrap_or_else(|| {
            Explanation::new(
                Reason::Waiting,
                format!(
                    "ready, waiting behind other work: queue {name} has {} jobs ready, {} leased, and {} lease calls wait for it",
                    queue.counts.ready, queue.counts.leased, queue.waiting
                ),
            )
        })
}

fn rate_limited(queue: &QueueInfo) -> Option<Explanation> {
    let (rate, next) = (queue.config.rate?, queue.rate_wait?);
    let text = format!(
        "ready, but queue {} has used up its rate of {} per {}; it may go on at {next}",
        queue.name,
        rate.count,
        text::duration(rate.per)
    );
    Some(Explanation::new(Reason::RateLimit, text).until(next))
}

/// Nobody asks for the queue, as far as is known.
fn unasked(queue: &QueueInfo, watch: Watch) -> Option<Explanation> {
    // Who holds a job will ask again when it is done, also when the lease is older than this opening of the store.
    if queue.waiting > 0 || queue.counts.leased > 0 {
        return None;
    }
    let name = &queue.name;
    let Some(at) = queue.last_asked.or(watch.since) else {
        let text = format!("ready, waiting for a worker to ask for queue {name}");
        return Some(Explanation::new(Reason::Waiting, text));
    };
    let silent = watch.now.since(at);
    let text = match queue.last_asked {
        Some(_) if silent < SILENCE => return None,
        None => format!(
            "ready, but no worker has asked for queue {name} since the store was opened {} ago, at {at}",
            about(silent)
        ),
        Some(_) => format!(
            "ready, but no worker has asked for queue {name} for {}, since {at}",
            about(silent)
        ),
    };
    Some(Explanation::new(Reason::NoConsumer, text).since(at))
}

fn leased(job: &Job, now: Timestamp) -> Explanation {
    let Some(holder) = &job.holder else {
        return Explanation::new(Reason::Leased, "leased by a worker");
    };
    let worker = match &*holder.worker {
        "" => "a worker without a name".to_owned(),
        name => format!("worker {name}"),
    };
    let mut text = format!(
        "leased by {worker}, try {}, until {} (in {}) unless it extends",
        job.attempt,
        holder.deadline,
        about(holder.deadline.since(now))
    );
    if holder.cancel {
        text += "; it was asked to stop";
    }
    Explanation {
        worker: Some(holder.worker.clone()),
        ..Explanation::new(Reason::Leased, text).until(holder.deadline)
    }
}

fn counted(count: u32, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    }
}

fn tries(count: u32) -> String {
    match count {
        1 => "1 try".to_owned(),
        count => format!("{count} tries"),
    }
}

fn dead(job: &Job) -> Explanation {
    let why = match job.dead {
        Some(DeadReason::Failed) => format!(
            "it failed {}, with {} allowed",
            counted(job.failures, "time"),
            tries(job.max_attempts)
        ),
        Some(DeadReason::Vanished) => format!(
            "its workers vanished {} and it failed {}, with {} allowed",
            counted(job.vanished, "time"),
            counted(job.failures, "time"),
            tries(job.max_attempts)
        ),
        Some(DeadReason::Buried) => "a worker buried it".to_owned(),
        Some(DeadReason::Expired) => match job.expires_at {
            Some(at) => format!("its time to live ended at {at}"),
            None => "its time to live ended".to_owned(),
        },
        None => "no reason is known".to_owned(),
    };
    let when = job
        .ended_at
        .map_or(String::new(), |at| format!(" since {at}"));
    let text = format!("dead{when}: {why}{}; kick it to try again", last_error(job));
    Explanation::new(Reason::Dead, text).since(job.ended_at)
}

fn done(job: &Job) -> Explanation {
    let when = job.ended_at.map_or(String::new(), |at| format!(" at {at}"));
    Explanation::new(
        Reason::Done,
        format!("done{when}, with try {}", job.attempt),
    )
    .since(job.ended_at)
    .until(
        job.ended_at
            .filter(|_| !job.retention.is_zero())
            .map(|at| at.plus(job.retention)),
    )
}

fn last_error(job: &Job) -> String {
    match &job.last_error {
        Some(error) => format!(", last error: {}", text::one_line(&clip(error))),
        None => String::new(),
    }
}

/// A duration for a sentence: nobody wants the milliseconds of three days.
fn about(span: Duration) -> String {
    let seconds = span.as_secs();
    text::duration(match seconds {
        0 => span,
        1..3600 => Duration::from_secs(seconds),
        3600.. => Duration::from_secs(seconds - seconds % 60),
    })
}

#[cfg(test)]
mod tests;
