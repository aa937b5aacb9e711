//! Callers do their own calls, and the core thread the rest: nothing may be left lying between them. On real clocks and
//! real threads, with a limit on the time instead of sleeps.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Ask, Outcome, Pick, Settle};
use auxo_core::{Engine, JobSpec, NewJob, QueueName, Token, When};
use auxo_embedded::disk::SimDisk;
use auxo_embedded::{Embedded, Options, Sync};

const LIMIT: Duration = Duration::from_secs(60);

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn engine(sync: Sync) -> Arc<Embedded> {
    let options = Options {
        sync,
        segment_size: 64 << 10,
        ..Options::default()
    };
    Arc::new(Embedded::on(Arc::new(SimDisk::new()), options).unwrap())
}

async fn push(engine: &Embedded, when: When) {
    let spec = JobSpec {
        when,
        ..JobSpec::default()
    };
    let job = NewJob {
        queue: queue(),
        spec,
    };
    engine.push(vec![job]).await.unwrap().remove(0).unwrap();
}

/// Waits for a job.
async fn lease(engine: &Embedded) -> Token {
    let ask = Ask {
        queues: vec![queue()],
        job: None,
        pick: Pick::First,
        max: 1,
        wait: LIMIT,
        ttr: None,
        worker: "w".into(),
    };
    engine.lease(ask).await.unwrap().remove(0).token
}

async fn ack(engine: &Embedded, token: Token) {
    let ack = Settle {
        token,
        outcome: Outcome::Ack { result: None },
    };
    engine.settle(vec![ack]).await.unwrap().remove(0).unwrap();
}

/// Waits for a job and acks it.
async fn work(engine: &Embedded) {
    let token = lease(engine).await;
    ack(engine, token).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_due_time_that_is_earlier_than_the_one_slept_for_is_kept() {
    let engine = engine(Sync::Os);
    push(&engine, When::After(Duration::from_secs(3600))).await;
    let waiting = engine.clone();
    let waiter = tokio::spawn(async move { work(&waiting).await });
    // The core thread is told of the hour first, whichever of the two calls comes first: a call that it does itself is
    // answered only after it has looked.
    engine.queues(None).await.unwrap();
    push(&engine, When::After(Duration::from_millis(20))).await;
    let done = tokio::time::timeout(LIMIT, waiter).await;
    done.expect("the due job wakes its waiter").unwrap();
}

/// Every job is pushed by one task and done by another, with calls of the core thread in between.
async fn nothing_is_left_lying(sync: Sync) {
    const TASKS: usize = 32;
    const ROUNDS: usize = 50;
    let engine = engine(sync);
    let mut tasks = Vec::new();
    for number in 0..TASKS {
        let engine = engine.clone();
        tasks.push(tokio::spawn(async move {
            for round in 0..ROUNDS {
                push(&engine, When::Now).await;
                work(&engine).await;
                if (number + round) % 16 == 0 {
                    engine.queues(None).await.unwrap();
                }
            }
        }));
    }
    for task in tasks {
        let done = tokio::time::timeout(LIMIT, task).await;
        done.expect("no call is forgotten").unwrap();
    }
    let books = engine.queues(None).await.unwrap()[0].books;
    assert_eq!((books.live, books.done), (0, (TASKS * ROUNDS) as u64));
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_is_forgotten_when_many_threads_call_at_once() {
    nothing_is_left_lying(Sync::Os).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_is_forgotten_while_syncs_are_under_way() {
    nothing_is_left_lying(Sync::Always).await;
}

#[tokio::test]
async fn no_call_is_forgotten_on_a_single_thread() {
    nothing_is_left_lying(Sync::Always).await;
}

/// Whom the engine told first of a job: who pushed it, or who waited for it.
async fn first_told(engine: &Arc<Embedded>) -> &'static str {
    // A queue that there is shows who waits in it.
    push(engine, When::Now).await;
    work(engine).await;
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let waits = {
        let (engine, told) = (engine.clone(), told.clone());
        tokio::spawn(async move {
            let token = lease(&engine).await;
            told.lock().unwrap().push("worker");
            ack(&engine, token).await;
        })
    };
    while engine.queues(None).await.unwrap()[0].waiting == 0 {
        tokio::task::yield_now().await;
    }
    push(engine, When::Now).await;
    told.lock().unwrap().push("producer");
    waits.await.unwrap();
    told.lock().unwrap()[0]
}

/// The one who waits has something to do. Not each time: the core thread may be just done with showing the queue, and does the push
/// along with it.
#[tokio::test]
async fn who_waits_for_a_job_has_it_before_who_pushed_it_is_answered() {
    let engine = engine(Sync::Os);
    for _ in 0..20 {
        if first_told(&engine).await == "worker" {
            return;
        }
    }
    panic!("who pushed was always first");
}

/// Two threads call at the same moment and nobody afterwards: what is left lying then lies there for ever.
#[test]
fn no_call_is_forgotten_when_nobody_calls_afterwards() {
    const ROUNDS: usize = 2000;
    let engine = engine(Sync::Always);
    let barrier = Arc::new(std::sync::Barrier::new(2));
    let rounds = |calls: usize| {
        let (engine, barrier) = (engine.clone(), barrier.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            for round in 0..ROUNDS {
                barrier.wait();
                let both = async {
                    let second = async {
                        if calls == 2 {
                            push(&engine, When::Now).await;
                        }
                    };
                    tokio::join!(push(&engine, When::Now), second)
                };
                let done = runtime.block_on(async { tokio::time::timeout(LIMIT, both).await });
                done.unwrap_or_else(|_| panic!("round {round}: a push is never answered"));
            }
        })
    };
    let (pair, single) = (rounds(2), rounds(1));
    pair.join().unwrap();
    single.join().unwrap();
}
