//! Numbers, durations and times without measure, in every field that takes one.

use super::bench::Bench;

/// What is put into every field, as it stands in JSON.
const VALUES: [&str; 9] = [
    "0",
    "-1",
    "18446744073709551615",
    "1e308",
    "1e400",
    "0.5",
    r#""NaN""#,
    r#""Infinity""#,
    r#""9999999999999999999d""#,
];

const MOST: &str = "18446744073709551615";
const PUSH: &str = "/v1/queues/q/jobs";

/// A field: method, path, the body before and after the value, how a refusal names it, and the values that it takes.
type Field<'a> = (&'a str, &'a str, &'a str, &'a str, &'a str, &'a [&'a str]);

const FIELDS: [Field<'_>; 41] = [
    ("POST", PUSH, r#"{"priority":"#, "}", "priority", &["0"]),
    (
        "POST",
        PUSH,
        r#"{"max_attempts":"#,
        "}",
        "max_attempts",
        &[],
    ),
    ("POST", PUSH, r#"{"delay":"#, "}", "delay", &["0"]),
    ("POST", PUSH, r#"{"run_at":"#, "}", "run_at", &["0"]),
    ("POST", PUSH, r#"{"ttr":"#, "}", "ttr", &["0"]),
    ("POST", PUSH, r#"{"ttl":"#, "}", "ttl", &[]),
    ("POST", PUSH, r#"{"expires_at":"#, "}", "expires_at", &["0"]),
    ("POST", PUSH, r#"{"retention":"#, "}", "retention", &["0"]),
    (
        "POST",
        PUSH,
        r#"{"key":"k0","on_duplicate":"return","key_window":"#,
        "}",
        "key_window",
        &["0"],
    ),
    (
        "POST",
        PUSH,
        r#"{"backoff":{"kind":"exponential","base":"#,
        "}}",
        "backoff.base",
        &["0"],
    ),
    (
        "POST",
        PUSH,
        r#"{"backoff":{"kind":"exponential","cap":"#,
        "}}",
        "backoff.cap",
        &["0"],
    ),
    (
        "POST",
        PUSH,
        r#"{"backoff":{"kind":"exponential","factor":"#,
        "}}",
        "backoff.factor",
        &[],
    ),
    (
        "POST",
        PUSH,
        r#"{"backoff":{"kind":"fixed","delay":"#,
        "}}",
        "backoff.delay",
        &["0"],
    ),
    (
        "POST",
        PUSH,
        r#"{"backoff":{"kind":"list","delays":["#,
        "]}}",
        "backoff.delays",
        &["0"],
    ),
    (
        "POST",
        "/v1/topics/t/messages",
        r#"{"priority":"#,
        "}",
        "priority",
        &["0"],
    ),
    (
        "POST",
        "/v1/topics/t/messages",
        r#"{"delay":"#,
        "}",
        "delay",
        &["0"],
    ),
    (
        "POST",
        "/v1/lease",
        r#"{"queues":["none"],"max":"#,
        "}",
        "max",
        &[],
    ),
    (
        "POST",
        "/v1/lease",
        r#"{"queues":["none"],"wait":"#,
        "}",
        "wait",
        &["0"],
    ),
    (
        "POST",
        "/v1/lease",
        r#"{"queues":["none"],"ttr":"#,
        "}",
        "ttr",
        &[],
    ),
    (
        "POST",
        "/v1/settle",
        r#"{"token":"TOKEN","outcome":"fail","delay":"#,
        "}",
        "delay",
        &["0"],
    ),
    (
        "POST",
        "/v1/settle",
        r#"{"token":"TOKEN","outcome":"snooze","delay":"#,
        "}",
        "delay",
        &["0"],
    ),
    (
        "POST",
        "/v1/settle",
        r#"{"token":"TOKEN","outcome":"release","delay":"#,
        "}",
        "delay",
        &["0"],
    ),
    (
        "POST",
        "/v1/settle",
        r#"{"token":"TOKEN","outcome":"release","priority":"#,
        "}",
        "priority",
        &["0"],
    ),
    (
        "POST",
        "/v1/settle",
        r#"{"token":"TOKEN","outcome":"bury","priority":"#,
        "}",
        "priority",
        &["0"],
    ),
    (
        "POST",
        "/v1/extend",
        r#"{"token":"TOKEN","ttr":"#,
        "}",
        "ttr",
        &[],
    ),
    (
        "POST",
        "/v1/jobs/ID/reschedule",
        r#"{"delay":"#,
        "}",
        "delay",
        &["0"],
    ),
    (
        "POST",
        "/v1/jobs/ID/reschedule",
        r#"{"run_at":"#,
        "}",
        "run_at",
        &["0"],
    ),
    (
        "POST",
        "/v1/jobs:bulk",
        r#"{"action":"reschedule","filter":{},"delay":"#,
        "}",
        "delay",
        &["0"],
    ),
    (
        "POST",
        "/v1/jobs:bulk",
        r#"{"action":"kick","filter":{},"limit":"#,
        "}",
        "limit",
        &[],
    ),
    (
        "POST",
        "/v1/jobs:bulk",
        r#"{"action":"kick","filter":{},"cursor":"#,
        "}",
        "cursor",
        &[],
    ),
    (
        "POST",
        "/v1/jobs:bulk",
        r#"{"action":"kick","filter":{"created_from":"#,
        "}}",
        "created_from",
        &["0"],
    ),
    (
        "POST",
        "/v1/jobs:bulk",
        r#"{"action":"kick","ids":["#,
        "]}",
        "ids",
        &["0", MOST],
    ),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"max_jobs":"#,
        "}",
        "max_jobs",
        &[MOST],
    ),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"max_bytes":"#,
        "}",
        "max_bytes",
        &[MOST],
    ),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"max_leased":"#,
        "}",
        "max_leased",
        &[],
    ),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"rate":{"count":"#,
        "}}",
        "rate.count",
        &[],
    ),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"rate":{"count":1,"per":"#,
        "}}",
        "rate.per",
        &[],
    ),
    (
        "PUT",
        "/v1/queues/q",
        r#"{"rate":{"count":1,"burst":"#,
        "}}",
        "rate.burst",
        &[],
    ),
    (
        "PUT",
        "/v1/schedules/s",
        r#"{"queue":"q","every":"#,
        "}",
        "every",
        &[],
    ),
    (
        "PUT",
        "/v1/schedules/s",
        r#"{"queue":"q","every":"1h","job":{"priority":"#,
        "}}",
        "priority",
        &["0"],
    ),
    (
        "PUT",
        "/v1/schedules/s",
        r#"{"queue":"q","every":"1h","job":{"ttl":"#,
        "}}",
        "ttl",
        &[],
    ),
];

#[tokio::test]
async fn a_number_past_its_bounds_is_refused_by_the_name_of_its_field() {
    let bench = Bench::start().await;
    let id = bench.push("q", r#"{"delay":"1h"}"#).await;
    for (method, path, before, after, field, takes) in FIELDS {
        for value in VALUES {
            // A lease of its own for each: an outcome that is taken ends it.
            let token = match before.contains("TOKEN") {
                true => {
                    bench.push("leased", "{}").await;
                    bench.lease("leased").await
                }
                false => String::new(),
            };
            let path = path.replace("ID", &id);
            let body = format!("{before}{value}{after}").replace("TOKEN", &token);
            let reply = bench.call(method, &path, body.as_str()).await;
            if takes.contains(&value) {
                assert!(reply.status < 300, "{path} {body}: {reply:?}");
                continue;
            }
            let message = reply.problem(400, "bad_request");
            assert!(message.contains(field), "{path} {body}: {message}");
            assert!(message.len() < 400, "{path} {body}: {message}");
        }
    }
    assert_eq!(bench.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn ten_megabytes_in_place_of_a_number_are_refused_in_few_words() {
    let bench = Bench::start().await;
    let long = "9".repeat(10 << 20);
    // One field for each way to read a value; the others are read alike.
    let kinds = [
        "priority",
        "delay",
        "run_at",
        "max_bytes",
        "backoff.factor",
        "cursor",
    ];
    for kind in kinds {
        let mut all = FIELDS.iter();
        let (method, path, before, after, field, _) = *all.find(|field| field.4 == kind).unwrap();
        let path = path.replace("ID", "7");
        let before = before.replace("TOKEN", "7-1-0000000000000001");
        for value in [format!("\"{long}\""), long.clone()] {
            let body = format!("{before}{value}{after}");
            let reply = bench.call(method, &path, body).await;
            assert!(
                matches!(reply.status, 400 | 413),
                "{path} {field}: {reply:?}"
            );
            assert!(reply.text.len() < 1000, "{path} {field}: {reply:?}");
            let message = reply.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(field), "{path} {field}: {message}");
        }
    }
}

#[tokio::test]
async fn a_number_in_a_url_is_held_to_the_same() {
    let bench = Bench::start().await;
    let long = "9".repeat(10_000);
    for (field, takes) in [
        ("limit", &[][..]),
        ("cursor", &[]),
        ("created_from", &["0"]),
        ("created_before", &["0"]),
        ("due_from", &["0"]),
        ("due_before", &["0"]),
    ] {
        for value in ["0", "-1", MOST, "1e308", "NaN", "0.5", "%00", long.as_str()] {
            let reply = bench.get(&format!("/v1/jobs?{field}={value}")).await;
            if takes.contains(&value) {
                assert_eq!(reply.status, 200, "{field}={value}: {reply:?}");
                continue;
            }
            assert!(
                matches!(reply.status, 400 | 413),
                "{field}={value}: {reply:?}"
            );
            let message = reply.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(field), "{field}={value}: {message}");
            assert!(message.len() < 400, "{field}: {message}");
        }
    }
    for id in [
        "-1",
        "1e3",
        "NaN",
        "18446744073709551616",
        long.as_str(),
        "%00",
    ] {
        for path in ["", "/explain"] {
            let message = bench.get(&format!("/v1/jobs/{id}{path}")).await;
            let message = message.problem(400, "bad_request");
            assert!(message.starts_with("job id"), "{message}");
        }
    }
    for last in [
        "x-",
        "x-1e3",
        "x-18446744073709551616",
        "",
        "7",
        long.as_str(),
    ] {
        let header = format!("last-event-id: {last}");
        let reply = bench.call_with("GET", "/v1/events", &[&header], "").await;
        let message = reply.problem(400, "bad_request");
        assert!(message.starts_with("Last-Event-ID"), "{message}");
    }
}
