//! What is sent, and what is made of the answers.

use auxo_core::engine::{Action, Cursor, Filter, Mode, Order, Query, Target, Which};
use auxo_core::job::NewJob;
use auxo_core::{Code, JobId, JobSpec, QueueName, State};
use serde_json::json;

use crate::stub::{Stub, ok, problem, pushed};

fn jobs(queue: &str, count: usize) -> Vec<NewJob> {
    let queue = QueueName::new(queue).unwrap();
    let spec = JobSpec::default();
    vec![NewJob { queue, spec }; count]
}

#[tokio::test]
async fn a_push_goes_to_its_queue_and_comes_back_with_its_id() {
    let mut stub = Stub::new([pushed(7..8)]).await;
    let auxo = stub.connect().await;
    let pushed = auxo.queue("mail/in").unwrap().push("hello").await.unwrap();
    assert_eq!((pushed.id, pushed.state), (JobId(7), State::Ready));
    let (line, body) = stub.request().await;
    assert_eq!(line, "POST /v1/queues/mail%2Fin/jobs");
    assert_eq!(body[0]["payload"], "hello");
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let mut stub = Stub::new([pushed(1..2), pushed(2..3), pushed(3..4)]).await;
    let auxo = stub.connect().await;
    for id in 1..4 {
        let pushed = auxo.queue("q").unwrap().push("x").await.unwrap();
        assert_eq!(pushed.id, JobId(id));
    }
    assert_eq!(stub.connections(), 1);
}

#[tokio::test]
async fn a_refusal_keeps_its_code_its_message_and_its_job() {
    let codes = [
        (409, "conflict"),
        (429, "queue_full"),
        (401, "unauthorized"),
    ];
    for (status, code) in codes
        .into_iter()
        .chain([(500, "internal"), (504, "unknown_outcome")])
    {
        let stub = Stub::new([problem(status, code, "so it is")]).await;
        let auxo = stub.connect().await;
        let error = auxo.queue("q").unwrap().push("x").await.unwrap_err();
        assert_eq!(error.code().as_str(), code);
        assert_eq!((error.message(), error.job()), ("so it is", Some(JobId(7))));
    }
}

#[tokio::test]
async fn each_item_of_a_batch_has_its_own_answer() {
    let taken = json!({"error": {"code": "duplicate_key", "message": "taken", "id": "9"}});
    let fine = json!({"ok": {"id": "7", "state": "ready", "run_at": 0, "how": "new"}});
    let stub = Stub::new([ok(json!({ "results": [fine, taken] }))]).await;
    let auxo = stub.connect().await;
    let answers = auxo.service().push(jobs("q", 2)).await.unwrap();
    assert_eq!(answers[0].as_ref().unwrap().id, JobId(7));
    let error = answers[1].as_ref().unwrap_err();
    assert_eq!(
        (error.code(), error.job()),
        (Code::DuplicateKey, Some(JobId(9)))
    );
    assert_eq!(error.message(), "taken");
}

#[tokio::test]
async fn a_push_to_several_queues_is_answered_in_the_order_asked() {
    let mut stub = Stub::new([pushed(10..12), pushed(20..21)]).await;
    let auxo = stub.connect().await;
    let mixed = [jobs("b", 1), jobs("a", 1), jobs("a", 1)].concat();
    let answers = auxo.service().push(mixed).await.unwrap();
    let ids: Vec<u64> = answers
        .into_iter()
        .map(|pushed| pushed.unwrap().id.0)
        .collect();
    assert_eq!(ids, [20, 10, 11]);
    assert_eq!(stub.request().await.0, "POST /v1/queues/a/jobs");
    assert_eq!(stub.request().await.0, "POST /v1/queues/b/jobs");
}

#[tokio::test]
async fn a_large_batch_is_cut_and_what_cannot_be_sent_says_so() {
    use auxo_client::Remote;
    use auxo_core::Engine;
    let mut stub = Stub::new([pushed(0..1000)]).await;
    let remote = Remote::new(&stub.url).unwrap();
    let answers = remote.push(jobs("q", 2500)).await.unwrap();
    assert_eq!(answers.len(), 2500);
    assert_eq!(answers[999].as_ref().unwrap().id, JobId(999));
    let code = |place: usize| answers[place].as_ref().unwrap_err().code();
    assert_eq!(
        (code(1000), code(1999)),
        (Code::UnknownOutcome, Code::UnknownOutcome)
    );
    assert_eq!(
        (code(2000), code(2499)),
        (Code::Unavailable, Code::Unavailable)
    );
    assert_eq!(stub.left(), 2);
}

#[tokio::test]
async fn wrong_input_is_named_without_asking_the_server() {
    let mut stub = Stub::new([]).await;
    let auxo = stub.connect().await;
    let q = auxo.queue("q").unwrap();
    let large = q.raw(vec![0; 2 << 20]).push().await.unwrap_err();
    assert_eq!(large.code(), Code::TooLarge);
    let late = q.job("x").unwrap().key("").push().await.unwrap_err();
    assert_eq!(late.code(), Code::BadRequest);
    assert_eq!(stub.connections(), 0);
}

#[tokio::test]
async fn what_is_not_there_is_none() {
    let missing = || problem(404, "not_found", "there is no such thing");
    let mut stub = Stub::new([missing(), missing(), missing()]).await;
    let auxo = stub.connect().await;
    assert_eq!(auxo.job(JobId(7)).await, Ok(None));
    assert_eq!(auxo.queue("q").unwrap().find("a b").await, Ok(None));
    assert_eq!(auxo.queue("q").unwrap().info().await, Ok(None));
    assert_eq!(stub.request().await.0, "GET /v1/jobs/7");
    assert_eq!(stub.request().await.0, "GET /v1/queues/q/keys/a%20b");
    assert_eq!(stub.request().await.0, "GET /v1/queues/q");
}

#[tokio::test]
async fn a_list_asks_for_what_it_wants_in_its_url() {
    let mut stub = Stub::new([ok(json!({"jobs": [], "next_cursor": "c2"}))]).await;
    let auxo = stub.connect().await;
    let query = Query {
        filter: Filter {
            states: vec![State::Dead, State::Done],
            headers: [("x".to_owned(), "a&b".to_owned())].into(),
            ..Filter::default()
        },
        cursor: Some(Cursor("c1".into())),
        limit: 5,
    };
    let page = auxo.service().list(query).await.unwrap();
    assert_eq!(page.next, Some(Cursor("c2".into())));
    let line = "GET /v1/jobs?state=dead%2Cdone&header.x=a%26b&cursor=c1&limit=5";
    assert_eq!(stub.request().await.0, line);
}

#[tokio::test]
async fn what_a_url_cannot_say_is_not_lost() {
    let job = |id: u64, kind: &str| {
        json!({
            "id": id.to_string(), "queue": "q", "state": "ready", "kind": kind, "priority": 1, "run_at": 0,
            "created_at": 0, "attempt": 0, "max_attempts": 1, "ttr": "1m",
        })
    };
    let page = json!({"jobs": [job(1, "a"), job(2, "")], "next_cursor": null});
    let mut stub = Stub::new([ok(page)]).await;
    let auxo = stub.connect().await;
    let mut query = Query {
        filter: Filter {
            kind: Some(String::new()),
            ..Filter::default()
        },
        cursor: None,
        limit: 5,
    };
    let page = auxo.service().list(query.clone()).await.unwrap();
    assert_eq!((page.jobs.len(), page.jobs[0].id), (1, JobId(2)));
    query.cursor = Some(Cursor(String::new()));
    let refused = auxo.service().list(query).await.unwrap_err();
    assert_eq!(refused.code(), Code::BadRequest);
    assert_eq!(stub.left(), 1);
}

#[tokio::test]
async fn a_move_on_named_jobs_is_one_call() {
    let results =
        json!([{"ok": {"state": "ready"}}, {"error": {"code": "conflict", "message": "no"}}]);
    let answer = json!({"moved": 1, "results": results, "next_cursor": null});
    let mut stub = Stub::new([ok(answer)]).await;
    let auxo = stub.connect().await;
    let order = Order {
        target: Target::Jobs(vec![JobId(1), JobId(2)]),
        action: Action::Kick,
        mode: Mode::Act,
    };
    let steered = auxo.service().steer(order).await.unwrap();
    assert_eq!((steered.moved, steered.results.len()), (1, 2));
    let (line, body) = stub.request().await;
    assert_eq!(line, "POST /v1/jobs:bulk");
    assert_eq!(body, json!({"action": "kick", "ids": ["1", "2"]}));
}

#[tokio::test]
async fn the_server_explains() {
    let text = "no worker has asked";
    let answer = ok(json!({"reason": "no_consumer", "text": text, "id": "7"}));
    let missing = problem(404, "not_found", "no such job");
    let mut stub = Stub::new([answer, missing.clone(), missing]).await;
    let auxo = stub.connect().await;
    let explained = auxo.explain(JobId(7)).await.unwrap();
    assert_eq!((&*explained.text, explained.job), (text, Some(JobId(7))));
    assert_eq!(stub.request().await.0, "GET /v1/jobs/7/explain");
    let unknown = auxo.service().explain(Which::Id(JobId(8))).await.unwrap();
    assert_eq!(unknown.reason.as_str(), "unknown_job");
}

#[tokio::test]
async fn an_answer_of_something_else_is_not_taken_for_ours() {
    use crate::stub::Step::Answer;
    let stub = Stub::new([Answer(404, "<html>".into()), Answer(200, "hello".into())]).await;
    let auxo = stub.connect().await;
    for _ in 0..2 {
        let error = auxo.queues().await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(
            error
                .message()
                .contains("did not answer like an Auxo server"),
            "{error}"
        );
    }
}
