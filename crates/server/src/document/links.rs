//! Which answer leads to which call: what a job's id, a token or a name can be used for next.

use serde_json::{Map, Value, json};

/// From: method, path, status. To: operations, and where their parameters come from.
type Lead = (
    (&'static str, &'static str, &'static str),
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
);

const LEADS: [Lead; 5] = [
    (
        ("post", "/v1/queues/{queue}/jobs", "201"),
        &[
            "show_job",
            "explain_job",
            "kick",
            "cancel",
            "reschedule",
            "delete_job",
        ],
        &[("id", "$response.body#/id")],
    ),
    (
        ("put", "/v1/queues/{queue}", "200"),
        &["show_queue", "push", "pause", "resume", "purge"],
        &[("queue", "$request.path.queue")],
    ),
    (
        ("put", "/v1/schedules/{name}", "200"),
        &["show_schedule", "delete_schedule"],
        &[("name", "$request.path.name")],
    ),
    (
        ("put", "/v1/topics/{topic}/subscriptions/{name}", "200"),
        &["publish"],
        &[("topic", "$request.path.topic")],
    ),
    (
        ("put", "/v1/topics/{topic}/subscriptions/{name}", "200"),
        &["unsubscribe"],
        &[
            ("topic", "$request.path.topic"),
            ("name", "$request.path.name"),
        ],
    ),
];

/// Writes the links into a document.
pub fn apply(document: &mut Value) {
    for ((method, path, status), operations, parameters) in LEADS {
        let parameters: Map<String, Value> = parameters
            .iter()
            .map(|(name, source)| ((*name).to_owned(), (*source).into()))
            .collect();
        let response = &mut document["paths"][path][method]["responses"][status];
        for operation in operations {
            response["links"][operation] =
                json!({ "operationId": operation, "parameters": parameters });
        }
    }
    let token = "$response.body#/jobs/0/token";
    document["paths"]["/v1/lease"]["post"]["responses"]["200"]["links"] = json!({
        "settle": { "operationId": "settle", "requestBody": { "token": token, "outcome": "ack" } },
        "extend": { "operationId": "extend", "requestBody": { "token": token } },
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::document::document;

    #[test]
    fn every_call_has_a_name_of_its_own_and_every_link_leads_to_one() {
        let document = document();
        let mut names = BTreeSet::new();
        let mut targets = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let name = operation["operationId"].as_str().unwrap();
                assert!(names.insert(name), "{method} {path}: {name} is taken");
                for (status, response) in operation["responses"].as_object().unwrap() {
                    assert!(
                        response["description"].is_string(),
                        "{method} {path} {status}"
                    );
                    let links = response["links"].as_object().into_iter().flatten();
                    targets.extend(links.map(|(_, link)| link["operationId"].as_str().unwrap()));
                }
            }
        }
        assert!(!targets.is_empty());
        let unknown: Vec<_> = targets.difference(&names).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
