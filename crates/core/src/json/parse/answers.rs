//! Answers to calls, and what is told to those who watch.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::fields::{Fields, boolean, parsed, string, u64, word};
use super::job::event;
use super::{instant, items};
use crate::engine::{Accepted, Cursor, Extended, Pushed, Settled, Steered};
use crate::error::{Code, Error, Result};
use crate::event::Notice;
use crate::explain::{Explanation, Reason};
use crate::text;

/// The answers to a batch of pushes.
pub fn pushed(body: &[u8]) -> Result<Vec<Result<Pushed>>> {
    quick_results(body, |pushed: PushedIn| {
        Ok(Pushed {
            id: pushed.id.parse()?,
            state: pushed.state.parse()?,
            run_at: instant(pushed.run_at)?,
            how: text::word(&pushed.how, &HOW, Accepted::as_str)?,
        })
    })
}

/// The answers to a batch of settles.
pub fn settled(body: &[u8]) -> Result<Vec<Result<Settled>>> {
    quick_results(body, |settled: SettledIn| {
        Ok(Settled {
            id: settled.id.parse()?,
            state: settled.state.parse()?,
            run_at: settled.run_at.map(instant).transpose()?,
        })
    })
}

/// The most characters that are told of what is wrong with an answer.
const TOLD: usize = 200;

const HOW: [Accepted; 3] = [Accepted::New, Accepted::Existing, Accepted::Replaced];

#[derive(Deserialize)]
struct PushedIn<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    state: Cow<'a, str>,
    #[serde(borrow)]
    run_at: &'a RawValue,
    #[serde(borrow)]
    how: Cow<'a, str>,
}

#[derive(Deserialize)]
struct SettledIn<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    state: Cow<'a, str>,
    #[serde(borrow)]
    run_at: Option<&'a RawValue>,
}

/// The same as [`results`] in one pass, for answers that come by the thousand.
fn quick_results<'a, I: Deserialize<'a>, T>(
    body: &'a [u8],
    read: impl Fn(I) -> Result<T>,
) -> Result<Vec<Result<T>>> {
    #[derive(Deserialize)]
    struct Results<I> {
        results: Vec<I>,
    }
    #[derive(Deserialize)]
    struct Item<'a, I> {
        ok: Option<I>,
        #[serde(borrow)]
        error: Option<&'a RawValue>,
    }
    let Results { results } =
        serde_json::from_slice::<Results<Item<'a, I>>>(body).map_err(|error| {
            // What it says quotes what it found, however long that is.
            let told = text::one_line(&error.to_string());
            Error::bad_request(told.chars().take(TOLD).collect::<String>())
        })?;
    let each = |item: Item<'a, I>| match (item.error, item.ok) {
        (Some(raw), _) => Ok(Err(error(&mut Fields::item(raw)?)?)),
        (None, Some(ok)) => read(ok).map(Ok),
        (None, None) => Err(Error::bad_request("ok: is missing")),
    };
    results.into_iter().map(each).collect()
}

/// The answers to a batch of extends.
pub fn extended(body: &[u8]) -> Result<Vec<Result<Extended>>> {
    results(&mut Fields::of(body)?, |fields| {
        Ok(Extended {
            id: fields.need("id", parsed)?,
            deadline: fields.need("deadline", instant)?,
            cancel: fields.need("cancel", boolean)?,
        })
    })
}

/// The jobs that a message became: `{"jobs": […]}`.
pub fn published(body: &[u8]) -> Result<Vec<Pushed>> {
    items(&mut Fields::of(body)?, "jobs", pushed_of)
}

fn pushed_of(fields: &mut Fields<'_>) -> Result<Pushed> {
    Ok(Pushed {
        id: fields.need("id", parsed)?,
        state: fields.need("state", parsed)?,
        run_at: fields.need("run_at", instant)?,
        how: fields.need("how", word(&HOW.map(|how| (how.as_str(), how))))?,
    })
}

/// What an operator's move did.
pub fn steered(body: &[u8]) -> Result<Steered> {
    let mut fields = Fields::of(body)?;
    Ok(Steered {
        moved: fields.need("moved", u64)?,
        results: match fields.has("results") {
            true => results(&mut fields, |fields| fields.need("state", parsed))?,
            false => Vec::new(),
        },
        next: fields.get("next_cursor", string)?.map(Cursor),
    })
}

/// `{"results": [{"ok": …} or {"error": …}, …]}`
pub(in super::super) fn results<'a, T>(
    fields: &mut Fields<'a>,
    read: impl Fn(&mut Fields<'a>) -> Result<T>,
) -> Result<Vec<Result<T>>> {
    items(fields, "results", |item| {
        match item.get("error", |raw| error(&mut Fields::item(raw)?))? {
            Some(error) => Ok(Err(error)),
            None => item.need("ok", |raw| read(&mut Fields::item(raw)?)).map(Ok),
        }
    })
}

/// A refusal: a problem of its own, or one that stands in a batch. `None` when the body is neither.
pub fn problem(body: &[u8]) -> Option<Error> {
    error(&mut Fields::of(body).ok()?).ok()
}

fn error(fields: &mut Fields<'_>) -> Result<Error> {
    let name = fields.need("code", string)?;
    let message = fields.need("message", string)?;
    let known = Code::ALL.into_iter().find(|code| code.as_str() == name);
    let error = match known {
        Some(code) => Error::new(code, message),
        // Of a newer server. What was asked was understood and not done, so it counts as refused.
        None => Error::bad_request(format!("{name}: {message}")),
    };
    // A batch names the job `id`; a problem names it `job`.
    let job = match fields.get("job", parsed)? {
        Some(job) => Some(job),
        None => fields.get("id", parsed)?,
    };
    Ok(match job {
        Some(job) => error.about(job),
        None => error,
    })
}

/// Why a job is not running.
pub fn explanation(body: &[u8]) -> Result<Explanation> {
    let mut fields = Fields::of(body)?;
    Ok(Explanation {
        reason: fields.need("reason", |raw| {
            text::word(&string(raw)?, &Reason::ALL, Reason::as_str)
        })?,
        text: fields.need("text", string)?,
        job: fields.get("id", parsed)?,
        state: fields.get("state", parsed)?,
        queue: fields.get("queue", parsed)?,
        until: fields.get("until", instant)?,
        since: fields.get("since", instant)?,
        worker: fields.get("worker", string)?.map(Into::into),
        error: fields.get("error", string)?,
    })
}

/// A transition that was told.
pub fn notice(body: &[u8]) -> Result<Notice> {
    let mut fields = Fields::of(body)?;
    Ok(Notice {
        sequence: fields.need("sequence", u64)?,
        at: fields.need("at", instant)?,
        queue: fields.need("queue", parsed)?,
        job: fields.need("id", parsed)?,
        event: fields.need("event", |raw| event(&string(raw)?))?,
        by: fields.get("by", string)?.unwrap_or_default().into(),
        note: fields.get("note", string)?.unwrap_or_default().into(),
    })
}

/// How many transitions could not be told: `{"missed": N}`.
pub fn missed(body: &[u8]) -> Result<u64> {
    Fields::of(body)?.need("missed", u64)
}
