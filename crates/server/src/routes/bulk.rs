//! An operator's move on many jobs.

use std::sync::Arc;

use auxo_core::json::{read, show};
use axum::extract::State;

use super::ok;
use crate::app::App;
use crate::auth::Caller;
use crate::calls;
use crate::extract::Body;
use crate::problem::Answer;
use crate::schema;

/// Kick, cancel, delete or reschedule many jobs
///
/// On named jobs, or on those that match a filter. With a filter each call goes one bounded step; send the same order with
/// `next_cursor` until that is null. With reschedule, give `run_at` rather than `delay`, so that all steps mean the same.
#[utoipa::path(
    post, path = "/v1/jobs:bulk", tag = "jobs",
    security((), ("token" = ["operate:{ids or filter}"])),
    request_body = schema::Order,
    responses((status = 200, description = "what was moved", body = schema::Steered))
)]
pub async fn bulk(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Answer {
    let order = read::order(&body.bytes)?;
    let mode = order.mode;
    let steered = calls::jobs::steer(&app, &caller, order).await?;
    ok(&show::steered(&steered, mode))
}
