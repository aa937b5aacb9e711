//! Jobs out.

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

/// Lease jobs
///
/// From the first of the queues that has any. With `wait` it waits for a job, and answers at once when one is there; an
/// empty list means that there was none. A client that closes the connection while it waits gets no job.
#[utoipa::path(
    post, path = "/v1/lease", tag = "work",
    security((), ("token" = ["lease:{queues}"])),
    request_body = schema::Ask,
    responses((status = 200, description = "the jobs, each with its token", body = schema::Leases))
)]
pub async fn lease(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Answer {
    let ask = read::ask(&body.bytes)?;
    // It may wait for long, and what it asked for is known.
    drop(body);
    ok(&show::leases(
        &calls::leases::lease(&app, &caller, ask).await?,
    ))
}
