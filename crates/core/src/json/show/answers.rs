//! Answers to calls, and what is told to those who watch.

use serde_json::{Value, json};

use super::put_times;
use crate::engine::{Extended, Mode, Pushed, Settled, Steered};
use crate::error::{Error, Result};
use crate::event::Notice;
use crate::explain::Explanation;

/// An accepted push: `{id, state, run_at, how}`, where `how` is `new`, `existing` or `replaced`.
pub fn pushed(pushed: &Pushed) -> Value {
    json!({
        "id": pushed.id.to_string(),
        "state": pushed.state.as_str(),
        "run_at": pushed.run_at.to_string(),
        "how": pushed.how.as_str(),
    })
}

/// A lease that ended: `{id, state, run_at?}`.
pub fn settled(settled: &Settled) -> Value {
    let mut out = json!({ "id": settled.id.to_string(), "state": settled.state.as_str() });
    if let Some(run_at) = settled.run_at {
        out["run_at"] = run_at.to_string().into();
    }
    out
}

/// A lease that goes on: `{id, deadline, cancel}`.
pub fn extended(extended: &Extended) -> Value {
    json!({
        "id": extended.id.to_string(),
        "deadline": extended.deadline.to_string(),
        "cancel": extended.cancel,
    })
}

/// An error: `{code, message, id?}`.
pub fn error(error: &Error) -> Value {
    let mut out = json!({ "code": error.code().as_str(), "message": error.message() });
    if let Some(id) = error.job() {
        out["id"] = id.to_string().into();
    }
    out
}

/// The answer to a batch: `{"results": [{"ok": …} or {"error": …}, …]}`.
pub fn results<T>(results: &[Result<T>], show: impl Fn(&T) -> Value) -> Value {
    let each = |result: &Result<T>| match result {
        Ok(ok) => json!({ "ok": show(ok) }),
        Err(wrong) => json!({ "error": error(wrong) }),
    };
    json!({ "results": results.iter().map(each).collect::<Vec<_>>() })
}

/// What an operator's move did: `{moved, dry_run?, results?, next_cursor}`.
pub fn steered(steered: &Steered, mode: Mode) -> Value {
    let mut out = json!({
        "moved": steered.moved,
        "next_cursor": steered.next.as_ref().map(|cursor| cursor.0.as_str()),
    });
    if mode == Mode::DryRun {
        out["dry_run"] = true.into();
    }
    if !steered.results.is_empty() {
        let all = results(&steered.results, |state| json!({ "state": state.as_str() }));
        out["results"] = all["results"].clone();
    }
    out
}

/// A transition: `{sequence, at, queue, id, event, by?, note?}`.
pub fn notice(notice: &Notice) -> Value {
    let mut out = json!({
        "sequence": notice.sequence,
        "at": notice.at.to_string(),
        "queue": notice.queue.as_str(),
        "id": notice.job.to_string(),
        "event": notice.event.as_str(),
    });
    for (name, text) in [("by", &notice.by), ("note", &notice.note)] {
        if !text.is_empty() {
            out[name] = (**text).into();
        }
    }
    out
}

/// Why a job is not running: `{reason, text, id?, state?, queue?, until?, since?, worker?, error?}`.
pub fn explanation(explanation: &Explanation) -> Value {
    let mut out = json!({
        "reason": explanation.reason.as_str(),
        "text": explanation.text,
    });
    let texts = [
        ("id", explanation.job.map(|id| id.to_string())),
        ("state", explanation.state.map(|state| state.to_string())),
        ("queue", explanation.queue.as_ref().map(|q| q.to_string())),
        ("worker", explanation.worker.as_ref().map(|w| w.to_string())),
        ("error", explanation.error.clone()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            out[name] = text.into();
        }
    }
    let times = [("until", explanation.until), ("since", explanation.since)];
    put_times(&mut out, times);
    out
}
