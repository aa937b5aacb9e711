//! Queues: how they stand, and how they are set.

use std::sync::Arc;

use auxo_core::json::{read, show};
use auxo_core::queue::QueueConfig;
use auxo_core::{Error, QueueName, State as JobState, text};
use axum::extract::State;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{listed_with, ok};
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::{Body, InQueue};
use crate::problem::Answer;
use crate::schema;

/// Show all queues
///
/// Where a part of the store cannot be reached, such as a lost shard of a Redis cluster, the queues of the other parts are shown, and
/// `unavailable` names what is missing.
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    security((), ("token" = ["read:*"])),
    responses((status = 200, description = "the queues in the order of their names", body = schema::Queues))
)]
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    let (list, forgotten) = calls::queues::list(&app, &caller, None).await?;
    let mut more = Vec::new();
    if !list.unavailable.is_empty() {
        let missing: Vec<_> = list.unavailable.iter().map(show::outage).collect();
        more.push(("unavailable", json!(missing)));
    }
    if !forgotten.is_empty() {
        more.push(("forgotten", show::books(&forgotten)));
    }
    listed_with("queues", list.queues.iter().map(show::queue), &more)
}

/// Show a queue
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "show_queue", tag = "queues",
    security((), ("token" = ["read:{queue}"])),
    responses(
        (status = 200, description = "the queue", body = schema::Queue),
        (status = 404, description = "there is no such queue", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show(State(app): State<Arc<App>>, caller: Caller, InQueue(queue): InQueue) -> Answer {
    let info = calls::queues::show(&app, &caller, queue).await?;
    ok(&show::queue(&info))
}

/// Change a queue's settings, and make the queue if need be
///
/// What is left out stays as it is; a limit that is null is taken away.
#[utoipa::path(
    put, path = "/v1/queues/{queue}", operation_id = "set_queue", tag = "queues",
    security((), ("token" = ["operate:{queue}"])),
    request_body = schema::QueueConfig,
    responses(
        (status = 200, description = "the queue", body = schema::Queue),
        (status = 409, description = "the store has fewer shards than that", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn set(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Answer {
    let change = |base| read::queue_config(&body.bytes, base);
    let info = calls::queues::set(&app, &caller, queue, change).await?;
    ok(&show::queue(&info))
}

/// Pause a queue: no jobs in, none out
///
/// Running leases go on.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", tag = "queues",
    security((), ("token" = ["operate:{queue}"])),
    request_body = Option<schema::Pause>,
    responses(
        (status = 200, description = "the queue", body = schema::Queue),
        (status = 404, description = "there is no such queue", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn pause(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Answer {
    set_paused(&app, &caller, queue, &body, true).await
}

/// Resume a queue
#[utoipa::path(
    post, path = "/v1/queues/{queue}/resume", tag = "queues",
    security((), ("token" = ["operate:{queue}"])),
    request_body = Option<schema::Side>,
    responses(
        (status = 200, description = "the queue", body = schema::Queue),
        (status = 404, description = "there is no such queue", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn resume(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Answer {
    set_paused(&app, &caller, queue, &body, false).await
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Purge {
    states: Option<Vec<String>>,
}

async fn set_paused(
    app: &App,
    caller: &Caller,
    queue: QueueName,
    body: &Body,
    paused: bool,
) -> Answer {
    let read::Pause { side, span } = read::pause(&body.bytes)?;
    let change = |config: &mut QueueConfig| match span {
        Some(_) if !paused => Err(Error::bad_request("for: a queue is not resumed for a time")),
        Some(span) => config.pause_for(side, span),
        None => {
            config.set_paused(side.unwrap_or_default(), paused);
            Ok(())
        }
    };
    let call = if paused { "pause" } else { "resume" };
    let info = calls::queues::change(app, caller, call, queue, change).await?;
    ok(&show::queue(&info))
}

/// Delete a queue's jobs, except those that are leased
///
/// It goes on until nothing is left, or until the client closes the connection.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/purge", tag = "queues",
    security((), ("token" = ["operate:{queue}"])),
    request_body = Option<schema::Purge>,
    responses((status = 200, description = "how many jobs were deleted", body = schema::Purged))
)]
pub async fn purge(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Answer {
    let states = optional::<Purge>(&body)?.states.unwrap_or_default();
    let states: Result<Vec<JobState>, Error> = states.iter().map(|state| state.parse()).collect();
    let purged = calls::queues::purge(&app, &caller, queue, states?).await?;
    ok(&json!({ "purged": purged }))
}

/// A body that may be left out.
fn optional<T: Default + DeserializeOwned>(body: &Body) -> Result<T, Error> {
    if body.bytes.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    // A list would be taken for the fields in their order.
    if body.bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Error::bad_request("the body: expected an object"));
    }
    let read = serde_json::from_slice::<Option<T>>(&body.bytes);
    read.map(Option::unwrap_or_default).map_err(|error| {
        // It quotes what it does not know, however long that is.
        let mut error = text::one_line(&error.to_string());
        error.truncate(error.floor_char_boundary(200));
        Error::bad_request(format!("the body: {error}"))
    })
}
