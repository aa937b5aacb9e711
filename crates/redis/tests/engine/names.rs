//! Queues that go: the limit of names, several processes that forget at once, and what a hand in the keys leaves behind.

use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_conformance::bench::{ack, named, plain, queue, run, secs};
use auxo_conformance::queue_limit;
use auxo_core::clock::ManualClock;
use auxo_core::{Engine, NewJob};
use auxo_redis::{Options, RedisEngine};

use crate::store::on;
use auxo_harness::redis::Single;

async fn open(server: &Single, clock: &Arc<ManualClock>) -> Arc<RedisEngine> {
    let options = Options {
        clock: Some(clock.clone()),
    };
    let url = server.url("?durability=none").parse().unwrap();
    Arc::new(RedisEngine::open(&url, options).await.unwrap())
}

fn bench(engine: &Arc<RedisEngine>, clock: &Arc<ManualClock>) -> Bench {
    Bench {
        engine: engine.clone(),
        clock: clock.clone(),
        steady: false,
        together: true,
        reopen: None,
    }
}

#[test]
fn at_the_limit_the_longest_unused_queue_makes_room() {
    run(async {
        let server = Arc::new(Single::start(&[]));
        let t = on(server.url("?durability=none"), server.clone()).await;
        server.ask(&["HSET", "auxo{0}:meta", "queues", "8"]);
        queue_limit::at_the_limit_the_longest_unused_queue_makes_room(&t, 8).await;
    });
}

/// A batch of new names takes the places of as many unused queues; where there are too few of those, the rest is refused.
#[test]
fn a_batch_of_new_names_takes_the_places_of_unused_queues() {
    run(async {
        let server = Arc::new(Single::start(&[]));
        let t = on(server.url("?durability=none"), server.clone()).await;
        server.ask(&["HSET", "auxo{0}:meta", "queues", "300"]);
        for number in 0..300 {
            t.use_up(&named(&format!("old{number}"))).await;
        }
        let job = |number| NewJob {
            queue: named(&format!("new{number}")),
            spec: plain(),
        };
        let pushed = t.engine.push((0..350).map(job).collect()).await.unwrap();
        assert_eq!(pushed.iter().filter(|pushed| pushed.is_ok()).count(), 300);
        assert_eq!(t.engine.queues(None).await.unwrap().len(), 300);
        assert_eq!(t.forgotten().await.done, 300);
        t.check_books().await;
    });
}

/// Two processes find the same queues unused at the same moment: each queue's books are added once.
#[test]
fn two_processes_forget_a_queue_once() {
    run(async {
        let server = Single::start(&[]);
        let clock = ManualClock::at(1_700_000_000_000);
        let (one, other) = (open(&server, &clock).await, open(&server, &clock).await);
        let t = bench(&one, &clock);
        for round in 1..=3 {
            for number in 0..120 {
                t.use_up(&named(&format!("q{number}"))).await;
            }
            t.pass(secs(3600));
            let (here, there) = tokio::join!(one.queues(None), other.queues(None));
            assert_eq!((here.unwrap(), there.unwrap()), (vec![], vec![]));
            let books = other.forgotten().await.unwrap();
            assert_eq!((books.accepted, books.done), (120 * round, 120 * round));
        }
        t.check_books().await;
        let keys = server.ask(&["KEYS", "*"]);
        assert!(!format!("{keys:?}").contains("q:q"), "{keys:?}");
    });
}

/// A worker that waits at one process keeps the queue that another one finds unused.
#[test]
fn a_call_that_waits_at_another_process_keeps_its_queue() {
    run(async {
        let server = Single::start(&[]);
        let clock = ManualClock::at(1_700_000_000_000);
        let (one, other) = (open(&server, &clock).await, open(&server, &clock).await);
        let (here, there) = (bench(&one, &clock), bench(&other, &clock));
        here.use_up(&queue()).await;
        let waits = there.wait_on(&[queue()], 1).await;
        here.until_waiting(&queue(), 1).await;
        clock.advance(secs(3599));
        assert!(here.is_known(&queue()).await);
        here.push(plain()).await;
        let leased = there.answer(waits).await;
        here.settle(leased[0].token, ack()).await;
        clock.advance(secs(3600));
        assert!(!there.is_known(&queue()).await);
        assert_eq!(there.forgotten().await.done, 2);
    });
}

/// A queue of which nobody noted that it has no jobs is found by the auditor.
#[test]
fn the_auditor_finds_queues_that_nobody_noted_as_unused() {
    run(async {
        let server = Single::start(&[]);
        let clock = ManualClock::at(1_700_000_000_000);
        let engine = open(&server, &clock).await;
        let t = bench(&engine, &clock);
        t.use_up(&queue()).await;
        server.ask(&["DEL", "auxo{0}:unused"]);
        t.pass(secs(2 * 3600));
        assert!(t.is_known(&queue()).await);
        engine.repair().await.unwrap();
        t.pass(secs(3600));
        assert!(!t.is_known(&queue()).await);
    });
}
