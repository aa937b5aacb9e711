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
    if let Some(parts) = schema["allOf"].as_array() {
        return parts.iter().find_map(|part| mismatch(part, value, at));
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let mut wrong = choices.iter().map(|choice| mismatch(choice, value, at));
            return match wrong.any(|wrong| wrong.is_none()) {
                true => None,
                false => Some(format!("{at}: {value} is none of {choices:?}")),
            };
        }
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
