//! The document as one HTML page: no script, nothing from elsewhere.

use std::fmt::Write;

use serde_json::Value;

const STYLE: &str = "\
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code{font:0.9em ui-monospace,monospace}
section{border-top:1px solid #8884;padding:.5rem 0 1rem}
h3 code:first-child{display:inline-block;min-width:4.5rem;font-weight:700}
table{border-collapse:collapse;margin:.5rem 0;width:100%}
td,th{text-align:left;vertical-align:top;padding:.2rem .8rem .2rem 0;border-bottom:1px solid #8882}
nav a{margin-right:1rem}
details>summary{cursor:pointer}";

/// Renders a document.
pub fn page(document: &Value) -> String {
    let mut out = String::new();
    // Writing to a text cannot fail.
    let _ = write(document, &mut out);
    out
}

fn write(document: &Value, out: &mut String) -> std::fmt::Result {
    let version = text(&document["info"]["version"]);
    write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Auxo HTTP</title><style>{STYLE}</style></head><body>\
         <h1>Auxo {version} over HTTP</h1><p>{}</p><p>For programs: <a href=\"/openapi.json\">/openapi.json</a>. \
         Errors are <code>application/problem+json</code> with a stable <code>code</code>.</p>",
        text(&document["info"]["description"]),
    )?;
    let operations = operations(document);
    let mut tags: Vec<&str> = operations.iter().map(|(tag, ..)| *tag).collect();
    tags.sort_unstable();
    tags.dedup();
    write!(out, "<nav>")?;
    for tag in &tags {
        write!(out, "<a href=\"#{0}\">{0}</a>", escape(tag))?;
    }
    write!(out, "<a href=\"#shapes\">shapes</a></nav>")?;
    for tag in &tags {
        write!(out, "<h2 id=\"{0}\">{0}</h2>", escape(tag))?;
        for (_, path, method, operation) in operations.iter().filter(|(t, ..)| t == tag) {
            write_operation(path, method, operation, out)?;
        }
    }
    write!(out, "<h2 id=\"shapes\">shapes</h2>")?;
    let shapes = document["components"]["schemas"].as_object();
    for (name, schema) in shapes.into_iter().flatten() {
        write_shape(name, schema, out)?;
    }
    write!(out, "</body></html>")
}

type Operation<'a> = (&'a str, &'a str, &'a str, &'a Value);

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths
        .flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flatten();
            methods.map(move |(method, operation)| {
                let tag = operation["tags"][0].as_str().unwrap_or("other");
                (tag, path.as_str(), method.as_str(), operation)
            })
        })
        .collect()
}

fn write_operation(
    path: &str,
    method: &str,
    operation: &Value,
    out: &mut String,
) -> std::fmt::Result {
    write!(
        out,
        "<section><h3><code>{}</code> <code>{}</code></h3><p><b>{}.</b> {}</p>",
        method.to_uppercase(),
        escape(path),
        text(&operation["summary"]),
        text(&operation["description"]),
    )?;
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters {
        write!(
            out,
            "<table><tr><th>parameter</th><th>in</th><th></th></tr>"
        )?;
        for parameter in parameters {
            write!(
                out,
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
                text(&parameter["name"]),
                text(&parameter["in"]),
                text(&parameter["description"]),
            )?;
        }
        write!(out, "</table>")?;
    }
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        write!(out, "<p>Body: {}</p>", kind(body))?;
    }
    write!(out, "<details><summary>answers</summary><table>")?;
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let content = response["content"].as_object().into_iter().flatten().next();
        let shape = content.map_or(String::new(), |(_, content)| kind(&content["schema"]));
        write!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td>{shape}</td></tr>",
            escape(status),
            text(&response["description"]),
        )?;
    }
    write!(out, "</table></details></section>")
}

fn write_shape(name: &str, schema: &Value, out: &mut String) -> std::fmt::Result {
    write!(
        out,
        "<section id=\"{0}\"><h3>{0}</h3><p>{1}</p>",
        escape(name),
        text(&schema["description"])
    )?;
    if let Some(properties) = schema["properties"].as_object() {
        write_fields(properties, &schema["required"], out)?;
    } else {
        write!(out, "<p>{}</p>", kind(schema))?;
    }
    write!(out, "</section>")
}

fn write_fields(
    properties: &serde_json::Map<String, Value>,
    required: &Value,
    out: &mut String,
) -> std::fmt::Result {
    let required: Vec<&str> = required
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    write!(out, "<table>")?;
    for (field, schema) in properties {
        let mark = if required.contains(&field.as_str()) {
            ""
        } else {
            "?"
        };
        write!(
            out,
            "<tr><td><code>{}</code>{mark}</td><td>{}</td><td>{}</td></tr>",
            escape(field),
            kind(schema),
            text(&schema["description"]),
        )?;
    }
    write!(out, "</table>")
}

/// A schema in a few words, with links to the shapes in it.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escape(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    // The first says what it is, the others what holds of it besides.
    if let Some(first) = schema["allOf"].get(0) {
        return kind(first);
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema[choice].as_array() {
            let choices = choices.iter().filter(|c| c["type"] != "null").map(kind);
            return choices.collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words
            .iter()
            .map(|word| format!("<code>{}</code>", text(word)));
        return words.collect::<Vec<_>>().join(", ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("list of {}", kind(&schema["items"])),
        Value::String(name) if name == "object" => match schema["properties"].as_object() {
            Some(fields) => {
                let fields = fields
                    .iter()
                    .map(|(name, field)| format!("<code>{}</code>: {}", escape(name), kind(field)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            None => "object".to_owned(),
        },
        Value::String(name) => escape(name),
        Value::Array(names) => {
            let names: Vec<&str> = names
                .iter()
                .filter_map(Value::as_str)
                .filter(|n| *n != "null")
                .collect();
            match names.as_slice() {
                ["array"] => format!("list of {}", kind(&schema["items"])),
                names => escape(&names.join(" or ")),
            }
        }
        _ => "any JSON".to_owned(),
    }
}

fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
