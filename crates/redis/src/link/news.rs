//! Messages as they are published.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::Result;
use bytes::Bytes;
use futures_util::StreamExt;
use redis::Value;
use redis::aio::{PubSubSink, PubSubStream};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::Link;
use super::fault::Fault;
use super::node::Node;
use super::route::Route;
use super::slot::slot;

/// How often a connection on which nothing comes is tried.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How many messages wait for a reader that is slow.
const ROOM: usize = 1024;

/// A message, or that here messages may be missing.
type News = Option<Bytes>;

/// A connection that is subscribed.
struct Ears {
    node: Arc<Node>,
    asking: PubSubSink,
    messages: PubSubStream,
}

/// The way to whoever subscribed.
struct Post {
    to: mpsc::Sender<News>,
    /// Whether it is still to be told that something is missing.
    missed: bool,
}

/// How listening ended.
enum End {
    /// Nobody wants to know any more.
    Unwanted,
    /// The connection is lost, or to the wrong server.
    Lost,
}

impl Link {
    /// Listens on a channel, from when this returns until the receiver is dropped.
    ///
    /// The connection is to the server that would have a key of the channel's name, and is made again by itself when it is
    /// lost. `None` says that messages may be missing here: it was lost for a while, or the reader was too slow.
    pub async fn subscribe(&self, channel: &str) -> Result<mpsc::Receiver<Option<Bytes>>> {
        let until = self.deadline();
        let route = self.inner.route.clone();
        let connecting = tokio::time::timeout_at(until, connect(&route, channel));
        let ears = match connecting.await {
            Ok(ears) => ears,
            Err(_) => Err(Fault::Away("redis cannot be reached".to_owned())),
        };
        let ears = ears.map_err(|fault| fault.error("to subscribe"))?;
        let (sender, receiver) = mpsc::channel(ROOM);
        let post = Post {
            to: sender,
            missed: false,
        };
        tokio::spawn(listen(route, channel.to_owned(), ears, post));
        Ok(receiver)
    }
}

/// One try at a time, as often as the server's door allows, for as long as it takes.
async fn connect(route: &Route, channel: &str) -> Result<Ears, Fault> {
    loop {
        let forever = tokio::time::Instant::now() + Duration::from_secs(86_400);
        let node = route.find(Some(slot(channel.as_bytes())), forever).await?;
        let mut changes = route.changes();
        let listening = tokio::select! {
            listening = subscribed(&node, channel) => listening,
            Ok(()) = changes.changed() => continue,
        };
        match listening {
            Ok(ears) => return Ok(ears),
            Err(fault @ Fault::Denied(_)) => return Err(fault),
            Err(_) => route.suspect(&node),
        }
    }
}

async fn subscribed(node: &Arc<Node>, channel: &str) -> Result<Ears, Fault> {
    let (mut asking, messages) = node.door.listen().await?.split();
    let subscribing = tokio::time::timeout(HEARTBEAT, asking.subscribe(channel)).await;
    match subscribing {
        Ok(Ok(())) => Ok(Ears {
            node: node.clone(),
            asking,
            messages,
        }),
        Ok(Err(error)) if error.code() == Some("NOPERM") => Err(Fault::Denied(error.to_string())),
        Ok(Err(error)) => Err(Fault::Away(error.to_string())),
        Err(_) => Err(Fault::Away("redis did not answer in time".to_owned())),
    }
}

async fn listen(route: Arc<Route>, channel: String, mut ears: Ears, mut post: Post) {
    loop {
        match hear(&route, &channel, &mut ears, &mut post).await {
            End::Unwanted => return,
            End::Lost => post.missed = true,
        }
        route.suspect(&ears.node);
        let again = tokio::select! {
            again = connect(&route, &channel) => again,
            () = post.to.closed() => return,
        };
        ears = match again {
            Ok(ears) => ears,
            Err(fault) => {
                tracing::warn!("redis: no longer subscribed to {channel}: {fault:?}");
                return;
            }
        };
    }
}

/// Passes on what comes, until there is nothing to hear.
async fn hear(route: &Route, channel: &str, ears: &mut Ears, post: &mut Post) -> End {
    let slot = slot(channel.as_bytes());
    let mut changes = route.changes();
    loop {
        let quiet = tokio::time::sleep(HEARTBEAT);
        tokio::select! {
            () = post.to.closed() => return End::Unwanted,
            Ok(()) = changes.changed() => {
                let table = changes.borrow_and_update();
                let owner = table.owner(slot);
                if !owner.is_some_and(|owner| Arc::ptr_eq(owner, &ears.node)) {
                    return End::Lost;
                }
            }
            () = tell_gap(&post.to), if post.missed => post.missed = false,
            message = ears.messages.next() => match message {
                Some(message) => post.message(message.get_payload_bytes()),
                None => return End::Lost,
            },
            () = quiet => {
                let alive = tokio::time::timeout(HEARTBEAT, ears.asking.ping::<Value>()).await;
                if !matches!(alive, Ok(Ok(_))) {
                    return End::Lost;
                }
            }
        }
    }
}

/// Waits for room.
async fn tell_gap(to: &mpsc::Sender<News>) {
    if let Ok(room) = to.reserve().await {
        room.send(None);
    }
}

impl Post {
    /// A reader that is too slow misses messages, and all that come until it was told so.
    fn message(&mut self, bytes: &[u8]) {
        if self.missed {
            return;
        }
        let message = Some(Bytes::copy_from_slice(bytes));
        if let Err(TrySendError::Full(_)) = self.to.try_send(message) {
            self.missed = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_is_slow_is_told_where_messages_are_missing() {
        let (to, mut reader) = mpsc::channel(2);
        let mut post = Post { to, missed: false };
        for message in ["a", "b", "c", "d"] {
            post.message(message.as_bytes());
        }
        assert_eq!(reader.recv().await.unwrap().unwrap(), "a");
        // There is room again, but not before the gap was told.
        post.message(b"e");
        assert!(post.missed);
        tell_gap(&post.to).await;
        post.missed = false;
        assert_eq!(reader.recv().await.unwrap().unwrap(), "b");
        post.message(b"f");
        assert_eq!(reader.recv().await.unwrap(), None);
        assert_eq!(reader.recv().await.unwrap().unwrap(), "f");
    }
}
