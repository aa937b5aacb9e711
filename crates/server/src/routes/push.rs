//! Jobs in.

use std::sync::Arc;

use auxo_core::engine::Accepted;
use auxo_core::job::{DEFAULT_KEY_WINDOW, Key, NewJob, OnDuplicate};
use auxo_core::json::read::{self, Batch};
use auxo_core::json::show;
use auxo_core::{Error, JobSpec};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::{json, ok, single};
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::{Body, InQueue};
use crate::problem::Answer;
use crate::schema;

/// Push a job, or an array of jobs
///
/// A job that is answered is kept. An array is answered item by item, in order; one wrong item does not touch the others.
/// With the header `Idempotency-Key` a push of one job can be repeated: the second is answered with the job of the first.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/jobs", tag = "jobs",
    security((), ("token" = ["push:{queue}"])),
    params(("Idempotency-Key" = Option<String>, Header, description = "the job's key, with on_duplicate return")),
    request_body = schema::Push,
    responses(
        (status = 201, description = "one new job", body = schema::Pushed),
        (status = 200, description = "one job that was there already, or the answers to an array", body = schema::PushAnswer),
        (status = 409, description = "the key is taken, or the queue is paused", body = schema::Problem, content_type = "application/problem+json"),
        (status = 429, description = "the queue or the disk is full", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn push(
    State(app): State<Arc<App>>,
    InQueue(queue): InQueue,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let key = idempotency_key(&headers)?;
    let job = |spec| NewJob {
        queue: queue.clone(),
        spec,
    };
    match read::pushes(&body.bytes, app.service.limits().batch)? {
        Batch::One(spec) => {
            let spec = with_key(spec?, key)?;
            let pushed = single(calls::jobs::push(&app, &caller, vec![Ok(job(spec))]).await?)?;
            let status = match pushed.how {
                Accepted::New => StatusCode::CREATED,
                Accepted::Existing | Accepted::Replaced => StatusCode::OK,
            };
            json(status, &show::pushed(&pushed))
        }
        Batch::Many(_) if key.is_some() => {
            Err(Error::bad_request("Idempotency-Key: an array has a key for each job").into())
        }
        Batch::Many(specs) => {
            let jobs = specs.into_iter().map(|spec| spec.map(job)).collect();
            let answers = calls::jobs::push(&app, &caller, jobs).await?;
            ok(&show::results(&answers, show::pushed))
        }
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Error> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Error::bad_request("Idempotency-Key: is there twice"));
    }
    match std::str::from_utf8(value.as_bytes()) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Error::bad_request("Idempotency-Key: is not text")),
    }
}

fn with_key(mut spec: JobSpec, key: Option<String>) -> Result<JobSpec, Error> {
    match (key, &spec.key) {
        (None, _) => Ok(spec),
        (Some(_), Some(_)) => Err(Error::bad_request("key: stands beside Idempotency-Key")),
        (Some(name), None) => {
            spec.key = Some(Key {
                name,
                on_duplicate: OnDuplicate::Return,
                window: DEFAULT_KEY_WINDOW,
            });
            Ok(spec)
        }
    }
}
