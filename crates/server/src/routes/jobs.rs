//! One job, a page of jobs, and an operator's moves on one.

use std::sync::Arc;

use auxo_core::engine::{Action, Mode, Order, Steered, Target, Which};
use auxo_core::explain::Watch;
use auxo_core::json::{read, show};
use auxo_core::{Code, Error, JobId, refusal};
use axum::extract::State;
use futures_util::future::join_all;
use serde_json::json;

use super::{ok, single};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, InQueueKey, Names, Pairs};
use crate::problem::Answer;
use crate::schema;
use crate::trail::Move;

/// List and search jobs
///
/// Queue by queue, in the order in which jobs would be handed out, then the dead, then the done. Go on with `next_cursor`
/// until it is null. Any `header.NAME=VALUE` asks for a header.
#[utoipa::path(
    get, path = "/v1/jobs", operation_id = "list_jobs", tag = "jobs",
    security((), ("token" = ["read:{?queue}"])),
    params(
        ("queue" = Option<String>, Query, description = "in this queue"),
        ("state" = Option<String>, Query, description = "in this state; several with commas"),
        ("kind" = Option<String>, Query, description = "of this kind"),
        ("key" = Option<String>, Query, description = "with this key"),
        ("group" = Option<String>, Query, description = "in this group"),
        ("error" = Option<String>, Query, description = "with this text in the last error"),
        ("search" = Option<String>, Query, description = "with this text anywhere"),
        ("created_from" = Option<String>, Query, description = "pushed at or after"),
        ("created_before" = Option<String>, Query, description = "pushed before"),
        ("due_from" = Option<String>, Query, description = "due at or after"),
        ("due_before" = Option<String>, Query, description = "due before"),
        ("cursor" = Option<String>, Query, description = "where to go on"),
        ("limit" = Option<u32>, Query, description = "how many at most: 100 unless said, 1,000 at most"),
    ),
    responses((status = 200, description = "a page", body = schema::Page))
)]
pub async fn list(State(app): State<Arc<App>>, caller: Caller, Pairs(pairs): Pairs) -> Answer {
    let is_header = |(name, _): &(String, String)| name.starts_with("header.");
    let (headers, fields): (Vec<_>, Vec<_>) = pairs.into_iter().partition(is_header);
    let fields = fields.iter().map(|(name, value)| (&**name, &**value));
    let mut query = read::query_pairs(fields)?;
    for (name, value) in headers {
        let name = name.trim_start_matches("header.").to_owned();
        if query.filter.headers.insert(name, value).is_some() {
            return Err(Error::bad_request("header: the same name is there twice").into());
        }
    }
    caller.check_filter(query.filter.queue.as_ref())?;
    ok(&show::page(&app.service.list(query).await?))
}

/// Show a job with its timeline
#[utoipa::path(
    get, path = "/v1/jobs/{id}", operation_id = "show_job", tag = "jobs",
    security((), ("token" = ["read:{id}"])),
    responses(
        (status = 200, description = "the job", body = schema::Job),
        (status = 404, description = "there is no such job", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show(State(app): State<Arc<App>>, caller: Caller, Names(id): Names<String>) -> Answer {
    let id: JobId = id.parse()?;
    let job = app.service.find(Which::Id(id)).await?;
    match job.filter(|job| caller.may(&job.queue)) {
        Some(job) => ok(&show::job(&job)),
        None => Err(refusal::no_job(id).into()),
    }
}

/// Show the job that has a key
#[utoipa::path(
    get, path = "/v1/queues/{queue}/keys/{key}", tag = "jobs",
    security((), ("token" = ["read:{queue}"])),
    responses(
        (status = 200, description = "the job", body = schema::Job),
        (status = 404, description = "no job has the key", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show_key(State(app): State<Arc<App>>, InQueueKey(queue, key): InQueueKey) -> Answer {
    match app.service.find(Which::Key(queue.clone(), key)).await? {
        Some(job) => ok(&show::job(&job)),
        None => {
            let message = format!("no job in queue {queue} has this key");
            Err(Error::new(Code::NotFound, message).into())
        }
    }
}

/// Say why a job is not running
#[utoipa::path(
    get, path = "/v1/jobs/{id}/explain", operation_id = "explain_job", tag = "jobs",
    security((), ("token" = ["read:{id}"])),
    responses((status = 200, description = "the reason, also for a job that is not there", body = schema::Explanation))
)]
pub async fn explain(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(id): Names<String>,
) -> Answer {
    let id: JobId = id.parse()?;
    let explanation = match own(&app, &caller, id).await? {
        true => app.service.explain(Which::Id(id)).await?,
        // What is said of a job that never was.
        false => auxo_core::explain::explain(None, None, unwatched(&app)),
    };
    ok(&show::explanation(&explanation))
}

/// Say who has a key, and why that job is not running
#[utoipa::path(
    get, path = "/v1/queues/{queue}/keys/{key}/explain", tag = "jobs",
    security((), ("token" = ["read:{queue}"])),
    responses((status = 200, description = "the reason, also for a key that is free", body = schema::Explanation))
)]
pub async fn explain_key(
    State(app): State<Arc<App>>,
    InQueueKey(queue, key): InQueueKey,
) -> Answer {
    let which = Which::Key(queue, key);
    ok(&show::explanation(&app.service.explain(which).await?))
}

/// Make a dead or scheduled job ready now
#[utoipa::path(
    post, path = "/v1/jobs/{id}/kick", tag = "jobs",
    security((), ("token" = ["operate:{id}"])),
    responses(
        (status = 200, description = "its state now", body = schema::Moved),
        (status = 404, description = "there is no such job", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "not in the state it is in", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn kick(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(id): Names<String>,
    body: Body,
) -> Answer {
    body.nothing()?;
    steer(&app, &caller, id.parse()?, Action::Kick).await
}

/// Call a job off
///
/// A leased job is flagged: its worker learns of it at the next extend.
#[utoipa::path(
    post, path = "/v1/jobs/{id}/cancel", tag = "jobs",
    security((), ("token" = ["operate:{id}"])),
    responses(
        (status = 200, description = "its state now", body = schema::Moved),
        (status = 404, description = "there is no such job", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "not in the state it is in", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn cancel(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(id): Names<String>,
    body: Body,
) -> Answer {
    body.nothing()?;
    steer(&app, &caller, id.parse()?, Action::Cancel).await
}

/// Give a waiting or dead job another due time
#[utoipa::path(
    post, path = "/v1/jobs/{id}/reschedule", tag = "jobs",
    security((), ("token" = ["operate:{id}"])),
    request_body = schema::When,
    responses(
        (status = 200, description = "its state now", body = schema::Moved),
        (status = 404, description = "there is no such job", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "not in the state it is in", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn reschedule(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(id): Names<String>,
    body: Body,
) -> Answer {
    let when = read::when(&body.bytes)?;
    steer(&app, &caller, id.parse()?, Action::Reschedule(when)).await
}

/// Delete a job that is not leased
#[utoipa::path(
    delete, path = "/v1/jobs/{id}", operation_id = "delete_job", tag = "jobs",
    security((), ("token" = ["operate:{id}"])),
    responses(
        (status = 200, description = "it is gone", body = schema::Moved),
        (status = 404, description = "there is no such job", body = schema::Problem, content_type = "application/problem+json"),
        (status = 409, description = "it is leased", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(id): Names<String>,
    body: Body,
) -> Answer {
    body.nothing()?;
    steer(&app, &caller, id.parse()?, Action::Delete).await
}

fn unwatched(app: &App) -> Watch {
    let now = app.service.now();
    Watch { since: None, now }
}

async fn steer(app: &App, caller: &Caller, id: JobId, action: Action) -> Answer {
    let order = Order {
        target: Target::Jobs(vec![id]),
        action,
        mode: Mode::Act,
    };
    let state = single(steer_own(app, caller, order).await?.results)?;
    ok(&json!({ "id": id.to_string(), "state": state.as_str() }))
}

/// Whether a job is in a queue of the caller. Of one that is not it is said what is said of a job that never was, so that
/// nobody learns of jobs by trying their ids.
async fn own(app: &App, caller: &Caller, id: JobId) -> Result<bool, Error> {
    if caller.may_everywhere() {
        return Ok(true);
    }
    let job = app.service.find(Which::Id(id)).await?;
    Ok(job.is_some_and(|job| caller.may(&job.queue)))
}

/// Moves jobs, as far as they are in queues of the caller, and writes it down.
pub async fn steer_own(app: &App, caller: &Caller, order: Order) -> Result<Steered, Error> {
    if let Target::Matching(query) = &order.target {
        caller.check_filter(query.filter.queue.as_ref())?;
    }
    if order.mode == Mode::DryRun {
        return steer_visible(app, caller, order).await;
    }
    let what = Move::order(&order);
    let steer = steer_visible(app, caller, order);
    app.trail
        .noted(caller, what, steer, |steered| steered.moved)
        .await
}

async fn steer_visible(app: &App, caller: &Caller, order: Order) -> Result<Steered, Error> {
    let ids = match &order.target {
        Target::Jobs(ids) if !caller.may_everywhere() => ids.clone(),
        _ => return app.service.steer(order).await,
    };
    let owned = join_all(ids.iter().map(|id| own(app, caller, *id))).await;
    let owned: Vec<bool> = owned.into_iter().collect::<Result<_, _>>()?;
    let mine = ids.iter().zip(&owned).filter(|(_, own)| **own);
    let order = Order {
        target: Target::Jobs(mine.map(|(id, _)| *id).collect()),
        ..order
    };
    let mut steered = match order.target == Target::Jobs(Vec::new()) {
        true => Steered::default(),
        false => app.service.steer(order).await?,
    };
    let mut results = std::mem::take(&mut steered.results).into_iter();
    let result = |(id, own): (&JobId, bool)| match own {
        true => results.next(),
        false => Some(Err(refusal::no_job(*id))),
    };
    steered.results = ids.iter().zip(owned).filter_map(result).collect();
    Ok(steered)
}
