//! Moving jobs to another store.

use std::collections::BTreeMap;

use utoipa::ToSchema;

use super::{Any, Backoff, ItemError, State, TimelineEntry};

/// A job with its whole life, on its way to another store: what a job shows, but for a lease, and what only a move needs.
#[derive(ToSchema)]
pub struct Passage {
    id: String,
    queue: String,
    state: State,
    kind: Option<String>,
    payload: Option<Any>,
    payload_space: Option<Vec<String>>,
    payload_base64: Option<String>,
    headers: Option<BTreeMap<String, String>>,
    priority: u32,
    run_at: String,
    created_at: String,
    attempt: u32,
    failures: Option<u32>,
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
    timeline: Option<Vec<TimelineEntry>>,
    /// It stands before all others of its priority, because a worker vanished with it.
    front: Option<bool>,
    /// Which clock its due time follows: the steady one or the one on the wall.
    due_clock: Option<ClockName>,
    /// Which clock the end of its life follows.
    expires_clock: Option<ClockName>,
    /// What this state of the job is known by, a number.
    version: Option<String>,
}

/// A clock.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClockName {
    Steady,
    Wall,
}

/// Jobs of a queue that are not leased.
#[derive(ToSchema)]
pub struct Passages {
    /// What the store is known by, however it is reached.
    store: String,
    jobs: Vec<Passage>,
    /// Where to go on; null at the end.
    next_cursor: Option<String>,
}

/// Jobs that are at another store now.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Departure {
    jobs: Vec<Leaving>,
}

/// A job that leaves.
#[derive(ToSchema)]
pub struct Leaving {
    id: String,
    /// In which state it may leave; in any if this is left out.
    version: Option<String>,
}

/// For each job whether it has left.
#[derive(ToSchema)]
pub struct Departed {
    results: Vec<DepartedItem>,
}

/// `ok` or `error`.
#[derive(ToSchema)]
pub struct DepartedItem {
    ok: Option<Nothing>,
    error: Option<ItemError>,
}

/// Nothing more to say.
#[derive(ToSchema)]
pub struct Nothing {}

/// A part of a move into a queue, or out of it.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Adoption {
    /// The other store, by the name that it gave with its jobs: the one they come from or, with `leave` and `stay`, go to.
    store: String,
    /// Who moves them: a number of 64 bits that nobody had before, in a text.
    run: String,
    step: AdoptionStep,
    /// The jobs, with the step `jobs`.
    jobs: Option<Vec<Passage>>,
}

/// At the target `look` only says how the move stands, `begin` makes this run the only one to take jobs from, `jobs` takes some, `end`
/// forgets the move. At the source `leave` lets jobs go to that store only and takes in none, until `stay`.
#[derive(ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum AdoptionStep {
    Look,
    Begin,
    Jobs,
    End,
    Leave,
    Stay,
}

/// How a move stands.
#[derive(ToSchema)]
pub struct Adopted {
    /// Whether a move from there was begun and has not ended.
    under_way: bool,
    /// The jobs that were taken in last, as their store knows them.
    last: Vec<Leaving>,
    /// The store that jobs of this queue go to, if they are being moved from here.
    leaving: Option<String>,
    /// For each job its id here, or why it was not taken.
    results: Vec<AdoptedItem>,
}

/// `ok` or `error`.
#[derive(ToSchema)]
pub struct AdoptedItem {
    ok: Option<AdoptedJob>,
    error: Option<ItemError>,
}

#[derive(ToSchema)]
pub struct AdoptedJob {
    id: String,
}
