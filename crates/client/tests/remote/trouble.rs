//! A server that is away, slow, or gone in the middle.

use std::time::Duration;

use auxo_client::Auxo;
use auxo_core::engine::{Outcome, Settle};
use auxo_core::{Code, JobId, Token};
use serde_json::json;

use crate::stub::{Step, Stub, ok, problem, pushed};

fn queues() -> Step {
    ok(json!({ "queues": [] }))
}

#[tokio::test]
async fn a_server_that_is_away_is_named_with_what_to_do() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let auxo = Auxo::connect(&url).await.unwrap();
    assert_eq!(auxo.service().health(), Ok(()));
    for error in [
        auxo.queues().await.unwrap_err(),
        auxo.queue("q").unwrap().push("x").await.unwrap_err(),
    ] {
        assert_eq!(error.code(), Code::Unavailable);
        let start = format!("cannot reach Auxo at {url}: ");
        assert!(error.message().starts_with(&start), "{error}");
        let end = "; is it running? start it with `auxo serve`";
        assert!(error.message().ends_with(end), "{error}");
        assert_eq!(auxo.service().health(), Err(error));
    }
}

#[tokio::test]
async fn a_url_that_cannot_be_used_is_refused_at_once() {
    let secret = Auxo::connect("https://ada:secret@127.0.0.1:8000").await;
    let url = "https://127.0.0.1:8000";
    let authority = Auxo::connector().authority("nowhere/ca.pem");
    let identity = Auxo::connector().certificate("nowhere/cert.pem", "nowhere/key.pem");
    let token = Auxo::connector().token("secret\n");
    for (connected, says) in [
        (secret, "user name"),
        (authority.connect(url).await, "nowhere/ca.pem"),
        (identity.connect(url).await, "nowhere/cert.pem"),
        (token.connect("http://127.0.0.1:8000").await, "the token"),
    ] {
        let error = connected.err().unwrap();
        assert_eq!(error.code(), Code::BadRequest);
        assert!(error.message().contains(says), "{error}");
        assert!(!error.message().contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_push_without_a_key_is_sent_once_and_its_outcome_is_unknown() {
    for lost in [Step::Drop, Step::Half] {
        let mut stub = Stub::new([lost, pushed(1..2)]).await;
        let auxo = stub.connect().await;
        let error = auxo.queue("q").unwrap().push("x").await.unwrap_err();
        assert_eq!(error.code(), Code::UnknownOutcome);
        assert!(error.message().contains("may have been done"), "{error}");
        assert_eq!(stub.left(), 1);
        assert_eq!(auxo.service().health(), Err(error));
        auxo.queue("q").unwrap().push("x").await.unwrap();
        assert_eq!(auxo.service().health(), Ok(()));
    }
}

#[tokio::test]
async fn a_settle_is_sent_once() {
    let mut stub = Stub::new([Step::Drop]).await;
    let auxo = stub.connect().await;
    let item = Settle {
        token: Token {
            job: JobId(7),
            counter: 1,
            nonce: 2,
        },
        outcome: Outcome::Ack { result: None },
    };
    let error = auxo.service().settle(vec![item]).await.unwrap_err();
    assert_eq!(error.code(), Code::UnknownOutcome);
    assert_eq!(stub.left(), 1);
}

#[tokio::test]
async fn a_push_with_a_key_is_sent_again_until_it_is_answered() {
    let mut stub = Stub::new([Step::Drop, Step::Half, pushed(7..8)]).await;
    let auxo = stub.connect().await;
    let draft = auxo.queue("q").unwrap().job("x").unwrap().key("k");
    assert_eq!(draft.push().await.unwrap().id, JobId(7));
    assert_eq!(stub.left(), 3);
}

#[tokio::test]
async fn a_key_that_is_freed_at_once_is_no_protection() {
    let mut stub = Stub::new([Step::Drop, pushed(7..8)]).await;
    let auxo = stub.connect().await;
    let draft = auxo.queue("q").unwrap().job("x").unwrap();
    let draft = draft.key("k").key_window(Duration::ZERO);
    assert_eq!(draft.push().await.unwrap_err().code(), Code::UnknownOutcome);
    assert_eq!(stub.left(), 1);
}

#[tokio::test]
async fn a_key_that_a_lost_try_may_have_taken_is_told_as_such() {
    let taken =
        json!({"error": {"code": "duplicate_key", "message": "the key is taken", "id": "9"}});
    let stub = Stub::new([Step::Drop, ok(json!({ "results": [taken] }))]).await;
    let auxo = stub.connect().await;
    let draft = auxo.queue("q").unwrap().job("x").unwrap().key("k");
    let error = draft.push().await.unwrap_err();
    assert_eq!(
        (error.code(), error.job()),
        (Code::DuplicateKey, Some(JobId(9)))
    );
    assert!(
        error.message().contains("perhaps by this push itself"),
        "{error}"
    );
}

#[tokio::test]
async fn a_push_that_was_sent_stays_unknown_when_the_server_is_away_afterwards() {
    let gone = || problem(503, "unavailable", "stopping");
    let stub = Stub::new([Step::Drop, gone(), gone(), gone()]).await;
    let auxo = stub.connect().await;
    let draft = auxo.queue("q").unwrap().job("x").unwrap().key("k");
    let error = draft.push().await.unwrap_err();
    assert_eq!(error.code(), Code::UnknownOutcome);
}

#[tokio::test]
async fn reading_is_tried_again() {
    let stopping = problem(503, "unavailable", "stopping");
    let mut stub = Stub::new([Step::Drop, Step::Half, stopping, queues()]).await;
    let auxo = stub.connect().await;
    assert_eq!(auxo.queues().await, Ok(Vec::new()));
    assert_eq!(stub.left(), 4);
}

#[tokio::test]
async fn reading_in_vain_ends_and_changed_nothing() {
    let mut stub = Stub::new([]).await;
    let auxo = stub.connect().await;
    let error = auxo.queues().await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(stub.left(), 4);
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let mut stub = Stub::new([Step::Silence, Step::Silence]).await;
    let auxo = stub.hasty().await;
    let error = auxo.queue("q").unwrap().push("x").await.unwrap_err();
    assert_eq!(error.code(), Code::UnknownOutcome);
    let error = auxo.queues().await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("in time"), "{error}");
    assert_eq!(stub.request().await.0, "POST /v1/queues/q/jobs");
}

#[tokio::test]
async fn after_close_every_call_is_unavailable() {
    let mut stub = Stub::new([queues()]).await;
    let auxo = stub.connect().await;
    auxo.queues().await.unwrap();
    auxo.close().await.unwrap();
    let error = auxo.queues().await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert_eq!(auxo.service().health(), Err(error));
    assert_eq!(stub.left(), 1);
}
