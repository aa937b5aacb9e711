//! Leases wait on the server, and nothing is lost when their caller does not wait as long.

use std::time::Duration;

use auxo_core::{Code, JobId};
use serde_json::json;

use crate::stub::{Heard, Step, Stub, leased, ok};

const WAIT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_lease_asks_the_server_to_wait() {
    let mut stub = Stub::new([Step::Answer(200, leased())]).await;
    let auxo = stub.connect().await;
    let request = auxo.lease(["urgent", "q"]).max(3).wait(WAIT).worker("w1");
    let leases = request.many().await.unwrap();
    assert_eq!(leases[0].id(), JobId(7));
    let (line, body) = stub.request().await;
    assert_eq!(line, "POST /v1/lease");
    let asked = json!({"queues": ["urgent", "q"], "max": 3, "wait": "30s", "worker": "w1"});
    assert_eq!(body, asked);
}

#[tokio::test]
async fn a_lease_is_waited_for_longer_than_other_calls() {
    let mut stub = Stub::new([Step::Silence]).await;
    let auxo = stub.hasty().await;
    let started = std::time::Instant::now();
    let wait = Duration::from_millis(200);
    let error = auxo.lease(["q"]).wait(wait).one().await.err().unwrap();
    assert_eq!(error.code(), Code::UnknownOutcome);
    assert!(started.elapsed() >= wait + Duration::from_millis(300));
    assert_eq!(stub.request().await.0, "POST /v1/lease");
}

#[tokio::test]
async fn a_lease_that_is_dropped_hangs_up() {
    let mut stub = Stub::new([Step::Silence]).await;
    let auxo = stub.connect().await;
    let task = tokio::spawn(async move { auxo.lease(["q"]).wait(WAIT).one().await.map(drop) });
    stub.request().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(stub.heard().await, Heard::HungUp);
}

#[tokio::test]
async fn jobs_that_come_too_late_are_given_back() {
    let released = ok(json!({"results": [{"ok": {"id": "7", "state": "ready"}}]}));
    let mut stub = Stub::new([Step::Late(leased()), released]).await;
    let auxo = stub.connect().await;
    let handle = auxo.clone();
    let task = tokio::spawn(async move { handle.lease(["q"]).wait(WAIT).one().await.map(drop) });
    stub.request().await;
    task.abort();
    assert_eq!(stub.heard().await, Heard::HungUp);
    let (line, body) = stub.request().await;
    assert_eq!(line, "POST /v1/settle");
    assert_eq!(
        body,
        json!([{"token": "7-1-0000000000000002", "outcome": "release"}])
    );
}

#[tokio::test]
async fn closing_ends_a_lease_that_waits() {
    let mut stub = Stub::new([Step::Silence]).await;
    let auxo = stub.connect().await;
    let handle = auxo.clone();
    let task = tokio::spawn(async move { handle.lease(["q"]).wait(WAIT).one().await.map(drop) });
    stub.request().await;
    auxo.close().await.unwrap();
    let error = task.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(stub.heard().await, Heard::HungUp);
}
