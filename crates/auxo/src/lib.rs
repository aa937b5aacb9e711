//! Auxo: a job queue that keeps every accepted job and hands it out on time.
//!
#![cfg_attr(feature = "embedded", doc = "```")]
#![cfg_attr(not(feature = "embedded"), doc = "```ignore")]
//! use auxo::Auxo;
//!
//! # #[tokio::main]
//! # async fn main() -> auxo::Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path();
//! let auxo = Auxo::open(path).await?;
//! let mail = auxo.queue("mail")?;
//! mail.push("hello, ada").await?;
//!
//! while let Some(lease) = auxo.lease(["mail"]).one().await? {
//!     let text: String = lease.payload()?;
//!     match send(&text).await {
//!         Ok(()) => lease.ack().await?,
//!         Err(error) => lease.fail(error).await?,
//!     };
//! }
//! auxo.close().await
//! # }
//! # async fn send(text: &str) -> Result<(), String> { assert_eq!(text, "hello, ada"); Ok(()) }
//! ```
//!
//! `Auxo::connect("http://127.0.0.1:8000")` is the same handle to a server that other programs share, and
//! `Auxo::connect("redis://127.0.0.1:6379")` to a Redis that they share.
//!
//! A job that was accepted is on disk. A job that is leased belongs to one worker, until it is settled or its lease ends; then
//! it comes back. So a job runs at least once, and a handler should not mind running twice.
//!
//! The names below are what most programs need. [`core`] has the rest: the engine contract, listing, an operator's moves.

pub use auxo_client::{Auxo, Draft, Lease, Plan, Queue, Request, Topic};
pub use auxo_core as core;
pub use auxo_core::engine::{Accepted, Extended, Outcome, Pushed, Retry, Settled};
pub use auxo_core::job::{Backoff, DeadReason, Jitter, OnDuplicate};
pub use auxo_core::limits::Limits;
pub use auxo_core::queue::{QueueConfig, QueueInfo, Rate};
pub use auxo_core::schedule::Missed;
pub use auxo_core::{Code, Error, Job, JobId, JobSpec, QueueName, Result, State, Timestamp, Token};

#[cfg(feature = "embedded")]
pub use auxo_client::Builder;
#[cfg(any(feature = "http", feature = "redis"))]
pub use auxo_client::Connector;
#[cfg(feature = "http")]
pub use auxo_client::Remote;
#[cfg(feature = "embedded")]
pub use auxo_embedded::{Options, Report as SalvageReport, Sync, salvage};
