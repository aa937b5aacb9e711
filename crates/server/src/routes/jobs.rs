//! One job, a page of jobs, and an operator's moves on one.

use std::sync::Arc;

use auxo_core::engine::{Action, Mode, Order, Target, Which};
use auxo_core::json::{read, show};
use auxo_core::{Error, JobId, QueueName};
use axum::extract::State;
use serde_json::json;

use super::{ok, single};
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::{Body, Names, Pairs};
use crate::problem::Answer;
use crate::schema;

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
    ok(&show::page(&calls::jobs::list(&app, &caller, query).await?))
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
    let job = calls::jobs::find(&app, &caller, Which::Id(id)).await?;
    ok(&show::job(&job))
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
pub async fn show_key(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names((queue, key)): Names<(String, String)>,
) -> Answer {
    let which = Which::Key(QueueName::new(&queue)?, key);
    let job = calls::jobs::find(&app, &caller, which).await?;
    ok(&show::job(&job))
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
    let which = Which::Id(id.parse()?);
    let explanation = calls::jobs::explain(&app, &caller, which).await?;
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
    caller: Caller,
    Names((queue, key)): Names<(String, String)>,
) -> Answer {
    let which = Which::Key(QueueName::new(&queue)?, key);
    let explanation = calls::jobs::explain(&app, &caller, which).await?;
    ok(&show::explanation(&explanation))
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

async fn steer(app: &App, caller: &Caller, id: JobId, action: Action) -> Answer {
    let order = Order {
        target: Target::Jobs(vec![id]),
        action,
        mode: Mode::Act,
    };
    let state = single(calls::jobs::steer(app, caller, order).await?.results)?;
    ok(&json!({ "id": id.to_string(), "state": state.as_str() }))
}
