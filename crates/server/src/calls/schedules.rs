//! Recurring jobs.

use auxo_core::engine::Change;
use auxo_core::schedule::Schedule;
use auxo_core::{Code, Error, Result};

use crate::app::App;
use crate::auth::Caller;
use crate::calls::queues::check_share;
use crate::trail::Move;

/// All schedules.
pub async fn list(app: &App, caller: &Caller) -> Result<Vec<Schedule>> {
    caller.check_everywhere()?;
    let _turn = app.listing.lock().await;
    Ok(app.service.catalog().await?.schedules)
}

/// A schedule in a queue of the caller.
pub async fn find(app: &App, caller: &Caller, name: &str) -> Result<Schedule> {
    let found = look(app, name).await?;
    let found = found.filter(|schedule| caller.may(&schedule.queue));
    found.ok_or_else(|| Error::new(Code::NotFound, "there is no schedule with this name"))
}

/// Adds or replaces a schedule, and answers it with its next tick. `change` is one of the two that do so.
pub async fn put(app: &App, caller: &Caller, change: Change) -> Result<Schedule> {
    let (Change::Schedule(schedule) | Change::Arm(schedule)) = &change else {
        let message = "a schedule is set by something else than a schedule";
        return Err(Error::new(Code::Internal, message));
    };
    caller.check(&schedule.queue)?;
    let name = schedule.name.clone();
    let what = Move::new("set_schedule")
        .with("name", &*name)
        .queue(&schedule.queue);
    let _alone = app.changing.lock().await;
    check_replaced(app, caller, &name).await?;
    // Its ticks make the queue.
    check_share(app, caller, &schedule.queue).await?;
    let change = app.service.change(change);
    app.trail.noted(caller, what, change, |()| 1).await?;
    find(app, caller, &name).await
}

/// Refuses to take the place of a schedule in a queue that is not the caller's.
async fn check_replaced(app: &App, caller: &Caller, name: &str) -> Result<()> {
    if caller.may_everywhere() {
        return Ok(());
    }
    match look(app, name).await? {
        Some(old) if !caller.may(&old.queue) => Err(Error::new(
            Code::Forbidden,
            "another schedule has this name, and this token may not change it; choose another name",
        )),
        _ => Ok(()),
    }
}

/// Removes a schedule of this name, as `change` says.
pub async fn delete(app: &App, caller: &Caller, name: &str, change: Change) -> Result<()> {
    let _alone = app.changing.lock().await;
    if !caller.may_everywhere() {
        find(app, caller, name).await?;
    }
    let what = Move::new("delete_schedule").with("name", name);
    let change = app.service.change(change);
    app.trail.noted(caller, what, change, |()| 1).await
}

async fn look(app: &App, name: &str) -> Result<Option<Schedule>> {
    // It is found in a copy of all of them.
    let _turn = app.listing.lock().await;
    let all = app.service.catalog().await?.schedules;
    Ok(all.into_iter().find(|schedule| schedule.name == name))
}
