//! Queues.

use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn a_queue_is_made_by_a_put_and_a_put_changes_only_what_it_names() {
    let bench = Bench::start().await;
    bench.get("/v1/queues/q").await.problem(404, "not_found");
    let body = r#"{"max_jobs":10,"rate":{"count":5,"per":"1m"},"max_bytes":"1MiB"}"#;
    let made = bench.call("PUT", "/v1/queues/q", body).await;
    assert_eq!(
        made.json()["config"]["rate"],
        json!({"count": 5, "per": "1m", "burst": 5})
    );
    let changed = bench
        .call("PUT", "/v1/queues/q", r#"{"max_jobs":null,"fair":true}"#)
        .await;
    let config = changed.json()["config"].clone();
    assert_eq!(config.get("max_jobs"), None);
    assert_eq!(
        (&config["fair"], &config["max_bytes"]),
        (&json!(true), &json!(1 << 20))
    );
    let shown = bench.get("/v1/queues/q").await;
    assert_eq!(shown.json()["config"], config);
    for body in [
        r#"{"max_jobs":0}"#,
        r#"{"max_jobs":-1}"#,
        r#"{"x":1}"#,
        "[]",
        "",
        r#"{"rate":5}"#,
    ] {
        let reply = bench.call("PUT", "/v1/queues/q", body).await;
        reply.problem(400, "bad_request");
    }
}

#[tokio::test]
async fn changes_of_different_parts_at_the_same_time_all_count() {
    let bench = Bench::start().await;
    let bodies = [
        r#"{"max_jobs":1}"#,
        r#"{"max_bytes":2}"#,
        r#"{"max_leased":3}"#,
        r#"{"fair":true}"#,
    ];
    let calls = bodies.map(|body| bench.call("PUT", "/v1/queues/q", body));
    let [a, b, c, d] = calls;
    tokio::join!(a, b, c, d);
    let config = bench.get("/v1/queues/q").await.json()["config"].clone();
    let all = json!({"paused_in": false, "paused_out": false, "max_jobs": 1, "max_bytes": 2, "max_leased": 3, "fair": true});
    assert_eq!(config, all);
}

#[tokio::test]
async fn each_side_of_a_queue_is_paused_and_resumed() {
    let bench = Bench::start().await;
    bench
        .call("POST", "/v1/queues/q/pause", "")
        .await
        .problem(404, "not_found");
    bench
        .call("POST", "/v1/queues/q/resume", "")
        .await
        .problem(404, "not_found");
    bench.push("q", "{}").await;
    let sides = async |verb: &str, body: &str| {
        let reply = bench
            .call("POST", &format!("/v1/queues/q/{verb}"), body)
            .await;
        let config = reply.json()["config"].clone();
        (config["paused_in"] == true, config["paused_out"] == true)
    };
    assert_eq!(sides("pause", "").await, (true, true));
    assert_eq!(sides("resume", r#"{"what":"in"}"#).await, (false, true));
    assert_eq!(sides("resume", r#"{"what":"both"}"#).await, (false, false));
    assert_eq!(sides("pause", r#"{"what":"out"}"#).await, (false, true));
    assert_eq!(sides("resume", "{}").await, (false, false));
    for body in [r#"{"what":"up"}"#, r#"{"which":"in"}"#, "[1]", "x"] {
        let reply = bench.call("POST", "/v1/queues/q/pause", body).await;
        reply.problem(400, "bad_request");
    }
}

#[tokio::test]
async fn handing_out_is_paused_for_a_time() {
    let bench = Bench::start().await;
    bench.push("q", "{}").await;
    let until = async |verb: &str, body: &str| {
        let path = format!("/v1/queues/q/{verb}");
        let reply = bench.call("POST", &path, body).await;
        reply.json()["config"]["paused_until"].clone()
    };
    let minute = until("pause", r#"{"for":"1m"}"#).await;
    assert!(minute.is_string(), "{minute}");
    assert_eq!(
        until("pause", r#"{"what":"out","for":60000}"#).await,
        minute
    );
    assert_eq!(until("resume", "").await, json!(null));
    for (verb, body) in [
        ("pause", r#"{"what":"in","for":"1m"}"#),
        ("pause", r#"{"for":"11y"}"#),
        ("resume", r#"{"for":"1m"}"#),
    ] {
        let path = format!("/v1/queues/q/{verb}");
        let reply = bench.call("POST", &path, body).await;
        reply.problem(400, "bad_request");
    }
}

#[tokio::test]
async fn a_purge_deletes_what_it_names_and_leaves_leased_jobs() {
    let bench = Bench::start().await;
    for body in ["{}", "{}", r#"{"delay":"1h"}"#] {
        bench.push("q", body).await;
    }
    bench.lease("q").await;
    let some = bench
        .call("POST", "/v1/queues/q/purge", r#"{"states":["scheduled"]}"#)
        .await;
    assert_eq!(some.json(), json!({"purged": 1}));
    let rest = bench.call("POST", "/v1/queues/q/purge", "").await;
    assert_eq!(rest.json(), json!({"purged": 1}));
    let queue = bench.get("/v1/queues/q").await.json();
    assert_eq!(queue["counts"]["leased"], 1);
    for body in [
        r#"{"states":["leased"]}"#,
        r#"{"states":["x"]}"#,
        r#"{"states":"dead"}"#,
        r#"{"all":1}"#,
    ] {
        let reply = bench.call("POST", "/v1/queues/q/purge", body).await;
        reply.problem(400, "bad_request");
    }
}

#[tokio::test]
async fn an_audit_balances() {
    let bench = Bench::start().await;
    bench.push("q", "{}").await;
    let audit = bench.call("POST", "/v1/audit", "").await.json();
    assert_eq!((&audit["ok"], &audit["jobs"]), (&json!(true), &json!(1)));
    assert_eq!(audit["queues"][0]["balanced"], true);
}

#[tokio::test]
async fn what_forgotten_queues_did_is_still_in_the_totals() {
    let bench = Bench::start().await;
    let list = bench.get("/v1/queues").await.json();
    assert_eq!(list, json!({"queues": []}), "nothing is shown of nothing");
    for queue in ["mail", "news"] {
        bench.push(queue, "{}").await;
        let token = bench.lease(queue).await;
        let ack = json!({"token": token, "outcome": "ack"}).to_string();
        let reply = bench.call("POST", "/v1/settle", ack);
        assert_eq!(reply.await.status, 200);
    }
    bench.push("kept", "{}").await;
    let total = |text: &str| -> u64 {
        let lines = text.lines();
        let lines = lines.filter(|line| line.starts_with("auxo_queue_done_total{"));
        let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        values.sum()
    };
    let before = bench.get("/metrics").await.text;
    assert_eq!(total(&before), 2, "{before}");
    bench.clock.advance(std::time::Duration::from_secs(3600));
    let books = json!({
        "accepted": 2, "live": 0, "done": 2, "dead": 0, "expired": 0, "cancelled": 0, "deleted": 0,
    });
    let list = bench.get("/v1/queues").await.json();
    assert_eq!(list["forgotten"], books);
    assert_eq!(list["queues"].as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!(bench.get("/v1/queues/mail").await.status, 404);
    let audit = bench.call("POST", "/v1/audit", "").await.json();
    assert_eq!((&audit["ok"], &audit["forgotten"]), (&json!(true), &books));
    let after = bench.get("/metrics").await.text;
    assert_eq!(total(&after), 2, "{after}");
    assert!(!after.contains(r#"queue="mail""#), "{after}");
    let line = r#"auxo_queue_accepted_total{queue="*forgotten"} 2"#;
    assert!(after.contains(line), "{after}");
}
