//! How leases end and go on.

use std::sync::Arc;

use auxo_core::engine::{Extend, Settle, Which};
use auxo_core::json::read::{self, Batch};
use auxo_core::json::show;
use auxo_core::{Error, Token, refusal};
use axum::extract::State;
use futures_util::future::join_all;

use super::{ok, single};
use crate::app::App;
use crate::auth::Caller;
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
    let token = |item: &Settle| item.token;
    match read::settles(&body.bytes, app.service.limits().batch)? {
        Batch::One(item) => {
            let items = own(&app, &caller, vec![Ok(item?)], token).await?;
            let settled = single(app.service.settle_each(items).await?)?;
            ok(&show::settled(&settled))
        }
        Batch::Many(items) => {
            let items = own(&app, &caller, items, token).await?;
            let answers = app.service.settle_each(items).await?;
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
    let token = |item: &Extend| item.token;
    match read::extends(&body.bytes, app.service.limits().batch)? {
        Batch::One(item) => {
            let items = own(&app, &caller, vec![Ok(item?)], token).await?;
            let extended = single(app.service.extend_each(items).await?)?;
            ok(&show::extended(&extended))
        }
        Batch::Many(items) => {
            let items = own(&app, &caller, items, token).await?;
            let answers = app.service.extend_each(items).await?;
            ok(&show::results(&answers, show::extended))
        }
    }
}

/// The items whose leases are in queues of the caller; of the others it is said what is said of a lease that never was.
///
/// Whoever has the token of a lease got it from us, but perhaps by way of another. So the queue is looked up, which is one look
/// at the job for each item, unless the caller may lease everywhere.
async fn own<T>(
    app: &App,
    caller: &Caller,
    items: Vec<Result<T, Error>>,
    token: impl Fn(&T) -> Token,
) -> Result<Vec<Result<T, Error>>, Error> {
    if caller.may_everywhere() {
        return Ok(items);
    }
    let look = async |item: Result<T, Error>| {
        let Ok(item) = item else {
            return Ok(item);
        };
        let id = token(&item).job;
        let job = app.service.find(Which::Id(id)).await?;
        let own = job.is_some_and(|job| caller.may(&job.queue));
        Ok(own.then_some(item).ok_or_else(|| refusal::lease_lost(id)))
    };
    join_all(items.into_iter().map(look))
        .await
        .into_iter()
        .collect()
}
