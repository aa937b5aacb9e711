//! Queues: how they stand, and how they are set.

use std::sync::Arc;

use auxo_core::engine::Change;
use auxo_core::json::{read, show, write};
use auxo_core::queue::{self, QueueConfig, QueueInfo};
use auxo_core::{Code, Error, QueueName, State as JobState, text};
use axum::extract::State;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{listed, ok};
use crate::app::App;
use crate::auth::Caller;
use crate::extract::{Body, InQueue};
use crate::problem::Answer;
use crate::schema;
use crate::trail::Move;

/// Show all queues
#[utoipa::path(
    get, path = "/v1/queues", operation_id = "list_queues", tag = "queues",
    security((), ("token" = ["read:*"])),
    responses((status = 200, description = "the queues in the order of their names", body = schema::Queues))
)]
pub async fn list(State(app): State<Arc<App>>) -> Answer {
    let _turn = app.listing.lock().await;
    let queues = app.service.queues(None).await?;
    listed("queues", queues.iter().map(show::queue))
}

/// Show a queue
#[utoipa::path(
    get, path = "/v1/queues/{queue}", operation_id = "show_queue", tag = "queues",
    security((), ("token" = ["read:{queue}"])),
    responses(
        (status = 200, description = "the queue", body = schema::Queue),
        (status = 404, description = "there never was such a queue", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn show(State(app): State<Arc<App>>, InQueue(queue): InQueue) -> Answer {
    ok(&show::queue(&existing(&app, queue).await?))
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
    let _alone = app.changing.lock().await;
    let base = look(&app, queue.clone()).await?;
    let base = base.map(|info| info.config).unwrap_or_default();
    let config = read::queue_config(&body.bytes, base)?;
    change(&app, &caller, "set_queue", queue, config).await
}

/// Pause a queue: no jobs in, none out
///
/// Running leases go on.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/pause", tag = "queues",
    security((), ("token" = ["operate:{queue}"])),
    request_body = Option<schema::Side>,
    responses(
        (status = 200, description = "the queue", body = schema::Queue),
        (status = 404, description = "there never was such a queue", body = schema::Problem, content_type = "application/problem+json"),
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
        (status = 404, description = "there never was such a queue", body = schema::Problem, content_type = "application/problem+json"),
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

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum What {
    In,
    Out,
    Both,
}

impl From<What> for queue::Side {
    fn from(what: What) -> queue::Side {
        match what {
            What::In => queue::Side::In,
            What::Out => queue::Side::Out,
            What::Both => queue::Side::Both,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Side {
    what: Option<What>,
    r#for: Option<String>,
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
    let Side { what, r#for } = optional(body)?;
    let side = what.map(queue::Side::from);
    let _alone = app.changing.lock().await;
    let mut config = existing(app, queue.clone()).await?.config;
    match r#for {
        Some(_) if !paused => {
            let text = "for: a queue is not resumed for a time";
            return Err(Error::bad_request(text).into());
        }
        Some(span) => config.pause_for(side, text::parse_duration(&span)?)?,
        None => config.set_paused(side.unwrap_or_default(), paused),
    }
    let call = if paused { "pause" } else { "resume" };
    change(app, caller, call, queue, config).await
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
    let states = states?;
    let named: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let what = Move::new("purge").queue(&queue).with("states", named);
    let purge = app.service.purge(queue, states, |_| ());
    let purged = app
        .trail
        .noted(&caller, what, purge, |purged| *purged)
        .await?;
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

async fn look(app: &App, queue: QueueName) -> Result<Option<QueueInfo>, Error> {
    let found = app.service.queues(Some(vec![queue])).await?;
    Ok(found.into_iter().next())
}

async fn existing(app: &App, queue: QueueName) -> Result<QueueInfo, Error> {
    let missing = format!("there is no queue {queue}");
    let found = look(app, queue).await?;
    found.ok_or_else(|| Error::new(Code::NotFound, missing))
}

async fn change(
    app: &App,
    caller: &Caller,
    call: &str,
    queue: QueueName,
    config: QueueConfig,
) -> Answer {
    let what = Move::new(call).queue(&queue);
    let what = what.with("settings", write::queue_config(&config));
    let change = app.service.change(Change::Queue(queue.clone(), config));
    app.trail.noted(caller, what, change, |()| 1).await?;
    ok(&show::queue(&existing(app, queue).await?))
}
