//! Recurring jobs.

use std::sync::Arc;

use auxo_core::engine::Change;
use auxo_core::json::{read, show};
use auxo_core::schedule::Schedule;
use auxo_core::{Code, Error};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;

use super::{listed, ok};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, Names, Pairs};
use crate::problem::Answer;
use crate::schema;
use crate::trail::Move;

/// Show all schedules
#[utoipa::path(
    get, path = "/v1/schedules", operation_id = "list_schedules", tag = "schedules",
    security((), ("token" = ["read:*"])),
    responses((status = 200, description = "the schedules in the order of their names", body = schema::Schedules))
)]
pub async fn list(State(app): State<Arc<App>>) -> Answer {
    let _turn = app.listing.lock().await;
    let all = app.service.catalog().await?.schedules;
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
    ok(&show::schedule(&find(&app, &caller, &name).await?))
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
    let mut what = Move::new("set_schedule").with("name", &*name);
    if let Change::Schedule(schedule) | Change::Arm(schedule) = &change {
        caller.check(&schedule.queue)?;
        what = what.queue(&schedule.queue);
    }
    let _alone = app.changing.lock().await;
    check_replaced(&app, &caller, &name).await?;
    let change = app.service.change(change);
    app.trail.noted(&caller, what, change, |()| 1).await?;
    ok(&show::schedule(&find(&app, &caller, &name).await?))
}

/// Refuses to take the place of a schedule in a queue that is not the caller's.
async fn check_replaced(app: &App, caller: &Caller, name: &str) -> Result<(), Error> {
    if caller.may_everywhere() {
        return Ok(());
    }
    match look(app, name).await? {
        Some(old) if !caller.may(&old.queue) => Err(Error::new(
            Code::Forbidden,
            "another schedule has this name, and this token may not change it; choose another name",
        )),
        _ => Ok(()),
    }
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
    let _alone = app.changing.lock().await;
    if !caller.may_everywhere() {
        find(&app, &caller, &name).await?;
    }
    let what = Move::new("delete_schedule").with("name", &*name);
    let change = app.service.change(change);
    app.trail.noted(&caller, what, change, |()| 1).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// A schedule in a queue of the caller.
async fn find(app: &App, caller: &Caller, name: &str) -> Result<Schedule, Error> {
    let found = look(app, name).await?;
    let found = found.filter(|schedule| caller.may(&schedule.queue));
    found.ok_or_else(|| Error::new(Code::NotFound, "there is no schedule with this name"))
}

async fn look(app: &App, name: &str) -> Result<Option<Schedule>, Error> {
    // It is found in a copy of all of them.
    let _turn = app.listing.lock().await;
    let all = app.service.catalog().await?.schedules;
    Ok(all.into_iter().find(|schedule| schedule.name == name))
}
