//! The rules of Auxo, free of sockets and disks.
//!
//! [`job`] says what a job is, [`life`] which moves it may make, [`retry`] what a failure leads to, [`bucket`] how a rate is
//! kept, and [`engine`] what every store must promise. [`service`] stands between callers and an engine: it holds them to the
//! [`limits`], counts, and [`explain`]s why a job is not running. [`json`] and [`text`] are how values are written,
//! [`errand`] how an engine answers many callers at once.
//! Times are arguments or come from a [`clock`], so that a test passes a year in a microsecond.

pub mod bucket;
pub mod clock;
pub mod contents;
pub mod engine;
pub mod errand;
pub mod error;
pub mod event;
pub mod explain;
pub mod id;
pub mod job;
pub mod json;
pub mod life;
pub mod limits;
pub mod passage;
pub mod queue;
pub mod refusal;
pub mod retry;
pub mod schedule;
pub mod service;
pub mod text;
pub mod time;
pub mod topic;

pub use clock::{Clock, ManualClock, SystemClock};
pub use engine::Engine;
pub use error::{Code, Error, Result};
pub use id::{JobId, Token};
pub use job::{Job, JobSpec, NewJob, QueueName};
pub use life::State;
pub use limits::Limits;
pub use service::Service;
pub use time::{Due, Now, Timestamp, When};
