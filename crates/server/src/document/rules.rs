//! What a value must be besides its type: how long, how large, of which letters, and what does not stand beside what.
//!
//! A name means the same wherever it stands, so most rules hang on the name of a field alone. The numbers are those of
//! [`Limits`]. What no schema can say is in words at the field or in docs/HTTP.md: sizes there are bytes while a schema counts letters,
//! a length of time as a text has a limit in its value and not in its letters, and how far ahead a time lies depends on the clock. So
//! a value can be refused although the document allows it, never the other way round.

use std::time::Duration;

use auxo_core::{Limits, text};
use serde_json::{Map, Value, json};

/// A queue's name.
pub const QUEUE: &str = "^[A-Za-z0-9_.:;$()+/][A-Za-z0-9_.:;$()+/-]{0,199}$";
/// A queue's name in a path, where clients take one or two dots for steps up.
pub const QUEUE_IN_PATH: &str = "^(?![.]{1,2}$)[A-Za-z0-9_.:;$()+/][A-Za-z0-9_.:;$()+/-]{0,199}$";
/// A number of 64 bits without zeros before it, from ten to the power of 19 on.
macro_rules! twenty_digits {
    () => {
        concat!(
            "1[0-7][0-9]{18}|18[0-3][0-9]{17}|184[0-3][0-9]{16}|1844[0-5][0-9]{15}|18446[0-6][0-9]{14}|",
            "184467[0-3][0-9]{13}|1844674[0-3][0-9]{12}|184467440[0-6][0-9]{10}|1844674407[0-2][0-9]{9}|",
            "18446744073[0-6][0-9]{8}|1844674407370[0-8][0-9]{6}|18446744073709[0-4][0-9]{5}|",
            "184467440737095[0-4][0-9]{4}|18446744073709550[0-9]{3}|18446744073709551[0-5][0-9]{2}|",
            "1844674407370955160[0-9]|1844674407370955161[0-5]"
        )
    };
}

/// A job's id, or another number of 64 bits.
pub const ID: &str = concat!("^([0-9]{1,19}|0[0-9]{19}|", twenty_digits!(), ")$");
/// The inside of a class: control characters, those that end a line, and those that turn the direction of writing, as in
/// [`text::is_deceptive`].
macro_rules! deceptive {
    () => {
        "\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069"
    };
}

/// No characters that would forge lines in logs or make a text look like another one.
pub const LINE: &str = concat!("^[^", deceptive!(), "]*$");

const TOKEN: &str = concat!(
    "^(0|[1-9][0-9]{0,18}|",
    twenty_digits!(),
    ")-(0|[1-9][0-9]{0,18}|",
    twenty_digits!(),
    ")-[0-9a-f]{16}$"
);
/// Bytes in base64, with or without what fills the last four letters up.
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}={0,2}|[A-Za-z0-9+/]{3}=?)?$";
/// Words between dots. `*` and `#` stand for whole words.
const TOPIC_PATTERN: &str = concat!(
    "^([^.*#",
    deceptive!(),
    "]*|[*]|#)([.]([^.*#",
    deceptive!(),
    "]*|[*]|#))*$"
);
/// A length of time: milliseconds, or numbers with units, the largest first.
const SPAN: &str = "^([0-9]+|[0-9]+([.][0-9]+)?d([0-9]+([.][0-9]+)?h)?([0-9]+([.][0-9]+)?m)?([0-9]+([.][0-9]+)?s)?([0-9]+([.][0-9]+)?ms)?|\
    [0-9]+([.][0-9]+)?h([0-9]+([.][0-9]+)?m)?([0-9]+([.][0-9]+)?s)?([0-9]+([.][0-9]+)?ms)?|\
    [0-9]+([.][0-9]+)?m([0-9]+([.][0-9]+)?s)?([0-9]+([.][0-9]+)?ms)?|\
    [0-9]+([.][0-9]+)?s([0-9]+([.][0-9]+)?ms)?|[0-9]+([.][0-9]+)?ms)$";
/// A length or a size of nothing.
const NOTHING: &str = "^[^1-9]*$";
/// A number of bytes, alone or with a unit.
const SIZE: &str = "^([0-9]+|[0-9]+([.][0-9]+)?([KMGTkmgt][Ii]?)?[Bb])$";
const STATE: &str = "(scheduled|ready|leased|done|dead|cancelled)";

/// Writes the rules into a document.
pub fn apply(document: &mut Value) {
    let limits = Limits::default();
    unsigned(document);
    let schemas = document["components"]["schemas"].as_object_mut();
    for (name, shape) in schemas.into_iter().flatten() {
        match name.as_str() {
            "Span" => merge(shape, span(0, limits.delay)),
            "Moment" => merge(shape, moment()),
            "Size" => merge(shape, size()),
            _ => apply_to_shape(name, shape, &limits),
        }
        if let Some(never) = never(name) {
            shape["not"] = never;
        }
        // Shapes that may be a list are sent; those of answers have names of their own.
        if matches!(name.as_str(), "Push" | "Settles" | "Extends") {
            for choice in list(shape, "oneOf").filter(|choice| choice["type"] == "array") {
                choice["maxItems"] = limits.batch.into();
            }
        }
        if name == "Leases" {
            lend(shape);
        }
    }
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for operation in paths.flat_map(|(_, item)| item.as_object_mut().into_iter().flatten()) {
        for parameter in list(operation.1, "parameters") {
            let name = parameter["name"].as_str().unwrap_or_default();
            if let Some(rule) = query(name, &limits) {
                merge(&mut parameter["schema"], rule);
            }
        }
    }
}

/// Whole numbers are never negative here. `int32` and `int64`, which stand there for them, end at half of what is allowed.
fn unsigned(value: &mut Value) {
    if let Some(format) = value.get("format").and_then(Value::as_str) {
        let most = match format {
            "int32" => Some(u64::from(u32::MAX)),
            "int64" => Some(u64::MAX),
            _ => None,
        };
        if let (Some(most), Some(schema)) = (most, value.as_object_mut()) {
            schema.remove("format");
            schema.insert("maximum".to_owned(), most.into());
        }
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(unsigned),
        Value::Array(items) => items.iter_mut().for_each(unsigned),
        _ => {}
    }
}

/// A job that is leased has a token, by which its lease is settled, and a deadline. Other jobs have neither.
fn lend(shape: &mut Value) {
    let items = &mut shape["properties"]["jobs"]["items"];
    let job = items.take();
    *items = json!({ "allOf": [job, { "type": "object", "required": ["token", "deadline"] }] });
}

/// Only what is sent has rules: shapes that take no unknown fields, and the parts that they are made of.
fn apply_to_shape(name: &str, shape: &mut Value, limits: &Limits) {
    let is_choice_of_objects = matches!(name, "Settle" | "Backoff");
    if is_choice_of_objects && shape.get("properties").is_some() {
        shape["additionalProperties"] = false.into();
    }
    for part in list(shape, "oneOf") {
        apply_to_shape(name, part, limits);
    }
    // This one is also answered, and sent back as it is.
    let is_sent = shape["additionalProperties"] == false || name == "Leaving";
    let fields = shape.get_mut("properties").and_then(Value::as_object_mut);
    for (field, schema) in fields.into_iter().flatten() {
        if is_any(schema) {
            // Null is JSON as well.
            *schema = json!({ "description": schema["oneOf"][0]["description"] });
        }
        if let Some(rule) = self::field(name, field, limits).filter(|_| is_sent) {
            merge(schema, rule);
        }
    }
}

/// The items of a list, if it is there. Indexing would put it there.
fn list<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = value.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

fn is_any(schema: &Value) -> bool {
    schema["oneOf"][0]["$ref"] == "#/components/schemas/Value"
}

/// The rule of a field in a body.
fn field(shape: &str, name: &str, limits: &Limits) -> Option<Value> {
    let searched = |least: usize| json!({ "minLength": least, "maxLength": limits.search });
    Some(match (shape, name) {
        ("Filter", "kind") => searched(0),
        ("Filter", "key" | "group" | "error" | "search") => searched(1),
        ("NewJob" | "Message", "ttr") => span(0, limits.ttr),
        (_, "ttr") => span(1, limits.ttr),
        (_, "wait") => span(0, limits.wait),
        (_, "ttl") => span(1, limits.life),
        ("Ask", "job") => json!({ "pattern": ID, "format": "id" }),
        (_, "every" | "per") => span(1, limits.delay),
        (_, "queue") => json!({ "pattern": QUEUE, "format": "queue" }),
        (_, "queues") => json!({
            "minItems": 1, "maxItems": limits.queues, "items": { "type": "string", "pattern": QUEUE, "format": "queue" },
        }),
        (_, "ids") => json!({
            "maxItems": limits.batch,
            "items": { "oneOf": [
                { "type": "string", "pattern": ID, "format": "id" },
                { "type": "integer", "minimum": 0, "maximum": u64::MAX },
            ] },
        }),
        (_, "kind") => json!({ "maxLength": limits.kind, "pattern": LINE }),
        (_, "key") => json!({ "minLength": 1, "maxLength": limits.key, "pattern": LINE }),
        (_, "group") => json!({ "minLength": 1, "maxLength": limits.group, "pattern": LINE }),
        (_, "worker") => json!({ "maxLength": limits.worker, "pattern": LINE }),
        (_, "routing_key") => json!({ "maxLength": limits.routing_key, "pattern": LINE }),
        (_, "headers") => json!({
            "maxProperties": limits.headers,
            "propertyNames": { "minLength": 1, "maxLength": limits.header, "pattern": LINE },
            "additionalProperties": {
                "type": "string", "maxLength": limits.header, "pattern": "^[^\\r\\n\\x00]*$",
            },
        }),
        (_, "payload_base64" | "result_base64" | "progress_base64") => {
            json!({ "format": "byte", "pattern": BASE64 })
        }
        ("Departure" | "Adoption", "jobs") => json!({ "maxItems": limits.batch }),
        (_, "token") => json!({ "pattern": TOKEN, "format": "token" }),
        (_, "pattern") => json!({
            "minLength": 1, "maxLength": 255, "pattern": TOPIC_PATTERN, "format": "topic-pattern",
        }),
        (_, "cron" | "zone") => {
            json!({ "minLength": 1, "maxLength": limits.name, "format": name })
        }
        (_, "cursor") => json!({ "maxLength": limits.search, "format": "cursor" }),
        (_, "max") => json!({ "minimum": 1, "maximum": limits.batch }),
        (_, "limit") => json!({ "minimum": 1, "maximum": limits.page }),
        (_, "max_attempts") => json!({ "minimum": 1, "maximum": limits.max_attempts }),
        (_, "max_leased" | "count" | "burst" | "max_jobs") => json!({ "minimum": 1 }),
        (_, "shards") => json!({ "minimum": 1, "maximum": u16::MAX }),
        ("Adoption", "store") => {
            json!({ "minLength": 1, "maxLength": limits.name, "pattern": LINE })
        }
        ("Leaving", "id" | "version") | ("Adoption", "run") => {
            json!({ "pattern": ID, "format": "id" })
        }
        (_, "factor") => json!({ "minimum": 1, "maximum": limits.backoff_factor }),
        (_, "delays") => json!({ "minItems": 1, "maxItems": limits.backoff_delays }),
        ("Filter", "state") => json!({
            "oneOf": [
                { "type": "string", "pattern": format!("^{STATE}(,{STATE})*$") },
                { "type": "array", "maxItems": 100, "items": { "$ref": "#/components/schemas/State" } },
                { "type": "null" },
            ],
        }),
        _ => return None,
    })
}

/// The rule of a parameter. One without a value counts as left out.
fn query(name: &str, limits: &Limits) -> Option<Value> {
    let letters = |pattern: String| json!({ "type": "string", "pattern": pattern });
    Some(match name {
        "queue" => letters(format!("^$|{QUEUE}")),
        "state" => letters(format!("^({STATE}(,{STATE})*)?$")),
        "kind" | "key" | "group" | "error" | "search" => {
            json!({ "type": "string", "maxLength": limits.search })
        }
        "created_from" | "created_before" | "due_from" | "due_before" => {
            json!({ "type": "string", "format": "moment" })
        }
        "last" => {
            json!({ "type": "string", "anyOf": [{ "enum": ["never"] }, { "format": "moment" }] })
        }
        "cursor" => json!({ "type": "string", "maxLength": limits.search, "format": "cursor" }),
        "limit" => json!({ "type": "integer", "minimum": 1, "maximum": limits.page }),
        "Idempotency-Key" => json!({
            "type": "string", "minLength": 1, "maxLength": limits.key, "pattern": "^[!-~]([ -~]*[!-~])?$",
        }),
        // Of another run, too: who comes back after a restart is told of it.
        "Last-Event-ID" => json!({ "type": "string", "pattern": "^.*-[0-9]{1,19}$" }),
        _ => return None,
    })
}

/// What must not hold of a shape.
fn never(shape: &str) -> Option<Value> {
    let job = || {
        vec![
            beside("payload_base64", "payload"),
            beside("delay", "run_at"),
            beside("ttl", "expires_at"),
            without("on_duplicate", "key"),
            without("key_window", "key"),
        ]
    };
    let never = match shape {
        "NewJob" | "Message" => job(),
        "Ask" => vec![
            neither("job", "queues"),
            beside("job", "queues"),
            json!({ "allOf": [given("job"), waited()] }),
        ],
        "QueueConfig" => vec![beside("paused_for", "paused_until")],
        "Pause" => vec![word_with("what", &["in"], given("for"))],
        "Settle" => vec![beside("result_base64", "result")],
        "Extend" => vec![beside("progress_base64", "progress")],
        "When" => vec![beside("delay", "run_at"), neither("delay", "run_at")],
        "NewSchedule" => vec![
            beside("every", "cron"),
            neither("every", "cron"),
            without("zone", "cron"),
            in_field("job", given("run_at")),
            in_field("job", given("delay")),
        ],
        "Order" => vec![
            beside("delay", "run_at"),
            beside("filter", "ids"),
            neither("filter", "ids"),
            beside("cursor", "ids"),
            beside("limit", "ids"),
            word_with("action", &["reschedule"], neither("delay", "run_at")),
            word_with("action", &["kick", "cancel", "delete"], given("delay")),
            word_with("action", &["kick", "cancel", "delete"], given("run_at")),
        ],
        _ => return None,
    };
    Some(json!({ "anyOf": never }))
}

/// A wait that is not over at once.
fn waited() -> Value {
    let some =
        json!([{ "type": "string", "pattern": "[1-9]" }, { "type": "integer", "minimum": 1 }]);
    json!({ "required": ["wait"], "properties": { "wait": { "anyOf": some } } })
}

/// A field that is there and not null.
fn given(field: &str) -> Value {
    // Said as the types that there are: tools that make requests from a document stumble over a `not` within a `not`.
    let something = ["string", "number", "boolean", "array", "object"];
    json!({ "required": [field], "properties": { field: { "type": something } } })
}

/// A field that is not there, or null.
fn missing(field: &str) -> Value {
    json!({ "properties": { field: { "type": "null" } } })
}

fn beside(field: &str, other: &str) -> Value {
    // A payload that is null is a payload.
    let other = match other {
        "payload" => json!({ "required": [other] }),
        other => given(other),
    };
    json!({ "allOf": [given(field), other] })
}

fn without(field: &str, needed: &str) -> Value {
    json!({ "allOf": [given(field), missing(needed)] })
}

fn neither(field: &str, other: &str) -> Value {
    json!({ "allOf": [missing(field), missing(other)] })
}

fn in_field(field: &str, rule: Value) -> Value {
    json!({ "required": [field], "properties": { field: { "type": "object", "allOf": [rule] } } })
}

fn word_with(field: &str, words: &[&str], rule: Value) -> Value {
    json!({ "allOf": [{ "required": [field], "properties": { field: { "enum": words } } }, rule] })
}

fn span(least: u64, most: Duration) -> Value {
    let longest = format!("at most {}, to the millisecond", text::duration(most));
    let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
    let mut letters = json!({
        "title": "text", "type": "string", "pattern": SPAN, "format": "span", "description": longest,
    });
    if least > 0 {
        // A length of nothing has no digit but zeros.
        letters["not"] = json!({ "pattern": NOTHING });
    }
    json!({
        "oneOf": [
            letters,
            { "title": "milliseconds", "type": "integer", "minimum": least, "maximum": most },
        ],
    })
}

fn moment() -> Value {
    json!({
        "oneOf": [
            { "title": "RFC 3339", "type": "string", "format": "date-time" },
            { "title": "Unix milliseconds", "type": "integer", "minimum": 0, "maximum": text::LAST_INSTANT.0 },
        ],
    })
}

fn size() -> Value {
    json!({
        "oneOf": [
            { "title": "bytes", "type": "integer", "minimum": 1, "maximum": u64::MAX },
            {
                "title": "text", "type": "string", "pattern": SIZE, "format": "size",
                "not": { "pattern": NOTHING },
            },
        ],
    })
}

/// Adds a rule to a schema. A choice takes the place of the choice that was there, and stays one that may be null.
fn merge(schema: &mut Value, rule: Value) {
    let may_be_null = schema["oneOf"]
        .as_array()
        .is_some_and(|choices| choices.iter().any(|choice| choice["type"] == "null"));
    let description = schema["oneOf"][0]["description"].clone();
    let target = match schema.as_object_mut() {
        Some(target) => target,
        None => return,
    };
    let rule: Map<String, Value> = match rule {
        Value::Object(rule) => rule,
        _ => return,
    };
    let is_choice = rule.contains_key("oneOf");
    target.extend(rule);
    if is_choice
        && may_be_null
        && let Some(choices) = target["oneOf"].as_array_mut()
    {
        if !choices.iter().any(|choice| choice["type"] == "null") {
            choices.push(json!({ "type": "null" }));
        }
        if description.is_string() {
            target.insert("description".to_owned(), description);
        }
    }
}
