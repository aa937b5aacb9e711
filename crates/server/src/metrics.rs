//! What is counted, in the text form of OpenMetrics that Prometheus reads.
//!
//! Labels are bounded: routes are patterns, methods and statuses are few, and queues past [`QUEUES`] are summed up as
//! `*`, which no queue can be called. A forgotten queue has no numbers any more; what it had accepted and done is counted for
//! `*forgotten`, so that no sum over all queues falls.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::Timestamp;
use auxo_core::engine::Outage;
use auxo_core::queue::{Books, Counts, QueueInfo};
use auxo_core::service::Tally;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::routes::Known;

/// How many queues have numbers of their own.
const QUEUES: usize = 1000;
/// The queue that stands for all the others.
const OTHER: &str = "*";
/// The queue that stands for all forgotten ones.
const FORGOTTEN: &str = "*forgotten";

type Labels<const N: usize> = [(&'static str, String); N];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    method: &'static str,
    route: Arc<str>,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Denied {
    reason: &'static str,
}

/// What the server itself counts.
#[derive(Clone)]
pub struct Metrics {
    requests: Family<Answered, Counter>,
    seconds: Family<Route, Histogram, fn() -> Histogram>,
    connections: Gauge,
    refused: Counter,
    browsers: Counter,
    denied: Family<Denied, Counter>,
    handshakes: Counter,
}

/// From half a millisecond to half a minute.
const BUCKETS: [f64; 12] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0,
];

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            connections: Gauge::default(),
            refused: Counter::default(),
            browsers: Counter::default(),
            denied: Family::default(),
            handshakes: Counter::default(),
        }
    }
}

/// An open connection.
pub struct Open(Gauge);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// What the queue says at the moment of asking.
pub struct Snapshot {
    /// All queues.
    pub queues: Vec<QueueInfo>,
    /// The books of all forgotten queues.
    pub forgotten: Books,
    /// What the service has done.
    pub tally: Tally,
    /// When the server began.
    pub started_at: Timestamp,
    /// Whether the engine works at all.
    pub healthy: bool,
    /// What it refuses while it does the rest.
    pub degraded: Vec<Outage>,
    /// How much the engine has put right by itself.
    pub repaired: u64,
    /// Files that could not be read again, and how often.
    pub unreadable: Vec<(&'static str, u64)>,
    /// Lines of the audit log that could not be written.
    pub unaudited: u64,
}

impl Metrics {
    /// Counts an answer.
    pub fn answered(&self, method: &'static str, route: &Known, status: u16, took: Duration) {
        let route = route.pattern.clone();
        let answered = Answered {
            method,
            route: route.clone(),
            status,
        };
        self.requests.get_or_create(&answered).inc();
        let seconds = self.seconds.get_or_create(&Route { route });
        seconds.observe(took.as_secs_f64());
    }

    /// Counts a connection while it is open.
    pub fn connection(&self) -> Open {
        self.connections.inc();
        Open(self.connections.clone())
    }

    /// Counts a connection past the limit.
    pub fn refused_connection(&self) {
        self.refused.inc();
    }

    /// Counts a connection that spoke HTTP where it is not spoken.
    pub fn browser(&self) {
        self.browsers.inc();
    }

    /// Counts a connection on which TLS did not come about.
    pub fn failed_handshake(&self) {
        self.handshakes.inc();
    }

    /// Counts somebody who was turned away.
    pub fn denied(&self, reason: &'static str) {
        self.denied.get_or_create(&Denied { reason }).inc();
    }

    /// Everything as text.
    pub fn text(&self, snapshot: &Snapshot) -> Result<String, std::fmt::Error> {
        let mut registry = Registry::with_prefix("auxo");
        self.register(&mut registry);
        register_server(&mut registry, snapshot);
        register_queues(&mut registry, snapshot);
        register_tally(&mut registry, &snapshot.tally);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn register(&self, registry: &mut Registry) {
        let requests = self.requests.clone();
        registry.register("http_requests", "Answered requests", requests);
        registry.register_with_unit(
            "http_request_duration",
            "Time until the answer began",
            Unit::Seconds,
            self.seconds.clone(),
        );
        let connections = self.connections.clone();
        registry.register("http_connections", "Open connections", connections);
        registry.register(
            "http_refused_connections",
            "Connections past the limit",
            self.refused.clone(),
        );
        registry.register(
            "misdirected_connections",
            "Connections that spoke HTTP to a port of another protocol and were closed",
            self.browsers.clone(),
        );
        registry.register(
            "denied",
            "Calls turned away for want of a token or of a right",
            self.denied.clone(),
        );
        registry.register(
            "failed_handshakes",
            "Connections on which TLS did not come about",
            self.handshakes.clone(),
        );
    }
}

fn register_server(registry: &mut Registry, snapshot: &Snapshot) {
    let started = Gauge::<f64, std::sync::atomic::AtomicU64>::default();
    started.set(snapshot.started_at.0 as f64 / 1e3);
    registry.register_with_unit(
        "process_start_time",
        "When the server began, since the Unix epoch",
        Unit::Seconds,
        started,
    );
    let healthy = Gauge::<i64>::default();
    healthy.set(snapshot.healthy.into());
    registry.register(
        "healthy",
        "1 while the store works, or a part of it",
        healthy,
    );
    let degraded = Family::<Labels<1>, Gauge>::default();
    for outage in &snapshot.degraded {
        let labels = [("part", outage.part.clone())];
        degraded.get_or_create(&labels).set(1);
    }
    registry.register(
        "degraded",
        "1 for each part of the store that is refused while the rest works",
        degraded,
    );
    let repaired: Counter = Counter::default();
    repaired.inc_by(snapshot.repaired);
    registry.register(
        "repaired",
        "What the engine found wrong in its store and put right since the start",
        repaired,
    );
    let unreadable = Family::<Labels<1>, Counter>::default();
    for (file, count) in &snapshot.unreadable {
        let labels = [("file", (*file).to_owned())];
        unreadable.get_or_create(&labels).inc_by(*count);
    }
    registry.register(
        "unreadable_files",
        "Changed files that were wrong, so that what they said before still holds",
        unreadable,
    );
    let unaudited: Counter = Counter::default();
    unaudited.inc_by(snapshot.unaudited);
    registry.register(
        "unaudited",
        "Lines of the audit log that could not be written",
        unaudited,
    );
    let version = Family::<Labels<1>, Gauge>::default();
    let own = [("version", env!("CARGO_PKG_VERSION").to_owned())];
    version.get_or_create(&own).set(1);
    registry.register("build", "The version of the server", version);
}

fn register_queues(registry: &mut Registry, snapshot: &Snapshot) {
    let jobs = Family::<Labels<2>, Gauge>::default();
    let bytes = Family::<Labels<1>, Gauge>::default();
    let waiting = Family::<Labels<1>, Gauge>::default();
    let accepted = Family::<Labels<1>, Counter>::default();
    let done = Family::<Labels<1>, Counter>::default();
    for (i, queue) in snapshot.queues.iter().enumerate() {
        let name = match i < QUEUES {
            true => queue.name.as_str(),
            false => OTHER,
        };
        for (state, count) in by_state(&queue.counts) {
            let labels = [("queue", name.to_owned()), ("state", state.to_owned())];
            jobs.get_or_create(&labels).inc_by(signed(count));
        }
        let labels = [("queue", name.to_owned())];
        bytes.get_or_create(&labels).inc_by(signed(queue.bytes));
        waiting.get_or_create(&labels).inc_by(signed(queue.waiting));
        accepted.get_or_create(&labels).inc_by(queue.books.accepted);
        done.get_or_create(&labels).inc_by(queue.books.done);
    }
    if !snapshot.forgotten.is_empty() {
        let labels = [("queue", FORGOTTEN.to_owned())];
        let forgotten = &snapshot.forgotten;
        accepted.get_or_create(&labels).inc_by(forgotten.accepted);
        done.get_or_create(&labels).inc_by(forgotten.done);
    }
    registry.register("queue_jobs", "Jobs by queue and state", jobs);
    registry.register_with_unit(
        "queue_payload",
        "Payload bytes of jobs that are not done",
        Unit::Bytes,
        bytes,
    );
    registry.register("queue_waiting_leases", "Lease calls that wait", waiting);
    registry.register("queue_accepted", "Jobs ever accepted", accepted);
    registry.register("queue_done", "Jobs ever done", done);
}

fn by_state(counts: &Counts) -> [(&'static str, u64); 5] {
    [
        ("scheduled", counts.scheduled),
        ("ready", counts.ready),
        ("leased", counts.leased),
        ("dead", counts.dead),
        ("done", counts.done),
    ]
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn register_tally(registry: &mut Registry, tally: &Tally) {
    for (name, help, count) in [
        ("pushed", "New jobs since the start", tally.pushed),
        ("leased", "Jobs lent since the start", tally.leased),
    ] {
        let counter: Counter = Counter::default();
        counter.inc_by(count);
        registry.register(name, help, counter);
    }
    let settled = Family::<Labels<1>, Counter>::default();
    for (outcome, count) in tally.settled {
        let labels = [("outcome", outcome.to_owned())];
        settled.get_or_create(&labels).inc_by(count);
    }
    registry.register("settled", "Leases ended since the start", settled);
    let refused = Family::<Labels<1>, Counter>::default();
    for (code, count) in tally.refused {
        let labels = [("code", code.as_str().to_owned())];
        refused.get_or_create(&labels).inc_by(count);
    }
    registry.register("errors", "Calls and items answered with an error", refused);
}
