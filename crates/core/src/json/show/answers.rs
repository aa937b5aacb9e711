//! Answers to calls, and what is told to those who watch.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Text, put_times};
use crate::engine::{Extended, Mode, Pushed, Settled, Steered};
use crate::error::{Error, Result};
use crate::event::Notice;
use crate::explain::Explanation;
use crate::id::JobId;
use crate::life::State;
use crate::time::Timestamp;

#[derive(Serialize)]
struct PushedOut {
    id: Text<JobId>,
    state: &'static str,
    run_at: Text<Timestamp>,
    how: &'static str,
}

/// An accepted push: `{id, state, run_at, how}`, where `how` is `new`, `existing` or `replaced`.
pub fn pushed(pushed: &Pushed) -> impl Serialize + use<> {
    PushedOut {
        id: Text(pushed.id),
        state: pushed.state.as_str(),
        run_at: Text(pushed.run_at),
        how: pushed.how.as_str(),
    }
}

#[derive(Serialize)]
struct SettledOut {
    id: Text<JobId>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Text<Timestamp>>,
}

/// A lease that ended: `{id, state, run_at?}`.
pub fn settled(settled: &Settled) -> impl Serialize + use<> {
    SettledOut {
        id: Text(settled.id),
        state: settled.state.as_str(),
        run_at: settled.run_at.map(Text),
    }
}

#[derive(Serialize)]
struct ExtendedOut {
    id: Text<JobId>,
    deadline: Text<Timestamp>,
    cancel: bool,
}

/// A lease that goes on: `{id, deadline, cancel}`.
pub fn extended(extended: &Extended) -> impl Serialize + use<> {
    ExtendedOut {
        id: Text(extended.id),
        deadline: Text(extended.deadline),
        cancel: extended.cancel,
    }
}

#[derive(Serialize)]
struct ErrorOut<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Text<JobId>>,
}

/// An error: `{code, message, id?}`.
pub fn error(error: &Error) -> impl Serialize {
    error_out(error)
}

fn error_out(error: &Error) -> ErrorOut<'_> {
    ErrorOut {
        code: error.code().as_str(),
        message: error.message(),
        id: error.job().map(Text),
    }
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer<'a, S> {
    Ok(S),
    Error(ErrorOut<'a>),
}

fn answers<'a, T, S>(results: &'a [Result<T>], show: impl Fn(&T) -> S) -> Vec<Answer<'a, S>> {
    let each = |result: &'a Result<T>| match result {
        Ok(ok) => Answer::Ok(show(ok)),
        Err(error) => Answer::Error(error_out(error)),
    };
    results.iter().map(each).collect()
}

/// The answer to a batch: `{"results": [{"ok": …} or {"error": …}, …]}`.
pub fn results<T, S: Serialize>(results: &[Result<T>], show: impl Fn(&T) -> S) -> impl Serialize {
    #[derive(Serialize)]
    struct Out<'a, S> {
        results: Vec<Answer<'a, S>>,
    }
    Out {
        results: answers(results, show),
    }
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
        let state = |state: &State| json!({ "state": state.as_str() });
        out["results"] = json!(answers(&steered.results, state));
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
