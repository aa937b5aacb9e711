//! Jobs in.

use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn a_pushed_job_is_answered_201_and_can_be_read_back() {
    let bench = Bench::start().await;
    let body =
        r#"{"payload":{"to":"ada"},"kind":"mail","priority":5,"delay":"5s","headers":{"a":"b"}}"#;
    let id = bench.push("mail", body).await;
    let job = bench.get(&format!("/v1/jobs/{id}")).await;
    assert_eq!(job.status, 200);
    let job = job.json();
    assert_eq!(job["payload"], json!({"to": "ada"}));
    assert_eq!(job["state"], "scheduled");
    assert_eq!(job["headers"]["a"], "b");
}

#[tokio::test]
async fn an_array_is_answered_item_by_item() {
    let bench = Bench::start().await;
    let body = r#"[{"payload":1},{"payload":2,"priority":-1},{"unknown":1},{"payload":4}]"#;
    let reply = bench.call("POST", "/v1/queues/q/jobs", body).await;
    assert_eq!(reply.status, 200);
    let results = reply.json()["results"].clone();
    assert!(results[0]["ok"]["id"].is_string());
    assert_eq!(results[1]["error"]["code"], "bad_request");
    let message = results[2]["error"]["message"].as_str().unwrap();
    assert!(message.contains("unknown field"), "{message}");
    assert!(results[3]["ok"]["id"].is_string());
    assert_eq!(results.as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_slash_in_a_queue_name_is_written_as_2f() {
    let bench = Bench::start().await;
    bench.push("a%2Fb", "{}").await;
    let queue = bench.get("/v1/queues/a%2Fb").await;
    assert_eq!(queue.json()["name"], "a/b");
}

#[tokio::test]
async fn a_taken_key_is_409_with_the_job_that_has_it() {
    let bench = Bench::start().await;
    let id = bench.push("q", r#"{"key":"k"}"#).await;
    let again = bench
        .call("POST", "/v1/queues/q/jobs", r#"{"key":"k"}"#)
        .await;
    again.problem(409, "duplicate_key");
    assert_eq!(again.json()["job"], id.as_str());
    let same = r#"{"key":"k","on_duplicate":"return"}"#;
    let same = bench.call("POST", "/v1/queues/q/jobs", same).await;
    assert_eq!((same.status, &same.json()["id"]), (200, &json!(id)));
    let new = r#"{"key":"k","on_duplicate":"replace","payload":2}"#;
    let new = bench.call("POST", "/v1/queues/q/jobs", new).await;
    assert_eq!((new.status, &new.json()["how"]), (200, &json!("replaced")));
}

#[tokio::test]
async fn a_push_with_an_idempotency_key_can_be_repeated() {
    let bench = Bench::start().await;
    let header = ["idempotency-key: order-7"];
    let path = "/v1/queues/q/jobs";
    let first = bench
        .call_with("POST", path, &header, r#"{"payload":1}"#)
        .await;
    let second = bench
        .call_with("POST", path, &header, r#"{"payload":1}"#)
        .await;
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.json()["id"], second.json()["id"]);
    let by_key = bench.get("/v1/queues/q/keys/order-7").await;
    assert_eq!(by_key.json()["id"], first.json()["id"]);

    let both = bench
        .call_with("POST", path, &header, r#"{"key":"k"}"#)
        .await;
    assert!(both.problem(400, "bad_request").contains("Idempotency-Key"));
    let array = bench.call_with("POST", path, &header, "[{}]").await;
    assert!(array.problem(400, "bad_request").contains("array"));
    let twice = ["idempotency-key: a", "idempotency-key: b"];
    let twice = bench.call_with("POST", path, &twice, "{}").await;
    twice.problem(400, "bad_request");
    let empty = bench
        .call_with("POST", path, &["idempotency-key:"], "{}")
        .await;
    empty.problem(400, "bad_request");
}

#[tokio::test]
async fn wrong_bodies_are_400_and_name_the_field() {
    let bench = Bench::start().await;
    let table = [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("7", "expected an object"),
        (r#"{"delay":"soon"}"#, "delay"),
        (r#"{"priority":"high"}"#, "priority"),
        (r#"{"colour":1}"#, "colour: unknown field"),
        (r#"{"kind":1}"#, "kind"),
        (r#"{"max_attempts":0}"#, "max_attempts"),
        (r#"{"ttr":"2d"}"#, "ttr"),
        (r#"{"delay":1,"run_at":1}"#, "delay"),
        (r#"{"a":1,"a":2}"#, "twice"),
    ];
    for (body, part) in table {
        let reply = bench.call("POST", "/v1/queues/q/jobs", body).await;
        let message = reply.problem(400, "bad_request");
        assert!(message.contains(part), "{body}: {message}");
    }
    for name in ["-q", "a%20b", "%00", "caf%C3%A9"] {
        let path = format!("/v1/queues/{name}/jobs");
        let reply = bench.call("POST", &path, "{}").await;
        let message = reply.problem(400, "bad_request");
        assert!(message.contains("queue name"), "{message}");
    }
    let utf8 = bench.call("POST", "/v1/queues/%ff/jobs", "{}").await;
    utf8.problem(400, "bad_request");
    // Nothing of all that was kept.
    assert_eq!(bench.get("/v1/queues").await.json(), json!({"queues": []}));
}

#[tokio::test]
async fn a_full_queue_is_429_and_a_paused_one_409() {
    let bench = Bench::start().await;
    bench.call("PUT", "/v1/queues/q", r#"{"max_jobs":1}"#).await;
    bench.push("q", "{}").await;
    let full = bench.call("POST", "/v1/queues/q/jobs", "{}").await;
    full.problem(429, "queue_full");
    assert_eq!(full.header("retry-after"), Some("1"));
    bench.call("POST", "/v1/queues/q/pause", "").await;
    let paused = bench.call("POST", "/v1/queues/q/jobs", "{}").await;
    paused.problem(409, "queue_paused");
}
