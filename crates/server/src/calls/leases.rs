//! Jobs out, and how leases end and go on.

use std::collections::HashSet;

use auxo_core::engine::{Ask, Extend, Extended, Settle, Settled, Which};
use auxo_core::job::Leased;
use auxo_core::{Result, Token, refusal};
use futures_util::future::join_all;

use super::jobs::owns;
use crate::app::App;
use crate::auth::Caller;
use crate::names::{Holder, Room};

/// Lends jobs, or waits for some until the server stops or the caller's token is no longer right.
pub async fn lease(app: &App, caller: &Caller, mut ask: Ask) -> Result<Vec<Leased>> {
    caller.check_all(&ask.queues)?;
    if let Some(id) = ask.job
        && !owns(app, caller, id).await?
    {
        // What is handed out of a job that never was.
        return Ok(Vec::new());
    }
    let _room = room_for_names(app, caller, &mut ask)?;
    tokio::select! {
        biased;
        jobs = app.service.lease(ask) => jobs,
        // Dropping the call gives back what it was about to return.
        () = app.stopped() => Ok(Vec::new()),
        () = app.auth.revoked(caller.identity()) => Ok(Vec::new()),
    }
}

/// Room for the names of a call, if it waits. Too many are too many, though some of them may be the same.
pub fn room_for_names(app: &App, caller: &Caller, ask: &mut Ask) -> Result<Option<Room>> {
    app.service.limits().check_ask(ask)?;
    let holder = || Holder::of(Some(caller.identity()), caller.from());
    app.names.take(ask, holder)
}

/// Ends leases. Those in `known` were given to this very caller.
pub async fn settle(
    app: &App,
    caller: &Caller,
    items: Vec<Result<Settle>>,
    known: &HashSet<Token>,
) -> Result<Vec<Result<Settled>>> {
    let items = own(app, caller, items, |item| item.token, known).await?;
    app.service.settle_each(items).await
}

/// Prolongs leases. Those in `known` were given to this very caller.
pub async fn extend(
    app: &App,
    caller: &Caller,
    items: Vec<Result<Extend>>,
    known: &HashSet<Token>,
) -> Result<Vec<Result<Extended>>> {
    let items = own(app, caller, items, |item| item.token, known).await?;
    app.service.extend_each(items).await
}

/// The items whose leases are in queues of the caller; of the others it is said what is said of a lease that never was.
///
/// Whoever has the token of a lease got it from us, but perhaps by way of another. So the queue is looked up, which is one look
/// at the job for each item, unless the caller may lease everywhere or is known to have the lease.
async fn own<T>(
    app: &App,
    caller: &Caller,
    items: Vec<Result<T>>,
    token: impl Fn(&T) -> Token,
    known: &HashSet<Token>,
) -> Result<Vec<Result<T>>> {
    if caller.may_everywhere() {
        return Ok(items);
    }
    let look = async |item: Result<T>| {
        let Ok(item) = item else {
            return Ok(item);
        };
        let token = token(&item);
        if known.contains(&token) {
            return Ok(Ok(item));
        }
        let job = app.service.find(Which::Id(token.job)).await?;
        let own = job.is_some_and(|job| caller.may(&job.queue));
        Ok(own
            .then_some(item)
            .ok_or_else(|| refusal::lease_lost(token.job)))
    };
    join_all(items.into_iter().map(look))
        .await
        .into_iter()
        .collect()
}
