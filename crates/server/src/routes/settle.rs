//! How leases end and go on.

use std::collections::HashSet;
use std::sync::Arc;

use auxo_core::json::read::{self, Batch};
use auxo_core::json::show;
use axum::extract::State;

use super::{ok, single};
use crate::app::App;
use crate::auth::Caller;
use crate::calls::leases;
use crate::extract::Body;
use crate::problem::Answer;
use crate::schema;

/// Settle leases: ack, fail, release, bury or snooze
///
/// An array is answered item by item; one object is answered alone, with its own status.
#[utoipa::path(
    post, path = "/v1/settle", tag = "work",
    security((), ("token" = ["lease:{token}"])),
    request_body = schema::Settles,
    responses(
        (status = 200, description = "what became of the jobs", body = schema::SettleAnswer),
        (status = 409, description = "the lease is over", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn settle(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Answer {
    let known = HashSet::new();
    match read::settles(&body.bytes, app.service.limits().batch)? {
        Batch::One(item) => {
            let items = vec![Ok(item?)];
            let settled = single(leases::settle(&app, &caller, items, &known).await?)?;
            ok(&show::settled(&settled))
        }
        Batch::Many(items) => {
            let answers = leases::settle(&app, &caller, items, &known).await?;
            ok(&show::results(&answers, show::settled))
        }
    }
}

/// Extend leases
///
/// The answer says whether somebody wants the job cancelled. An array is answered item by item; one object is answered
/// alone, with its own status.
#[utoipa::path(
    post, path = "/v1/extend", tag = "work",
    security((), ("token" = ["lease:{token}"])),
    request_body = schema::Extends,
    responses(
        (status = 200, description = "the new deadlines", body = schema::ExtendAnswer),
        (status = 409, description = "the lease is over", body = schema::Problem, content_type = "application/problem+json"),
    )
)]
pub async fn extend(State(app): State<Arc<App>>, caller: Caller, body: Body) -> Answer {
    let known = HashSet::new();
    match read::extends(&body.bytes, app.service.limits().batch)? {
        Batch::One(item) => {
            let items = vec![Ok(item?)];
            let extended = single(leases::extend(&app, &caller, items, &known).await?)?;
            ok(&show::extended(&extended))
        }
        Batch::Many(items) => {
            let answers = leases::extend(&app, &caller, items, &known).await?;
            ok(&show::results(&answers, show::extended))
        }
    }
}
