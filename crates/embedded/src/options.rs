//! How an embedded engine is opened.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::clock::Clock;

use crate::clock::TimeSource;

/// How safe an answered push, ack, fail or bury is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// It is on the disk: it survives a power cut. Many callers share one sync.
    #[default]
    Always,
    /// It will be on the disk within this time: a power cut may take what is younger, a killed process takes nothing.
    Interval(Duration),
    /// The operating system decides when it reaches the disk: a power cut may take the last half minute or so.
    Os,
}

/// The most that [`Options::max_queues`] can be. A checkpoint that numbers a queue higher is damaged, whatever its checksum says:
/// to believe it would take the store as much memory and time as that many queues.
pub const MOST_QUEUES: u32 = 1 << 20;

/// Settings of an embedded engine. [`Options::default`] is safe.
#[derive(Clone)]
pub struct Options {
    /// How safe an answered call is.
    pub sync: Sync,
    /// The size of a segment of the log, at least 64 KiB.
    pub segment_size: u64,
    /// What timelines call this process; empty for none.
    pub node: String,
    /// The most queues there may be, at most [`MOST_QUEUES`]. Past it, a new one takes the place of the one that has nothing and went unused the longest.
    pub max_queues: u32,
    /// The clock, instead of one on the machine's own time.
    pub clock: Option<Arc<dyn Clock>>,
    /// What the store's clock reads, instead of the machine's own time. Of no use with a `clock`.
    pub time_source: Option<Arc<dyn TimeSource>>,
    /// Takes tokens and jitter from a seed instead of the system's randomness. For tests: such tokens can be guessed.
    pub seed: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            sync: Sync::Always,
            segment_size: 64 << 20,
            node: String::new(),
            max_queues: auxo_core::queue::MAX_QUEUES,
            clock: None,
            time_source: None,
            seed: None,
        }
    }
}
