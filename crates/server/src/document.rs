//! The description of every call, made from the routes themselves: OpenAPI 3.1, and a page to read.

mod links;
mod page;
mod rules;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::routes;

/// The OpenAPI document.
///
/// ```
/// let document = auxo_server::document();
/// assert_eq!(document["openapi"], "3.1.0");
/// assert!(document["paths"]["/v1/lease"]["post"].is_object());
/// ```
pub fn document() -> Value {
    let made = routes::api().into_openapi();
    let mut document = serde_json::to_value(made).unwrap_or_default();
    document["info"] = json!({
        "title": "Auxo",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "A job queue that keeps every accepted job and hands it out on time.",
        "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
    });
    document["servers"] = json!([{ "url": "/" }]);
    document["components"]["securitySchemes"]["token"] = json!({
        "type": "http", "scheme": "bearer",
        "description": "Needed if the server has tokens. A call names the right that the token must have, and where the queue is found.",
    });
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        let operations = item.as_object_mut().into_iter().flatten();
        for (method, operation) in operations {
            add_path_parameters(path, operation);
            add_problems(method, operation);
        }
    }
    rules::apply(&mut document);
    links::apply(&mut document);
    document
}

static TEXT: LazyLock<String> = LazyLock::new(|| document().to_string());
static PAGE: LazyLock<String> = LazyLock::new(|| page::page(&document()));

/// The document as it is sent.
pub fn text() -> &'static str {
    &TEXT
}

/// The document as a page.
pub fn page() -> &'static str {
    &PAGE
}

/// Every variable in a path means the same wherever it stands.
fn add_path_parameters(path: &str, operation: &mut Value) {
    let meaning = |name: &str| match name {
        "queue" => "the queue's name: 1 to 200 of A-Z a-z 0-9 _ . : ; $ ( ) + / -, with / as %2F",
        "id" => "the job's id",
        "key" => "the job's key",
        "topic" => "the topic's name",
        _ => "its name",
    };
    let shape = |name: &str| match name {
        "queue" => json!({ "type": "string", "pattern": rules::QUEUE_IN_PATH }),
        "id" => json!({ "type": "string", "pattern": rules::ID, "format": "id" }),
        "key" => {
            json!({ "type": "string", "minLength": 1, "maxLength": 512, "pattern": rules::LINE })
        }
        _ => json!({ "type": "string", "minLength": 1, "maxLength": 200, "pattern": rules::LINE }),
    };
    let names = path
        .split('{')
        .skip(1)
        .filter_map(|part| part.split('}').next());
    let mut parameters: Vec<Value> = names
        .map(|name| {
            json!({
                "name": name, "in": "path", "required": true,
                "description": meaning(name), "schema": shape(name),
            })
        })
        .collect();
    if let Some(others) = operation["parameters"].as_array() {
        parameters.extend(others.iter().cloned());
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
}

/// What can go wrong with any call.
fn add_problems(method: &str, operation: &mut Value) {
    // A body that has nothing to say is read, too, or the next request would begin with it.
    let takes_body = method != "get";
    let problem = |description: &str| {
        json!({
            "description": description,
            "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } },
        })
    };
    let mut common = vec![
        ("400", "the request is wrong in itself"),
        ("401", "the server has tokens, and this is none of them"),
        (
            "403",
            "not for who is asking, or not for a page of another site",
        ),
        ("405", "the wrong method"),
        ("413", "a part of the request is over its limit"),
        (
            "421",
            "a name that may be another's, at a server without tokens",
        ),
        ("429", "too many wrong tokens from this address"),
        ("500", "the server or its store failed"),
        (
            "503",
            "the store has stopped, or there is no room; try again",
        ),
        (
            "504",
            "no answer from the store: the step may or may not have happened",
        ),
    ];
    if takes_body {
        common.extend([
            ("408", "the body did not arrive in time"),
            ("415", "the body is not JSON"),
        ]);
    }
    if let Some(responses) = operation["responses"].as_object_mut() {
        for (status, description) in common {
            let responses: &mut Map<String, Value> = responses;
            responses
                .entry(status)
                .or_insert_with(|| problem(description));
        }
    }
}
