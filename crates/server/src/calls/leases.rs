//! Jobs out, and how leases end and go on.

use std::collections::HashSet;

use auxo_core::engine::{Ask, Extend, Extended, Holds, NamedJob, Settle, Settled, Which};
use auxo_core::job::Leased;
use auxo_core::{Code, Error, JobId, Result, Token, refusal};
use futures_util::future::join_all;

use super::jobs::{look_up, owns};
use crate::app::App;
use crate::auth::{Caller, Right};
use crate::names::{Holder, Room};
use crate::trail::{Move, Who};

/// Lends jobs, or waits for some until the server stops or the caller's token is no longer right.
pub async fn lease(app: &App, caller: &Caller, mut ask: Ask) -> Result<Vec<Leased>> {
    caller.check_all(&ask.queues)?;
    if let Some(named) = ask.job {
        return lease_named(app, caller, ask, named.id).await;
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

/// Lends a job that is named. One that its queue would hand out needs `lease`. One that is held back (it is not due, or dead, its queue is
/// paused or has reached a limit) needs `operate`, and is written down: who takes it overrides what somebody has set up.
pub async fn lease_named(app: &App, caller: &Caller, ask: Ask, id: JobId) -> Result<Vec<Leased>> {
    if !owns(app, caller, id).await? {
        // What is handed out of a job that never was.
        return Ok(Vec::new());
    }
    let held = match lease_unless_held(app, ask.clone(), id).await? {
        Ok(leased) => return Ok(leased),
        Err(held) => held,
    };
    let operator = caller.with(Right::Operate);
    if !operator.may_everywhere() {
        let Some(job) = app.service.find(Which::Id(id)).await? else {
            return Ok(Vec::new());
        };
        if !operator.may(&job.queue) {
            app.metrics.denied("forbidden");
            let message = format!(
                "{}; to lease it all the same, the token {} would need operate:{}",
                held.message(),
                caller.identity().name(),
                job.queue
            );
            return Err(Error::new(Code::Forbidden, message));
        }
    }
    lease_past_holds(app, caller, ask, id).await
}

/// Lends a job that is named, unless something holds it back: then it says what.
pub async fn lease_unless_held(
    app: &App,
    ask: Ask,
    id: JobId,
) -> Result<Result<Vec<Leased>, Error>> {
    let named = NamedJob {
        id,
        holds: Holds::Respect,
    };
    let ask = Ask {
        job: Some(named),
        ..ask
    };
    match app.service.lease(ask).await {
        Err(held) if held.code() == Code::Conflict && held.job() == Some(id) => Ok(Err(held)),
        leased => leased.map(Ok),
    }
}

/// Lends a job that is named whatever holds it back, for somebody who may do that, and writes it down.
pub async fn lease_past_holds(
    app: &App,
    who: impl Into<Who>,
    ask: Ask,
    id: JobId,
) -> Result<Vec<Leased>> {
    let named = NamedJob {
        id,
        holds: Holds::Bypass,
    };
    let ask = Ask {
        job: Some(named),
        ..ask
    };
    let what = Move::new("lease").jobs(&[id]);
    let lease = app.service.lease(ask);
    let moved = |leased: &Vec<Leased>| leased.len() as u64;
    app.trail.noted(who, what, lease, moved).await
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
        let job = look_up(app, caller, token.job).await?;
        Ok(match job {
            Some(_) => Ok(item),
            None => Err(refusal::lease_lost(token.job)),
        })
    };
    join_all(items.into_iter().map(look))
        .await
        .into_iter()
        .collect()
}
