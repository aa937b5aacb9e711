//! A mixed load of producers and workers in real time, all of it recorded.
//!
//! Each producer and worker is a thread with a runtime of its own. The process may be killed at any moment: what was not
//! answered by then has no answer in the history, and the checker knows what that means. A run that goes on in the same
//! history may use the same seed; its payloads are different.

mod producer;
mod worker;

use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auxo_core::engine::Engine;
use auxo_core::job::DEFAULT_KEY_WINDOW;
use auxo_core::{Error, JobId, QueueName};

use crate::history::Recorder;
use crate::witness::Witness;

/// How many ids are remembered for kicks and cancels.
const REMEMBERED: usize = 100;

/// What to do to an engine.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Decides every choice of every thread; the order of the threads stays up to the machine.
    pub seed: u64,
    /// The number of the first thread in the history. Loads whose histories become one must have different numbers.
    pub first: u32,
    /// Threads that push, and now and then kick or cancel.
    pub producers: u32,
    /// Threads that lease and settle.
    pub workers: u32,
    /// Where the jobs go.
    pub queues: Vec<QueueName>,
    /// The length of most leases; some have a quarter of it.
    pub ttr: Duration,
    /// How long a key stays taken after its job is done.
    pub key_window: Duration,
    /// Producers wait while about this many jobs are open.
    pub backlog: u64,
    /// After this many pushes the run ends by itself; the workers stop then too.
    pub pushes: u64,
    /// Whether the run goes on when a call is answered `unavailable`. An engine on Redis answers so when a single lease came too late; from
    /// the others it means that they have stopped, and the run ends.
    pub goes_on_when_unavailable: bool,
}

impl Default for Workload {
    /// Four producers and six workers on two queues, until told to stop.
    fn default() -> Workload {
        let queue = |name| QueueName::new(name).expect("a good name");
        Workload {
            seed: 1,
            first: 1,
            producers: 4,
            workers: 6,
            queues: vec![queue("first"), queue("second")],
            ttr: Duration::from_millis(200),
            key_window: DEFAULT_KEY_WINDOW,
            backlog: 200,
            pushes: u64::MAX,
            goes_on_when_unavailable: false,
        }
    }
}

impl Workload {
    /// Runs until `stop` is set, until the pushes are made, or until the engine says that it has stopped.
    pub fn run(&self, engine: Arc<dyn Engine>, recorder: Arc<Recorder>, stop: &AtomicBool) {
        let floor = Floor::new(self, recorder.started(), stop);
        std::thread::scope(|scope| {
            let member = |process: u32| Member {
                witness: Witness::new(engine.clone(), recorder.clone(), process),
                dice: Dice(self.seed ^ u64::from(process) << 32),
                process,
                floor: &floor,
            };
            let workers = self.first + self.producers;
            for process in self.first..workers {
                let member = member(process);
                scope.spawn(|| block_on(producer::run(member)));
            }
            for process in workers..workers + self.workers {
                let member = member(process);
                scope.spawn(|| block_on(worker::run(member)));
            }
        });
    }
}

fn block_on(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime for one thread").block_on(work);
}

/// What the threads share.
struct Floor<'a> {
    load: &'a Workload,
    /// Tells the payloads of this run from those of earlier ones.
    run: u64,
    stop: &'a AtomicBool,
    over: AtomicBool,
    pushes: AtomicU64,
    keys: AtomicU64,
    open: AtomicU64,
    pushed: Mutex<VecDeque<JobId>>,
    dead: Mutex<VecDeque<JobId>>,
}

impl<'a> Floor<'a> {
    fn new(load: &'a Workload, run: u64, stop: &'a AtomicBool) -> Floor<'a> {
        Floor {
            load,
            run,
            stop,
            over: AtomicBool::new(false),
            pushes: AtomicU64::new(0),
            keys: AtomicU64::new(0),
            open: AtomicU64::new(0),
            pushed: Mutex::default(),
            dead: Mutex::default(),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.over.load(Ordering::Relaxed)
    }

    /// Ends the run for everybody.
    fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Nothing is due in any queue, so producers need not wait. The count drifts: a job whose ack was never answered, or
    /// that died because nobody settled it, is not seen to be closed.
    fn idle(&self) {
        self.open.store(0, Ordering::Relaxed);
    }

    /// A job that an earlier run had opened was never counted, so the count must not fall below zero.
    fn closed(&self) {
        let fewer = |open: u64| Some(open.saturating_sub(1));
        let order = Ordering::Relaxed;
        let _ = self.open.fetch_update(order, order, fewer);
    }
}

fn remember(ids: &Mutex<VecDeque<JobId>>, id: JobId) {
    let mut ids = ids.lock().expect("no thread panics");
    if ids.len() == REMEMBERED {
        ids.pop_front();
    }
    ids.push_back(id);
}

fn recall(ids: &Mutex<VecDeque<JobId>>) -> Option<JobId> {
    ids.lock().expect("no thread panics").pop_front()
}

/// One thread.
struct Member<'a> {
    witness: Witness,
    dice: Dice,
    process: u32,
    floor: &'a Floor<'a>,
}

impl Member<'_> {
    /// Ends the run when the engine has stopped; other refusals are part of the play.
    fn heed(&self, error: &Error) {
        if error.code() == auxo_core::Code::Unavailable && !self.floor.load.goes_on_when_unavailable
        {
            self.floor.end();
        }
    }
}

/// Random numbers from a seed: SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }

    /// True so many times in a hundred.
    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    fn millis_below(&mut self, end: u64) -> Duration {
        Duration::from_millis(self.below(end))
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}
