//! How often what was asked for, since the server began.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use auxo_wire::beanstalk::Request;

/// The commands that beanstalkd counts, in the order in which it tells about them.
pub const COMMANDS: [&str; 25] = [
    "put",
    "peek",
    "peek-ready",
    "peek-delayed",
    "peek-buried",
    "reserve",
    "reserve-with-timeout",
    "delete",
    "release",
    "use",
    "watch",
    "ignore",
    "bury",
    "kick",
    "touch",
    "stats",
    "stats-job",
    "stats-tube",
    "list-tubes",
    "list-tube-used",
    "list-tubes-watched",
    "pause-tube",
    // Counted, but not told about.
    "reserve-job",
    "kick-job",
    "quit",
];

/// How many of the commands `stats` tells about.
pub const TOLD: usize = 22;

/// Counters that all connections share.
#[derive(Default)]
pub struct Counts {
    commands: [AtomicU64; COMMANDS.len()],
    /// Connections that are open.
    pub connections: AtomicU64,
    /// Connections that there ever were.
    pub all_connections: AtomicU64,
    /// Open connections that have put a job.
    pub producers: AtomicU64,
    /// Open connections that have asked for one.
    pub workers: AtomicU64,
    /// Connections that wait for a job.
    pub waiting: AtomicU64,
    /// Jobs that a connection held for too long.
    pub timeouts: AtomicU64,
}

impl Counts {
    /// Counts a request.
    pub fn asked(&self, request: &Request) {
        self.commands[place(request)].fetch_add(1, Relaxed);
    }

    /// How often each command was asked for.
    pub fn commands(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.commands.iter().map(|count| count.load(Relaxed));
        COMMANDS.into_iter().zip(counts)
    }
}

fn place(request: &Request) -> usize {
    match request {
        Request::Put { .. } => 0,
        Request::Peek(_) => 1,
        Request::PeekReady => 2,
        Request::PeekDelayed => 3,
        Request::PeekBuried => 4,
        Request::Reserve => 5,
        Request::ReserveWithTimeout(_) => 6,
        Request::Delete(_) => 7,
        Request::Release { .. } => 8,
        Request::Use(_) => 9,
        Request::Watch(_) => 10,
        Request::Ignore(_) => 11,
        Request::Bury { .. } => 12,
        Request::Kick(_) => 13,
        Request::Touch(_) => 14,
        Request::Stats => 15,
        Request::StatsJob(_) => 16,
        Request::StatsTube(_) => 17,
        Request::ListTubes => 18,
        Request::ListTubeUsed => 19,
        Request::ListTubesWatched => 20,
        Request::PauseTube(..) => 21,
        Request::ReserveJob(_) => 22,
        Request::KickJob(_) => 23,
        Request::Quit => 24,
    }
}
