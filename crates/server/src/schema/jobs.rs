//! Jobs, and what operators do with them.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::{Any, ItemError, Moment, Span};

/// A job to push. Every field may be left out.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewJob {
    /// Any JSON; its bytes are kept as they are. Not beside `payload_base64`.
    payload: Option<Any>,
    /// Any bytes, in base64.
    payload_base64: Option<String>,
    /// Which handler it is for.
    kind: Option<String>,
    /// Flat texts that travel along, at most 64.
    headers: Option<BTreeMap<String, String>>,
    /// 0 is most urgent; 1024 unless said.
    priority: Option<u32>,
    /// When it may run. Not beside `delay`.
    run_at: Option<Moment>,
    /// How long from now it may run.
    delay: Option<Span>,
    /// How long a lease lasts: 60s unless said. 0 means delivered at most once.
    ttr: Option<Span>,
    /// How long it may live in all; then it is dead as expired. Not beside `expires_at`.
    ttl: Option<Span>,
    /// Until when it may live.
    expires_at: Option<Moment>,
    /// How often it may fail or vanish: 10 unless said.
    max_attempts: Option<u32>,
    backoff: Option<Backoff>,
    /// Makes it unique in its queue.
    key: Option<String>,
    on_duplicate: Option<OnDuplicate>,
    /// How long the key is held after the job was done: 24h unless said.
    key_window: Option<Span>,
    /// Takes turns with other groups in a fair queue.
    group: Option<String>,
    /// How long the job is kept after it was done: not at all unless said.
    retention: Option<Span>,
}

/// How long to wait after a failure.
#[derive(ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Backoff {
    Exponential {
        base: Option<Span>,
        factor: Option<f64>,
        cap: Option<Span>,
        jitter: Option<Jitter>,
    },
    Fixed {
        delay: Span,
    },
    List {
        delays: Vec<Span>,
    },
}

/// How much of a wait is left to chance.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Jitter {
    None,
    Full,
}

/// What a push with a key that is taken does.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDuplicate {
    /// It is an error that names the job.
    Reject,
    /// It is answered with the job.
    Return,
    /// It gives the job the new payload and due time, if the job still waits.
    Replace,
}

/// Where in its life a job is.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Scheduled,
    Ready,
    Leased,
    Done,
    Dead,
    Cancelled,
}

/// One job, or up to 1,000 that are answered each for itself.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum Push {
    One(Box<NewJob>),
    Many(Vec<NewJob>),
}

/// A push that was accepted.
#[derive(ToSchema)]
pub struct Pushed {
    id: String,
    state: State,
    run_at: String,
    how: How,
}

/// What an accepted push did.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum How {
    New,
    Existing,
    Replaced,
}

/// The answer to one push: the first form for one job, the second for an array.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum PushAnswer {
    One(Pushed),
    Many(PushResults),
}

#[derive(ToSchema)]
pub struct PushResults {
    results: Vec<PushResult>,
}

/// `ok` or `error`.
#[derive(ToSchema)]
pub struct PushResult {
    ok: Option<Pushed>,
    error: Option<ItemError>,
}

/// A job with all there is to know about it.
#[derive(ToSchema)]
pub struct Job {
    id: String,
    queue: String,
    state: State,
    kind: Option<String>,
    /// The payload, if it is JSON.
    payload: Option<Any>,
    /// The space before and after a JSON payload, where there is any: with it the bytes are the very same.
    payload_space: Option<Vec<String>>,
    /// The payload, if it is not.
    payload_base64: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    priority: u32,
    run_at: String,
    created_at: String,
    /// How often it was leased.
    attempt: u32,
    failures: Option<u32>,
    /// How often a lease ended without a word.
    vanished: Option<u32>,
    max_attempts: u32,
    backoff: Backoff,
    ttr: String,
    expires_at: Option<String>,
    key: Option<String>,
    key_window: Option<String>,
    group: Option<String>,
    retention: Option<String>,
    last_error: Option<String>,
    dead_reason: Option<String>,
    ended_at: Option<String>,
    progress: Option<Any>,
    progress_base64: Option<String>,
    result: Option<Any>,
    result_base64: Option<String>,
    lease: Option<Holder>,
    /// In the answer to a lease: the right to the job.
    token: Option<String>,
    /// In the answer to a lease: when the lease ends.
    deadline: Option<String>,
    timeline: Option<Vec<TimelineEntry>>,
}

/// Who has a job.
#[derive(ToSchema)]
pub struct Holder {
    worker: String,
    deadline: String,
    cancel: bool,
}

/// Something that happened to a job.
#[derive(ToSchema)]
pub struct TimelineEntry {
    at: String,
    event: String,
    by: Option<String>,
    note: Option<String>,
}

/// A page of jobs. Only a page whose cursor is null is the last; others may be short, even empty.
#[derive(ToSchema)]
pub struct Page {
    jobs: Vec<Job>,
    #[schema(required)]
    next_cursor: Option<String>,
}

/// Why a job is not running, or who has a key.
#[derive(ToSchema)]
pub struct Explanation {
    reason: String,
    text: String,
    id: Option<String>,
    state: Option<State>,
    queue: Option<String>,
    /// When the reason ends by itself.
    until: Option<String>,
    /// Since when it holds.
    since: Option<String>,
    worker: Option<String>,
    error: Option<String>,
}

/// A new due time: one of the two.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    run_at: Option<Moment>,
    delay: Option<Span>,
}

/// A job and its state after an operator's move.
#[derive(ToSchema)]
pub struct Moved {
    id: String,
    state: State,
}

/// An operator's move on many jobs: on `ids`, or on those that match a `filter`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Order {
    action: Action,
    /// With reschedule, or `delay`.
    run_at: Option<Moment>,
    /// With reschedule, or `run_at`.
    delay: Option<Span>,
    ids: Option<Vec<String>>,
    /// `{}` means every job.
    filter: Option<Filter>,
    /// Where to go on, with a filter.
    cursor: Option<String>,
    /// How many jobs to go through, with a filter: 100 unless said.
    limit: Option<u32>,
    /// Only count.
    dry_run: Option<bool>,
}

#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Kick,
    Cancel,
    Delete,
    Reschedule,
}

/// What a job must have. All that is given must hold.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    queue: Option<String>,
    /// One state, or several with commas or in a list.
    state: Option<States>,
    kind: Option<String>,
    key: Option<String>,
    group: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    /// In the last error.
    error: Option<String>,
    /// Anywhere in kind, key, group, headers, last error, or a payload that is text.
    search: Option<String>,
    created_from: Option<Moment>,
    created_before: Option<Moment>,
    due_from: Option<Moment>,
    due_before: Option<Moment>,
}

#[derive(ToSchema)]
#[serde(untagged)]
pub enum States {
    Text(String),
    List(Vec<State>),
}

/// What a move on many jobs did. It goes on where `next_cursor` says, until that is null.
#[derive(ToSchema)]
pub struct Steered {
    moved: u64,
    dry_run: Option<bool>,
    results: Option<Vec<SteerResult>>,
    #[schema(required)]
    next_cursor: Option<String>,
}

/// `ok` or `error`.
#[derive(ToSchema)]
pub struct SteerResult {
    ok: Option<StateNow>,
    error: Option<ItemError>,
}

#[derive(ToSchema)]
pub struct StateNow {
    state: State,
}
