//! Recurring jobs.

use std::sync::Arc;

use auxo_core::json::{read, show};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use super::{listed, ok};
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::{Body, Names, Pairs};
use crate::problem::Answer;
use crate::schema;

/// Show all schedules
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules",
    security((), ("token" = ["read:*"])),
    responses((status = 200, description = "the schedules in the order of their names", body = schema::Schedules))
)]
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    let all = calls::schedules::list(&app, &caller).await?;
    listed("schedules", all.iter().map(show::schedule))
}

/// Show a schedule
#[utoipa::path(
    get, path = "/v1/schedules/{name}", operation_id = "show_schedule", tag = "schedules",
    security((), ("token" = ["read:{its queue}"])),
    responses(
        (status = 200, description = "the schedule", body = schema::Schedule),
        (status = 404, description = "there is no such schedule", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(name): Names<String>,
) -> Answer {
    let schedule = calls::schedules::find(&app, &caller, &name).await?;
    ok(&show::schedule(&schedule))
}

/// Add or replace a schedule
///
/// Its next tick is computed from now; with `armed` it goes on with the ticks that are named there.
#[utoipa::path(
    put, path = "/v1/schedules/{name}", operation_id = "set_schedule", tag = "schedules",
    security((), ("token" = ["operate:{its queue}"])),
    request_body = schema::NewSchedule,
    responses((status = 200, description = "the schedule with its next tick", body = schema::Schedule))
)]
pub async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(name): Names<String>,
    body: Body,
) -> Answer {
    let change = read::schedule_change(&name, &body.bytes)?;
    let schedule = calls::schedules::put(&app, &caller, change).await?;
    ok(&show::schedule(&schedule))
}

/// Remove a schedule
///
/// The jobs that it made stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{name}", operation_id = "delete_schedule", tag = "schedules",
    security((), ("token" = ["operate:{its queue}"])),
    params(
        ("last" = Option<String>, Query, description = "only if this was its last tick: a time, or `never`"),
    ),
    responses(
        (status = 204, description = "it is gone"),
        (status = 409, description = "its last tick is another one", body = schema::Problem, content_type = "application/problem+json"),
        (status = 404, description = "there is no such schedule", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(name): Names<String>,
    Pairs(pairs): Pairs,
    body: Body,
) -> Answer {
    body.nothing()?;
    let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
    let change = read::unschedule(name.clone(), pairs)?;
    calls::schedules::delete(&app, &caller, &name, change).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
