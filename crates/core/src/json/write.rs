//! Requests, written by a client: what [`read`](super::read) makes the same types of again.
//!
//! Payloads arrive byte for byte: what JSON would not keep as it is goes in base64. Results and progress that are the JSON
//! `null` do so, too, because there a `null` means that there is none.

mod setup;

use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::content::exact;
use super::show::{Defaults, SpecOut, spec_with};
use crate::engine::{
    Action, Ask, Extend, Filter, Mode, Order, Outcome, Pick, Query, Retry, Settle, Target,
};
use crate::job::JobSpec;
use crate::text;
use crate::time::When;

pub use self::setup::{armed, message, queue_config, schedule, subscription};

/// A request as its body. Nothing of ours fails to be JSON.
pub fn body(request: &impl Serialize) -> Bytes {
    serde_json::to_vec(request).unwrap_or_default().into()
}

/// Requests that go together, each as its body. They share one piece of memory.
pub fn bodies<T: Serialize>(requests: impl Iterator<Item = T>) -> Vec<Bytes> {
    let (mut all, mut ends) = (Vec::new(), vec![0]);
    for request in requests {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut all, &request);
        ends.push(all.len());
    }
    let all = Bytes::from(all);
    let piece = |ends: &[usize]| all.slice(ends[0]..ends[1]);
    ends.windows(2).map(piece).collect()
}

/// One job of a push.
pub fn push(spec: &JobSpec) -> impl Serialize {
    spec_out(spec)
}

fn spec_out(spec: &JobSpec) -> SpecOut<'_> {
    // Most jobs are pushed with little that is their own: what need not be said need not be read.
    spec_with(spec, exact(&spec.payload), Defaults::LeftOut)
}

/// A request for jobs.
pub fn ask(ask: &Ask) -> Value {
    let queues: Vec<&str> = ask.queues.iter().map(|queue| queue.as_str()).collect();
    let mut out = json!({
        "queues": queues,
        "max": ask.max,
        "wait": text::duration(ask.wait),
        "worker": Arc::as_ref(&ask.worker),
    });
    if let Some(job) = ask.job {
        out["job"] = job.id.to_string().into();
    }
    if ask.pick != Pick::First {
        out["pick"] = ask.pick.as_str().into();
    }
    if let Some(ttr) = ask.ttr {
        out["ttr"] = text::duration(ttr).into();
    }
    out
}

#[derive(Serialize)]
struct SettleOut<'a> {
    token: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
}

/// The end of one lease.
pub fn settle(settle: &Settle) -> impl Serialize {
    let mut out = SettleOut {
        token: settle.token.to_string(),
        outcome: settle.outcome.as_str(),
        error: None,
        delay: None,
        retry: None,
        priority: None,
        result: None,
        result_base64: None,
    };
    match &settle.outcome {
        Outcome::Ack { result } => (out.result, out.result_base64) = maybe(result.as_ref()),
        Outcome::Fail {
            error,
            delay,
            retry,
        } => {
            out.error = Some(error);
            out.delay = delay.map(text::duration);
            out.retry = (*retry == Retry::Never).then_some(false);
        }
        Outcome::Release { priority, delay } => {
            out.priority = *priority;
            out.delay = delay.map(text::duration);
        }
        Outcome::Bury { error, priority } => {
            out.error = error.as_deref();
            out.priority = *priority;
        }
        Outcome::Snooze { delay } => out.delay = Some(text::duration(*delay)),
    }
    out
}

#[derive(Serialize)]
struct ExtendOut<'a> {
    token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_base64: Option<String>,
}

/// One sign of life.
pub fn extend(extend: &Extend) -> impl Serialize {
    let (progress, progress_base64) = maybe(extend.progress.as_ref());
    ExtendOut {
        token: extend.token.to_string(),
        ttr: extend.ttr.map(text::duration),
        progress,
        progress_base64,
    }
}

/// Bytes that may not be there, in a field where `null` says so.
fn maybe(bytes: Option<&Bytes>) -> (Option<&RawValue>, Option<String>) {
    let Some(bytes) = bytes else {
        return (None, None);
    };
    match exact(bytes) {
        (Some(raw), _) if raw.get() == "null" => (None, Some("bnVsbA==".to_owned())),
        (None, None) => (None, Some(String::new())),
        written => written,
    }
}

/// A query as pairs for a URL. An empty text cannot be asked for there.
pub fn query_pairs(query: &Query) -> Vec<(String, String)> {
    let mut pairs: Vec<(String, String)> = match filter(&query.filter) {
        Value::Object(fields) => fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())))
            .collect(),
        _ => Vec::new(),
    };
    for (name, value) in &query.filter.headers {
        pairs.push((format!("header.{name}"), value.clone()));
    }
    pairs.extend(
        query
            .cursor
            .iter()
            .map(|at| ("cursor".into(), at.0.clone())),
    );
    pairs.push(("limit".into(), query.limit.to_string()));
    pairs
}

/// A filter, with its headers as an object.
fn filter(filter: &Filter) -> Value {
    let mut out = json!({});
    let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
    let states = Some(states.join(",")).filter(|states| !states.is_empty());
    let fields = [
        ("queue", filter.queue.as_ref().map(ToString::to_string)),
        ("state", states),
        ("kind", filter.kind.clone()),
        ("key", filter.key.clone()),
        ("group", filter.group.clone()),
        ("error", filter.error.clone()),
        ("search", filter.search.clone()),
        ("created_from", filter.created_from.map(|at| at.to_string())),
        (
            "created_before",
            filter.created_before.map(|at| at.to_string()),
        ),
        ("due_from", filter.due_from.map(|at| at.to_string())),
        ("due_before", filter.due_before.map(|at| at.to_string())),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            out[name] = value.into();
        }
    }
    if !filter.headers.is_empty() {
        out["headers"] = json!(filter.headers);
    }
    out
}

/// An operator's move.
pub fn order(order: &Order) -> Value {
    let action = match &order.action {
        Action::Kick => "kick",
        Action::Cancel => "cancel",
        Action::Delete => "delete",
        Action::Reschedule(_) => "reschedule",
    };
    let mut out = json!({ "action": action });
    if let Action::Reschedule(when) = order.action {
        match when {
            When::Now => out["delay"] = "0s".into(),
            When::After(delay) => out["delay"] = text::duration(delay).into(),
            When::At(at) => out["run_at"] = at.to_string().into(),
        }
    }
    if order.mode == Mode::DryRun {
        out["dry_run"] = true.into();
    }
    match &order.target {
        Target::Jobs(ids) => {
            out["ids"] = ids.iter().map(ToString::to_string).collect();
        }
        Target::Matching(query) => {
            out["filter"] = filter(&query.filter);
            out["limit"] = query.limit.into();
            if let Some(cursor) = &query.cursor {
                out["cursor"] = cursor.0.as_str().into();
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
