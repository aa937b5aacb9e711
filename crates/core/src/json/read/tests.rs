use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{read, show};
use crate::engine::{Action, Mode, Outcome, Retry, Target};
use crate::job::{Backoff, Jitter, JobSpec, Key, OnDuplicate, Ttl};
use crate::queue::{QueueConfig, Rate, Side};
use crate::schedule::{Missed, Rhythm};
use crate::{Code, Error, JobId, State, Timestamp, Token, When};

fn token() -> Token {
    Token {
        job: JobId(7),
        counter: 1,
        nonce: 2,
    }
}

fn refusal<T: std::fmt::Debug>(result: crate::Result<T>) -> Error {
    let error = result.unwrap_err();
    assert!(error.message().len() < 600, "{error}");
    error
}

fn push(body: &Value) -> crate::Result<JobSpec> {
    read::push(body.to_string().as_bytes())
}

#[test]
fn a_push_with_every_field_is_read() {
    let spec = push(&json!({
        "payload": {"a": 1}, "kind": "k", "headers": {"h": "v"}, "priority": 0, "delay": "1m", "ttr": 0,
        "ttl": "1h", "max_attempts": 3, "key": "x", "on_duplicate": "replace", "key_window": 0,
        "backoff": {"kind": "exponential", "base": "2s", "factor": 3, "cap": "1m", "jitter": "none"},
        "group": "g", "retention": "1d",
    }))
    .unwrap();
    assert_eq!(
        spec,
        JobSpec {
            kind: "k".into(),
            payload: Bytes::from_static(b"{\"a\":1}"),
            headers: [("h".to_owned(), "v".to_owned())].into(),
            priority: 0,
            when: When::After(Duration::from_secs(60)),
            ttr: Duration::ZERO,
            ttl: Ttl::After(Duration::from_secs(3600)),
            max_attempts: 3,
            backoff: Backoff::Exponential {
                base: Duration::from_secs(2),
                factor: 3.0,
                cap: Duration::from_secs(60),
                jitter: Jitter::None,
            },
            key: Some(Key {
                name: "x".into(),
                on_duplicate: OnDuplicate::Replace,
                window: Duration::ZERO,
            }),
            group: Some("g".into()),
            retention: Duration::from_secs(86_400),
        }
    );
}

#[test]
fn an_empty_push_is_the_default_job() {
    assert_eq!(push(&json!({})).unwrap(), JobSpec::default());
    let nulls: serde_json::Map<String, Value> = read::PUSH_FIELDS
        .iter()
        .filter(|name| **name != "payload")
        .map(|name| ((*name).to_owned(), Value::Null))
        .collect();
    assert_eq!(push(&Value::Object(nulls)).unwrap(), JobSpec::default());
}

#[test]
fn a_json_payload_keeps_its_bytes() {
    for text in [
        "{ \"b\" : 1.0e2,\n\"a\":[ ] }",
        "12345678901234567890.123",
        "null",
        "\"\\u00e4\"",
    ] {
        let body = format!("{{\"payload\":  {text} }}");
        assert_eq!(
            read::push(body.as_bytes()).unwrap().payload,
            text.as_bytes()
        );
    }
    let binary = push(&json!({"payload_base64": "/wA="})).unwrap();
    assert_eq!(binary.payload, &[0xff, 0][..]);
    assert_eq!(
        push(&json!({"payload_base64": "/wA"})).unwrap().payload,
        binary.payload
    );
}

#[test]
fn a_wrong_field_is_named() {
    let long = "x".repeat(10_000_000);
    #[rustfmt::skip]
    let table = [
        (json!([]), "an object"),
        (json!(7), "an object"),
        (json!({"dely": "1s"}), "dely: unknown field; known are payload,"),
        (json!({&long: 1}), "unknown field"),
        (json!({"payload": 1, "payload_base64": "AA=="}), "payload_base64: stands beside payload"),
        (json!({"payload_base64": "é"}), "payload_base64: not base64"),
        (json!({"payload_base64": 7}), "payload_base64: expected a text"),
        (json!({"kind": 7}), "kind: expected a text, not 7"),
        (json!({"headers": []}), "headers: expected an object"),
        (json!({"headers": {"a": 1}}), "headers: \"a\": expected a text"),
        (json!({"priority": -1}), "priority: expected a whole number from 0 to 4294967295, not -1"),
        (json!({"priority": 4294967296u64}), "priority: "),
        (json!({"priority": 1.5}), "priority: "),
        (json!({"priority": "1"}), "priority: "),
        (json!({"run_at": "tomorrow"}), "run_at: time \"tomorrow\""),
        (json!({"run_at": -1}), "run_at: expected a time"),
        (json!({"run_at": u64::MAX}), "run_at: time"),
        (json!({"run_at": true}), "run_at: expected a time"),
        (json!({"delay": "-5s"}), "delay: duration \"-5s\""),
        (json!({"delay": -1}), "delay: expected a duration like \"30s\" or milliseconds, not -1"),
        (json!({"delay": 1.5}), "delay: expected a duration"),
        (json!({"delay": "NaN"}), "delay: duration \"NaN\""),
        (json!({"delay": &long}), "delay: duration"),
        (json!({"delay": "1s", "run_at": 0}), "delay: stands beside run_at"),
        (json!({"ttr": {}}), "ttr: expected a duration"),
        (json!({"ttl": "1s", "expires_at": 5}), "ttl: stands beside expires_at"),
        (json!({"max_attempts": 1e30}), "max_attempts: "),
        (json!({"max_attempts": [&long]}), "max_attempts: "),
        (json!({"backoff": "fixed"}), "backoff: expected an object"),
        (json!({"backoff": {}}), "backoff.kind: is missing"),
        (json!({"backoff": {"kind": "wild"}}), "backoff.kind: expected one of exponential, fixed, list"),
        (json!({"backoff": {"kind": "fixed"}}), "backoff.delay: is missing"),
        (json!({"backoff": {"kind": "fixed", "delay": "1s", "factor": 2}}), "backoff.factor: unknown field; known are kind, delay"),
        (json!({"backoff": {"kind": "list", "delays": "1s"}}), "backoff.delays: expected a list"),
        (json!({"backoff": {"kind": "list", "delays": [-1]}}), "backoff.delays: expected a duration"),
        (json!({"backoff": {"kind": "list", "delays": vec![0; 1001]}}), "backoff.delays: the list has more than 1000 items"),
        (json!({"backoff": {"kind": "exponential", "factor": "NaN"}}), "backoff.factor: expected a number"),
        (json!({"backoff": {"kind": "exponential", "jitter": true}}), "backoff.jitter: expected one of full, none"),
        (json!({"key": ["a"]}), "key: expected a text"),
        (json!({"key": "a", "on_duplicate": "ignore"}), "on_duplicate: expected one of reject, return, replace"),
        (json!({"on_duplicate": "reject"}), "on_duplicate: needs a key"),
        (json!({"key_window": "1s"}), "key_window: needs a key"),
        (json!({"group": 1}), "group: expected a text"),
        (json!({"retention": "forever"}), "retention: duration \"forever\""),
    ];
    for (body, part) in table {
        let error = refusal(push(&body));
        assert!(error.message().contains(part), "{error}\nshould say {part}");
    }
}

#[test]
fn a_whole_number_may_be_written_with_a_fraction_of_zero() {
    let read = |text: &str| read::push(format!("{{\"priority\":{text}}}").as_bytes());
    for (text, number) in [
        ("5.0", 5),
        ("1e3", 1000),
        ("0.0", 0),
        ("4294967295.0", u32::MAX),
    ] {
        assert_eq!(read(text).unwrap().priority, number, "{text}");
    }
    for text in ["5.5", "-1.0", "4294967296.0", "1e300"] {
        let error = refusal(read(text));
        assert!(
            error.message().contains("a whole number"),
            "{text}: {error}"
        );
    }
}

#[test]
fn a_body_that_is_not_json_is_refused() {
    for body in [
        &b""[..],
        b"{",
        b"{\"a\":1}}",
        b"\xff",
        b"{\"kind\":\"\xff\"}",
        b"{\"factor\":NaN}",
    ] {
        assert_eq!(refusal(read::push(body)).code(), Code::BadRequest);
    }
    let twice = refusal(read::push(b"{\"kind\":\"a\",\"kind\":\"b\"}"));
    assert!(twice.message().contains("kind: is there twice"), "{twice}");
    let many: String = (0..100).map(|n| format!("\"f{n}\":0,")).collect();
    let twice = refusal(read::push(format!("{{{many}\"f\\u0037\":1}}").as_bytes()));
    assert!(twice.message().contains("f7: is there twice"), "{twice}");
    let infinite = refusal(read::push(
        b"{\"backoff\":{\"kind\":\"exponential\",\"factor\":1e999}}",
    ));
    assert!(infinite.message().starts_with("backoff.factor"));
    assert!(read::push("[".repeat(1_000_000).as_bytes()).is_err());
}

#[test]
fn a_list_is_read_item_by_item() {
    let body = br#"[{"kind":"a"},{"kind":1},7,{}]"#;
    let items = read::pushes(body, 4).unwrap().into_items();
    assert_eq!(
        items.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, false, true]
    );
    assert_eq!(refusal(read::pushes(body, 3)).code(), Code::TooLarge);
    assert!(matches!(
        read::pushes(b"{}", 1).unwrap(),
        read::Batch::One(Ok(_))
    ));
    assert!(matches!(
        read::pushes(b"7", 1).unwrap(),
        read::Batch::One(Err(_))
    ));
}

#[test]
fn a_settle_has_the_fields_of_its_outcome_and_no_others() {
    let settle = |fields: Value| {
        let mut item = json!({"token": token().to_string()});
        item.as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        read::settles(item.to_string().as_bytes(), 1)
            .unwrap()
            .into_items()
            .remove(0)
            .map(|settle| settle.outcome)
    };
    let second = Some(Duration::from_secs(1));
    #[rustfmt::skip]
    let table = [
        (json!({"outcome": "ack", "error": null}), Outcome::Ack { result: None }),
        (json!({"outcome": "ack", "result": [1]}), Outcome::Ack { result: Some(Bytes::from_static(b"[1]")) }),
        (json!({"outcome": "ack", "result_base64": "/w=="}), Outcome::Ack { result: Some(Bytes::from_static(b"\xff")) }),
        (json!({"outcome": "fail"}), Outcome::Fail { error: String::new(), delay: None, retry: Retry::Policy }),
        (json!({"outcome": "fail", "error": "e", "delay": "1s", "retry": false}), Outcome::Fail { error: "e".into(), delay: second, retry: Retry::Never }),
        (json!({"outcome": "release", "priority": 1, "delay": 1000}), Outcome::Release { priority: Some(1), delay: second }),
        (json!({"outcome": "bury", "error": "e"}), Outcome::Bury { error: Some("e".into()), priority: None }),
        (json!({"outcome": "snooze", "delay": "1s"}), Outcome::Snooze { delay: Duration::from_secs(1) }),
    ];
    for (fields, outcome) in table {
        assert_eq!(settle(fields.clone()).unwrap(), outcome, "{fields}");
    }
    #[rustfmt::skip]
    let table = [
        (json!({}), "outcome: is missing"),
        (json!({"outcome": "done"}), "outcome: expected one of ack, fail, release, bury, snooze"),
        (json!({"outcome": "snooze"}), "delay: is missing"),
        (json!({"outcome": "ack", "error": "e"}), "error: does not go with outcome ack"),
        (json!({"outcome": "fail", "result": 1}), "result: does not go with outcome fail"),
        (json!({"outcome": "snooze", "delay": 1, "priority": 1}), "priority: does not go with outcome snooze"),
        (json!({"outcome": "ack", "token": "7"}), "token: token \"7\""),
        (json!({"outcome": "ack", "token": 7}), "token: expected a text"),
    ];
    for (fields, part) in table {
        let error = refusal(settle(fields));
        assert!(error.message().contains(part), "{error}\nshould say {part}");
    }
}

#[test]
fn an_extend_and_a_lease_are_read() {
    let body = json!([{"token": token().to_string(), "ttr": "1m", "progress": {"p": 1}}]);
    let extend = read::extends(body.to_string().as_bytes(), 1)
        .unwrap()
        .into_items()
        .remove(0)
        .unwrap();
    assert_eq!(extend.token, token());
    assert_eq!(extend.ttr, Some(Duration::from_secs(60)));
    assert_eq!(extend.progress.unwrap(), &b"{\"p\":1}"[..]);

    let ask = read::ask(br#"{"queues":["a","b"],"max":5,"wait":"30s","worker":"w"}"#).unwrap();
    assert_eq!(ask.queues.len(), 2);
    assert_eq!((ask.max, ask.wait.as_secs(), &*ask.worker), (5, 30, "w"));
    assert_eq!(read::ask(br#"{"queues":["a"]}"#).unwrap().max, 1);
    for (body, part) in [
        ("{}", "queues: is missing"),
        (r#"{"queues":"a"}"#, "queues: expected a list"),
        (r#"{"queues":["-a"]}"#, "queues: queue name"),
        (r#"{"queues":["a"],"queue":"a"}"#, "queue: unknown field"),
        (r#"{"queues":["a"],"wait":-1}"#, "wait: expected a duration"),
        (
            r#"{"queues":["a"],"pick":"oldest"}"#,
            "pick: expected one of first, most_urgent, not \"oldest\"",
        ),
    ] {
        let error = refusal(read::ask(body.as_bytes()));
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn a_query_is_the_same_in_json_and_in_a_url() {
    let body = br#"{"queue":"mail","state":["dead","done"],"kind":"k","created_from":1700000000000,"limit":5,"cursor":"c"}"#;
    let query = read::query(body).unwrap();
    assert_eq!(query.filter.states, [State::Dead, State::Done]);
    let pairs = [
        ("queue", "mail"),
        ("state", "dead"),
        ("state", "done"),
        ("kind", "k"),
        ("group", ""),
        ("created_from", "2023-11-14T22:13:20Z"),
        ("limit", "5"),
        ("cursor", "c"),
    ];
    assert_eq!(read::query_pairs(pairs).unwrap(), query);
    assert_eq!(read::query_pairs([]).unwrap().limit, read::DEFAULT_LIMIT);
    for pair in [
        ("state", "lost"),
        ("limit", "many"),
        ("limit", "-1"),
        ("page", "2"),
    ] {
        let error = refusal(read::query_pairs([pair]));
        assert!(error.message().starts_with(pair.0), "{error}");
    }
    assert!(read::query_pairs([("kind", "a"), ("kind", "b")]).is_err());
}

#[test]
fn a_bulk_order_must_say_which_jobs() {
    let order = |body: Value| read::order(body.to_string().as_bytes());
    let all = order(
        json!({"action": "reschedule", "delay": "1m", "filter": {"state": "dead"}, "limit": 7, "dry_run": true}),
    )
    .unwrap();
    assert_eq!(all.mode, Mode::DryRun);
    assert_eq!(
        all.action,
        Action::Reschedule(When::After(Duration::from_secs(60)))
    );
    assert!(matches!(all.target, Target::Matching(query) if query.limit == 7));
    let named = order(json!({"action": "kick", "ids": ["7", 8]})).unwrap();
    assert_eq!(named.target, Target::Jobs(vec![JobId(7), JobId(8)]));
    let unset = json!({"action": "kick", "ids": [], "cursor": null, "limit": null});
    assert!(order(unset).is_ok(), "null is as good as absent");
    for (body, part) in [
        (json!({"action": "delete"}), "filter: is missing"),
        (
            json!({"action": "kick", "ids": [], "filter": {}}),
            "filter: stands beside ids",
        ),
        (
            json!({"action": "kick", "filter": {"stat": "dead"}}),
            "filter.stat: unknown field",
        ),
        (
            json!({"action": "kick", "delay": 1, "filter": {}}),
            "reschedule only",
        ),
        (
            json!({"action": "reschedule", "filter": {}}),
            "run_at: is missing",
        ),
        (json!({"action": "kick", "ids": ["x"]}), "ids: job id"),
        (
            json!({"action": "kick", "ids": [], "limit": 5}),
            "limit: goes with filter only",
        ),
    ] {
        let error = refusal(order(body));
        assert!(error.message().contains(part), "{error}");
    }
    assert_eq!(
        read::when(br#"{"run_at":5}"#).unwrap(),
        When::At(Timestamp(5))
    );
    assert!(read::when(b"{}").is_err());
}

#[test]
fn queue_settings_survive_out_and_in_and_change_only_what_is_named() {
    let config = QueueConfig {
        paused_in: true,
        paused_out: false,
        paused_until: Some(When::At(Timestamp(1_000))),
        max_jobs: Some(10),
        max_bytes: Some(64 * 1024),
        max_leased: Some(3),
        rate: Some(Rate {
            count: 5,
            per: Duration::from_secs(60),
            burst: 7,
        }),
        fair: true,
        shards: Some(8),
    };
    let shown = serde_json::to_vec(&show::queue_config(&config)).unwrap();
    assert_eq!(
        read::queue_config(&shown, QueueConfig::default()).unwrap(),
        config
    );
    let changed = read::queue_config(
        br#"{"max_jobs":null,"max_bytes":"1MiB","rate":null,"paused_in":false}"#,
        config.clone(),
    )
    .unwrap();
    assert_eq!(
        changed,
        QueueConfig {
            paused_in: false,
            max_jobs: None,
            max_bytes: Some(1 << 20),
            rate: None,
            ..config.clone()
        }
    );
    let rate = read::queue_config(br#"{"rate":{"count":4}}"#, QueueConfig::default())
        .unwrap()
        .rate
        .unwrap();
    assert_eq!((rate.burst, rate.per.as_secs()), (4, 1));
    for (body, part) in [
        (r#"{"max_leased":-1}"#, "max_leased: "),
        (r#"{"rate":{}}"#, "rate.count: is missing"),
        (r#"{"rate":{"count":"5"}}"#, "rate.count: "),
        (r#"{"paused":true}"#, "paused: unknown field"),
        (r#"{"fair":1}"#, "fair: expected true or false"),
        (r#"{"shards":65536}"#, "shards: expected a whole number"),
    ] {
        let error = refusal(read::queue_config(body.as_bytes(), QueueConfig::default()));
        assert!(error.message().contains(part), "{error}");
    }
    let both = br#"{"paused_for":"1s","paused_until":5}"#;
    let error = refusal(read::queue_config(both, QueueConfig::default()));
    assert!(error.message().contains("paused_for"), "{error}");
    let freed = read::queue_config(br#"{"paused_until":null}"#, config).unwrap();
    assert_eq!(freed.paused_until, None);
}

#[test]
fn a_pause_has_a_side_and_a_time_or_neither() {
    let pause = |side, span| read::Pause { side, span };
    for (body, expected) in [
        ("", pause(None, None)),
        (" null\n", pause(None, None)),
        ("{}", pause(None, None)),
        (r#"{"what":"in","for":null}"#, pause(Some(Side::In), None)),
        (
            r#"{"what":"out","for":"10m"}"#,
            pause(Some(Side::Out), Some(Duration::from_secs(600))),
        ),
        (
            r#"{"for":1500}"#,
            pause(None, Some(Duration::from_millis(1500))),
        ),
    ] {
        assert_eq!(read::pause(body.as_bytes()).unwrap(), expected, "{body}");
    }
    for (body, part) in [
        (
            r#"{"what":"up"}"#,
            "what: expected \"in\", \"out\" or \"both\"",
        ),
        (r#"{"for":"soon"}"#, "for: "),
        (r#"{"for":-1}"#, "for: expected a duration"),
        (r#"{"until":1}"#, "until: unknown field"),
        (r#"["in"]"#, "expected an object"),
    ] {
        let error = refusal(read::pause(body.as_bytes()));
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn a_schedule_ticks_by_cron_or_by_interval() {
    let schedule = |body: Value| read::schedule("nightly", body.to_string().as_bytes());
    let cron =
        schedule(json!({"queue": "q", "cron": "@daily", "missed": "all", "job": {"kind": "k"}}))
            .unwrap();
    assert_eq!(
        cron.rhythm,
        Rhythm::Cron {
            expression: "@daily".into(),
            zone: "UTC".into()
        }
    );
    assert_eq!((cron.missed, cron.spec.kind.as_str()), (Missed::All, "k"));
    let every = schedule(json!({"queue": "q", "every": "5m"})).unwrap();
    assert_eq!(every.rhythm, Rhythm::Every(Duration::from_secs(300)));

    let mut shown = serde_json::to_value(show::schedule(&cron)).unwrap();
    assert_eq!(shown["name"], "nightly");
    shown.as_object_mut().unwrap().remove("name");
    assert_eq!(schedule(shown).unwrap(), cron);
    for (body, part) in [
        (json!({"queue": "q"}), "cron: is missing"),
        (
            json!({"queue": "q", "cron": "@daily", "every": "1s"}),
            "every: stands beside cron",
        ),
        (
            json!({"queue": "q", "every": "1s", "zone": "UTC"}),
            "zone: goes with cron",
        ),
        (
            json!({"queue": "q", "every": "1s", "job": {"delay": 1}}),
            "job.delay: ",
        ),
        (
            json!({"queue": "q", "every": "1s", "job": {"x": 1}}),
            "job.x: unknown field",
        ),
        (
            json!({"queue": "q", "every": "1s", "missed": "none"}),
            "missed: expected one of",
        ),
        (json!({"every": "1s"}), "queue: is missing"),
    ] {
        let error = refusal(schedule(body));
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn a_subscription_and_a_message_are_read() {
    let subscription =
        read::subscription("orders", "billing", br#"{"queue":"b","pattern":"eu.*"}"#).unwrap();
    assert_eq!(
        show::subscription(&subscription),
        json!({"topic": "orders", "name": "billing", "queue": "b", "pattern": "eu.*"})
    );
    assert!(read::subscription("t", "s", br#"{"queue":"b","pattern":"e*"}"#).is_err());
    let message = read::message("orders", br#"{"payload":1,"routing_key":"eu.1"}"#).unwrap();
    assert_eq!(message.routing_key.as_deref(), Some("eu.1"));
    assert_eq!(message.spec.payload, &b"1"[..]);
    let error = refusal(push(&json!({"routing_key": "eu.1"})));
    assert!(error.message().contains("routing_key: unknown field"));
}

/// Any JSON, with our own field names among its names.
fn any_json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        prop::sample::select(
            [
                &read::PUSH_FIELDS[..],
                &[
                    "token", "outcome", "queues", "queue", "cron", "every", "job", "rate",
                    "filter", "action", "state"
                ],
            ]
            .concat()
        )
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        prop::sample::select(vec![
            "1s",
            "exponential",
            "list",
            "fixed",
            "ack",
            "fail",
            "q",
            "kick",
            "7-1-0000000000000002",
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_a_reader_panic_and_what_is_taken_reads_back(value in any_json()) {
        let text = value.to_string();
        let body = text.as_bytes();
        let _ = (read::settles(body, 9), read::extends(body, 9), read::ask(body), read::query(body));
        let _ = (read::order(body), read::when(body), read::schedule("s", body), read::message("t", body));
        let _ = (read::queue_config(body, QueueConfig::default()), read::subscription("t", "s", body));
        for spec in read::pushes(body, 9).map(read::Batch::into_items).unwrap_or_default().into_iter().flatten() {
            let shown = serde_json::to_string(&show::spec(&spec)).unwrap();
            prop_assert_eq!(read::push(shown.as_bytes()).unwrap(), spec);
        }
    }

    #[test]
    fn no_bytes_make_a_reader_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (read::pushes(&body, 9), read::settles(&body, 9), read::ask(&body), read::order(&body));
    }
}
