//! Names, keys and headers that would be something else in a path, a line or a log.

use super::bench::Bench;

/// Ways out of a directory, as they are tried.
const WAYS_OUT: [&str; 12] = [
    "..",
    "../..",
    "..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "%2e%2e%2f",
    "%2E%2E%5C",
    "..%5c..",
    "....//",
    "%2fetc%2fpasswd",
    "%00",
    "a%00.json",
    "%c0%ae%c0%ae",
];

#[tokio::test]
async fn no_path_leads_out_of_the_api() {
    let bench = Bench::start().await;
    let document = auxo_server::document();
    for path in document["paths"].as_object().unwrap().keys() {
        for way in WAYS_OUT {
            let inside = match path.split_once('{') {
                Some((before, rest)) => {
                    let (_, after) = rest.split_once('}').unwrap();
                    format!("{before}{way}{}", after.replace(['{', '}'], ""))
                }
                None => format!("{path}/{way}"),
            };
            for path in [inside, format!("/{way}{path}")] {
                let reply = bench.call_with("GET", &path, &[], "").await;
                match reply.status {
                    // A dot is a letter like any other in a queue's name or a key, of which there are none here.
                    400 | 404 => assert!(!reply.text.contains("root:"), "{path}: {reply:?}"),
                    405 => {}
                    // Says that there is no job with such a key, or in such a queue.
                    200 if path.ends_with("/explain") || path.ends_with("/passages") => {}
                    _ => panic!("{path}: {reply:?}"),
                }
            }
        }
    }
}

#[tokio::test]
async fn a_name_with_a_control_character_is_refused_and_makes_nothing() {
    let bench = Bench::start().await;
    for wrong in ["%0a", "%0d%0a", "%00", "%1b%5b2J", "%7f", "%C2%85"] {
        for (method, path, body) in [
            ("POST", format!("/v1/queues/a{wrong}b/jobs"), "{}"),
            ("PUT", format!("/v1/queues/a{wrong}b"), "{}"),
            (
                "PUT",
                format!("/v1/topics/a{wrong}b/subscriptions/s"),
                r#"{"queue":"q"}"#,
            ),
            (
                "PUT",
                format!("/v1/topics/t/subscriptions/a{wrong}b"),
                r#"{"queue":"q"}"#,
            ),
            ("POST", format!("/v1/topics/a{wrong}b/messages"), "{}"),
            (
                "PUT",
                format!("/v1/schedules/a{wrong}b"),
                r#"{"queue":"q","every":"1h"}"#,
            ),
            ("GET", format!("/v1/queues/q/keys/a{wrong}b"), ""),
        ] {
            let reply = bench.call(method, &path, body).await;
            let message = reply.problem(400, "bad_request");
            assert!(!message.contains(char::is_control), "{path}: {message:?}");
        }
    }
    for wrong in [
        r"\n",
        r"\r\n",
        r"\u0000",
        r"\u001b[2J",
        r"\u007f",
        r"\u0085",
    ] {
        for (path, body) in [
            ("/v1/queues/q/jobs", r#"{"kind":"aWRONG"}"#),
            ("/v1/queues/q/jobs", r#"{"key":"aWRONG"}"#),
            ("/v1/queues/q/jobs", r#"{"group":"aWRONG"}"#),
            ("/v1/queues/q/jobs", r#"{"headers":{"aWRONG":"b"}}"#),
            ("/v1/topics/t/messages", r#"{"routing_key":"aWRONG"}"#),
            ("/v1/lease", r#"{"queues":["aWRONG"]}"#),
            ("/v1/lease", r#"{"aWRONG":7}"#),
            ("/v1/lease", r#"{"aWRONG":7,"aWRONG":8}"#),
            ("/v1/queues/q/purge", r#"{"aWRONG":7}"#),
            ("/v1/queues/q/purge", r#"{"states":["aWRONG"]}"#),
            ("/v1/queues/q/pause", r#"{"what":"aWRONG"}"#),
            ("/v1/lease", r#"{"queues":["q"],"worker":"aWRONG"}"#),
        ] {
            let body = body.replace("WRONG", wrong);
            let reply = bench.call("POST", path, body.as_str()).await;
            let message = reply.problem(400, "bad_request");
            assert!(!message.contains(char::is_control), "{body}: {message:?}");
        }
    }
    for wrong in [r"\n", r"\r\n", r"\u0000"] {
        let body = format!(r#"{{"headers":{{"a":"b{wrong}c: d"}}}}"#);
        let reply = bench.call("POST", "/v1/queues/q/jobs", body).await;
        reply.problem(400, "bad_request");
    }
    assert_eq!(
        bench.get("/v1/queues").await.json()["queues"],
        serde_json::json!([])
    );
}

#[tokio::test]
async fn a_header_with_a_control_character_reaches_nobody() {
    let bench = Bench::start().await;
    // A bare line feed ends a header line for some readers: what comes behind it is a header of its own, not a part of one.
    let folded = [
        "idempotency-key: a\rb",
        "idempotency-key: a\0b",
        "x: \u{1b}",
    ];
    for header in folded {
        let reply = bench
            .call_with("POST", "/v1/queues/q/jobs", &[header], "{}")
            .await;
        assert_eq!(reply.status, 400, "{header:?}: {reply:?}");
    }
    let named = bench
        .call_with("GET", "/healthz", &["x-request-id: a b\tc"], "")
        .await;
    assert!(!named.header("x-request-id").unwrap().contains(['\t', ' ']));
    assert_eq!(
        bench.get("/v1/queues").await.json()["queues"],
        serde_json::json!([])
    );
}

#[tokio::test]
async fn long_names_and_thousands_of_headers_are_refused() {
    let bench = Bench::start().await;
    let long = "n".repeat(40 << 10);
    for path in [
        format!("/v1/queues/{long}"),
        format!("/v1/queues/q/keys/{long}"),
    ] {
        let reply = bench.get(&path).await;
        assert!(matches!(reply.status, 400 | 413), "{reply:?}");
        assert!(reply.text.len() < 1000, "{reply:?}");
    }
    for (path, body) in [
        ("/v1/lease", format!(r#"{{"{long}":1}}"#)),
        ("/v1/queues/q/pause", format!(r#"{{"{long}":1}}"#)),
        ("/v1/queues/q/pause", format!(r#"{{"what":"{long}"}}"#)),
        ("/v1/queues/q/purge", format!(r#"{{"states":["{long}"]}}"#)),
    ] {
        let reply = bench.call("POST", path, body).await;
        let message = reply.problem(400, "bad_request");
        assert!(message.len() < 400, "{message}");
    }
    for field in ["kind", "key", "group"] {
        let body = format!(r#"{{"{field}":"{long}"}}"#);
        let reply = bench.call("POST", "/v1/queues/q/jobs", body).await;
        assert!(reply.problem(413, "too_large").starts_with(field));
    }
    let many: Vec<String> = (0..5000).map(|i| format!("\"h{i}\":\"v\"")).collect();
    let body = format!(r#"{{"headers":{{{}}}}}"#, many.join(","));
    let reply = bench.call("POST", "/v1/queues/q/jobs", body).await;
    reply.problem(400, "bad_request");
}
