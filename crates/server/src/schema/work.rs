//! What workers say and hear.

use utoipa::ToSchema;

use super::{Any, ItemError, Job, Span, State};

/// A request for jobs.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Where to look. Not beside `job`.
    queues: Option<Vec<String>>,
    /// This very job instead, wherever it stands. It is not waited for. If the queue would not hand it out now (it is not due, or dead, the
    /// queue is paused or has reached a limit), this needs the right to operate, too; a job that is not due, or dead, is kicked first.
    job: Option<String>,
    /// Which of the queues gives: the first unless said. All jobs of an answer are of one queue.
    pick: Option<Pick>,
    /// How many jobs at most: 1 unless said.
    max: Option<u32>,
    /// How long to wait when there are none: not at all unless said, 60s at most.
    wait: Option<Span>,
    /// The length of the leases, instead of each job's own.
    ttr: Option<Span>,
    /// The worker's name for itself.
    worker: Option<String>,
}

/// Which of several queues gives.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pick {
    /// The first, in the order named, that has a due job.
    First,
    /// The one whose next job is the most urgent: by priority, then due time, then age. More of its jobs follow as long as none of
    /// another queue comes before them, so there may be fewer than `max` though more are due: ask again.
    MostUrgent,
}

#[derive(ToSchema)]
pub struct Leases {
    jobs: Vec<Job>,
}

/// The end of a lease.
#[derive(ToSchema)]
#[serde(tag = "outcome", rename_all = "lowercase", deny_unknown_fields)]
pub enum Settle {
    /// It is done.
    Ack {
        token: String,
        /// Kept for the job's retention.
        result: Option<Any>,
        /// Any bytes, in base64. Not beside `result`.
        result_base64: Option<String>,
    },
    /// It did not work: again later, or dead after the last attempt.
    Fail {
        token: String,
        /// What went wrong.
        error: Option<String>,
        /// How long until it is due again; by the job's backoff unless said.
        delay: Option<Span>,
        /// False means never again.
        retry: Option<bool>,
    },
    /// Given back, without a failure.
    Release {
        token: String,
        /// How long until it is due again: at once unless said.
        delay: Option<Span>,
        /// A new priority.
        priority: Option<u32>,
    },
    /// Dead, until somebody kicks it.
    Bury {
        token: String,
        /// What went wrong.
        error: Option<String>,
        /// A new priority.
        priority: Option<u32>,
    },
    /// Again later, without a failure.
    Snooze {
        token: String,
        /// How long until it is due again.
        delay: Span,
    },
}

/// One, or up to 1,000 that are answered each for itself.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum Settles {
    Many(Vec<Settle>),
    One(Box<Settle>),
}

/// A lease that ended.
#[derive(ToSchema)]
pub struct Settled {
    id: String,
    state: State,
    /// When it is due again, if it is.
    run_at: Option<String>,
}

#[derive(ToSchema)]
#[serde(untagged)]
pub enum SettleAnswer {
    Many(SettleResults),
    One(Settled),
}

#[derive(ToSchema)]
pub struct SettleResults {
    results: Vec<SettleResult>,
}

/// `ok` or `error`.
#[derive(ToSchema)]
pub struct SettleResult {
    ok: Option<Settled>,
    error: Option<ItemError>,
}

/// A sign of life.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Extend {
    token: String,
    /// The new length from now on; the lease's own unless said.
    ttr: Option<Span>,
    /// How far the work is.
    progress: Option<Any>,
    progress_base64: Option<String>,
}

/// One, or up to 1,000 that are answered each for itself.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum Extends {
    Many(Vec<Extend>),
    One(Box<Extend>),
}

/// A lease that goes on.
#[derive(ToSchema)]
pub struct Extended {
    id: String,
    deadline: String,
    /// Somebody wants the job cancelled: stop and settle.
    cancel: bool,
}

#[derive(ToSchema)]
#[serde(untagged)]
pub enum ExtendAnswer {
    Many(ExtendResults),
    One(Extended),
}

#[derive(ToSchema)]
pub struct ExtendResults {
    results: Vec<ExtendResult>,
}

/// `ok` or `error`.
#[derive(ToSchema)]
pub struct ExtendResult {
    ok: Option<Extended>,
    error: Option<ItemError>,
}
