//! Queues: how they stand, and how they are set.

use auxo_core::engine::{Change, QueueList};
use auxo_core::queue::{Books, QueueConfig, QueueInfo};
use auxo_core::{Code, Error, QueueName, Result, State};

use crate::app::App;
use crate::auth::Caller;
use crate::trail::Move;

/// These queues, or all that can be reached, and with all of them the books of those that were forgotten.
pub async fn list(
    app: &App,
    caller: &Caller,
    names: Option<Vec<QueueName>>,
) -> Result<(QueueList, Books)> {
    match names {
        None => {
            caller.check_everywhere()?;
            let _turn = app.listing.lock().await;
            let list = app.service.reachable_queues().await?;
            Ok((list, app.service.forgotten().await?))
        }
        Some(names) => {
            caller.check_all(&names)?;
            let queues = app.service.queues(Some(names)).await?;
            Ok((QueueList::whole(queues), Books::default()))
        }
    }
}

/// A queue.
pub async fn show(app: &App, caller: &Caller, queue: QueueName) -> Result<QueueInfo> {
    caller.check(&queue)?;
    existing(app, queue).await
}

/// Changes settings of a queue, and makes it if need be.
pub async fn set(
    app: &App,
    caller: &Caller,
    queue: QueueName,
    change: impl FnOnce(QueueConfig) -> Result<QueueConfig>,
) -> Result<QueueInfo> {
    caller.check(&queue)?;
    let _alone = app.changing.lock().await;
    let base = look(app, queue.clone()).await?;
    let is_new = base.is_none();
    let config = change(base.map(|info| info.config).unwrap_or_default())?;
    if is_new {
        check_share(app, caller, &queue).await?;
    }
    store(app, caller, "set_queue", queue, config).await
}

/// Refuses a queue that does not exist and would be one more than the share of the caller's token.
pub async fn check_share(app: &App, caller: &Caller, queue: &QueueName) -> Result<()> {
    if caller.may_everywhere() {
        return Ok(());
    }
    let (service, identity) = (&app.service, caller.identity());
    app.queue_shares.check_queue(service, identity, queue).await
}

/// Changes settings of a queue that is there. The call is named for the audit log.
pub async fn change(
    app: &App,
    caller: &Caller,
    call: &str,
    queue: QueueName,
    change: impl FnOnce(&mut QueueConfig) -> Result<()>,
) -> Result<QueueInfo> {
    caller.check(&queue)?;
    let _alone = app.changing.lock().await;
    let mut config = existing(app, queue.clone()).await?.config;
    change(&mut config)?;
    store(app, caller, call, queue, config).await
}

/// Deletes jobs of a queue, and answers how many.
pub async fn purge(
    app: &App,
    caller: &Caller,
    queue: QueueName,
    states: Vec<State>,
) -> Result<u64> {
    caller.check(&queue)?;
    let named: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let what = Move::new("purge").queue(&queue).with("states", named);
    let purge = app.service.purge(queue, states, |_| ());
    app.trail.noted(caller, what, purge, |purged| *purged).await
}

async fn look(app: &App, queue: QueueName) -> Result<Option<QueueInfo>> {
    let found = app.service.queues(Some(vec![queue])).await?;
    Ok(found.into_iter().next())
}

async fn existing(app: &App, queue: QueueName) -> Result<QueueInfo> {
    let missing = format!("there is no queue {queue}");
    let found = look(app, queue).await?;
    found.ok_or_else(|| Error::new(Code::NotFound, missing))
}

async fn store(
    app: &App,
    caller: &Caller,
    call: &str,
    queue: QueueName,
    config: QueueConfig,
) -> Result<QueueInfo> {
    let what = Move::settings(call, &queue, &config);
    let change = app.service.change(Change::Queue(queue.clone(), config));
    app.trail.noted(caller, what, change, |()| 1).await?;
    existing(app, queue).await
}
