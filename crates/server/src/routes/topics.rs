//! Topics and their subscriptions.

use std::sync::Arc;

use auxo_core::json::{read, show};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde_json::json;

use super::{listed, ok};
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::{Body, Names};
use crate::problem::Answer;
use crate::schema;

/// Show all subscriptions
#[utoipa::path(
    get, path = "/v1/topics", operation_id = "list_subscriptions", tag = "topics",
    security((), ("token" = ["read:*"])),
    responses((status = 200, description = "the subscriptions of all topics", body = schema::Subscriptions))
)]
pub async fn list(State(app): State<Arc<App>>, caller: Caller) -> Answer {
    let all = calls::topics::list(&app, &caller).await?;
    listed("subscriptions", all.iter().map(show::subscription))
}

/// Add or replace a subscription
#[utoipa::path(
    put, path = "/v1/topics/{topic}/subscriptions/{name}", tag = "topics",
    security((), ("token" = ["operate:*"])),
    request_body = schema::NewSubscription,
    responses((status = 200, description = "the subscription", body = schema::Subscription))
)]
pub async fn subscribe(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names((topic, name)): Names<(String, String)>,
    body: Body,
) -> Answer {
    let subscription = read::subscription(&topic, &name, &body.bytes)?;
    calls::topics::subscribe(&app, &caller, subscription.clone()).await?;
    ok(&show::subscription(&subscription))
}

/// Remove a subscription
///
/// Its queue and its jobs stay.
#[utoipa::path(
    delete, path = "/v1/topics/{topic}/subscriptions/{name}", tag = "topics",
    security((), ("token" = ["operate:*"])),
    responses(
        (status = 204, description = "it is gone"),
        (status = 404, description = "there is no such subscription", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn unsubscribe(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names((topic, name)): Names<(String, String)>,
    body: Body,
) -> Answer {
    body.nothing()?;
    calls::topics::unsubscribe(&app, &caller, topic, name).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Publish a message: one job for each subscription that wants it
#[utoipa::path(
    post, path = "/v1/topics/{topic}/messages", tag = "topics",
    security((), ("token" = ["push:*"])),
    request_body = schema::Message,
    responses(
        (status = 200, description = "the jobs; none if nobody wants it", body = schema::Published),
        (status = 409, description = "a key is taken, or a queue is paused; nothing was pushed", body = schema::Problem, content_type = "application/problem+json"),
        (status = 429, description = "a queue or the disk is full; nothing was pushed", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn publish(
    State(app): State<Arc<App>>,
    caller: Caller,
    Names(topic): Names<String>,
    body: Body,
) -> Answer {
    let message = read::message(&topic, &body.bytes)?;
    let pushed = calls::topics::publish(&app, &caller, message).await?;
    let jobs: Vec<_> = pushed.iter().map(show::pushed).collect();
    ok(&json!({ "jobs": jobs }))
}
