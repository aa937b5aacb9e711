//! The recent notices of the engine, for those who watch over HTTP.
//!
//! One task copies notices into a ring while anybody watches and for a while after, so that a watcher which comes back can
//! go on where it was. Each watcher reads the ring at its own speed and keeps nothing but its place: one that never reads
//! costs nothing, and is told how many it missed. With nobody watching the engine makes no notices at all.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auxo_core::Service;
use auxo_core::event::Notice;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

/// How many notices are kept.
const KEPT: usize = 16_384;
/// How many bytes of names and notes are kept with them: 16 MiB.
const KEPT_BYTES: usize = 16 << 20;
/// How long notices are kept up after the last watcher left.
const LINGER: Duration = Duration::from_secs(120);
/// How many notices a watcher takes out of the ring at once.
const CHUNK: usize = 256;

/// The ring and those who watch it.
pub struct Hub {
    service: Arc<Service>,
    run: String,
    ring: Mutex<Ring>,
    /// The sequence of the newest notice.
    news: watch::Sender<u64>,
    left: Notify,
}

#[derive(Default)]
struct Ring {
    notices: VecDeque<Notice>,
    bytes: usize,
    watchers: usize,
    copying: bool,
}

impl Ring {
    fn keep(&mut self, notice: Notice) {
        self.bytes += weight(&notice);
        self.notices.push_back(notice);
        while self.notices.len() > KEPT || self.bytes > KEPT_BYTES {
            match self.notices.pop_front() {
                Some(old) => self.bytes -= weight(&old),
                None => break,
            }
        }
    }
}

fn weight(notice: &Notice) -> usize {
    notice.queue.as_str().len() + notice.by.len() + notice.note.len()
}

/// Where a watcher begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With what comes next.
    Now,
    /// After this notice.
    After(u64),
    /// The watcher was last here before the server was restarted: with all there is.
    Restarted,
}

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// A notice.
    Notice(Notice),
    /// This many notices are lost to it. The sequence is the last of them.
    Missed {
        /// How many.
        count: u64,
        /// The last of them.
        until: u64,
        /// Whether there were others before, of a run that is over.
        restarted: bool,
    },
}

impl Hub {
    /// An empty ring.
    pub fn new(service: Arc<Service>, run: String) -> Arc<Hub> {
        Arc::new(Hub {
            service,
            run,
            ring: Mutex::default(),
            news: watch::channel(0).0,
            left: Notify::new(),
        })
    }

    /// The id of a notice: sequences begin anew with each run of a server.
    pub fn id(&self, sequence: u64) -> String {
        format!("{}-{sequence}", self.run)
    }

    /// Where somebody goes on who last saw the notice with this id; `None` when it is not one of ours.
    pub fn start(&self, id: &str) -> Option<Start> {
        let (run, sequence) = id.rsplit_once('-')?;
        let sequence = sequence.parse().ok()?;
        Some(if run == self.run {
            Start::After(sequence)
        } else {
            Start::Restarted
        })
    }

    /// A new watcher.
    pub fn watch(self: &Arc<Hub>, start: Start) -> Watcher {
        let mut ring = self.lock();
        if !ring.copying {
            // Nothing is noted before the engine has answered: it may panic.
            tokio::spawn(copy(self.clone(), self.service.watch()));
            ring.copying = true;
        }
        ring.watchers += 1;
        let newest = ring.notices.back().map_or(0, |notice| notice.sequence);
        let (seen, gap) = match start {
            Start::Now => (newest, Gap::Ignored),
            Start::After(sequence) => (sequence, Gap::Told),
            Start::Restarted => (0, Gap::Restarted),
        };
        Watcher {
            news: self.news.subscribe(),
            hub: self.clone(),
            seen,
            gap,
            ready: VecDeque::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        // Nothing that is done under the lock can leave the ring half changed.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the copying if nobody watches, and says whether it did.
    fn rest(&self) -> bool {
        let mut ring = self.lock();
        ring.copying = ring.watchers > 0;
        !ring.copying
    }
}

/// Copies notices into the ring until nobody has watched for a while.
async fn copy(hub: Arc<Hub>, mut notices: Receiver<Notice>) {
    let mut quiet: Option<Instant> = None;
    loop {
        quiet = match hub.lock().watchers {
            0 => quiet.or_else(|| Some(Instant::now() + LINGER)),
            _ => None,
        };
        let idle = async {
            match quiet {
                Some(end) => sleep_until(end).await,
                None => hub.left.notified().await,
            }
        };
        tokio::select! {
            biased;
            received = notices.recv() => match received {
                Ok(notice) => {
                    let sequence = notice.sequence;
                    hub.lock().keep(notice);
                    hub.news.send_replace(sequence);
                }
                // The hole in the sequence says it.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => {
                    hub.lock().copying = false;
                    return;
                }
            },
            () = idle => {
                if quiet.is_some_and(|end| end <= Instant::now()) && hub.rest() {
                    return;
                }
            }
        }
    }
}

/// What a hole in the sequence means to a watcher.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// It began later than that.
    Ignored,
    /// It missed something.
    Told,
    /// It missed something, and before that the end of another run.
    Restarted,
}

/// One who watches.
pub struct Watcher {
    hub: Arc<Hub>,
    news: watch::Receiver<u64>,
    /// The last sequence that it was told of.
    seen: u64,
    gap: Gap,
    ready: VecDeque<Told>,
}

impl Watcher {
    /// The next thing to tell.
    pub async fn next(&mut self) -> Told {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return told;
            }
            // Marked as seen before the ring is read: what comes after is news again.
            self.news.borrow_and_update();
            self.take();
            if self.ready.is_empty() && self.news.changed().await.is_err() {
                // The hub is held by `self`, so its sender lives.
                std::future::pending::<()>().await;
            }
        }
    }

    fn take(&mut self) {
        let ring = self.hub.lock();
        if self.gap == Gap::Restarted {
            let first = ring.notices.front().map_or(1, |notice| notice.sequence);
            self.ready.push_back(Told::Missed {
                count: first - 1,
                until: first - 1,
                restarted: true,
            });
            (self.seen, self.gap) = (first - 1, Gap::Told);
        }
        let from = ring.notices.partition_point(|n| n.sequence <= self.seen);
        for notice in ring.notices.range(from..).take(CHUNK) {
            let missed = notice.sequence - self.seen - 1;
            if missed > 0 && self.gap == Gap::Told {
                self.ready.push_back(Told::Missed {
                    count: missed,
                    until: notice.sequence - 1,
                    restarted: false,
                });
            }
            (self.seen, self.gap) = (notice.sequence, Gap::Told);
            self.ready.push_back(Told::Notice(notice.clone()));
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.hub.lock().watchers -= 1;
        self.hub.left.notify_one();
    }
}
