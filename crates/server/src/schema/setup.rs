//! Queues, topics, schedules, and the audit.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::{Any, Backoff, Moment, NewJob, OnDuplicate, Pushed, Span};

/// A queue.
#[derive(ToSchema)]
pub struct Queue {
    name: String,
    config: QueueConfig,
    counts: Counts,
    /// The payload bytes of jobs that are not done.
    bytes: u64,
    books: Books,
    /// How many lease calls wait.
    waiting: u64,
    last_asked: Option<String>,
    next_due: Option<String>,
    /// When its rate allows the next lease.
    rate_wait: Option<String>,
}

#[derive(ToSchema)]
pub struct Queues {
    queues: Vec<Queue>,
    /// The parts of the store that cannot be reached now, if there are any: their queues are not shown.
    unavailable: Option<Vec<Outage>>,
    /// The books of all forgotten queues together; left out while there is nothing in them.
    forgotten: Option<Books>,
}

/// A part of the store that is refused for now.
#[derive(ToSchema)]
pub struct Outage {
    /// What is refused: "pushes", "shard 3".
    part: String,
    /// Why.
    why: String,
}

/// A queue's settings. In a PUT, what is left out stays as it is, and a limit that is null is taken away.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueConfig {
    /// Refuses pushes.
    paused_in: Option<bool>,
    /// Hands out nothing.
    paused_out: Option<bool>,
    /// Hands out nothing before then.
    paused_until: Option<Moment>,
    /// The same, said as a span from now on; never shown. Not beside `paused_until`.
    paused_for: Option<Span>,
    /// The most jobs that wait, are leased or dead at once.
    max_jobs: Option<u64>,
    /// The most payload bytes of these jobs: a number, or a text such as "64MiB".
    max_bytes: Option<Size>,
    max_leased: Option<u32>,
    rate: Option<Rate>,
    /// Groups take turns within a priority.
    fair: Option<bool>,
    /// Over how many shards of a store on Redis the queue is spread.
    shards: Option<u16>,
}

#[derive(ToSchema)]
#[serde(untagged)]
pub enum Size {
    Bytes(u64),
    Text(String),
}

/// The most leases in a time.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    count: u32,
    /// 1s unless said.
    per: Option<Span>,
    /// How many at once after a quiet time; `count` unless said.
    burst: Option<u32>,
}

/// Jobs by state.
#[derive(ToSchema)]
pub struct Counts {
    scheduled: u64,
    ready: u64,
    leased: u64,
    dead: u64,
    done: u64,
}

/// Where every accepted job went: accepted = live + done + dead + expired + cancelled + deleted.
#[derive(ToSchema)]
pub struct Books {
    accepted: u64,
    live: u64,
    done: u64,
    dead: u64,
    expired: u64,
    cancelled: u64,
    deleted: u64,
}

/// Which side of a queue: where jobs come in, where they are handed out, or both, which is meant unless said.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Side {
    what: Option<What>,
}

/// Which side of a queue, as for a resume, and for how long.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    what: Option<What>,
    /// Only for so long, and only what is handed out: not beside `what` if that is `in`.
    r#for: Option<Span>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum What {
    In,
    Out,
    Both,
}

/// Which jobs to delete: those in these states, or in any but leased unless said.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Purge {
    states: Option<Vec<Purgeable>>,
}

/// A state in which a job can be deleted. Leased jobs are cancelled instead.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purgeable {
    Scheduled,
    Ready,
    Done,
    Dead,
    Cancelled,
}

#[derive(ToSchema)]
pub struct Purged {
    purged: u64,
}

#[derive(ToSchema)]
pub struct Subscription {
    topic: String,
    name: String,
    queue: String,
    pattern: Option<String>,
}

#[derive(ToSchema)]
pub struct Subscriptions {
    subscriptions: Vec<Subscription>,
}

/// Where the copies of a topic's messages go.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSubscription {
    queue: String,
    /// Which routing keys: `*` stands for one word, `#` for any number; all unless said.
    pattern: Option<String>,
}

/// A message for a topic: a job for each subscription, and what patterns are matched against.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    routing_key: Option<String>,
    payload: Option<Any>,
    payload_base64: Option<String>,
    kind: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    priority: Option<u32>,
    run_at: Option<Moment>,
    delay: Option<Span>,
    ttr: Option<Span>,
    ttl: Option<Span>,
    expires_at: Option<Moment>,
    max_attempts: Option<u32>,
    backoff: Option<Backoff>,
    key: Option<String>,
    on_duplicate: Option<OnDuplicate>,
    key_window: Option<Span>,
    group: Option<String>,
    retention: Option<Span>,
}

/// The jobs that a message became, one for each subscription.
#[derive(ToSchema)]
pub struct Published {
    jobs: Vec<Pushed>,
}

/// A recurring job.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewSchedule {
    queue: String,
    /// Five fields, or six with seconds. Not beside `every`.
    cron: Option<String>,
    /// The time zone of `cron`; UTC unless said.
    zone: Option<String>,
    /// A fixed period.
    every: Option<Span>,
    missed: Option<Missed>,
    /// The job, without a due time of its own.
    job: Option<NewJob>,
    /// Lets it go on as it did in another store, instead of computing its next tick from now.
    armed: Option<Armed>,
}

/// The ticks of a schedule.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Armed {
    /// The next one; without it the schedule does not tick.
    next: Option<Moment>,
    /// The last one that made a job.
    last: Option<Moment>,
}

/// What becomes of ticks while nobody was there to make them.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    Skip,
    Once,
    All,
}

#[derive(ToSchema)]
pub struct Schedule {
    name: String,
    queue: String,
    cron: Option<String>,
    zone: Option<String>,
    every: Option<String>,
    missed: Missed,
    job: NewJob,
    next: Option<String>,
    last: Option<String>,
}

#[derive(ToSchema)]
pub struct Schedules {
    schedules: Vec<Schedule>,
}

/// The books, recomputed from the stored jobs.
#[derive(ToSchema)]
pub struct Audit {
    ok: bool,
    jobs: u64,
    queues: Vec<AuditedQueue>,
    /// The books of all forgotten queues together; left out while there is nothing in them.
    forgotten: Option<Books>,
    problems: Vec<String>,
}

#[derive(ToSchema)]
pub struct AuditedQueue {
    name: String,
    books: Books,
    balanced: bool,
}
