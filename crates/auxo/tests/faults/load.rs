//! Producers and workers that go on whatever happens, and write down what they see.
//!
//! A producer takes a key and pushes it again and again until it is answered. A worker leases and acks; an ack without an
//! answer is unknown and left at that. Half of each use the Rust client, half of them speak HTTP by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use auxo::core::QueueName;
use auxo::core::engine::{Accepted, Ask, Pick, Settle};
use auxo::core::job::{DEFAULT_KEY_WINDOW, DEFAULT_MAX_ATTEMPTS, Key, NewJob};
use auxo::{Code, JobSpec, OnDuplicate, Outcome, Remote};
use auxo_conformance::history::{Event, Op, Recorder, hash};
use auxo_conformance::witness::Witness;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::by_hand;
use crate::raw::ask;
use crate::server::PATIENCE;

/// How long a job that nobody settled is gone. Short: many are lost to every fault.
pub const TTR: Duration = Duration::from_secs(1);
/// About how many jobs are open at most.
const BACKLOG: usize = 400;

/// Sixteen clients at work.
pub struct Load {
    server: SocketAddr,
    recorder: Arc<Recorder>,
    floor: Arc<Floor>,
    answers: mpsc::UnboundedReceiver<()>,
    producers: JoinSet<()>,
    workers: JoinSet<()>,
}

/// What the clients share.
pub struct Floor {
    pub recorder: Arc<Recorder>,
    /// Producers begin nothing more.
    pub enough: AtomicBool,
    /// Workers lease nothing more.
    pub over: AtomicBool,
    /// A permit for each job that may be pushed.
    pub room: Semaphore,
    answered: mpsc::UnboundedSender<()>,
}

impl Floor {
    pub fn note(&self) {
        // Whoever counts may have stopped counting.
        let _ = self.answered.send(());
    }
}

impl Load {
    /// Puts a load on the server at this address.
    pub fn start(server: SocketAddr) -> Load {
        Load::through(server, server)
    }

    /// Puts a load on a server through something that stands before it.
    pub fn through(address: SocketAddr, server: SocketAddr) -> Load {
        let recorder = Arc::new(Recorder::in_memory());
        let (answered, answers) = mpsc::unbounded_channel();
        let floor = Arc::new(Floor {
            recorder: recorder.clone(),
            enough: AtomicBool::new(false),
            over: AtomicBool::new(false),
            room: Semaphore::new(BACKLOG),
            answered,
        });
        let (mut producers, mut workers) = (JoinSet::new(), JoinSet::new());
        // One handle for all, so that its pool is shared.
        let client = Arc::new(Remote::new(&format!("http://{address}")).unwrap());
        for n in 1..=4 {
            let witness = |process| Witness::new(client.clone(), recorder.clone(), process);
            producers.spawn(produce(floor.clone(), witness(n), n));
            workers.spawn(work(floor.clone(), witness(n + 4)));
            producers.spawn(by_hand::produce(floor.clone(), address, n + 8));
            workers.spawn(by_hand::work(floor.clone(), address, n + 12));
        }
        Load {
            server,
            recorder,
            floor,
            answers,
            producers,
            workers,
        }
    }

    /// Waits for so many answers from now on.
    pub async fn progress(&mut self, answers: u64) {
        while self.answers.try_recv().is_ok() {}
        for _ in 0..answers {
            let answer = tokio::time::timeout(PATIENCE, self.answers.recv()).await;
            answer
                .expect("the load goes on")
                .expect("clients that live");
        }
    }

    /// Notes that the server is up again after a kill.
    pub fn killed(&self) {
        self.recorder.mark(Op::Killed);
    }

    /// Lets every producer get its last answer, and the workers everything that is left.
    pub async fn drain(mut self) -> Arc<Recorder> {
        self.floor.enough.store(true, Relaxed);
        within(async {
            while self
                .producers
                .join_next()
                .await
                .transpose()
                .unwrap()
                .is_some()
            {}
        })
        .await;
        within(async {
            loop {
                let (status, queue) = ask(self.server, "GET", "/v1/queues/q", "").await;
                assert_eq!(status, 200, "{queue}");
                if queue["books"]["live"] == 0 {
                    return;
                }
                // A job may also come to its end without an answer.
                let _ = tokio::time::timeout(TTR / 10, self.answers.recv()).await;
            }
        })
        .await;
        self.floor.over.store(true, Relaxed);
        within(async {
            while self
                .workers
                .join_next()
                .await
                .transpose()
                .unwrap()
                .is_some()
            {}
        })
        .await;
        self.recorder
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.expect("took too long")
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

/// No two payloads are alike, and none is the same as its key.
pub fn payload(key: &str) -> String {
    json!({ "of": key }).to_string()
}

/// A client that found nobody asks again soon.
pub async fn rest() {
    tokio::time::sleep(Duration::from_millis(20)).await;
}

async fn produce(floor: Arc<Floor>, witness: Witness, process: u32) {
    let mut number = 0;
    while !floor.enough.load(Relaxed) {
        floor.room.acquire().await.unwrap().forget();
        number += 1;
        let key = format!("{process}-{number}");
        let spec = JobSpec {
            payload: payload(&key).into(),
            key: Some(Key {
                name: key,
                on_duplicate: OnDuplicate::Return,
                window: DEFAULT_KEY_WINDOW,
            }),
            ttr: TTR,
            ..JobSpec::default()
        };
        let job = NewJob {
            queue: queue(),
            spec,
        };
        let pushed = loop {
            match witness.push(vec![job.clone()]).await {
                Ok(mut answers) => break answers.remove(0).unwrap(),
                Err(error) => assert!(is_away(error.code()), "{error}"),
            }
            rest().await;
        };
        if pushed.how == Accepted::Existing {
            // The client sends such a push again by itself. The try that made the job had no answer, and is not in the tale.
            let name = &job.spec.key.as_ref().unwrap().name;
            floor.recorder.invoke(pushing(process, name));
        }
        floor.note();
    }
}

pub fn pushing(process: u32, key: &str) -> Event {
    Event {
        process,
        op: Op::Push,
        hash: Some(hash(payload(key).as_bytes())),
        key: Some(format!("q/{key}")),
        window: Some(DEFAULT_KEY_WINDOW.as_millis() as u64),
        limit: Some(DEFAULT_MAX_ATTEMPTS),
        ..Event::default()
    }
}

fn is_away(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::UnknownOutcome)
}

async fn work(floor: Arc<Floor>, witness: Witness) {
    while !floor.over.load(Relaxed) {
        let ask = Ask {
            queues: vec![queue()],
            job: None,
            pick: Pick::First,
            max: 4,
            wait: Duration::from_millis(100),
            ttr: None,
            worker: "rust".into(),
        };
        let leased = match witness.lease(ask).await {
            Ok(leased) => leased,
            Err(error) => {
                assert!(is_away(error.code()), "{error}");
                rest().await;
                continue;
            }
        };
        for one in leased {
            let token = one.token;
            let outcome = Outcome::Ack { result: None };
            match witness.settle(Settle { token, outcome }).await {
                Ok(settled) => assert_eq!(settled.id, token.job, "an answer to another call"),
                Err(error) => {
                    let known = is_away(error.code()) || error.code() == Code::LeaseLost;
                    assert!(known, "{error}");
                }
            }
            floor.room.add_permits(1);
            floor.note();
        }
    }
}
