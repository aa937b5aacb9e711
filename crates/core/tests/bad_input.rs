//! Wrong values for every field, from JSON through the service: a clear error, and nothing reaches the engine.

mod fake;

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::*;
use auxo_core::job::{Backoff, Jitter, Key, OnDuplicate, Ttl};
use auxo_core::json::read;
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::{
    Code, Error, JobId, JobSpec, Limits, NewJob, QueueName, Result, Service, Timestamp, When,
};
use fake::Fake;
use proptest::prelude::*;
use serde_json::{Value, json};

const TOKEN: &str = "7-1-0000000000000001";

struct Desk {
    fake: Arc<Fake>,
    service: Service,
}

impl Desk {
    fn new() -> Desk {
        let fake = Arc::new(Fake::default());
        let service = Service::new(fake.clone(), Limits::default());
        Desk { fake, service }
    }

    async fn push(&self, body: &Value) -> Result<Pushed> {
        let items = read::pushes(body.to_string().as_bytes(), 1000)?.into_items();
        let job = |spec| NewJob {
            queue: QueueName::new("q").unwrap(),
            spec,
        };
        let jobs = items.into_iter().map(|item| item.map(job)).collect();
        self.service.push_each(jobs).await?.remove(0)
    }

    async fn settle(&self, body: &Value) -> Result<Settled> {
        let items = read::settles(body.to_string().as_bytes(), 1000)?.into_items();
        self.service.settle_each(items).await?.remove(0)
    }

    async fn extend(&self, body: &Value) -> Result<Extended> {
        let items = read::extends(body.to_string().as_bytes(), 1000)?.into_items();
        self.service.extend_each(items).await?.remove(0)
    }

    async fn lease(&self, body: &Value) -> Result<()> {
        let ask = read::ask(body.to_string().as_bytes())?;
        self.service.lease(ask).await.map(drop)
    }

    async fn list(&self, body: &Value) -> Result<()> {
        let query = read::query(body.to_string().as_bytes())?;
        self.service.list(query).await.map(drop)
    }

    async fn steer(&self, body: &Value) -> Result<()> {
        let order = read::order(body.to_string().as_bytes())?;
        self.service.steer(order).await.map(drop)
    }

    async fn configure(&self, body: &Value) -> Result<()> {
        let config = read::queue_config(body.to_string().as_bytes(), QueueConfig::default())?;
        let queue = QueueName::new("q").unwrap();
        self.service.change(Change::Queue(queue, config)).await
    }

    async fn schedule(&self, name: &str, body: &Value) -> Result<()> {
        let schedule = read::schedule(name, body.to_string().as_bytes())?;
        self.service.change(Change::Schedule(schedule)).await
    }

    async fn subscribe(&self, topic: &str, name: &str, body: &Value) -> Result<()> {
        let subscription = read::subscription(topic, name, body.to_string().as_bytes())?;
        self.service.change(Change::Subscribe(subscription)).await
    }

    async fn publish(&self, topic: &str, body: &Value) -> Result<()> {
        let message = read::message(topic, body.to_string().as_bytes())?;
        self.service.publish(message).await.map(drop)
    }

    /// The error must have the code and name the field, be short, and the engine must not have been asked.
    #[track_caller]
    fn refused<T: std::fmt::Debug>(&self, field: &str, code: Code, answer: Result<T>) {
        let error = answer.expect_err(field);
        assert_eq!(error.code(), code, "{error}");
        assert!(error.message().contains(field), "{error} names {field}");
        assert!(error.message().len() < 700, "{error}");
        assert_eq!(self.fake.calls(), [""; 0], "{error}");
    }
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

fn long(bytes: usize) -> Value {
    "x".repeat(bytes).into()
}

#[tokio::test]
async fn a_wrong_push_is_refused() {
    use Code::{BadRequest, TooLarge};
    let many: serde_json::Map<String, Value> =
        (0..65).map(|i| (i.to_string(), "v".into())).collect();
    #[rustfmt::skip]
    let table = [
        ("payload", long(10_000_000), TooLarge),
        ("payload", long((1 << 20) - 1), TooLarge), // the quotes count
        ("payload_base64", "A".repeat(1_500_000).into(), TooLarge),
        ("kind", long(201), TooLarge),
        ("kind", long(10_000_000), TooLarge),
        ("kind", "a\r\nb".into(), BadRequest),
        ("kind", "a\0".into(), BadRequest),
        ("kind", "a\u{202e}b".into(), BadRequest),
        ("kind", "a\u{2028}b".into(), BadRequest),
        ("key", "a\u{2066}b".into(), BadRequest),
        ("key", "a\u{2029}b".into(), BadRequest),
        ("kind", 0.into(), BadRequest),
        ("headers", Value::Object(many), TooLarge),
        ("headers", json!({"a": "x".repeat(1024)}), TooLarge),
        ("headers", json!({"x".repeat(10_000_000): ""}), TooLarge),
        ("headers", json!({"": "v"}), BadRequest),
        ("headers", json!({"a\n": "v"}), BadRequest),
        ("headers", json!({"a": "v\r\nx: y"}), BadRequest),
        ("headers", json!({"a": "v\0"}), BadRequest),
        ("headers", json!({"a": null}), BadRequest),
        ("priority", (-1).into(), BadRequest),
        ("priority", u64::MAX.into(), BadRequest),
        ("run_at", (-1).into(), BadRequest),
        ("run_at", u64::MAX.into(), BadRequest),
        ("run_at", "9999-01-01T00:00:00Z".into(), BadRequest),
        ("run_at", "NaN".into(), BadRequest),
        ("delay", (-1).into(), BadRequest),
        ("delay", u64::MAX.into(), BadRequest),
        ("delay", "3654d".into(), BadRequest),
        ("delay", long(10_000_000), BadRequest),
        ("ttr", (-1).into(), BadRequest),
        ("ttr", u64::MAX.into(), BadRequest),
        ("ttr", "25h".into(), BadRequest),
        ("ttl", 0.into(), BadRequest),
        ("ttl", (-1).into(), BadRequest),
        ("ttl", u64::MAX.into(), BadRequest),
        ("expires_at", (-1).into(), BadRequest),
        ("expires_at", "9999-12-31T23:59:59Z".into(), BadRequest),
        ("max_attempts", 0.into(), BadRequest),
        ("max_attempts", (-1).into(), BadRequest),
        ("max_attempts", 1_000_001.into(), BadRequest),
        ("max_attempts", u64::MAX.into(), BadRequest),
        ("backoff", json!({"kind": "exponential", "factor": 0}), BadRequest),
        ("backoff", json!({"kind": "exponential", "factor": -1}), BadRequest),
        ("backoff", json!({"kind": "exponential", "factor": 1e300}), BadRequest),
        ("backoff", json!({"kind": "exponential", "base": u64::MAX}), BadRequest),
        ("backoff", json!({"kind": "exponential", "cap": u64::MAX}), BadRequest),
        ("backoff", json!({"kind": "fixed", "delay": u64::MAX}), BadRequest),
        ("backoff", json!({"kind": "fixed", "delay": -1}), BadRequest),
        ("backoff", json!({"kind": "list", "delays": []}), BadRequest),
        ("backoff", json!({"kind": "list", "delays": vec![1; 101]}), TooLarge),
        ("backoff", json!({"kind": "list", "delays": [1, u64::MAX]}), BadRequest),
        ("key", "".into(), BadRequest),
        ("key", long(513), TooLarge),
        ("key", long(10_000_000), TooLarge),
        ("key", "a\nb".into(), BadRequest),
        ("group", "".into(), BadRequest),
        ("group", long(201), TooLarge),
        ("group", "\u{7f}".into(), BadRequest),
        ("retention", (-1).into(), BadRequest),
        ("retention", u64::MAX.into(), BadRequest),
        ("retention", "NaN".into(), BadRequest),
    ];
    let desk = Desk::new();
    for (field, value, code) in table {
        let answer = desk.push(&with(json!({}), field, value)).await;
        desk.refused(field.trim_end_matches("_base64"), code, answer);
    }
    let window = json!({"key": "k", "key_window": u64::MAX});
    desk.refused("key_window", Code::BadRequest, desk.push(&window).await);
}

#[tokio::test]
async fn a_push_at_the_limits_is_taken() {
    let desk = Desk::new();
    let limits = Limits::default();
    let body = json!({
        "payload": "x".repeat(limits.payload - 2),
        "kind": "x".repeat(limits.kind),
        "headers": {"h": "x".repeat(limits.header - 1)},
        "priority": u32::MAX,
        "delay": "3653d",
        "ttr": "1d",
        "ttl": "7306d",
        "max_attempts": 1_000_000,
        "backoff": {"kind": "list", "delays": vec!["3653d"; 100]},
        "key": "x".repeat(limits.key),
        "key_window": "3653d",
        "group": "x".repeat(limits.group),
        "retention": "3653d",
    });
    desk.push(&body).await.unwrap();
    let lower = json!({"priority": 0, "delay": 0, "ttr": 0, "max_attempts": 1, "key": "k", "key_window": 0,
        "retention": 0, "run_at": null, "expires_at": 0, "backoff": {"kind": "fixed", "delay": 0}});
    desk.push(&lower).await.unwrap();
    assert_eq!(desk.fake.calls(), ["push", "push"]);
}

#[tokio::test]
async fn a_wrong_settle_or_extend_is_refused() {
    use Code::{BadRequest, TooLarge};
    let desk = Desk::new();
    let settle = |outcome: &str| json!({"token": TOKEN, "outcome": outcome});
    #[rustfmt::skip]
    let table = [
        ("token", "".into(), BadRequest, "ack"),
        ("token", long(10_000_000), BadRequest, "ack"),
        ("token", 0.into(), BadRequest, "ack"),
        ("outcome", long(10_000_000), BadRequest, "ack"),
        ("result", long(1 << 20), TooLarge, "ack"),
        ("error", 0.into(), BadRequest, "fail"),
        ("delay", u64::MAX.into(), BadRequest, "fail"),
        ("delay", (-1).into(), BadRequest, "release"),
        ("delay", u64::MAX.into(), BadRequest, "release"),
        ("delay", u64::MAX.into(), BadRequest, "snooze"),
        ("delay", "NaN".into(), BadRequest, "snooze"),
        ("priority", (-1).into(), BadRequest, "release"),
        ("priority", u64::MAX.into(), BadRequest, "bury"),
        ("retry", "no".into(), BadRequest, "fail"),
    ];
    for (field, value, code, outcome) in table {
        let answer = desk.settle(&with(settle(outcome), field, value)).await;
        desk.refused(field, code, answer);
    }
    #[rustfmt::skip]
    let table = [
        ("ttr", 0.into(), BadRequest),
        ("ttr", (-1).into(), BadRequest),
        ("ttr", u64::MAX.into(), BadRequest),
        ("progress", long(16 << 10), TooLarge),
    ];
    for (field, value, code) in table {
        let answer = desk
            .extend(&with(json!({"token": TOKEN}), field, value))
            .await;
        desk.refused(field, code, answer);
    }
}

#[tokio::test]
async fn a_wrong_lease_is_refused() {
    use Code::{BadRequest, TooLarge};
    let desk = Desk::new();
    #[rustfmt::skip]
    let table = [
        ("queues", json!([]), BadRequest),
        ("queues", json!([""]), BadRequest),
        ("queues", json!(["-a"]), BadRequest),
        ("queues", json!(["a b"]), BadRequest),
        ("queues", json!(["ä"]), BadRequest),
        ("queues", json!([long(201)]), BadRequest),
        ("queues", json!(vec!["a"; 1001]), TooLarge),
        ("queues", json!(vec!["a"; 200_000]), TooLarge),
        ("max", 0.into(), BadRequest),
        ("max", (-1).into(), BadRequest),
        ("max", 1001.into(), BadRequest),
        ("max", u64::MAX.into(), BadRequest),
        ("wait", "61s".into(), BadRequest),
        ("wait", u64::MAX.into(), BadRequest),
        ("ttr", 0.into(), BadRequest),
        ("ttr", "25h".into(), BadRequest),
        ("worker", long(201), TooLarge),
        ("worker", long(10_000_000), TooLarge),
        ("worker", "w\n".into(), BadRequest),
    ];
    for (field, value, code) in table {
        let answer = desk
            .lease(&with(json!({"queues": ["a"]}), field, value))
            .await;
        desk.refused(field, code, answer);
    }
}

#[tokio::test]
async fn a_wrong_query_or_order_is_refused() {
    use Code::{BadRequest, TooLarge};
    let desk = Desk::new();
    #[rustfmt::skip]
    let table = [
        ("queue", "-".into(), BadRequest),
        ("state", "gone".into(), BadRequest),
        ("limit", 0.into(), BadRequest),
        ("limit", 1001.into(), BadRequest),
        ("limit", u64::MAX.into(), BadRequest),
        ("cursor", long(10_000_000), TooLarge),
        ("search", "".into(), BadRequest),
        ("error", "".into(), BadRequest),
        ("key", "".into(), BadRequest),
        ("group", "".into(), BadRequest),
        ("search", long(10_000_000), TooLarge),
        ("kind", long(10_000_000), TooLarge),
        ("key", long(10_000_000), TooLarge),
        ("group", long(10_000_000), TooLarge),
        ("error", long(10_000_000), TooLarge),
        ("headers", json!({"a": "x".repeat(2000)}), TooLarge),
        ("created_from", u64::MAX.into(), BadRequest),
        ("due_before", (-1).into(), BadRequest),
    ];
    for (field, value, code) in table {
        let answer = desk.list(&with(json!({}), field, value)).await;
        desk.refused(field, code, answer);
    }
    #[rustfmt::skip]
    let table = [
        ("batch", json!({"action": "kick", "ids": vec!["1"; 1001]}), TooLarge),
        ("ids", json!({"action": "kick", "ids": [-1]}), BadRequest),
        ("limit", json!({"action": "kick", "filter": {}, "limit": 0}), BadRequest),
        ("error", json!({"action": "delete", "filter": {"error": ""}}), BadRequest),
        ("search", json!({"action": "delete", "filter": {"search": ""}}), BadRequest),
        ("search", json!({"action": "kick", "filter": {"search": "x".repeat(2000)}}), TooLarge),
        ("delay", json!({"action": "reschedule", "filter": {}, "delay": u64::MAX}), BadRequest),
        ("run_at", json!({"action": "reschedule", "filter": {}, "run_at": "9999-01-01T00:00:00Z"}), BadRequest),
    ];
    for (field, body, code) in table {
        desk.refused(field, code, desk.steer(&body).await);
    }
    let key = Which::Key(QueueName::new("q").unwrap(), "x".repeat(10_000_000));
    desk.refused("key", TooLarge, desk.service.find(key).await);
    let queues = Some(vec![QueueName::new("q").unwrap(); 1001]);
    desk.refused("queues", TooLarge, desk.service.queues(queues).await);
}

#[tokio::test]
async fn a_wrong_setting_is_refused() {
    use Code::{BadRequest, TooLarge};
    let desk = Desk::new();
    #[rustfmt::skip]
    let table = [
        ("max_jobs", 0.into()),
        ("max_bytes", 0.into()),
        ("max_bytes", "-1MB".into()),
        ("max_leased", 0.into()),
        ("max_leased", u64::MAX.into()),
        ("rate", json!({"count": 0})),
        ("rate", json!({"count": 1, "burst": 0})),
        ("rate", json!({"count": 1, "per": 0})),
        ("rate", json!({"count": 1, "per": u64::MAX})),
        ("rate", json!({"count": -1})),
    ];
    for (field, value) in table {
        let answer = desk.configure(&with(json!({}), field, value)).await;
        desk.refused(field, BadRequest, answer);
    }

    let every = json!({"queue": "q", "every": "1s"});
    let cron = |text: &str| json!({"queue": "q", "cron": text});
    let long_name = "x".repeat(10_000_000);
    #[rustfmt::skip]
    let table = [
        ("schedule", "", every.clone(), BadRequest),
        ("schedule", "a\nb", every.clone(), BadRequest),
        ("schedule", &long_name, every.clone(), TooLarge),
        ("every", "s", json!({"queue": "q", "every": 0}), BadRequest),
        ("every", "s", json!({"queue": "q", "every": u64::MAX}), BadRequest),
        ("cron", "s", cron(""), BadRequest),
        ("cron", "s", cron("61 * * * *"), BadRequest),
        ("cron", "s", cron(&long_name), TooLarge),
        ("zone", "s", with(cron("@daily"), "zone", "Mars/Olympus".into()), BadRequest),
        ("zone", "s", with(cron("@daily"), "zone", long(10_000_000)), TooLarge),
        ("max_attempts", "s", with(every.clone(), "job", json!({"max_attempts": 0})), BadRequest),
    ];
    for (field, name, body, code) in table {
        desk.refused(field, code, desk.schedule(name, &body).await);
    }

    let queue = json!({"queue": "q"});
    for (field, topic, name, code) in [
        ("topic", "", "s", BadRequest),
        ("topic", "a\r", "s", BadRequest),
        ("topic", &long_name, "s", TooLarge),
        ("subscription", "t", "", BadRequest),
        ("subscription", "t", &long_name, TooLarge),
    ] {
        desk.refused(field, code, desk.subscribe(topic, name, &queue).await);
        let remove = Change::Unsubscribe(topic.into(), name.into());
        desk.refused(field, code, desk.service.change(remove).await);
    }
    let pattern = json!({"queue": "q", "pattern": &long_name});
    desk.refused(
        "pattern",
        BadRequest,
        desk.subscribe("t", "s", &pattern).await,
    );
    let remove = Change::Unschedule(String::new());
    desk.refused("schedule", BadRequest, desk.service.change(remove).await);

    for (field, topic, body, code) in [
        ("topic", "", json!({}), BadRequest),
        (
            "routing_key",
            "t",
            json!({"routing_key": "a\n"}),
            BadRequest,
        ),
        (
            "routing_key",
            "t",
            json!({"routing_key": &long_name}),
            TooLarge,
        ),
        ("payload", "t", json!({"payload": &long_name}), TooLarge),
    ] {
        desk.refused(field, code, desk.publish(topic, &body).await);
    }
}

#[tokio::test]
async fn a_batch_that_is_too_long_is_refused_as_a_whole() {
    let desk = Desk::new();
    let jobs = vec![
        NewJob {
            queue: QueueName::new("q").unwrap(),
            spec: JobSpec::default(),
        };
        1001
    ];
    desk.refused("batch", Code::TooLarge, desk.service.push(jobs).await);
    let unread = vec![Err(Error::bad_request("unread")); 1001];
    desk.refused(
        "batch",
        Code::TooLarge,
        desk.service.settle_each(unread).await,
    );
}

/// What JSON cannot say but a Rust program can.
#[tokio::test]
async fn wrong_values_from_a_program_are_refused() {
    let exponential = |factor| Backoff::Exponential {
        base: Duration::MAX / 4,
        factor,
        cap: Duration::ZERO,
        jitter: Jitter::None,
    };
    let good = JobSpec::default;
    let bare = |factor| Backoff::Exponential {
        base: Duration::ZERO,
        factor,
        cap: Duration::ZERO,
        jitter: Jitter::Full,
    };
    #[rustfmt::skip]
    let table = [
        ("backoff.factor", JobSpec { backoff: bare(f64::NAN), ..good() }),
        ("backoff.factor", JobSpec { backoff: bare(f64::INFINITY), ..good() }),
        ("backoff.factor", JobSpec { backoff: bare(f64::NEG_INFINITY), ..good() }),
        ("backoff.factor", JobSpec { backoff: bare(0.99), ..good() }),
        ("backoff.base", JobSpec { backoff: exponential(2.0), ..good() }),
        ("ttr", JobSpec { ttr: Duration::from_nanos(1), ..good() }),
        ("ttr", JobSpec { ttr: Duration::MAX, ..good() }),
        ("ttl", JobSpec { ttl: Ttl::After(Duration::from_micros(999)), ..good() }),
        ("expires_at", JobSpec { ttl: Ttl::At(Timestamp(u64::MAX)), ..good() }),
        ("run_at", JobSpec { when: When::At(Timestamp(u64::MAX)), ..good() }),
        ("delay", JobSpec { when: When::After(Duration::MAX), ..good() }),
        ("retention", JobSpec { retention: Duration::MAX, ..good() }),
        ("key_window", JobSpec {
            key: Some(Key { name: "k".into(), on_duplicate: OnDuplicate::Reject, window: Duration::MAX }),
            ..good()
        }),
    ];
    let desk = Desk::new();
    for (field, spec) in table {
        let job = NewJob {
            queue: QueueName::new("q").unwrap(),
            spec,
        };
        let answer = desk.service.push(vec![job]).await.unwrap().remove(0);
        desk.refused(field, Code::BadRequest, answer);
    }
    let schedule = Schedule {
        name: "s".into(),
        queue: QueueName::new("q").unwrap(),
        rhythm: Rhythm::Every(Duration::from_nanos(1)),
        missed: Missed::Skip,
        spec: JobSpec::default(),
        next: None,
        last: None,
    };
    let answer = desk.service.change(Change::Schedule(schedule)).await;
    desk.refused("every", Code::BadRequest, answer);
    let order = Order {
        target: Target::Jobs(vec![JobId(1)]),
        action: Action::Reschedule(When::At(Timestamp(u64::MAX))),
        mode: Mode::Act,
    };
    desk.refused("run_at", Code::BadRequest, desk.service.steer(order).await);
}

/// A value for a field: often of the right type and near a limit, so that some get through.
fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0u64..2000).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        (0usize..1200).prop_map(long),
        (0u64..100_000).prop_map(|n| Value::from(format!("{n}h"))),
        prop::collection::btree_map(any::<String>(), any::<String>(), 0..4)
            .prop_map(|map| json!(map)),
        (0usize..120, any::<f64>()).prop_map(
            |(n, factor)| json!({"kind": "list", "delays": vec![n; n], "factor": factor})
        ),
        any::<f64>().prop_map(|factor| json!({"kind": "exponential", "factor": factor})),
    ]
}

proptest! {
    #[test]
    fn whatever_reaches_the_engine_is_within_the_limits(
        fields in prop::collection::btree_map(prop::sample::select(read::PUSH_FIELDS.to_vec()), value(), 0..3)
    ) {
        let desk = Desk::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let answer = runtime.block_on(desk.push(&json!(fields)));
        let reached = desk.fake.pushed.lock().unwrap();
        prop_assert_eq!(reached.len(), usize::from(answer.is_ok()));
        let limits = Limits::default();
        for job in reached.iter() {
            let spec = &job.spec;
            prop_assert!(spec.payload.len() <= limits.payload && spec.kind.len() <= limits.kind);
            prop_assert!(!spec.kind.contains(char::is_control) && spec.ttr <= limits.ttr);
            prop_assert!((1..=limits.max_attempts).contains(&spec.max_attempts));
            prop_assert!(spec.headers.len() <= limits.headers && spec.retention <= limits.keep);
            if let Backoff::Exponential { factor, .. } = &spec.backoff {
                prop_assert!((1.0..=1000.0).contains(factor));
            }
            if let When::After(delay) = spec.when {
                prop_assert!(delay <= limits.delay);
            }
        }
    }
}
