//! What a server holds its callers to.

use std::time::Duration;

use auxo_core::queue::MAX_QUEUES;

use crate::auth::Auth;
use crate::trail::Trail;

/// Limits and names of one server. The default is meant for production.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the server tells about itself.
    pub about: About,
    /// Who may do what: everybody everything.
    pub auth: Auth,
    /// Names that a server without tokens on a loopback address answers to, beside those that always mean this machine: none.
    pub hosts: Vec<String>,
    /// Where it is written down what operators do: nowhere.
    pub trail: Trail,
    /// Connections at once: 10,000. One more is told so and closed.
    pub connections: usize,
    /// The number of a file descriptor from which on connections are closed at once: no limit. The system gives out the
    /// lowest that is free, so the ones from here to its limit are left to the store, however many files that has open.
    pub descriptors: usize,
    /// Bytes of one request's body: 64 MiB.
    pub body: usize,
    /// Bytes of all bodies that are being read or worked on: 256 MiB.
    pub bodies: usize,
    /// Bytes of all large answers to reading calls that are being sent: 256 MiB.
    pub answers: usize,
    /// Queue names in all lease calls that wait: 200,000. Names are all that such a call costs. A quarter is the most for one token
    /// or, where there are none, one address.
    pub names: usize,
    /// Queues that one token may have made, if it has rights in some queues only: a quarter of all that a store keeps, 25,000.
    pub queue_share: usize,
    /// From the first byte of a request's head to its last: 10 s.
    pub head_time: Duration,
    /// For a whole body to arrive: 30 s.
    pub body_time: Duration,
    /// For an answer from the engine, where the caller did not ask to wait: 30 s.
    pub answer_time: Duration,
    /// How long a connection may stay open without a request: 5 minutes.
    pub idle_time: Duration,
    /// How long a client may refuse to take an answer: 30 s.
    pub stall_time: Duration,
    /// How long running requests may go on after a stop was asked for: 30 s.
    pub grace: Duration,
}

/// What a server tells about itself at `/v1/nodes`.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// Its name.
    pub name: String,
    /// When an answered call is safe, such as `always`.
    pub sync: String,
    /// Where the jobs are kept.
    pub data: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            about: About::default(),
            auth: Auth::none(),
            hosts: Vec::new(),
            trail: Trail::off(),
            connections: 10_000,
            descriptors: usize::MAX,
            body: 64 << 20,
            bodies: 256 << 20,
            answers: 256 << 20,
            names: 200_000,
            queue_share: MAX_QUEUES as usize / 4,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            answer_time: Duration::from_secs(30),
            idle_time: Duration::from_secs(300),
            stall_time: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}
