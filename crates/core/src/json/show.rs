//! JSON out. Fields that say nothing are left out.

mod answers;
mod setup;

use std::fmt::Display;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::content::{shown, space};
use crate::engine::Page;
use crate::error::Result;
use crate::job::{Backoff, Headers, Holder, Job, JobSpec, Leased, Moment, Ttl};
use crate::text;
use crate::time::{Timestamp, When};

pub use self::answers::{error, explanation, extended, notice, pushed, results, settled, steered};
pub use self::setup::{audit, books, outage, queue, queue_config, schedule, subscription};

/// Anything that prints itself, as a JSON text.
struct Text<T>(T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, writer: S) -> Result<S::Ok, S::Error> {
        writer.collect_str(&self.0)
    }
}

fn span(span: Duration) -> Text<String> {
    Text(text::duration(span))
}

fn zero(n: &u32) -> bool {
    *n == 0
}

#[derive(Serialize)]
struct JobOut<'a> {
    id: Text<crate::JobId>,
    queue: &'a str,
    state: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_space: Option<[&'a str; 2]>,
    #[serde(skip_serializing_if = "Headers::is_empty")]
    headers: &'a Headers,
    priority: u32,
    run_at: Text<Timestamp>,
    created_at: Text<Timestamp>,
    attempt: u32,
    #[serde(skip_serializing_if = "zero")]
    failures: u32,
    #[serde(skip_serializing_if = "zero")]
    vanished: u32,
    max_attempts: u32,
    backoff: BackoffOut,
    ttr: Text<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Text<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_window: Option<Text<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<Text<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<Text<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<Text<crate::Token>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<Text<Timestamp>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    timeline: Vec<MomentOut<'a>>,
}

#[derive(Serialize)]
struct LeaseOut<'a> {
    worker: &'a str,
    deadline: Text<Timestamp>,
    cancel: bool,
}

#[derive(Serialize)]
struct MomentOut<'a> {
    at: Text<Timestamp>,
    event: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    by: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    note: &'a str,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum BackoffOut {
    Exponential {
        base: Text<String>,
        factor: f64,
        cap: Text<String>,
        jitter: &'static str,
    },
    Fixed {
        delay: Text<String>,
    },
    List {
        delays: Vec<Text<String>>,
    },
}

/// A job with all there is to know about it. Its payload, progress and result stand as JSON if their bytes are, else in
/// base64 under another name. The space around a payload that is JSON is in `payload_space`, before and after, so that no
/// byte of it is lost.
pub fn job(job: &Job) -> impl Serialize {
    job_out(job)
}

/// A job and the right to it.
pub fn leased(leased: &Leased) -> impl Serialize {
    leased_out(leased)
}

/// The answer to a lease: `{"jobs": […]}`.
pub fn leases(jobs: &[Leased]) -> impl Serialize {
    #[derive(Serialize)]
    struct Out<'a> {
        jobs: Vec<JobOut<'a>>,
    }
    Out {
        jobs: jobs.iter().map(leased_out).collect(),
    }
}

/// A page of jobs: `{"jobs": […], "next_cursor": …}`, where the cursor is `null` at the end.
pub fn page(page: &Page) -> impl Serialize {
    #[derive(Serialize)]
    struct Out<'a> {
        jobs: Vec<JobOut<'a>>,
        next_cursor: Option<&'a str>,
    }
    Out {
        jobs: page.jobs.iter().map(job_out).collect(),
        next_cursor: page.next.as_ref().map(|cursor| cursor.0.as_str()),
    }
}

fn leased_out(leased: &Leased) -> JobOut<'_> {
    JobOut {
        token: Some(Text(leased.token)),
        deadline: Some(Text(leased.deadline)),
        ..job_out(&leased.job)
    }
}

fn job_out(job: &Job) -> JobOut<'_> {
    let (payload, payload_base64) = shown(&job.payload);
    let (progress, progress_base64) = shown(job.progress.as_deref().unwrap_or_default());
    let (result, result_base64) = shown(job.result.as_deref().unwrap_or_default());
    JobOut {
        id: Text(job.id),
        queue: job.queue.as_str(),
        state: job.state.as_str(),
        kind: &job.kind,
        payload,
        payload_base64,
        payload_space: space(&job.payload, payload),
        headers: &job.headers,
        priority: job.priority,
        run_at: Text(job.run_at),
        created_at: Text(job.created_at),
        attempt: job.attempt,
        failures: job.failures,
        vanished: job.vanished,
        max_attempts: job.max_attempts,
        backoff: backoff(&job.backoff),
        ttr: span(job.ttr),
        expires_at: job.expires_at.map(Text),
        key: job.key.as_deref(),
        key_window: job.key.as_ref().map(|_| span(job.key_window)),
        group: job.group.as_deref(),
        retention: (!job.retention.is_zero()).then(|| span(job.retention)),
        last_error: job.last_error.as_deref(),
        dead_reason: job.dead.map(|reason| reason.as_str()),
        ended_at: job.ended_at.map(Text),
        progress,
        progress_base64,
        result,
        result_base64,
        lease: job.holder.as_ref().map(lease),
        token: None,
        deadline: None,
        timeline: job.timeline.iter().map(moment).collect(),
    }
}

fn lease(holder: &Holder) -> LeaseOut<'_> {
    LeaseOut {
        worker: &holder.worker,
        deadline: Text(holder.deadline),
        cancel: holder.cancel,
    }
}

fn moment(moment: &Moment) -> MomentOut<'_> {
    MomentOut {
        at: Text(moment.at),
        event: moment.event.as_str(),
        by: &moment.by,
        note: &moment.note,
    }
}

fn backoff(backoff: &Backoff) -> BackoffOut {
    match backoff {
        Backoff::Exponential {
            base,
            factor,
            cap,
            jitter,
        } => BackoffOut::Exponential {
            base: span(*base),
            factor: *factor,
            cap: span(*cap),
            jitter: jitter.as_str(),
        },
        Backoff::Fixed { delay } => BackoffOut::Fixed {
            delay: span(*delay),
        },
        Backoff::List { delays } => BackoffOut::List {
            delays: delays.iter().copied().map(span).collect(),
        },
    }
}

/// A job as it would be pushed; [`read::push`](super::read::push) makes the same of it again.
pub fn spec(spec: &JobSpec) -> impl Serialize {
    spec_out(spec)
}

#[derive(Serialize)]
pub(super) struct SpecOut<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Headers::is_empty")]
    headers: &'a Headers,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Text<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Text<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttr: Option<Text<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<Text<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<Text<Timestamp>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<BackoffOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_duplicate: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_window: Option<Text<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention: Option<Text<String>>,
}

fn spec_out(spec: &JobSpec) -> SpecOut<'_> {
    spec_with(spec, shown(&spec.payload), Defaults::Told)
}

/// Whether fields are written that have their documented default.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Defaults {
    Told,
    LeftOut,
}

/// The spec with its payload written by the caller.
pub(super) fn spec_with<'a>(
    spec: &'a JobSpec,
    (payload, payload_base64): (Option<&'a RawValue>, Option<String>),
    defaults: Defaults,
) -> SpecOut<'a> {
    let default = JobSpec::default();
    let all = defaults == Defaults::Told;
    let (run_at, delay) = match spec.when {
        When::Now => (None, None),
        When::After(delay) => (None, Some(span(delay))),
        When::At(at) => (Some(Text(at)), None),
    };
    let (ttl, expires_at) = match spec.ttl {
        Ttl::None => (None, None),
        Ttl::After(ttl) => (Some(span(ttl)), None),
        Ttl::At(at) => (None, Some(Text(at))),
    };
    SpecOut {
        kind: &spec.kind,
        payload,
        payload_base64,
        headers: &spec.headers,
        priority: (all || spec.priority != default.priority).then_some(spec.priority),
        run_at,
        delay,
        ttr: (all || spec.ttr != default.ttr).then(|| span(spec.ttr)),
        ttl,
        expires_at,
        max_attempts: (all || spec.max_attempts != default.max_attempts)
            .then_some(spec.max_attempts),
        backoff: (all || spec.backoff != default.backoff).then(|| backoff(&spec.backoff)),
        key: spec.key.as_ref().map(|key| key.name.as_str()),
        on_duplicate: spec.key.as_ref().map(|key| key.on_duplicate.as_str()),
        key_window: spec.key.as_ref().map(|key| span(key.window)),
        group: spec.group.as_deref(),
        retention: (!spec.retention.is_zero()).then(|| span(spec.retention)),
    }
}

/// Adds the times that are known.
fn put_times<const N: usize>(out: &mut Value, times: [(&str, Option<Timestamp>); N]) {
    for (name, at) in times {
        if let Some(at) = at {
            out[name] = at.to_string().into();
        }
    }
}

#[cfg(test)]
mod tests;
