//! A shard that moves from one node to another under load loses nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use auxo_conformance::bench::{ack, asking, named, secs, text};
use auxo_core::engine::Settle;
use auxo_core::{Engine, JobSpec, NewJob};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::{ClusterSet, wait};

/// How often the slot of the queue goes from one node to the other.
const MOVES: usize = 20;
/// How many calls there are at least between two moves.
const CALLS: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shard_that_moves_back_and_forth_loses_nothing() {
    let cluster = Arc::new(ClusterSet::start(3));
    let url = cluster.url("?durability=none&shards=1").parse().unwrap();
    let engine = Arc::new(RedisEngine::open(&url, Options::default()).await.unwrap());
    let queue = named("hot");
    let (stop, failed, calls) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut producers = Vec::new();
    for producer in 0..4 {
        let (engine, queue) = (engine.clone(), queue.clone());
        let (stop, failed, calls) = (stop.clone(), failed.clone(), calls.clone());
        producers.push(tokio::spawn(async move {
            let mut pushed = Vec::new();
            for number in 0.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let job = NewJob {
                    queue: queue.clone(),
                    spec: JobSpec {
                        payload: text(&format!("{producer}-{number}")),
                        ..JobSpec::default()
                    },
                };
                calls.fetch_add(1, Ordering::Relaxed);
                match engine.push(vec![job]).await {
                    Ok(answers) => pushed.push(answers[0].as_ref().unwrap().id),
                    Err(error) => {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("push: {error}");
                    }
                }
            }
            pushed
        }));
    }
    let worker = {
        let (engine, queue) = (engine.clone(), queue.clone());
        let (failed, calls) = (failed.clone(), calls.clone());
        tokio::spawn(async move {
            let mut done = BTreeSet::new();
            loop {
                calls.fetch_add(1, Ordering::Relaxed);
                let leased = match engine
                    .lease(asking(std::slice::from_ref(&queue), 50, secs(10)))
                    .await
                {
                    Ok(leased) => leased,
                    Err(error) => {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("lease: {error}");
                        continue;
                    }
                };
                if leased.is_empty() {
                    return done;
                }
                let ends = leased.iter().map(|leased| Settle {
                    token: leased.token,
                    outcome: ack(),
                });
                calls.fetch_add(1, Ordering::Relaxed);
                match engine.settle(ends.collect()).await {
                    Ok(answers) => {
                        for (leased, answer) in leased.iter().zip(answers) {
                            answer.expect("a lease that runs");
                            assert!(done.insert(leased.job.id), "done twice");
                        }
                    }
                    Err(error) => {
                        failed.fetch_add(1, Ordering::Relaxed);
                        println!("settle: {error}");
                    }
                }
            }
        })
    };
    let seen = calls.clone();
    let moved = tokio::task::spawn_blocking(move || {
        let slot = cluster.slot("auxo{0}:meta");
        for _ in 0..MOVES {
            let before = seen.load(Ordering::Relaxed);
            wait("more calls", || {
                seen.load(Ordering::Relaxed) > before + CALLS
            });
            let from = cluster.owner(slot);
            cluster.move_slot(slot, from, (from + 1) % 3);
        }
        cluster
    });
    let _cluster = moved.await.expect("the moves end");
    stop.store(true, Ordering::Relaxed);
    let mut pushed = BTreeSet::new();
    for producer in producers {
        pushed.extend(producer.await.expect("a producer"));
    }
    let done = worker.await.expect("a worker");
    let lost = pushed.difference(&done).count();
    let (failed, calls) = (
        failed.load(Ordering::Relaxed),
        calls.load(Ordering::Relaxed),
    );
    println!(
        "{MOVES} moves, {} jobs acked, {} done, {lost} lost; {failed} of {calls} calls failed",
        pushed.len(),
        done.len()
    );
    assert_eq!(lost, 0);
    assert!(
        failed * 1000 <= calls,
        "more than one call in a thousand failed"
    );
    let audit = engine.audit().await.unwrap();
    assert_eq!(audit.problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_another_server_took_over_the_auditor_does_not_wait_for_its_minute() {
    let cluster = Arc::new(ClusterSet::start(3));
    let url = cluster.url("?durability=none&shards=1").parse().unwrap();
    let engine = RedisEngine::open(&url, Options::default()).await.unwrap();
    let job = NewJob {
        queue: named("q"),
        spec: JobSpec::default(),
    };
    let pushed = engine.push(vec![job]).await.unwrap();
    let id = pushed[0].as_ref().unwrap().id;
    let moved = tokio::task::spawn_blocking(move || {
        let slot = cluster.slot("auxo{0}:meta");
        let from = cluster.owner(slot);
        let line = format!("auxo{{0}}:l:{}:q", JobSpec::default().priority);
        assert_eq!(cluster.servers[from].ask(&["DEL", &line]).int(), 1);
        cluster.move_slot(slot, from, (from + 1) % 3);
        cluster
    });
    let _cluster = moved.await.unwrap();
    wait("the job is put back", || engine.repaired() == 1);
    let leased = engine.lease(asking(&[named("q")], 1, secs(5))).await;
    assert_eq!(leased.unwrap()[0].job.id, id);
}
