//! The recent notices of the engine, for those who watch over HTTP.
//!
//! One task copies notices into a ring while anybody watches and for a while after, so that a watcher which comes back can
//! go on where it was. Each watcher reads the ring at its own speed and keeps nothing but its place: one that never reads
//! costs nothing, and is told how many it missed. With nobody watching the engine makes no notices at all.
//!
//! A watcher of one queue is told the numbers of that queue alone: who may read one queue must not learn how much happens in
//! others. So notices are counted for each queue as they come.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auxo_core::event::Notice;
use auxo_core::{QueueName, Service};
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
/// Of how many queues notices are counted before that begins anew.
const COUNTED: usize = 200_000;
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
    notices: VecDeque<Kept>,
    bytes: usize,
    watchers: usize,
    copying: bool,
    /// How many notices of each queue there were.
    counts: HashMap<QueueName, u64>,
    /// How often some were lost, nobody knows of which queues: each time counts as one of every queue.
    losses: u64,
    /// How often the counts have begun anew.
    epoch: u64,
}

struct Kept {
    notice: Notice,
    /// Its number among those of its queue.
    number: u64,
    /// Which counts the number is from.
    epoch: u64,
}

impl Ring {
    fn keep(&mut self, notice: Notice) {
        if self.counts.len() >= COUNTED && !self.counts.contains_key(&notice.queue) {
            self.count_anew();
        }
        *self.counts.entry(notice.queue.clone()).or_default() += 1;
        self.bytes += weight(&notice);
        self.notices.push_back(Kept {
            number: self.number(&notice.queue),
            epoch: self.epoch,
            notice,
        });
        while self.notices.len() > KEPT || self.bytes > KEPT_BYTES {
            match self.notices.pop_front() {
                Some(old) => self.bytes -= weight(&old.notice),
                None => break,
            }
        }
    }

    /// The number of the last notice of a queue.
    fn number(&self, queue: &QueueName) -> u64 {
        self.losses + self.counts.get(queue).copied().unwrap_or(0)
    }

    fn count_anew(&mut self) {
        self.counts = HashMap::new();
        self.losses = 0;
        self.epoch += 1;
    }

    /// The sequence of the newest notice.
    fn newest(&self) -> u64 {
        self.notices.back().map_or(0, |kept| kept.notice.sequence)
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

    /// Where a watcher of a queue, or of all, goes on that last saw this sequence of this run of its stream.
    pub fn start(&self, queue: Option<&QueueName>, run: &str, sequence: u64) -> Start {
        let epoch = self.lock().epoch;
        if run == self.run_of(queue, epoch) {
            Start::After(sequence)
        } else {
            Start::Restarted
        }
    }

    /// What the sequences of a stream belong to: they begin anew with each run of a server, and those of a queue are its own.
    fn run_of(&self, queue: Option<&QueueName>, epoch: u64) -> String {
        match queue {
            None => self.run.clone(),
            Some(queue) => format!("{}.{epoch}.{queue}", self.run),
        }
    }

    /// A new watcher of a queue, or of all.
    pub fn watch(self: &Arc<Hub>, queue: Option<QueueName>, start: Start) -> Watcher {
        let mut ring = self.lock();
        if !ring.copying {
            // Nothing is noted before the engine has answered: it may panic.
            tokio::spawn(copy(self.clone(), self.service.watch()));
            ring.copying = true;
        }
        ring.watchers += 1;
        let newest = ring.newest();
        let (seen, gap) = match (start, &queue) {
            (Start::Now, None) => (newest, Gap::Ignored),
            (Start::Now, Some(queue)) => (ring.number(queue), Gap::Ignored),
            (Start::After(sequence), _) => (sequence, Gap::Told),
            (Start::Restarted, _) => (0, Gap::Restarted),
        };
        Watcher {
            news: self.news.subscribe(),
            read: match (start, &queue) {
                (Start::Now, _) => newest,
                (Start::After(sequence), None) => sequence,
                (Start::After(_), Some(_)) | (Start::Restarted, _) => 0,
            },
            epoch: ring.epoch,
            hub: self.clone(),
            queue,
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
        if !ring.copying {
            // What happens until somebody watches again is not counted.
            ring.count_anew();
        }
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
                Err(RecvError::Lagged(_)) => hub.lock().losses += 1,
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
    /// All or one.
    queue: Option<QueueName>,
    /// The counts that it knows the numbers of.
    epoch: u64,
    /// Up to which sequence it has read the ring.
    read: u64,
    /// The last number that it was told of: a sequence, or a number of its queue.
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

    /// What the sequences that it is told belong to.
    pub fn run(&self) -> String {
        self.hub.run_of(self.queue.as_ref(), self.epoch)
    }

    fn take(&mut self) {
        let hub = self.hub.clone();
        let ring = hub.lock();
        if self.epoch != ring.epoch && self.queue.is_some() {
            (self.epoch, self.gap) = (ring.epoch, Gap::Restarted);
        }
        let from = |read| ring.notices.partition_point(|k| k.notice.sequence <= read);
        let number = |kept: &Kept| self.number(kept);
        if self.gap == Gap::Restarted {
            // Without any, the next one is the first.
            let next = self
                .queue
                .as_ref()
                .map_or(1, |queue| ring.number(queue) + 1);
            let first = ring.notices.iter().find_map(number).unwrap_or(next);
            self.ready.push_back(Told::Missed {
                count: first - 1,
                until: first - 1,
                restarted: true,
            });
            (self.read, self.seen, self.gap) = (0, first - 1, Gap::Told);
        }
        for kept in ring.notices.range(from(self.read)..) {
            if self.ready.len() >= CHUNK {
                break;
            }
            self.read = kept.notice.sequence;
            let Some(number) = self.number(kept) else {
                continue;
            };
            let Some(missed) = number.checked_sub(self.seen + 1) else {
                continue;
            };
            if missed > 0 && self.gap == Gap::Told {
                self.ready.push_back(Told::Missed {
                    count: missed,
                    until: number - 1,
                    restarted: false,
                });
            }
            (self.seen, self.gap) = (number, Gap::Told);
            self.ready.push_back(Told::Notice(Notice {
                sequence: number,
                ..kept.notice.clone()
            }));
        }
    }

    /// The number that a notice has for this watcher; `None` if it is not told of it.
    fn number(&self, kept: &Kept) -> Option<u64> {
        match &self.queue {
            None => Some(kept.notice.sequence),
            Some(queue) => {
                let is_own = kept.notice.queue == *queue && kept.epoch == self.epoch;
                is_own.then_some(kept.number)
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.hub.lock().watchers -= 1;
        self.hub.left.notify_one();
    }
}
