//! How patient a client is, and how much it takes.

use std::time::Duration;

/// Time-outs and bounds of one client.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// To be connected: 5 s.
    pub connect_time: Duration,
    /// For a call with all its tries, besides what a lease waits for: 40 s, more than a server gives itself, so that its
    /// own word on what became of the call arrives.
    pub answer_time: Duration,
    /// Bytes of one answer: 256 MiB.
    pub most_answer: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            connect_time: Duration::from_secs(5),
            answer_time: Duration::from_secs(40),
            most_answer: 256 << 20,
        }
    }
}
