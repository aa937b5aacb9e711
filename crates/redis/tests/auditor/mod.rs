//! The auditor's beats, with a real server. It is a part of the crate, so that no test has to wait for a minute.

use auxo_conformance::bench::{plain, queue};
use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::{Engine, NewJob};

use super::*;
use crate::{Options, RedisEngine};
use auxo_harness::redis::Single;

async fn open(server: &Single) -> RedisEngine {
    open_at(&server.url("?durability=none")).await
}

async fn open_at(url: &str) -> RedisEngine {
    let url = url.parse().expect("a good URL");
    let engine = RedisEngine::open(&url, Options::default()).await;
    engine.expect("the store opens")
}

async fn push(engine: &RedisEngine) {
    let job = NewJob {
        queue: queue(),
        spec: plain(),
    };
    let pushed = engine.push(vec![job]).await.expect("a push");
    pushed[0].as_ref().expect("a job");
}

/// One look at all shards, as if their time had come.
async fn beat(engine: &RedisEngine, rounds: &mut Rounds) {
    let now = Instant::now() + 2 * BEAT;
    rounds.look(&engine.store, now, None).await;
    rounds.shards.iter_mut().for_each(|next| next.at = now);
}

fn rounds(engine: &RedisEngine) -> Rounds {
    Rounds::new(engine.store.shards, Instant::now())
}

/// How many scripts of the auditor ran during a beat.
async fn calls(engine: &RedisEngine, server: &Single, rounds: &mut Rounds) -> usize {
    let mut monitor = server.client();
    monitor.ask(&["MONITOR"]);
    beat(engine, rounds).await;
    server.ask(&["ECHO", "all was heard"]);
    let ours = [
        &script::CLAIM,
        &script::AUDIT,
        &script::STRAYS,
        &script::REPAIR,
        &script::QUEUES,
        &script::SPREAD,
        &script::HELD,
    ];
    let mut calls = 0;
    loop {
        let line = monitor.read().expect("what Redis does");
        let line = line.text();
        if line.contains("all was heard") {
            return calls;
        }
        calls += usize::from(ours.iter().any(|script| line.contains(script.hash())));
    }
}

#[tokio::test]
async fn a_shard_in_which_nothing_changed_costs_one_command() {
    let server = Single::start(&[]);
    let engine = open(&server).await;
    let mut rounds = rounds(&engine);
    // The first beat teaches Redis the scripts.
    for jobs in 0..3 {
        let first = calls(&engine, &server, &mut rounds).await;
        assert!(first > 2, "{first} calls for a walk through {jobs} jobs");
        for _ in 0..3 {
            assert_eq!(calls(&engine, &server, &mut rounds).await, 1);
        }
        push(&engine).await;
    }
}

#[tokio::test]
async fn so_does_one_that_has_a_place_of_a_queue_that_is_spread_and_one_that_others_look_after() {
    let server = Single::start(&[]);
    let engine = open_at(&server.url("?durability=none&shards=16")).await;
    let config = QueueConfig {
        shards: Some(8),
        ..QueueConfig::default()
    };
    let change = Change::Queue(queue(), config);
    engine.change(change).await.expect("a change");
    push(&engine).await;
    // So that the first look at a shard does not happen in between, which leaves something there.
    engine.queues(None).await.expect("an answer");
    let mut mine = rounds(&engine);
    // One to find out, one in which all are the same as before.
    for _ in 0..3 {
        beat(&engine, &mut mine).await;
    }
    assert_eq!(calls(&engine, &server, &mut mine).await, 16);
    let other = open_at(&server.url("?durability=none")).await;
    let mut others = rounds(&other);
    assert_eq!(calls(&other, &server, &mut others).await, 16);
    // And one that changes by somebody's hand alone is looked at.
    let deed = "redis.call('HDEL', KEYS[1], 'config') return 1";
    let key = format!("auxo{{{}}}:q:{}", engine.store.shard_of(&queue()), queue());
    server.ask(&["EVAL", deed, "1", &key]);
    beat(&engine, &mut mine).await;
    assert_eq!(engine.repaired(), 1);
}

#[tokio::test]
async fn a_beat_mends_what_a_hand_did_though_nothing_else_happened() {
    let server = Single::start(&[]);
    let engine = open(&server).await;
    let mut rounds = rounds(&engine);
    push(&engine).await;
    beat(&engine, &mut rounds).await;
    assert_eq!(engine.repaired(), 0);
    for (deed, key) in [("DEL", "auxo{0}:l:1024:q"), ("DEL", "auxo{0}:c:q")] {
        let before = engine.repaired();
        server.ask(&[deed, key]);
        beat(&engine, &mut rounds).await;
        assert_eq!(engine.repaired(), before + 1, "{deed} {key}");
        let problems = engine.audit().await.expect("an audit").problems;
        assert_eq!(problems, Vec::<String>::new());
        beat(&engine, &mut rounds).await;
    }
}

/// Whether a claim is granted.
async fn has(engine: &RedisEngine, deed: &str) -> bool {
    let claimed = claim(&engine.store, 0, deed, "").await.expect("a claim");
    matches!(claimed, Claim::Ours(..))
}

#[tokio::test]
async fn one_process_at_a_time_looks_after_a_shard() {
    let server = Single::start(&[]);
    let (first, second) = (open(&server).await, open(&server).await);
    assert!(has(&first, "walk").await);
    for deed in ["walk", "urgent", "over"] {
        assert!(!has(&second, deed).await, "{deed}");
    }
    let left = server.ask(&["PTTL", "auxo{0}:auditor"]).int();
    assert!((1..=20_000).contains(&left), "it ends by itself: {left}");
    assert!(has(&first, "over").await);
    let left = server.ask(&["PTTL", "auxo{0}:auditor"]).int();
    assert!(
        (60_000..=65_000).contains(&left),
        "longer than a beat: {left}"
    );
    assert!(!has(&second, "walk").await, "the first stays with it");
    assert!(has(&second, "urgent").await, "but it may be gone");
    assert!(!has(&first, "urgent").await);
}

#[tokio::test]
async fn what_is_urgent_is_tried_for_until_somebody_has_walked() {
    let server = Single::start(&[]);
    let (first, second) = (open(&server).await, open(&server).await);
    push(&first).await;
    let mut rounds = rounds(&second);
    let mut now = Instant::now();
    assert!(has(&first, "walk").await);
    rounds.hurry(now);
    for _ in 0..3 {
        rounds.look(&second.store, now, None).await;
        assert!(rounds.shards[0].urgent && rounds.next() <= now + RETRY);
        now = rounds.next();
    }
    // The one that walks is gone, and what it had is damaged.
    server.ask(&["DEL", "auxo{0}:auditor"]);
    server.ask(&["DEL", "auxo{0}:l:1024:q"]);
    rounds.look(&second.store, now, None).await;
    assert_eq!(second.repaired(), 1);
    assert!(!rounds.shards[0].urgent && rounds.next() > now + RETRY);
    // Or it comes to the end, and nobody needs to do it again.
    assert!(has(&first, "urgent").await);
    rounds.hurry(now);
    rounds.look(&second.store, now, None).await;
    assert!(rounds.shards[0].urgent);
    assert!(has(&first, "over").await);
    server.ask(&["SET", "auxo{0}:auditor", "another walk 99999999999999"]);
    rounds.look(&second.store, rounds.next(), None).await;
    assert!(!rounds.shards[0].urgent);
}

#[tokio::test]
async fn the_documented_user_is_allowed_all_that_a_beat_needs() {
    let server = Single::start(&[]);
    let engine = open_at(&server.limited(&[], "?durability=none")).await;
    push(&engine).await;
    server.ask(&["DEL", "auxo{0}:l:1024:q"]);
    beat(&engine, &mut rounds(&engine)).await;
    assert_eq!(engine.repaired(), 1);
}
