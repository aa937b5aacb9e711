//! Fan-out. A message goes to whatever queues subscribed, and who subscribes reads what others publish: all of it needs its right
//! in every queue.

use auxo_core::Result;
use auxo_core::engine::{Change, Message, Pushed};
use auxo_core::topic::Subscription;

use crate::app::App;
use crate::auth::Caller;
use crate::trail::Move;

/// The subscriptions of all topics.
pub async fn list(app: &App, caller: &Caller) -> Result<Vec<Subscription>> {
    caller.check_everywhere()?;
    let _turn = app.listing.lock().await;
    Ok(app.service.catalog().await?.subscriptions)
}

/// Adds or replaces a subscription.
pub async fn subscribe(app: &App, caller: &Caller, subscription: Subscription) -> Result<()> {
    caller.check_everywhere()?;
    let what = Move::new("subscribe")
        .queue(&subscription.queue)
        .with("topic", &*subscription.topic)
        .with("name", &*subscription.name);
    let change = app.service.change(Change::Subscribe(subscription));
    app.trail.noted(caller, what, change, |()| 1).await
}

/// Removes a subscription.
pub async fn unsubscribe(app: &App, caller: &Caller, topic: String, name: String) -> Result<()> {
    caller.check_everywhere()?;
    let what = Move::new("unsubscribe")
        .with("topic", &*topic)
        .with("name", &*name);
    let change = app.service.change(Change::Unsubscribe(topic, name));
    app.trail.noted(caller, what, change, |()| 1).await
}

/// Publishes a message.
pub async fn publish(app: &App, caller: &Caller, message: Message) -> Result<Vec<Pushed>> {
    caller.check_everywhere()?;
    app.service.publish(message).await
}
