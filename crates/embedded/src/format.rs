//! What lies in the files of a store and may never change within a version of the format: docs/FORMAT.md.

use std::time::Duration;

use auxo_core::job::{Backoff, Jitter};

/// The version of the format, in all files that have one.
pub const FORMAT: u32 = 2;

/// What a job has of which its record says nothing. These are not the defaults of the product, though they were equal when
/// the format was made: a default of the product may change, and then jobs with the new one say so in their records.
pub mod absent {
    use super::*;

    pub const PRIORITY: u32 = 1024;
    pub const TTR: Duration = Duration::from_secs(60);
    pub const MAX_ATTEMPTS: u32 = 10;
    pub const BACKOFF: Backoff = Backoff::Exponential {
        base: Duration::from_secs(1),
        factor: 2.0,
        cap: Duration::from_secs(60 * 60),
        jitter: Jitter::Full,
    };
}
