//! What happens to jobs, by whichever process, for those who watch.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use auxo_core::event::Notice;
use auxo_core::{JobId, QueueName};
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::Instant;

use crate::bytes::Unpack;
use crate::link::Link;
use crate::record::event;
use crate::script;
use crate::store::Store;

/// How many notices a watcher may lag behind before it misses some.
const NOTICES: usize = 4096;
/// For how long the scripts publish after somebody was seen to watch, and how often that is said again.
const WATCHED: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_secs(10);
/// How long to wait before a channel that could not be had is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Who watches in this process.
pub struct Notices {
    sender: broadcast::Sender<Notice>,
    ready: watch::Sender<bool>,
    /// Whether a task does.
    listening: AtomicBool,
}

impl Default for Notices {
    fn default() -> Notices {
        Notices {
            sender: broadcast::channel(NOTICES).0,
            ready: watch::channel(false).0,
            listening: AtomicBool::new(false),
        }
    }
}

impl Notices {
    /// Whether anybody watches.
    pub fn wanted(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Waits until this process hears what is published: what a watcher does next must not happen before.
    pub async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives as long as this.
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// The task that listens would like to end. Whether it may: nobody watches, or another task has begun for who came since.
    fn rest(&self) -> bool {
        self.ready.send_replace(false);
        self.listening.store(false, Ordering::Release);
        if !self.wanted() || self.listening.swap(true, Ordering::AcqRel) {
            return true;
        }
        self.ready.send_replace(true);
        false
    }

    /// One more who watches.
    pub fn watch(&self, store: &Arc<Store>) -> broadcast::Receiver<Notice> {
        let receiver = self.sender.subscribe();
        if !self.listening.swap(true, Ordering::AcqRel) {
            tokio::spawn(listen(Arc::downgrade(store), store.link.clone()));
        }
        receiver
    }
}

/// Listens until nobody watches any more.
async fn listen(store: Weak<Store>, link: Link) {
    let mut sequence = 0;
    let (all, mut heard) = mpsc::channel(64);
    {
        let Some(store) = store.upgrade() else { return };
        let names = store.all().map(|shard| store.keys.part(shard, "EVENTS"));
        let tries = names.map(|name| {
            let link = link.clone();
            async move { (link.subscribe(&name).await.ok(), name) }
        });
        let mut deaf = false;
        for (channel, name) in join_all(tries).await {
            deaf |= channel.is_none();
            tokio::spawn(forward(link.clone(), name, channel, all.clone()));
        }
        // Without Redis, watchers see nothing for a while, as in any outage; calls must not wait for it.
        if !deaf {
            say_so(&store).await;
        }
        store.notices.ready.send_replace(true);
    }
    drop(all);
    let mut again = Instant::now() + AGAIN;
    loop {
        let message = tokio::time::timeout_at(again, heard.recv()).await;
        let Some(store) = store.upgrade() else { return };
        if message.is_err() {
            again = Instant::now() + AGAIN;
        }
        match message {
            Ok(Some(Some(message))) => tell(&store, message, &mut sequence),
            Ok(Some(None)) => {
                // A gap in the sequence tells a watcher that it missed something.
                sequence += 1;
                say_so(&store).await;
            }
            Err(_) if store.notices.wanted() => say_so(&store).await,
            Err(_) | Ok(None) => {
                if store.notices.rest() {
                    return;
                }
            }
        }
    }
}

/// Passes on what is published on one channel, and comes back to it, until nobody listens.
async fn forward(
    link: Link,
    name: String,
    mut channel: Option<mpsc::Receiver<Option<Bytes>>>,
    all: mpsc::Sender<Option<Bytes>>,
) {
    loop {
        let message = tokio::select! {
            () = all.closed() => return,
            message = next(&link, &name, &mut channel) => message,
        };
        if all.send(message).await.is_err() {
            return;
        }
    }
}

/// The next message, or that some may be missing.
async fn next(
    link: &Link,
    name: &str,
    channel: &mut Option<mpsc::Receiver<Option<Bytes>>>,
) -> Option<Bytes> {
    loop {
        match channel {
            Some(open) => match open.recv().await {
                Some(message) => return message,
                None => *channel = None,
            },
            None => {
                tokio::time::sleep(PAUSE).await;
                *channel = link.subscribe(name).await.ok();
                if channel.is_some() {
                    return None;
                }
            }
        }
    }
}

/// Makes the scripts publish what other processes do.
async fn say_so(store: &Store) {
    for shard in store.all() {
        let mut call = store.call(&script::WATCH, shard);
        call.arg(WATCHED.as_millis().to_string());
        // Without Redis nothing happens that could be published.
        let _ = store.link.run(call).await;
    }
}

fn tell(store: &Store, message: Bytes, sequence: &mut u64) {
    let mut unpack = Unpack(&message);
    while let Some(mut notice) = read(&mut unpack) {
        *sequence += 1;
        notice.sequence = *sequence;
        // Nobody watching is no error.
        let _ = store.notices.sender.send(notice);
    }
}

fn read(unpack: &mut Unpack) -> Option<Notice> {
    Some(Notice {
        sequence: 0,
        at: unpack.time()?,
        job: JobId(unpack.u64()?),
        event: event(unpack.u8()?)?,
        queue: QueueName::new(unpack.short()?).ok()?,
        by: unpack.short()?.into(),
        note: String::from_utf8_lossy(unpack.blob()?).into(),
    })
}
