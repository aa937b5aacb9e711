//! Jobs in, a look at those that are there, and an operator's moves on them.

use std::time::Duration;

use auxo_core::engine::{Mode, Order, Page, Pushed, Query, Steered, Target, Which};
use auxo_core::explain::{self, Explanation, Watch};
use auxo_core::{Code, Error, Job, JobId, NewJob, Result, refusal};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep_until};

use crate::app::App;
use crate::auth::Caller;
use crate::trail::Move;

/// When a caller with a right in some queues only is told that there is no such job: later than it takes to read a large one.
const HIDING_TIME: Duration = Duration::from_millis(5);

/// Keeps the jobs of a batch that the caller may push; the others are refused one by one, like all that is wrong with one item.
/// Clients join the pushes of many callers, and one of these must not fail those of the others.
pub async fn push(
    app: &App,
    caller: &Caller,
    mut jobs: Vec<Result<NewJob>>,
) -> Result<Vec<Result<Pushed>>> {
    if !caller.may_everywhere() {
        for job in &mut jobs {
            if let Some(error) = job.as_ref().ok().and_then(|j| caller.check(&j.queue).err()) {
                *job = Err(error);
            }
        }
        let (service, identity) = (&app.service, caller.identity());
        app.queue_shares.check(service, identity, &mut jobs).await;
    }
    app.service.push_each(jobs).await
}

/// A job.
pub async fn find(app: &App, caller: &Caller, which: Which) -> Result<Job> {
    match which {
        Which::Id(id) => look_up(app, caller, id)
            .await?
            .ok_or_else(|| refusal::no_job(id)),
        Which::Key(queue, key) => {
            caller.check(&queue)?;
            let message = format!("no job in queue {queue} has this key");
            let job = app.service.find(Which::Key(queue, key)).await?;
            job.ok_or_else(|| Error::new(Code::NotFound, message))
        }
    }
}

/// Why a job is not running.
pub async fn explain(app: &App, caller: &Caller, which: Which) -> Result<Explanation> {
    let own = match &which {
        Which::Id(id) => owns(app, caller, *id).await?,
        Which::Key(queue, _) => caller.check(queue).map(|()| true)?,
    };
    if own {
        return app.service.explain(which).await;
    }
    // What is said of a job that never was.
    let now = app.service.now();
    Ok(explain::explain(None, None, Watch { since: None, now }))
}

/// A page of jobs.
pub async fn list(app: &App, caller: &Caller, query: Query) -> Result<Page> {
    caller.check_filter(query.filter.queue.as_ref())?;
    app.service.list(query).await
}

/// Whether a job is in a queue of the caller. Of one that is not it is said what is said of a job that never was, so that
/// nobody learns of jobs by trying their ids.
pub async fn owns(app: &App, caller: &Caller, id: JobId) -> Result<bool> {
    if caller.may_everywhere() {
        return Ok(true);
    }
    Ok(look_up(app, caller, id).await?.is_some())
}

/// A job in a queue of the caller. To look for one that is not there takes as long as for one that is another's: to read that one takes
/// longer the larger it is, and a caller could tell that it is there by the time of the answer.
pub async fn look_up(app: &App, caller: &Caller, id: JobId) -> Result<Option<Job>> {
    let began = Instant::now();
    let job = app.service.find(Which::Id(id)).await?;
    let own = job.filter(|job| caller.may(&job.queue));
    if own.is_none() && !caller.may_everywhere() {
        sleep_until(began + HIDING_TIME).await;
    }
    Ok(own)
}

/// Moves jobs, as far as they are in queues of the caller, and writes it down.
pub async fn steer(app: &App, caller: &Caller, order: Order) -> Result<Steered> {
    if let Target::Matching(query) = &order.target {
        caller.check_filter(query.filter.queue.as_ref())?;
    }
    if order.mode == Mode::DryRun {
        return steer_own(app, caller, order).await;
    }
    let what = Move::order(&order);
    let steer = steer_own(app, caller, order);
    app.trail
        .noted(caller, what, steer, |steered| steered.moved)
        .await
}

/// The same, for who writes it down itself.
pub async fn steer_own(app: &App, caller: &Caller, order: Order) -> Result<Steered> {
    let ids = match &order.target {
        Target::Jobs(ids) if !caller.may_everywhere() => ids.clone(),
        _ => return app.service.steer(order).await,
    };
    let owned = join_all(ids.iter().map(|id| owns(app, caller, *id))).await;
    let owned: Vec<bool> = owned.into_iter().collect::<Result<_>>()?;
    let mine = ids.iter().zip(&owned).filter(|(_, own)| **own);
    let order = Order {
        target: Target::Jobs(mine.map(|(id, _)| *id).collect()),
        ..order
    };
    let mut steered = match order.target == Target::Jobs(Vec::new()) {
        true => Steered::default(),
        false => app.service.steer(order).await?,
    };
    let mut results = std::mem::take(&mut steered.results).into_iter();
    let result = |(id, own): (&JobId, bool)| match own {
        true => results.next(),
        false => Some(Err(refusal::no_job(*id))),
    };
    steered.results = ids.iter().zip(owned).filter_map(result).collect();
    Ok(steered)
}
