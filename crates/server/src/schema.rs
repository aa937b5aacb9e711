//! What goes over the wire, for the document at `/openapi.json`.
//!
//! The JSON itself is read and written by [`auxo_core::json`], which names fields in its errors better than a derived reader
//! could. These types are its description; none is ever made. A test holds real answers against them.
#![expect(dead_code, reason = "described, never made")]

mod jobs;
mod passage;
mod setup;
mod work;

use serde_json::Value;
use utoipa::ToSchema;

pub use jobs::*;
pub use passage::*;
pub use setup::*;
pub use work::*;

/// A length of time: a text such as "30s", "1h30m" or "250ms", or a number of milliseconds.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum Span {
    #[schema(title = "text")]
    Text(String),
    #[schema(title = "milliseconds")]
    Millis(u64),
}

/// A moment: a text in RFC 3339 such as "2030-01-31T09:00:00Z", or Unix milliseconds.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum Moment {
    #[schema(title = "RFC 3339")]
    Text(String),
    #[schema(title = "Unix milliseconds")]
    Millis(u64),
}

/// What went wrong (RFC 9457). `code` is stable, `message` is for people.
#[derive(ToSchema)]
pub struct Problem {
    /// Always "about:blank".
    r#type: String,
    /// The status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    code: Code,
    /// What is wrong, and where.
    message: String,
    /// The same as `message`.
    detail: String,
    /// The job that it is about, if any; for a duplicate key the one that holds the key.
    job: Option<String>,
    /// The same as `job`.
    id: Option<String>,
}

/// Why something was refused or failed.
#[derive(ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    BadRequest,
    NotFound,
    DuplicateKey,
    LeaseLost,
    QueuePaused,
    QueueFull,
    TooLarge,
    RateLimited,
    Unauthorized,
    Forbidden,
    Unavailable,
    UnknownOutcome,
    Conflict,
    Internal,
}

/// The error of one item of a batch.
#[derive(ToSchema)]
pub struct ItemError {
    code: Code,
    message: String,
    /// The job that it is about, if any.
    id: Option<String>,
}

/// How the store is.
#[derive(ToSchema)]
pub struct Standing {
    /// "ok", or "degraded" while a part of the store is refused and the rest works.
    status: String,
    /// What is refused, if anything is: "pushes", "shard 3".
    refused: Option<Vec<String>>,
}

/// Something that happened, as a server-sent event.
#[derive(ToSchema)]
pub struct Told {
    /// Where a client that comes back goes on.
    id: Option<String>,
    /// What happened to a job, or `missed`.
    event: String,
    /// JSON: `{sequence, at, queue, id, event, by?, note?}`, or `{missed, restarted?}`.
    data: String,
}

/// A process that serves this queue.
#[derive(ToSchema)]
pub struct Node {
    name: String,
    version: String,
    started_at: String,
    /// What its clock shows.
    now: String,
    /// When an answered call is safe.
    sync: String,
    /// Where its jobs are kept.
    data: String,
}

#[derive(ToSchema)]
pub struct Nodes {
    nodes: Vec<Node>,
}

/// Any JSON, which is not looked into.
pub type Any = Value;
