//! Jobs that leave for another store, and jobs that come from one.

use serde_json::{Value, json};

use super::bench::Bench;

async fn adopt(bench: &Bench, run: &str, step: &str, jobs: Option<Value>) -> super::bench::Reply {
    let mut body = json!({ "store": "elsewhere", "run": run, "step": step });
    if let Some(jobs) = jobs {
        body["jobs"] = jobs;
    }
    bench
        .call("POST", "/v1/queues/q/adopt", body.to_string())
        .await
}

#[tokio::test]
async fn a_job_leaves_with_its_whole_life_and_comes_back_with_it() {
    let bench = Bench::start().await;
    bench
        .push(
            "q",
            r#"{"payload":{"a":1},"key":"k","delay":"1h","ttl":"2h"}"#,
        )
        .await;
    let before = bench.get("/v1/queues/q/keys/k").await.json();
    let page = bench.get("/v1/queues/q/passages?limit=1").await.json();
    let job = page["jobs"][0].clone();
    assert_eq!(
        (&job["due_clock"], &job["key"]),
        (&json!("steady"), &json!("k"))
    );
    assert!(page["store"].as_str().is_some_and(|name| !name.is_empty()));
    let leaving = json!({ "jobs": [{ "id": job["id"], "version": job["version"] }] }).to_string();
    let departed = bench
        .call("POST", "/v1/queues/q/depart", leaving.as_str())
        .await;
    assert_eq!(departed.json(), json!({ "results": [{ "ok": {} }] }));
    let again = bench
        .call("POST", "/v1/queues/q/depart", leaving.as_str())
        .await;
    assert_eq!(again.json()["results"][0]["error"]["code"], "not_found");

    let jobs = json!([job]);
    adopt(&bench, "7", "jobs", Some(jobs.clone()))
        .await
        .problem(409, "conflict");
    let begun = adopt(&bench, "7", "begin", None).await.json();
    assert_eq!(
        begun,
        json!({ "under_way": true, "last": [], "leaving": null, "results": [] })
    );
    let adopted = adopt(&bench, "7", "jobs", Some(jobs.clone())).await.json();
    assert_eq!(adopted["results"], json!([{ "ok": { "id": job["id"] } }]));
    assert_eq!(adopted["last"][0]["version"], job["version"]);
    let twice = adopt(&bench, "7", "jobs", Some(jobs)).await.json();
    assert_eq!(twice["results"][0]["error"]["code"], "duplicate_key");
    let over = adopt(&bench, "7", "end", None).await.json();
    assert_eq!(over["under_way"], false);
    let leaves = adopt(&bench, "7", "leave", None).await.json();
    assert_eq!(leaves["leaving"], "elsewhere");
    let refused = adopt(&bench, "8", "begin", None).await;
    assert!(refused.text.contains("store known as elsewhere"));
    refused.problem(409, "conflict");
    let stays = adopt(&bench, "7", "stay", None).await.json();
    assert_eq!(stays["leaving"], Value::Null);
    assert_eq!(bench.get("/v1/queues/q/keys/k").await.json(), before);
}

#[tokio::test]
async fn what_is_no_part_of_a_move_is_refused() {
    let bench = Bench::start().await;
    for body in [
        "",
        "{}",
        r#"{"store":"","run":"1","step":"begin"}"#,
        r#"{"store":"s","run":"x","step":"begin"}"#,
        r#"{"store":"s","run":"1","step":"run"}"#,
        r#"{"store":"s","run":"1","step":"begin","more":1}"#,
    ] {
        let reply = bench.call("POST", "/v1/queues/q/adopt", body).await;
        reply.problem(400, "bad_request");
    }
    for body in [
        // Nothing has begun, and jobs have a step of their own.
        r#"{"store":"s","run":"1","step":"jobs"}"#,
        r#"{"store":"s","run":"1","step":"begin","jobs":[{"id":"7","queue":"q","state":"ready","priority":1,"run_at":0,
            "created_at":0,"ttr":"1s","max_attempts":1,"attempt":0}]}"#,
    ] {
        let reply = bench.call("POST", "/v1/queues/q/adopt", body).await;
        reply.problem(409, "conflict");
    }
    for path in [
        "/v1/queues/q/passages?limit=0",
        "/v1/queues/q/passages?state=dead",
        "/v1/queues/q/passages?cursor=x",
    ] {
        bench.get(path).await.problem(400, "bad_request");
    }
    let leased = r#"{"id":"7","queue":"q","state":"leased","priority":1,"run_at":0,"created_at":0,"ttr":"1s",
        "max_attempts":1,"attempt":1}"#;
    adopt(&bench, "1", "begin", None).await;
    let jobs = json!([serde_json::from_str::<Value>(leased).unwrap()]);
    let reply = adopt(&bench, "1", "jobs", Some(jobs)).await.json();
    assert_eq!(reply["results"][0]["error"]["code"], "bad_request");
    assert_eq!(reply["last"], json!([]));
}

#[tokio::test]
async fn a_schedule_can_be_armed_with_its_ticks() {
    let bench = Bench::start().await;
    let body = r#"{"queue":"q","every":"1h","armed":{"next":4102444800000,"last":1000}}"#;
    let set = bench.call("PUT", "/v1/schedules/s", body).await.json();
    assert_eq!(set["next"], "2100-01-01T00:00:00.000Z");
    assert_eq!(set["last"], "1970-01-01T00:00:01.000Z");
    let body = r#"{"queue":"q","every":"1h","armed":{}}"#;
    let set = bench.call("PUT", "/v1/schedules/s", body).await.json();
    assert_eq!((set.get("next"), set.get("last")), (None, None));
}

#[tokio::test]
async fn a_schedule_is_removed_only_as_it_was_last_seen() {
    let bench = Bench::start().await;
    let path = "/v1/schedules/s";
    let body = r#"{"queue":"q","every":"1h","armed":{"next":4102444800000,"last":1000}}"#;
    bench.call("PUT", path, body).await.json();
    let delete = async |query: &str| bench.call("DELETE", &format!("{path}{query}"), "").await;
    for query in ["?last=never", "?last=1001"] {
        delete(query).await.problem(409, "conflict");
    }
    for query in ["?last=", "?last=soon", "?next=1000", "?last=1000&last=1000"] {
        delete(query).await.problem(400, "bad_request");
    }
    assert_eq!(delete("?last=1970-01-01T00:00:01Z").await.status, 204);
    delete("?last=never").await.problem(404, "not_found");
}
