//! The auditor's beats, with a real server. It is a part of the crate, so that no test has to wait for a minute.

use auxo_conformance::bench::{plain, queue};
use auxo_core::{Engine, NewJob};

use super::*;
use crate::link::tests::servers::Single;
use crate::{Options, RedisEngine};

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

/// How often each of the auditor's scripts ran during a beat: by their text, Redis counts them as one.
async fn calls(engine: &RedisEngine, server: &Single, clean: &mut BTreeMap<u16, String>) -> usize {
    let mut monitor = server.client();
    monitor.ask(&["MONITOR"]);
    let beaten = beat(&engine.store, 0, Duration::ZERO, clean).await;
    beaten.expect("a beat");
    server.ask(&["ECHO", "all was heard"]);
    let ours = [
        &script::CLAIM,
        &script::AUDIT,
        &script::STRAYS,
        &script::REPAIR,
        &script::QUEUES,
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
    let mut clean = BTreeMap::new();
    // The first beat teaches Redis the scripts.
    for jobs in 0..3 {
        let first = calls(&engine, &server, &mut clean).await;
        assert!(first > 2, "{first} calls for a walk through {jobs} jobs");
        for _ in 0..3 {
            assert_eq!(calls(&engine, &server, &mut clean).await, 1);
        }
        push(&engine).await;
    }
}

#[tokio::test]
async fn a_beat_mends_what_a_hand_did_though_nothing_else_happened() {
    let server = Single::start(&[]);
    let engine = open(&server).await;
    let mut clean = BTreeMap::new();
    push(&engine).await;
    let now = async |clean: &mut BTreeMap<u16, String>| {
        let beaten = beat(&engine.store, 0, Duration::ZERO, clean).await;
        beaten.expect("a beat");
    };
    now(&mut clean).await;
    assert_eq!(engine.repaired(), 0);
    for (deed, key) in [("DEL", "auxo{0}:l:1024:q"), ("DEL", "auxo{0}:c:q")] {
        let before = engine.repaired();
        server.ask(&[deed, key]);
        now(&mut clean).await;
        assert_eq!(engine.repaired(), before + 1, "{deed} {key}");
        let problems = engine.audit().await.expect("an audit").problems;
        assert_eq!(problems, Vec::<String>::new());
        now(&mut clean).await;
    }
}

#[tokio::test]
async fn one_process_at_a_time_looks_after_a_shard() {
    let server = Single::start(&[]);
    let (first, second) = (open(&server).await, open(&server).await);
    assert!(claim(&first.store, 0).await.expect("a claim").is_some());
    assert!(claim(&second.store, 0).await.expect("a claim").is_none());
    assert!(claim(&first.store, 0).await.expect("a claim").is_some());
    let left = server.ask(&["PTTL", "auxo{0}:auditor"]).int();
    assert!((1..=90_000).contains(&left), "it ends by itself: {left}");
    server.ask(&["DEL", "auxo{0}:auditor"]);
    assert!(claim(&second.store, 0).await.expect("a claim").is_some());
    assert!(claim(&first.store, 0).await.expect("a claim").is_none());
}

#[tokio::test]
async fn the_documented_user_is_allowed_all_that_a_beat_needs() {
    let server = Single::start(&[]);
    let engine = open_at(&server.limited(&[], "?durability=none")).await;
    push(&engine).await;
    server.ask(&["DEL", "auxo{0}:l:1024:q"]);
    let beaten = beat(&engine.store, 0, Duration::ZERO, &mut BTreeMap::new()).await;
    beaten.expect("a beat");
    assert_eq!(engine.repaired(), 1);
}
