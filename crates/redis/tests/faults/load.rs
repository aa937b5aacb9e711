//! Producers and workers that go on whatever happens, and write down what they see.
//!
//! A producer takes a key and pushes it again and again until it is answered. A worker waits for jobs, for longer than any
//! test takes, and acks them; an ack without an answer is unknown and left at that.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use auxo_conformance::bench::{ack, named};
use auxo_conformance::history::{Event, Op, Recorder};
use auxo_conformance::witness::Witness;
use auxo_core::engine::{Ask, Pick, Pushed, Settle};
use auxo_core::job::{DEFAULT_KEY_WINDOW, Key, Leased, OnDuplicate};
use auxo_core::{Code, Engine, Error, JobSpec, NewJob, QueueName};
use auxo_redis::{Options, RedisEngine};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

/// Longer than anything takes; only a broken test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// About how many jobs are open at most.
const BACKLOG: usize = 2000;
/// How many jobs a worker takes at once.
const MAX: u32 = 4;
/// How many producers there are, and how many workers.
const CLIENTS: u32 = 4;

/// Opens an engine, as a process of its own would.
pub async fn open(url: &str) -> Arc<RedisEngine> {
    let url = url.parse().expect("a good URL");
    Arc::new(RedisEngine::open(&url, Options::default()).await.unwrap())
}

/// As many engines as there are URLs, and their clients.
pub struct Plan {
    pub urls: Vec<String>,
    /// Each producer has one, in turn, and each worker waits for one.
    pub queues: u32,
    /// How long a job is gone that nobody settled.
    pub ttr: Duration,
    /// How often each producer pushes; as fast as it can without.
    pub pace: Option<Duration>,
}

/// The clients at work.
pub struct Load {
    pub recorder: Arc<Recorder>,
    pub engines: Vec<Arc<RedisEngine>>,
    floor: Arc<Floor>,
    producers: JoinSet<()>,
    workers: JoinSet<()>,
}

/// What the clients share.
struct Floor {
    /// Producers begin nothing more.
    enough: AtomicBool,
    /// A permit for each job that may be pushed.
    room: Semaphore,
    pushed: watch::Sender<u64>,
    settled: watch::Sender<u64>,
    /// How many of both each client had.
    moved: watch::Sender<BTreeMap<u32, u64>>,
    unavailable: AtomicU64,
    unknown: AtomicU64,
    /// Of the last engine.
    failed_last: AtomicU64,
    plan: Plan,
}

impl Floor {
    /// Counts a call that Redis did not answer. Any other error is one too many.
    fn failed(&self, error: &Error, engine: usize) {
        match error.code() {
            Code::Unavailable => self.unavailable.fetch_add(1, Relaxed),
            Code::UnknownOutcome => self.unknown.fetch_add(1, Relaxed),
            _ => panic!("{error}"),
        };
        if engine + 1 == self.plan.urls.len() {
            self.failed_last.fetch_add(1, Relaxed);
        }
    }
}

impl Load {
    pub async fn start(plan: Plan) -> Load {
        let recorder = Arc::new(Recorder::in_memory());
        let mut engines = Vec::new();
        for url in &plan.urls {
            engines.push(open(url).await);
        }
        let floor = Arc::new(Floor {
            enough: AtomicBool::new(false),
            room: Semaphore::new(BACKLOG),
            pushed: watch::Sender::new(0),
            settled: watch::Sender::new(0),
            moved: watch::Sender::default(),
            unavailable: AtomicU64::new(0),
            unknown: AtomicU64::new(0),
            failed_last: AtomicU64::new(0),
            plan,
        });
        let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
        for n in 0..CLIENTS {
            let member = |process| {
                let engine = n as usize % engines.len();
                Member {
                    witness: Witness::new(engines[engine].clone(), recorder.clone(), process),
                    process,
                    engine,
                    queue: named(&format!("q{}", n % floor.plan.queues)),
                    floor: floor.clone(),
                }
            };
            producers.spawn(produce(member(n + 1)));
            workers.spawn(work(member(n + 1 + CLIENTS)));
        }
        Load {
            recorder,
            engines,
            floor,
            producers,
            workers,
        }
    }

    /// Waits for so many more jobs that are pushed and so many that are done. How long that took.
    pub async fn progress(&self, jobs: u64) -> Duration {
        let began = Instant::now();
        let more = |counter: &watch::Sender<u64>| {
            let mut seen = counter.subscribe();
            let target = *seen.borrow() + jobs;
            async move {
                let reached = seen.wait_for(|count| *count >= target);
                let reached = tokio::time::timeout(PATIENCE, reached).await;
                reached
                    .expect("the load goes on")
                    .expect("clients that live");
            }
        };
        tokio::join!(more(&self.floor.pushed), more(&self.floor.settled));
        began.elapsed()
    }

    /// Waits until every producer has got an answer more, and every worker has done a job more.
    pub async fn everybody_goes_on(&self) {
        let mut done = self.floor.moved.subscribe();
        let before = done.borrow().clone();
        let more = |now: &BTreeMap<u32, u64>| {
            let moved = |(worker, jobs): (&u32, &u64)| before.get(worker) < Some(jobs);
            now.iter().filter(|it| moved(*it)).count() == 2 * CLIENTS as usize
        };
        let all = tokio::time::timeout(PATIENCE, done.wait_for(more)).await;
        all.expect("everybody goes on").expect("clients that live");
    }

    /// How many jobs were pushed so far.
    pub fn pushed(&self) -> u64 {
        *self.floor.pushed.borrow()
    }

    /// Something is about to go wrong that may take the answers of so many looks for jobs of each engine with it. Workers wait
    /// on and do not hear of it, but the jobs of such an answer were leased: for the tale, by calls without an answer.
    pub fn trouble(&self, looks: u32) {
        for process in 0..looks * CLIENTS {
            self.recorder.invoke(Event {
                process: 100 + process,
                op: Op::Lease,
                limit: Some(MAX),
                ..Event::default()
            });
        }
    }

    /// Redis is back after a kill.
    pub fn killed(&self) {
        self.recorder.mark(Op::Killed);
    }

    /// How many calls found Redis away, and how many had no answer.
    pub fn failures(&self) -> (u64, u64) {
        let floor = &self.floor;
        (floor.unavailable.load(Relaxed), floor.unknown.load(Relaxed))
    }

    /// How many calls of the last engine failed either way.
    pub fn failures_of_the_last(&self) -> u64 {
        self.floor.failed_last.load(Relaxed)
    }

    /// Lets every producer get its last answer, and the workers everything that is left.
    pub async fn drain(&mut self) {
        self.floor.enough.store(true, Relaxed);
        let last = async {
            while let Some(ended) = self.producers.join_next().await {
                ended.expect("a producer that does not panic");
            }
        };
        within(last).await;
        let mut settled = self.floor.settled.subscribe();
        let empty = async {
            loop {
                match self.engines[0].queues(None).await {
                    Ok(queues) if queues.iter().all(|queue| queue.books.live == 0) => return,
                    Ok(_) => {}
                    // Of several shards, one that was away is taken for away until it was looked at again.
                    Err(error) => assert_eq!(error.code(), Code::Unavailable, "{error}"),
                }
                // A job may also come to its end without an answer.
                let pause = self.floor.plan.ttr / 10;
                let _ = tokio::time::timeout(pause, settled.changed()).await;
                if let Some(ended) = self.workers.try_join_next() {
                    ended.expect("a worker that does not panic");
                }
            }
        };
        within(empty).await;
        self.workers.shutdown().await;
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("took too long")
}

/// One client.
struct Member {
    witness: Witness,
    process: u32,
    engine: usize,
    queue: QueueName,
    floor: Arc<Floor>,
}

impl Member {
    fn moved(&self) {
        self.floor
            .moved
            .send_modify(|moved| *moved.entry(self.process).or_default() += 1);
    }
}

/// A client that found nobody asks again soon.
async fn rest() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn produce(member: Member) {
    let floor = &member.floor;
    let mut beat = floor.plan.pace.map(interval);
    if let Some(beat) = &mut beat {
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    }
    let mut number = 0;
    while !floor.enough.load(Relaxed) {
        if let Some(beat) = &mut beat {
            beat.tick().await;
        }
        let Ok(Ok(room)) = tokio::time::timeout(PATIENCE, floor.room.acquire()).await else {
            panic!("the workers are deaf");
        };
        room.forget();
        number += 1;
        push_until_answered(&member, number).await;
        floor.pushed.send_modify(|count| *count += 1);
        member.moved();
    }
}

async fn push_until_answered(member: &Member, number: u64) -> Pushed {
    let key = format!("{}-{number}", member.process);
    let job = NewJob {
        queue: member.queue.clone(),
        spec: JobSpec {
            // No two payloads are alike, and none is the same as its key.
            payload: format!("of {key}").into(),
            key: Some(Key {
                name: key,
                on_duplicate: OnDuplicate::Return,
                window: DEFAULT_KEY_WINDOW,
            }),
            ttr: member.floor.plan.ttr,
            ..JobSpec::default()
        },
    };
    loop {
        let answers = member.witness.push(vec![job.clone()]).await;
        match answers.and_then(|mut answers| answers.remove(0)) {
            Ok(pushed) => return pushed,
            Err(error) => member.floor.failed(&error, member.engine),
        }
        rest().await;
    }
}

async fn work(member: Member) {
    let floor = &member.floor;
    loop {
        let ask = Ask {
            queues: vec![member.queue.clone()],
            job: None,
            pick: Pick::First,
            max: MAX,
            wait: Duration::from_secs(3600),
            ttr: None,
            worker: format!("worker-{}", member.process).into(),
        };
        match member.witness.lease(ask).await {
            Ok(leased) => {
                for one in leased {
                    settle(&member, one).await;
                }
            }
            Err(error) => {
                floor.failed(&error, member.engine);
                rest().await;
            }
        }
    }
}

async fn settle(member: &Member, leased: Leased) {
    let token = leased.token;
    let outcome = ack();
    match member.witness.settle(Settle { token, outcome }).await {
        Ok(settled) => {
            assert_eq!(settled.id, token.job, "an answer to another call");
            member.floor.settled.send_modify(|count| *count += 1);
            member.moved();
        }
        // It took longer than the lease, because Redis was away.
        Err(error) if error.code() == Code::LeaseLost => {}
        Err(error) => member.floor.failed(&error, member.engine),
    }
    member.floor.room.add_permits(1);
}
