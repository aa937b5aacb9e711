//! What an engine tells those who watch it.

use std::sync::Arc;

use crate::id::JobId;
use crate::job::QueueName;
use crate::life::Event;
use crate::time::Timestamp;

/// One transition of one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Rises by one with each notice of an engine since it was opened.
    pub sequence: u64,
    /// When it happened, by the wall clock.
    pub at: Timestamp,
    /// The job's queue.
    pub queue: QueueName,
    /// The job.
    pub job: JobId,
    /// What happened.
    pub event: Event,
    /// The worker or node that made it happen; may be empty.
    pub by: Arc<str>,
    /// The reason; may be empty.
    pub note: Arc<str>,
}
