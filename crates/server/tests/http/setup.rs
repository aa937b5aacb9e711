//! Topics and schedules.

use std::time::Duration;

use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn a_message_becomes_a_job_for_each_subscription_that_wants_it() {
    let bench = Bench::start().await;
    let put = async |name: &str, body: &str| {
        let path = format!("/v1/topics/orders/subscriptions/{name}");
        bench.call("PUT", &path, body).await
    };
    let all = put("all", r#"{"queue":"audit"}"#).await;
    assert_eq!(
        all.json(),
        json!({"topic": "orders", "name": "all", "queue": "audit"})
    );
    put("paid", r#"{"queue":"bills","pattern":"order.*.paid"}"#).await;
    let listed = bench.get("/v1/topics").await.json();
    assert_eq!(listed["subscriptions"].as_array().unwrap().len(), 2);
    let publish = async |body: &str| {
        let reply = bench.call("POST", "/v1/topics/orders/messages", body).await;
        reply.json()["jobs"].as_array().unwrap().len()
    };
    assert_eq!(
        publish(r#"{"payload":1,"routing_key":"order.7.paid"}"#).await,
        2
    );
    assert_eq!(
        publish(r#"{"payload":1,"routing_key":"order.7.sent"}"#).await,
        1
    );
    assert_eq!(publish(r#"{"payload":1}"#).await, 1);

    let path = "/v1/topics/orders/subscriptions/all";
    let gone = bench.call("DELETE", path, "").await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    bench
        .call("DELETE", path, "")
        .await
        .problem(404, "not_found");
    put("bad", r#"{"queue":"-"}"#)
        .await
        .problem(400, "bad_request");
    put("bad", r#"{"queue":"q","pattern":"a*"}"#)
        .await
        .problem(400, "bad_request");
    put("bad", "{}").await.problem(400, "bad_request");
    let wrong = r#"{"payload":1,"colour":2}"#;
    let wrong = bench
        .call("POST", "/v1/topics/orders/messages", wrong)
        .await;
    wrong.problem(400, "bad_request");
}

#[tokio::test]
async fn a_schedule_is_set_shown_ticks_and_is_removed() {
    let bench = Bench::start().await;
    let path = "/v1/schedules/nightly";
    bench.get(path).await.problem(404, "not_found");
    let body = r#"{"queue":"q","every":"1m","job":{"payload":1,"kind":"tick"}}"#;
    let set = bench.call("PUT", path, body).await;
    assert!(set.json()["next"].is_string());
    assert_eq!(bench.get(path).await.json(), set.json());
    let listed = bench.get("/v1/schedules").await.json();
    assert_eq!(listed["schedules"], json!([set.json()]));
    bench.clock.advance(Duration::from_secs(60));
    let job = bench
        .call("POST", "/v1/lease", r#"{"queues":["q"],"wait":"10s"}"#)
        .await;
    assert_eq!(job.json()["jobs"][0]["kind"], "tick");
    assert_eq!(bench.call("DELETE", path, "").await.status, 204);
    bench
        .call("DELETE", path, "")
        .await
        .problem(404, "not_found");
    for body in [
        r#"{"queue":"q"}"#,
        r#"{"queue":"q","cron":"every day"}"#,
        r#"{"queue":"q","every":"1m","cron":"* * * * *"}"#,
        r#"{"queue":"q","cron":"* * * * *","zone":"Nowhere/Land"}"#,
        r#"{"queue":"q","every":"1m","job":{"delay":"1s"}}"#,
        r#"{"queue":"q","every":"1m","colour":1}"#,
    ] {
        let reply = bench.call("PUT", path, body).await;
        reply.problem(400, "bad_request");
    }
}

#[tokio::test]
async fn the_server_tells_about_itself() {
    let bench = Bench::start().await;
    let node = bench.get("/v1/nodes").await.json()["nodes"][0].clone();
    assert_eq!(node["name"], "bench");
    assert_eq!(node["started_at"], "2023-11-14T22:13:20.000Z");
    let well = json!({"status": "ok"});
    assert_eq!(bench.get("/healthz").await.json(), well);
    assert_eq!(bench.get("/readyz").await.json(), well);
}

#[tokio::test]
async fn a_stopped_store_turns_health_red_and_calls_unavailable() {
    let bench = Bench::start().await;
    bench.push("q", "{}").await;
    bench.service.close().await.unwrap();
    bench.get("/healthz").await.problem(503, "unavailable");
    bench.get("/readyz").await.problem(503, "unavailable");
    let push = bench.call("POST", "/v1/queues/q/jobs", "{}").await;
    push.problem(503, "unavailable");
    let metrics = bench.get("/metrics").await;
    assert!(metrics.text.contains("auxo_healthy 0"), "{}", metrics.text);
}

#[tokio::test]
async fn metrics_count_jobs_calls_and_answers() {
    let bench = Bench::start().await;
    bench.push("mail", "{}").await;
    let token = bench.lease("mail").await;
    let ack = format!(r#"{{"token":"{token}","outcome":"ack"}}"#);
    bench.call("POST", "/v1/settle", ack).await;
    bench.push("mail", r#"{"delay":"1h"}"#).await;
    bench.get("/v1/jobs/7").await.problem(404, "not_found");
    bench.get("/secret-path").await.problem(404, "not_found");
    let text = bench.get("/metrics").await.text;
    for line in [
        r#"auxo_queue_jobs{queue="mail",state="scheduled"} 1"#,
        r#"auxo_queue_accepted_total{queue="mail"} 2"#,
        "auxo_pushed_total 2",
        r#"auxo_settled_total{outcome="ack"} 1"#,
        r#"auxo_http_requests_total{method="GET",route="/v1/jobs/{id}",status="404"} 1"#,
        r#"auxo_http_requests_total{method="GET",route="none",status="404"} 1"#,
        "auxo_process_start_time_seconds 1700000000.0",
        "auxo_healthy 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    assert!(!text.contains("secret"));
}
