//! Holds real answers against the document: every status is named there, and every body has its shape.

use std::sync::LazyLock;

use serde_json::Value;

use super::bench::Reply;

static DOCUMENT: LazyLock<Value> = LazyLock::new(auxo_server::document);

/// Panics when an answer is not what the document promises.
#[track_caller]
pub fn check(method: &str, path: &str, reply: &Reply) {
    assert!(
        reply
            .header("x-request-id")
            .is_some_and(|id| !id.is_empty()),
        "{method} {path} has no x-request-id: {reply:?}"
    );
    let path = path.split('?').next().unwrap();
    let Some(operation) = operation(method, path) else {
        // Nothing is promised for what is not there, but how it is refused.
        assert!(
            matches!(reply.status, 401 | 404 | 405),
            "{method} {path}: {reply:?}"
        );
        return;
    };
    let status = reply.status.to_string();
    let response = &operation["responses"][&status];
    assert!(
        response.is_object(),
        "{method} {path}: {status} is not documented"
    );
    let Some(content) = response["content"].as_object() else {
        assert!(reply.text.is_empty(), "{method} {path}: {reply:?}");
        return;
    };
    let kind = reply.header("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap();
    assert!(
        content.contains_key(kind),
        "{method} {path}: {kind} is not documented"
    );
    if kind.ends_with("json") {
        let wrong = mismatch(&content[kind]["schema"], &reply.json(), "body");
        assert!(
            wrong.is_none(),
            "{method} {path}: {wrong:?} in {}",
            reply.text
        );
    }
}

fn operation(method: &str, path: &str) -> Option<&'static Value> {
    let paths = DOCUMENT["paths"].as_object().unwrap();
    let fits = |pattern: &str| {
        let (pattern, path) = (pattern.split('/'), path.split('/'));
        pattern.clone().count() == path.clone().count()
            && pattern.zip(path).all(|(p, s)| p.starts_with('{') || p == s)
    };
    let mut found = paths.iter().filter(|(pattern, _)| fits(pattern));
    let item = found.next()?.1;
    item.get(method.to_lowercase())
}

/// The first place where a value does not have the shape of a schema. Knows as much of JSON Schema as the document uses.
fn mismatch(schema: &Value, value: &Value, at: &str) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        let target = &DOCUMENT["components"]["schemas"][name];
        assert!(target.is_object(), "{reference} leads nowhere");
        return mismatch(target, value, at);
    }
    let mut parts = schema["allOf"].as_array().into_iter().flatten();
    if let Some(wrong) = parts.find_map(|part| mismatch(part, value, at)) {
        return Some(wrong);
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let mut wrong = choices.iter().map(|choice| mismatch(choice, value, at));
            if wrong.all(|wrong| wrong.is_some()) {
                return Some(format!("{at}: {value} is none of {choices:?}"));
            }
        }
    }
    if schema["not"]["pattern"].is_string() && mismatch(&schema["not"], value, at).is_none() {
        return Some(format!("{at}: {value} is what must not be"));
    }
    if let Some(wrong) = out_of_bounds(schema, value) {
        return Some(format!("{at}: {value} breaks {wrong}"));
    }
    if let Some(words) = schema["enum"].as_array() {
        return (!words.contains(value)).then(|| format!("{at}: {value} is not a known word"));
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    if !kinds.iter().any(|kind| is(value, kind)) {
        return Some(format!("{at}: {value} is not {kinds:?}"));
    }
    match value {
        Value::Object(_) => object(schema, value, at),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(i, item)| mismatch(&schema["items"], item, &format!("{at}[{i}]"))),
        _ => None,
    }
}

/// The first of a schema's bounds that a value breaks. A regular expression is one of ECMA's that means the same here.
fn out_of_bounds(schema: &Value, value: &Value) -> Option<&'static str> {
    let length = match value {
        Value::String(text) => ("minLength", text.chars().count() as f64, "maxLength"),
        Value::Array(items) => ("minItems", items.len() as f64, "maxItems"),
        Value::Number(number) => ("minimum", number.as_f64()?, "maximum"),
        _ => return None,
    };
    let (least, value_of, most) = length;
    if schema[least].as_f64().is_some_and(|least| value_of < least) {
        return Some(least);
    }
    if schema[most].as_f64().is_some_and(|most| value_of > most) {
        return Some(most);
    }
    let pattern = regex::Regex::new(schema["pattern"].as_str()?).unwrap();
    (!pattern.is_match(value.as_str()?)).then_some("pattern")
}

fn object(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let fields = value.as_object().unwrap();
    let required = schema["required"].as_array().into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Some(format!("{at}.{name} is missing"));
        }
    }
    let properties = schema["properties"].as_object();
    fields.iter().find_map(|(name, field)| {
        let at = format!("{at}.{name}");
        match properties.and_then(|properties| properties.get(name)) {
            Some(schema) => mismatch(schema, field, &at),
            // Stricter than JSON Schema: an answer has no field that nobody wrote down.
            None if properties.is_some() => Some(format!("{at} is not documented")),
            None => mismatch(&schema["additionalProperties"], field, &at),
        }
    })
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

/// Requests of which one value is wrong, and those in which it is just right.
fn edges() -> Vec<(&'static str, &'static str, &'static str, Value, Value)> {
    use serde_json::json;
    let many = |item: Value, count: usize| Value::from(vec![item; count]);
    let token =
        |job: &str| json!({ "outcome": "ack", "token": format!("{job}-1-0000000000000000") });
    let (most, over) = ("18446744073709551615", "18446744073709551616");
    let push = "/v1/queues/q/jobs";
    vec![
        (
            "POST",
            push,
            "Push",
            many(json!({}), 1001),
            many(json!({}), 1000),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "delay": "1h1h" }),
            json!({ "delay": "1h1m" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "delay": "1s1m" }),
            json!({ "delay": "1m1s1ms" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "delay": "1.2.3s" }),
            json!({ "delay": "1.2s" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "delay": "5." }),
            json!({ "delay": "5" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "delay": "1dhms" }),
            json!({ "delay": "1d" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "ttl": "0.0s" }),
            json!({ "ttl": "0.1s" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "ttl": ".5s" }),
            json!({ "ttl": "00.5s" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "payload_base64": "A" }),
            json!({ "payload_base64": "AA" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "payload_base64": "AAA!" }),
            json!({ "payload_base64": "AAA=" }),
        ),
        (
            "POST",
            "/v1/settle",
            "Settles",
            many(token("1"), 1001),
            many(token("1"), 1000),
        ),
        ("POST", "/v1/settle", "Settle", token(over), token(most)),
        (
            "POST",
            "/v1/extend",
            "Extends",
            many(json!({ "token": "1-1-0000000000000000" }), 1001),
            many(json!({ "token": "1-1-0000000000000000" }), 1000),
        ),
        (
            "POST",
            "/v1/lease",
            "Ask",
            json!({ "job": over }),
            json!({ "job": most }),
        ),
        (
            "POST",
            "/v1/jobs:bulk",
            "Order",
            json!({ "action": "kick", "ids": [over] }),
            json!({ "action": "kick", "ids": [most] }),
        ),
        (
            "POST",
            "/v1/queues/q/depart",
            "Departure",
            json!({ "jobs": [{ "id": over }] }),
            json!({ "jobs": [{ "id": most }] }),
        ),
        (
            "POST",
            "/v1/queues/q/depart",
            "Departure",
            json!({ "jobs": many(json!({ "id": "1" }), 1001) }),
            json!({ "jobs": many(json!({ "id": "1" }), 1000) }),
        ),
        (
            "PUT",
            "/v1/queues/q",
            "QueueConfig",
            json!({ "max_bytes": "0B" }),
            json!({ "max_bytes": "10B" }),
        ),
        (
            "PUT",
            "/v1/queues/q",
            "QueueConfig",
            json!({ "max_bytes": "1.5" }),
            json!({ "max_bytes": "1.5kib" }),
        ),
        (
            "PUT",
            "/v1/topics/t/subscriptions/s",
            "NewSubscription",
            json!({ "queue": "q", "pattern": "a*" }),
            json!({ "queue": "q", "pattern": "a.*" }),
        ),
        (
            "PUT",
            "/v1/topics/t/subscriptions/s",
            "NewSubscription",
            json!({ "queue": "q", "pattern": "#a.b" }),
            json!({ "queue": "q", "pattern": "#.a.b" }),
        ),
        (
            "PUT",
            "/v1/topics/t/subscriptions/s",
            "NewSubscription",
            json!({ "queue": "q", "pattern": "a.\u{202e}b" }),
            json!({ "queue": "q", "pattern": "a.\u{202f}b" }),
        ),
        (
            "POST",
            push,
            "NewJob",
            json!({ "kind": "a\u{2066}b" }),
            json!({ "kind": "a\u{2065}b" }),
        ),
    ]
}

#[tokio::test]
async fn what_the_server_refuses_for_its_form_the_document_does_not_allow() {
    let bench = super::bench::Bench::start().await;
    for (method, path, shape, wrong, right) in edges() {
        let schema = &DOCUMENT["components"]["schemas"][shape];
        let reply = bench.call(method, path, wrong.to_string()).await;
        assert!(matches!(reply.status, 400 | 413), "{shape}: {reply:?}");
        let text = wrong.to_string();
        assert!(mismatch(schema, &wrong, shape).is_some(), "{text:.200}");
        let reply = bench.call(method, path, right.to_string()).await;
        assert!(!matches!(reply.status, 400 | 413), "{shape}: {reply:?}");
        assert_eq!(mismatch(schema, &right, shape), None);
    }
    let leases = &DOCUMENT["components"]["schemas"]["Leases"];
    bench.push("leased", "{}").await;
    let leased = bench
        .call("POST", "/v1/lease", r#"{"queues":["leased"]}"#)
        .await;
    let mut leased = leased.json();
    assert_eq!(mismatch(leases, &leased, "body"), None);
    leased["jobs"][0].as_object_mut().unwrap().remove("token");
    assert!(mismatch(leases, &leased, "body").is_some(), "{leased}");
}

#[test]
fn the_checker_sees_what_is_wrong() {
    let pushed = DOCUMENT["components"]["schemas"]["Pushed"].clone();
    let right = serde_json::json!({"id": "1", "state": "ready", "run_at": "x", "how": "new"});
    assert_eq!(mismatch(&pushed, &right, "body"), None);
    for (field, wrong) in [
        ("id", Value::Null),
        ("state", "asleep".into()),
        ("more", 1.into()),
    ] {
        let mut value = right.clone();
        value[field] = wrong;
        assert!(mismatch(&pushed, &value, "body").is_some(), "{value}");
    }
    let missing = serde_json::json!({"id": "1"});
    assert!(mismatch(&pushed, &missing, "body").is_some());
}
