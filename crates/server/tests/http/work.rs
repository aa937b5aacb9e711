//! Leases and how they end.

use std::time::Duration;

use auxo_core::QueueName;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::bench::{Bench, read_reply, within};

/// A lease call that is under way, on a connection of its own.
pub async fn waiting(bench: &Bench, queue: &str) -> tokio::net::TcpStream {
    // A queue that is there shows how many wait for it.
    let made = bench
        .call("PUT", &format!("/v1/queues/{queue}"), "{}")
        .await;
    assert_eq!(made.status, 200);
    let mut stream = bench.connect().await;
    let body = format!(r#"{{"queues":["{queue}"],"wait":"60s"}}"#);
    let request = format!(
        "POST /v1/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    until_waiting(bench, queue, 1).await;
    stream
}

/// Returns when this many lease calls wait for the queue.
pub async fn until_waiting(bench: &Bench, queue: &str, calls: u64) {
    let name: QueueName = queue.parse().unwrap();
    within(async {
        loop {
            let queues = bench
                .service
                .queues(Some(vec![name.clone()]))
                .await
                .unwrap();
            if queues.first().map_or(0, |queue| queue.waiting) == calls {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_leased_job_comes_with_its_token_and_ends_with_an_ack() {
    let bench = Bench::start().await;
    let id = bench.push("q", r#"{"payload":"hello"}"#).await;
    let body = r#"{"queues":["none","q"],"max":10,"worker":"w1","ttr":"5s"}"#;
    let jobs = bench.call("POST", "/v1/lease", body).await.json()["jobs"].clone();
    assert_eq!(jobs.as_array().unwrap().len(), 1);
    assert_eq!(jobs[0]["payload"], "hello");
    assert_eq!(jobs[0]["attempt"], 1);
    let token = jobs[0]["token"].as_str().unwrap();
    let ack = format!(r#"{{"token":"{token}","outcome":"ack"}}"#);
    let done = bench.call("POST", "/v1/settle", ack.clone()).await;
    assert_eq!(done.json(), json!({"id": id, "state": "done"}));
    let again = bench.call("POST", "/v1/settle", ack).await;
    again.problem(409, "lease_lost");
}

#[tokio::test]
async fn a_lease_may_want_the_most_urgent_of_its_queues() {
    let bench = Bench::start().await;
    let low = bench.push("a", r#"{"priority":2}"#).await;
    let high = bench.push("b", r#"{"priority":1}"#).await;
    let ask = |pick: &str| format!(r#"{{"queues":["a","b"],"max":10,"pick":"{pick}"}}"#);
    for (pick, id) in [("most_urgent", high), ("first", low)] {
        let jobs = bench.call("POST", "/v1/lease", ask(pick)).await.json()["jobs"].clone();
        assert_eq!(jobs.as_array().unwrap().len(), 1);
        assert_eq!(jobs[0]["id"], json!(id));
    }
    let refused = bench.call("POST", "/v1/lease", ask("oldest")).await;
    let message = refused.problem(400, "bad_request");
    let known = "pick: expected one of first, most_urgent, not \"oldest\"";
    assert_eq!(message, known);
}

#[tokio::test]
async fn each_outcome_leads_where_it_should() {
    let bench = Bench::start().await;
    let table = [
        (r#""outcome":"ack""#, "done"),
        (
            r#""outcome":"fail","error":"boom","delay":"10s""#,
            "scheduled",
        ),
        (r#""outcome":"fail","retry":false"#, "dead"),
        (r#""outcome":"release""#, "ready"),
        (
            r#""outcome":"release","delay":"1s","priority":3"#,
            "scheduled",
        ),
        (r#""outcome":"bury","error":"bad""#, "dead"),
        (r#""outcome":"snooze","delay":"1m""#, "scheduled"),
    ];
    for (i, (outcome, state)) in table.iter().enumerate() {
        let queue = format!("q{i}");
        bench.push(&queue, "{}").await;
        let token = bench.lease(&queue).await;
        let body = format!(r#"[{{"token":"{token}",{outcome}}}]"#);
        let reply = bench.call("POST", "/v1/settle", body).await;
        assert_eq!(
            reply.json()["results"][0]["ok"]["state"],
            *state,
            "{outcome}"
        );
    }
}

#[tokio::test]
async fn a_batch_of_ends_is_answered_item_by_item() {
    let bench = Bench::start().await;
    bench.push("q", "{}").await;
    let token = bench.lease("q").await;
    let body = format!(
        r#"[{{"token":"nonsense","outcome":"ack"}},{{"token":"{token}","outcome":"ack"}},{{"token":"{token}","outcome":"vanish"}}]"#
    );
    let results = bench.call("POST", "/v1/settle", body).await.json()["results"].clone();
    assert_eq!(results[0]["error"]["code"], "bad_request");
    assert_eq!(results[1]["ok"]["state"], "done");
    assert_eq!(results[2]["error"]["code"], "bad_request");
}

#[tokio::test]
async fn an_extended_lease_lasts_and_tells_of_a_wish_to_cancel() {
    let bench = Bench::start().await;
    let id = bench.push("q", r#"{"ttr":"10s"}"#).await;
    let token = bench.lease("q").await;
    let body = format!(r#"{{"token":"{token}","ttr":"1h","progress":{{"percent":50}}}}"#);
    let reply = bench.call("POST", "/v1/extend", body).await;
    assert_eq!(reply.json()["cancel"], false);
    bench.clock.advance(Duration::from_secs(11));
    bench
        .call("POST", &format!("/v1/jobs/{id}/cancel"), "")
        .await;
    let body = format!(r#"[{{"token":"{token}"}}]"#);
    let reply = bench.call("POST", "/v1/extend", body).await;
    assert_eq!(reply.json()["results"][0]["ok"]["cancel"], true);
    let ack = format!(r#"{{"token":"{token}","outcome":"ack"}}"#);
    bench.call("POST", "/v1/settle", ack).await;
    let late = format!(r#"{{"token":"{token}"}}"#);
    let late = bench.call("POST", "/v1/extend", late).await;
    late.problem(409, "lease_lost");
}

#[tokio::test]
async fn wrong_asks_are_400() {
    let bench = Bench::start().await;
    for (body, part) in [
        ("{}", "queues"),
        (r#"{"queues":[]}"#, "queues"),
        (r#"{"queues":["q"],"max":0}"#, "max"),
        (r#"{"queues":["q"],"wait":"2m"}"#, "wait"),
        (r#"{"queues":["q"],"wait":-1}"#, "wait"),
        (r#"{"queues":["q"],"what":1}"#, "unknown field"),
        (r#"{"queues":"q"}"#, "queues"),
        ("[]", "object"),
    ] {
        let reply = bench.call("POST", "/v1/lease", body).await;
        let message = reply.problem(400, "bad_request");
        assert!(message.contains(part), "{body}: {message}");
    }
}

#[tokio::test]
async fn a_waiting_lease_is_answered_when_a_job_comes() {
    let bench = Bench::start().await;
    let mut stream = waiting(&bench, "q").await;
    let id = bench.push("q", "{}").await;
    let reply = read_reply(&mut stream).await;
    assert_eq!(reply.json()["jobs"][0]["id"], id.as_str());
}

#[tokio::test]
async fn a_waiting_lease_is_answered_with_nothing_when_its_time_is_over() {
    let bench = Bench::start().await;
    let mut stream = waiting(&bench, "q").await;
    bench.clock.advance(Duration::from_secs(60));
    let reply = read_reply(&mut stream).await;
    assert_eq!(reply.json(), json!({"jobs": []}));
}

#[tokio::test]
async fn a_client_that_goes_away_while_it_waits_takes_no_job_with_it() {
    let bench = Bench::start().await;
    let stream = waiting(&bench, "q").await;
    drop(stream);
    until_waiting(&bench, "q", 0).await;
    let id = bench.push("q", "{}").await;
    let job = bench.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("ready"), &json!(0))
    );
}

#[tokio::test]
async fn a_name_takes_room_once_and_only_while_its_call_waits_and_nobody_has_it_all() {
    let bench = Bench::with(|settings| settings.names = 400).await;
    let lease = async |names: Vec<String>, wait: &str| {
        let body = json!({ "queues": names, "wait": wait });
        bench.call("POST", "/v1/lease", body.to_string()).await
    };
    let distinct = |count| (0..count).map(|i| format!("q{i}")).collect::<Vec<_>>();
    // There is a job, so that nobody waits.
    for _ in 0..3 {
        bench.push("q0", "{}").await;
    }
    assert_eq!(lease(vec!["q0".into(); 1000], "60s").await.status, 200);
    // Too many are refused, though they are the same.
    for wait in ["60s", "0s"] {
        let refused = lease(vec!["q0".into(); 1001], wait).await;
        refused.problem(413, "too_large");
    }
    assert_eq!(lease(distinct(1000), "0s").await.status, 200);
    assert_eq!(lease(distinct(100), "60s").await.status, 200);
    lease(distinct(101), "60s")
        .await
        .problem(503, "unavailable");
}
