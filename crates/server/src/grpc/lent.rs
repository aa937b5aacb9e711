//! Leases in an answer that its client may never get.
//!
//! A client that gives up a call resets its stream. What the server lent in that very moment would be held until the lease
//! ends, with nobody at work. So a call ends before its own deadline, early enough for the answer to arrive; and an answer that
//! is dropped before it was sent gives its jobs back.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use auxo_core::engine::{Outcome, Settle};
use auxo_core::job::Leased;
use auxo_core::{Result, State, Token};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::app::App;

/// The way back of an answer takes a tenth of the time that the client gave the call, but not less and not more than this.
const LEAST_WAY_BACK: Duration = Duration::from_millis(5);
const LONGEST_WAY_BACK: Duration = Duration::from_millis(100);

/// The jobs that a lease brings before the deadline of its call is near; none if it brings none by then.
pub async fn before_deadline(
    metadata: &MetadataMap,
    lease: impl Future<Output = Result<Vec<Leased>>>,
) -> Result<Vec<Leased>> {
    match time_given(metadata) {
        // Dropping the call gives back what it was about to return.
        Some(time) => timeout(time.saturating_sub(way_back(time)), lease)
            .await
            .unwrap_or(Ok(Vec::new())),
        None => lease.await,
    }
}

fn way_back(time: Duration) -> Duration {
    (time / 10).clamp(LEAST_WAY_BACK, LONGEST_WAY_BACK)
}

/// How long the client waits for its call: `grpc-timeout`, up to eight digits and a unit.
fn time_given(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// The leases of an answer. They are given back when it is dropped and was not [`sent`](Lent::sent).
#[derive(Clone)]
pub struct Lent(Arc<Inner>);

struct Inner {
    app: Arc<App>,
    tokens: Vec<Token>,
    sent: AtomicBool,
}

impl Lent {
    pub fn new(app: &Arc<App>, jobs: &[Leased]) -> Lent {
        // What is handed out at most once is gone.
        let leased = jobs
            .iter()
            .filter(|leased| leased.job.state == State::Leased);
        Lent(Arc::new(Inner {
            app: app.clone(),
            tokens: leased.map(|leased| leased.token).collect(),
            sent: AtomicBool::new(false),
        }))
    }

    fn sent(&self) {
        self.0.sent.store(true, Ordering::Relaxed);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if *self.sent.get_mut() || self.tokens.is_empty() {
            return;
        }
        let release = |token| Settle {
            token,
            outcome: Outcome::Release {
                priority: None,
                delay: None,
            },
        };
        let items = self.tokens.drain(..).map(release).collect();
        let app = self.app.clone();
        if let Ok(runtime) = Handle::try_current() {
            // Nobody is there for the answer; what is not given back comes back when its lease ends.
            runtime.spawn(async move { app.service.settle(items).await });
        }
    }
}

/// A body that knows when all of it was taken.
pub struct Sent {
    body: tonic::body::Body,
    lent: Lent,
}

impl Sent {
    pub fn new(body: tonic::body::Body, lent: Lent) -> Sent {
        Sent { body, lent }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(None) => self.lent.sent(),
            // The status is the last that a client gets.
            Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => self.lent.sent(),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use auxo_core::engine::{Ask, Pick};
    use auxo_core::{JobSpec, Limits, NewJob, QueueName, Service};
    use auxo_embedded::{Embedded, Options};
    use http_body_util::BodyExt;

    use super::*;
    use crate::settings::Settings;

    fn queue() -> QueueName {
        QueueName::new("mail").unwrap()
    }

    /// A server with one job, which is leased.
    async fn leased() -> (tempfile::TempDir, Arc<App>, Vec<Leased>) {
        let dir = tempfile::tempdir().unwrap();
        let engine = Embedded::open(dir.path(), Options::default()).unwrap();
        let service = Arc::new(Service::new(Arc::new(engine), Limits::default()));
        let app = Arc::new(App::new(service, Settings::default()).unwrap());
        let job = NewJob {
            queue: queue(),
            spec: JobSpec::default(),
        };
        app.service.push(vec![job]).await.unwrap();
        let jobs = lease(&app, Duration::ZERO).await;
        assert_eq!(jobs.len(), 1);
        (dir, app, jobs)
    }

    async fn lease(app: &App, wait: Duration) -> Vec<Leased> {
        let ask = Ask {
            queues: vec![queue()],
            job: None,
            pick: Pick::First,
            max: 1,
            wait,
            ttr: None,
            worker: "".into(),
        };
        app.service.lease(ask).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_is_dropped_gives_its_jobs_back_at_once() {
        let (_dir, app, jobs) = leased().await;
        let body = tonic::body::Body::new(http_body_util::Full::new(Bytes::from("jobs")));
        drop(Sent::new(body, Lent::new(&app, &jobs)));
        let again = lease(&app, Duration::from_secs(10)).await;
        assert_eq!(again.len(), 1, "the job is held by nobody");
    }

    #[tokio::test]
    async fn an_answer_that_was_taken_keeps_its_jobs() {
        let (_dir, app, jobs) = leased().await;
        let body = tonic::body::Body::new(http_body_util::Full::new(Bytes::from("jobs")));
        let sent = Sent::new(body, Lent::new(&app, &jobs));
        assert_eq!(sent.collect().await.unwrap().to_bytes(), "jobs");
        let lent = Lent::new(&app, &jobs);
        lent.sent();
        drop(lent);
        // Whatever was left to do on this thread is done.
        tokio::task::yield_now().await;
        assert_eq!(lease(&app, Duration::ZERO).await, []);
    }

    #[tokio::test]
    async fn a_lease_ends_before_the_deadline_of_its_call() {
        let mut metadata = MetadataMap::new();
        metadata.insert("grpc-timeout", "200m".parse().unwrap());
        let jobs = before_deadline(&metadata, std::future::pending()).await;
        assert_eq!(jobs.unwrap(), []);
    }

    #[test]
    fn the_time_of_a_call_is_read_in_every_unit_and_nonsense_is_none() {
        let given = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            time_given(&metadata)
        };
        for (text, millis) in [
            ("2H", 7_200_000),
            ("3M", 180_000),
            ("1S", 1_000),
            ("99999999m", 99_999_999),
            ("5000u", 5),
            ("0m", 0),
        ] {
            assert_eq!(given(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(given("7n"), Some(Duration::from_nanos(7)));
        for text in ["", "m", "1", "1x", "123456789m", "-1S", "+1S", "1 S"] {
            assert_eq!(given(text), None, "{text:?}");
        }
        for (ms, way) in [(10, 5), (200, 20), (10_000, 100)] {
            let way = Duration::from_millis(way);
            assert_eq!(way_back(Duration::from_millis(ms)), way);
        }
    }
}
