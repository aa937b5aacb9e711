//! Jobs out.

use std::sync::Arc;

use auxo_core::json::{read, show};
use auxo_core::{Code, Error};
use axum::extract::State;

use super::ok;
use crate::app::App;
use crate::auth::Caller;
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
    for queue in &ask.queues {
        caller.check(queue)?;
    }
    // A waiting call may wait for a minute; its body need not take room for so long.
    drop(body);
    let names = u32::try_from(ask.queues.len()).unwrap_or(u32::MAX);
    let _room = app
        .names
        .clone()
        .try_acquire_many_owned(names)
        .map_err(|_| {
            let message = "too many calls wait in too many queues; name fewer, or try again";
            Error::new(Code::Unavailable, message)
        })?;
    let jobs = tokio::select! {
        biased;
        jobs = app.service.lease(ask) => jobs?,
        // Dropping the call gives back what it was about to return.
        () = app.stopped() => Vec::new(),
        () = app.auth.revoked(caller.identity()) => Vec::new(),
    };
    ok(&show::leases(&jobs))
}
