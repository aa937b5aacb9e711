//! What happens to jobs, by whichever process, for those who watch.

use std::sync::{Arc, Weak};
use std::time::Duration;

use auxo_core::event::Notice;
use auxo_core::{JobId, QueueName};
use bytes::Bytes;
use tokio::sync::{broadcast, watch};

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

/// Who watches in this process.
pub struct Notices {
    sender: broadcast::Sender<Notice>,
    ready: watch::Sender<bool>,
}

impl Default for Notices {
    fn default() -> Notices {
        Notices {
            sender: broadcast::channel(NOTICES).0,
            ready: watch::channel(false).0,
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

    /// One more who watches.
    pub fn watch(&self, store: &Arc<Store>) -> broadcast::Receiver<Notice> {
        let first = !self.wanted();
        let receiver = self.sender.subscribe();
        if first && !*self.ready.borrow() {
            tokio::spawn(listen(Arc::downgrade(store), store.link.clone()));
        }
        receiver
    }
}

/// Listens while anybody watches.
async fn listen(store: Weak<Store>, link: Link) {
    let mut sequence = 0;
    while listen_once(&store, &link, &mut sequence).await {}
}

/// Listens until nobody watches any more, or the connections are lost; says whether to begin again.
async fn listen_once(store: &Weak<Store>, link: &Link, sequence: &mut u64) -> bool {
    let mut channels = Vec::new();
    {
        let Some(store) = store.upgrade() else {
            return false;
        };
        for shard in store.all() {
            match link.subscribe(&store.keys.part(shard, "EVENTS")).await {
                Ok(channel) => channels.push(channel),
                // Watchers see nothing then, as in any outage; calls must not wait for it.
                Err(_) => break,
            }
        }
        say_so(&store).await;
        store.notices.ready.send_replace(true);
    }
    let (all, mut heard) = tokio::sync::mpsc::channel(64);
    for mut channel in channels {
        let all = all.clone();
        tokio::spawn(async move {
            while let Some(message) = channel.recv().await {
                if all.send(message).await.is_err() {
                    return;
                }
            }
        });
    }
    drop(all);
    loop {
        let message = tokio::time::timeout(AGAIN, heard.recv()).await;
        let Some(store) = store.upgrade() else {
            return false;
        };
        match message {
            Ok(Some(Some(message))) => tell(&store, message, sequence),
            // A gap in the sequence tells a watcher that it missed something.
            Ok(Some(None)) => *sequence += 1,
            Ok(None) => break,
            Err(_) if !store.notices.wanted() => break,
            Err(_) => say_so(&store).await,
        }
    }
    let Some(store) = store.upgrade() else {
        return false;
    };
    store.notices.ready.send_replace(false);
    store.notices.wanted()
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
