//! JSON that is made to hurt whoever reads it.

use std::sync::LazyLock;

use super::bench::Bench;

/// Every call that takes JSON, with what stands before a hostile value in it.
const TAKERS: [(&str, &str, &str); 10] = [
    ("POST", "/v1/queues/q/jobs", "kind"),
    ("POST", "/v1/lease", "worker"),
    ("POST", "/v1/settle", "token"),
    ("POST", "/v1/extend", "token"),
    ("POST", "/v1/jobs:bulk", "action"),
    ("POST", "/v1/jobs/7/reschedule", "delay"),
    ("PUT", "/v1/queues/q", "fair"),
    ("PUT", "/v1/topics/t/subscriptions/s", "queue"),
    ("POST", "/v1/topics/t/messages", "kind"),
    ("PUT", "/v1/schedules/s", "queue"),
];

/// Every such call also for a body that may be left out.
const OPTIONAL: [&str; 3] = [
    "/v1/queues/q/pause",
    "/v1/queues/q/resume",
    "/v1/queues/q/purge",
];

static MILLION_KEYS: LazyLock<String> = LazyLock::new(|| {
    let keys: Vec<String> = (0..1_000_000).map(|i| format!("\"{i}\":0")).collect();
    format!("{{{}}}", keys.join(","))
});

fn hostile(field: &str) -> Vec<Vec<u8>> {
    let deep = 100_000;
    let keys: &str = &MILLION_KEYS;
    let value = |text: &str| format!("{{\"{field}\":{text}}}").into_bytes();
    vec![
        "[".repeat(deep).into_bytes(),
        r#"{"a":"#.repeat(deep).into_bytes(),
        value(&("[".repeat(deep) + &"]".repeat(deep))),
        value(&(r#"{"a":"#.repeat(deep) + "1" + &"}".repeat(deep))),
        keys.as_bytes().to_vec(),
        value("1e400"),
        value(&"9".repeat(100_000)),
        value(&format!("0.{}", "1".repeat(100_000))),
        value(r#""\ud800""#),
        value(r#""\udc00\ud800""#),
        value("\"\u{0}\""),
        [format!("{{\"{field}\":\"").as_bytes(), b"\xff\xfe\"}"].concat(),
        [format!("{{\"{field}\":\"").as_bytes(), b"\xed\xa0\x80\"}"].concat(),
        format!("{{\"{field}\":\"a\",\"{field}\":\"b\"}}").into_bytes(),
        format!(
            "{{\"{field}\":\"a\",\"\\u{:04x}{}\":\"b\"}}",
            field.as_bytes()[0],
            &field[1..]
        )
        .into_bytes(),
        b"\xef\xbb\xbf{}".to_vec(),
        b"{}{}".to_vec(),
        b"{\"\":{}}".to_vec(),
        b"nul".to_vec(),
        b"'a'".to_vec(),
    ]
}

#[tokio::test]
async fn json_that_is_made_to_hurt_is_refused_everywhere() {
    let bench = Bench::start().await;
    bench.push("q", "{}").await;
    let inside = format!(r#"{{"headers":{}}}"#, *MILLION_KEYS);
    let reply = bench.call("POST", "/v1/queues/q/jobs", inside).await;
    reply.problem(400, "bad_request");
    let optional = OPTIONAL.map(|path| ("POST", path, "what"));
    for (method, path, field) in TAKERS.into_iter().chain(optional) {
        for body in hostile(field) {
            let start = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
            let reply = bench.call(method, path, body).await;
            assert_eq!(reply.status, 400, "{method} {path} {start}: {reply:?}");
            reply.problem(400, "bad_request");
            assert!(
                reply.text.len() < 2000,
                "{method} {path} {start}: {reply:?}"
            );
        }
    }
    assert_eq!(bench.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_payload_that_is_made_to_hurt_is_kept_and_shown_so_that_anybody_can_read_it() {
    let bench = Bench::start().await;
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    for payload in [&deep, "1e400", r#""\ud800""#, &"9".repeat(100_000)] {
        let id = bench
            .push("q", &format!(r#"{{"payload":{payload}}}"#))
            .await;
        // Reading the answer as JSON is a part of the call.
        let job = bench.get(&format!("/v1/jobs/{id}")).await.json();
        assert!(job["payload_base64"].is_string(), "{payload:.20}");
    }
    let leased = bench
        .call("POST", "/v1/lease", r#"{"queues":["q"],"max":9}"#)
        .await;
    assert_eq!(leased.json()["jobs"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn a_compressed_body_is_refused_unread_and_told_why() {
    let bench = Bench::start().await;
    let kind = "content-type: application/json";
    for coding in ["gzip", "br", "deflate, gzip", "GZIP", "x", ""] {
        let header = format!("content-encoding: {coding}");
        for path in ["/v1/queues/q/jobs", "/v1/lease"] {
            let reply = bench.call_with("POST", path, &[kind, &header], "{}").await;
            let message = reply.problem(415, "bad_request");
            assert!(message.contains("compress"), "{message}");
        }
    }
    let plain = [kind, "content-encoding: identity"];
    let reply = bench
        .call_with("POST", "/v1/queues/q/jobs", &plain, "{}")
        .await;
    assert_eq!(reply.status, 201);
}
