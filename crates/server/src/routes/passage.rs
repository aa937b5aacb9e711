//! Jobs that leave for another store, and jobs that come from one.

use std::sync::Arc;

use auxo_core::json::passage as json;
use auxo_core::json::read;
use auxo_core::passage::Departure;
use axum::extract::State;

use super::ok;
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::{Body, InQueue, Pairs};
use crate::problem::Answer;
use crate::schema;

/// Show jobs with their whole life, to move them to another store
///
/// All that are not leased, also those of which only the key is left. Go on with `next_cursor` until it is null.
#[utoipa::path(
    get, path = "/v1/queues/{queue}/passages", operation_id = "passages", tag = "moving",
    security((), ("token" = ["admin:{queue}"])),
    params(
        ("cursor" = Option<String>, Query, description = "where to go on"),
        ("limit" = Option<u32>, Query, description = "how many at most: 100 unless said, 1,000 at most"),
    ),
    responses((status = 200, description = "a page", body = schema::Passages))
)]
pub async fn passages(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    Pairs(pairs): Pairs,
) -> Answer {
    let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
    let (cursor, limit) = read::page_pairs(pairs)?;
    let departure = Departure {
        queue,
        cursor,
        limit,
    };
    let passages = calls::stores::passages(&app, &caller, departure).await?;
    ok(&json::show_passages(&passages))
}

/// Remove jobs that are at another store now
///
/// As if they had never been here. A job that is leased, or has changed since it was shown, stays.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/depart", operation_id = "depart", tag = "moving",
    security((), ("token" = ["admin:{queue}"])),
    request_body = schema::Departure,
    responses((status = 200, description = "for each job whether it has left", body = schema::Departed))
)]
pub async fn depart(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Answer {
    let jobs = json::read_leaving(&body.bytes, app.service.limits().batch)?;
    let departed = calls::stores::depart(&app, &caller, queue, jobs).await?;
    ok(&json::show_departed(&departed))
}

/// Take jobs of another store in
///
/// All in one step with the note that they are here, so that a move which was broken off can go on. A job keeps its id if that is
/// free; one whose key is taken is refused, and the others go on. Limits and pauses of the queue do not keep them out.
#[utoipa::path(
    post, path = "/v1/queues/{queue}/adopt", operation_id = "adopt", tag = "moving",
    security((), ("token" = ["admin:{queue}"])),
    request_body = schema::Adoption,
    responses(
        (status = 200, description = "how the move stands", body = schema::Adopted),
        (status = 409, description = "another run began later, or jobs of this queue are on their way to another store", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn adopt(
    State(app): State<Arc<App>>,
    caller: Caller,
    InQueue(queue): InQueue,
    body: Body,
) -> Answer {
    let adoption = json::read_adoption(queue, &body.bytes, app.service.limits().batch)?;
    let adopted = calls::stores::adopt(&app, &caller, adoption).await?;
    ok(&json::show_adopted(&adopted))
}
