//! Looking at jobs, and an operator's moves.

use serde_json::json;

use super::bench::Bench;

/// A job that failed for good.
async fn dead(bench: &Bench, queue: &str) -> String {
    let id = bench.push(queue, r#"{"payload":1}"#).await;
    let token = bench.lease(queue).await;
    let body = format!(r#"{{"token":"{token}","outcome":"bury","error":"bad address"}}"#);
    let reply = bench.call("POST", "/v1/settle", body).await;
    assert_eq!(reply.status, 200);
    id
}

#[tokio::test]
async fn a_job_is_found_by_its_id_and_its_key_and_explained_by_both() {
    let bench = Bench::start().await;
    let id = bench.push("q", r#"{"key":"a/b c","delay":"1h"}"#).await;
    let by_key = bench.get("/v1/queues/q/keys/a%2Fb%20c").await;
    assert_eq!(by_key.json()["id"], id.as_str());
    let explained = bench.get(&format!("/v1/jobs/{id}/explain")).await;
    assert_eq!(explained.json()["reason"], "not_due");
    let explained = bench.get("/v1/queues/q/keys/a%2Fb%20c/explain").await;
    assert_eq!(explained.json()["reason"], "key_held");
    let free = bench.get("/v1/queues/q/keys/other/explain").await;
    assert_eq!(free.json()["reason"], "key_free");
    let unknown = bench.get("/v1/jobs/7/explain").await;
    assert_eq!(unknown.json()["reason"], "unknown_job");

    bench.get("/v1/jobs/7").await.problem(404, "not_found");
    bench
        .get("/v1/jobs/seven")
        .await
        .problem(400, "bad_request");
    bench.get("/v1/jobs/-1").await.problem(400, "bad_request");
    bench
        .get("/v1/jobs/18446744073709551616")
        .await
        .problem(400, "bad_request");
    bench
        .get("/v1/queues/q/keys/other")
        .await
        .problem(404, "not_found");
}

#[tokio::test]
async fn jobs_are_listed_by_what_they_have_and_page_by_page() {
    let bench = Bench::start().await;
    for i in 0..5 {
        bench
            .push(
                "q",
                &format!(
                    r#"{{"payload":{i},"kind":"k{}","headers":{{"n":"{i}"}}}}"#,
                    i % 2
                ),
            )
            .await;
    }
    bench.push("other", r#"{"payload":"needle"}"#).await;
    let count = async |query: &str| {
        let page = bench.get(&format!("/v1/jobs?{query}")).await;
        assert_eq!(page.status, 200, "{query}: {page:?}");
        page.json()["jobs"].as_array().unwrap().len()
    };
    assert_eq!(count("").await, 6);
    assert_eq!(count("queue=q").await, 5);
    assert_eq!(count("queue=q&kind=k0").await, 3);
    assert_eq!(count("state=ready,dead").await, 6);
    assert_eq!(count("state=dead").await, 0);
    assert_eq!(count("header.n=3").await, 1);
    assert_eq!(count("search=needle").await, 1);
    assert_eq!(count("created_before=2000-01-01T00:00:00Z").await, 0);

    let first = bench.get("/v1/jobs?queue=q&limit=3").await.json();
    assert_eq!(first["jobs"].as_array().unwrap().len(), 3);
    let cursor = first["next_cursor"].as_str().unwrap();
    let cursor: String = form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
    assert_eq!(count(&format!("queue=q&limit=3&cursor={cursor}")).await, 2);

    for query in [
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=many",
        "state=asleep",
        "queue=-x",
        "colour=red",
        "created_from=yesterday",
        "queue=a&queue=b",
        "header.n=1&header.n=2",
        "cursor=nonsense",
    ] {
        let page = bench.get(&format!("/v1/jobs?{query}")).await;
        page.problem(400, "bad_request");
    }
    let long = "x".repeat(2000);
    bench
        .get(&format!("/v1/jobs?search={long}"))
        .await
        .problem(413, "too_large");
}

#[tokio::test]
async fn an_operator_moves_one_job() {
    let bench = Bench::start().await;
    let id = dead(&bench, "q").await;
    let path = |verb: &str| format!("/v1/jobs/{id}/{verb}");
    let kicked = bench.call("POST", &path("kick"), "").await;
    assert_eq!(kicked.json(), json!({"id": id, "state": "ready"}));
    bench
        .call("POST", &path("kick"), "{}")
        .await
        .problem(409, "conflict");
    let later = bench
        .call("POST", &path("reschedule"), r#"{"delay":"1h"}"#)
        .await;
    assert_eq!(later.json()["state"], "scheduled");
    bench
        .call("POST", &path("reschedule"), "{}")
        .await
        .problem(400, "bad_request");
    bench
        .call("POST", &path("kick"), r#"{"why":1}"#)
        .await
        .problem(400, "bad_request");
    let cancelled = bench.call("POST", &path("cancel"), "").await;
    assert_eq!(cancelled.json()["state"], "cancelled");
    bench
        .call("POST", &path("cancel"), "")
        .await
        .problem(404, "not_found");
    bench
        .call("POST", "/v1/jobs/x/kick", "")
        .await
        .problem(400, "bad_request");
}

#[tokio::test]
async fn a_deleted_job_is_gone_and_a_leased_one_is_not_deleted() {
    let bench = Bench::start().await;
    let id = dead(&bench, "q").await;
    let path = format!("/v1/jobs/{id}");
    let deleted = bench.call("DELETE", &path, "").await;
    assert_eq!((deleted.status, &deleted.json()["id"]), (200, &json!(id)));
    bench
        .call("DELETE", &path, "")
        .await
        .problem(404, "not_found");
    let id = bench.push("q", "{}").await;
    bench.lease("q").await;
    let path = format!("/v1/jobs/{id}");
    bench
        .call("DELETE", &path, "")
        .await
        .problem(409, "conflict");
}

#[tokio::test]
async fn many_jobs_are_moved_by_ids_and_by_filter() {
    let bench = Bench::start().await;
    let a = dead(&bench, "q").await;
    let b = dead(&bench, "q").await;
    let dry = r#"{"action":"kick","filter":{"queue":"q","state":"dead"},"dry_run":true}"#;
    let dry = bench.call("POST", "/v1/jobs:bulk", dry).await.json();
    assert_eq!((&dry["moved"], &dry["dry_run"]), (&json!(2), &json!(true)));
    let ids = format!(r#"{{"action":"kick","ids":["{a}","7"]}}"#);
    let moved = bench.call("POST", "/v1/jobs:bulk", ids).await.json();
    assert_eq!(moved["moved"], 1);
    assert_eq!(moved["results"][0]["ok"]["state"], "ready");
    assert_eq!(moved["results"][1]["error"]["code"], "not_found");
    let filter = r#"{"action":"delete","filter":{"state":["dead"]}}"#;
    let moved = bench.call("POST", "/v1/jobs:bulk", filter).await.json();
    assert_eq!(
        (&moved["moved"], &moved["next_cursor"]),
        (&json!(1), &json!(null))
    );
    bench
        .get(&format!("/v1/jobs/{b}"))
        .await
        .problem(404, "not_found");
    for body in [
        r#"{"action":"kick"}"#,
        r#"{"filter":{}}"#,
        r#"{"action":"dance","filter":{}}"#,
        r#"{"action":"kick","filter":{"colour":1}}"#,
        r#"{"action":"reschedule","filter":{}}"#,
    ] {
        let reply = bench.call("POST", "/v1/jobs:bulk", body).await;
        reply.problem(400, "bad_request");
    }
}
