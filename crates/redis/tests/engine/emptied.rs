//! A store that was emptied, or replaced by another one, is not filled again by who does not know.

use std::time::Duration;

use auxo_conformance::bench::{asking, plain, queue};
use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, Engine, Error, NewJob, Result};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::{Single, wait};

async fn open(server: &Single, options: &str) -> RedisEngine {
    let url = server.url(options).parse().expect("a good URL");
    let engine = RedisEngine::open(&url, Options::default()).await;
    engine.expect("the store opens")
}

async fn push(engine: &RedisEngine) -> Result<()> {
    let job = NewJob {
        queue: queue(),
        spec: plain(),
    };
    engine.push(vec![job]).await?.remove(0).map(|_| ())
}

#[track_caller]
fn is_gone(error: Error) {
    assert_eq!(error.code(), Code::Unavailable);
    let text = error.message();
    assert!(text.contains("emptied or replaced"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_nothing_is_told_as_well() {
    let server = Single::start(&[]);
    let engine = open(&server, "?durability=none").await;
    push(&engine).await.expect("a push");
    engine.health().expect("all is well");
    server.ask(&["FLUSHALL"]);
    wait("health is an error", || engine.health().is_err());
    is_gone(engine.health().unwrap_err());
}

#[tokio::test]
async fn no_call_fills_a_store_that_was_emptied() {
    let server = Single::start(&[]);
    for call in ["push", "lease", "change", "list", "audit"] {
        let engine = open(&server, "?durability=none&shards=3").await;
        push(&engine).await.expect("a push");
        server.ask(&["FLUSHALL"]);
        let answer = match call {
            "push" => push(&engine).await,
            "lease" => {
                let ask = asking(&[queue()], 1, Duration::ZERO);
                engine.lease(ask).await.map(|_| ())
            }
            "change" => {
                let change = Change::Queue(queue(), QueueConfig::default());
                engine.change(change).await
            }
            "list" => engine.list(Default::default()).await.map(|_| ()),
            _ => engine.audit().await.map(|_| ()),
        };
        is_gone(answer.expect_err("a store that is gone"));
        is_gone(push(&engine).await.expect_err("nor any other call"));
        assert_eq!(server.ask(&["DBSIZE"]).int(), 0, "{call} wrote something");
    }
}

#[tokio::test]
async fn a_process_that_starts_again_makes_a_new_store_which_is_not_that_of_the_others() {
    let server = Single::start(&[]);
    let old = open(&server, "?durability=none").await;
    let same = open(&server, "?durability=none").await;
    push(&old).await.expect("a push");
    push(&same).await.expect("a push into the same store");
    server.ask(&["FLUSHALL"]);
    let new = open(&server, "?durability=none").await;
    push(&new).await.expect("a push into the new store");
    is_gone(push(&old).await.expect_err("the old store is gone"));
    assert_eq!(new.queues(None).await.unwrap()[0].counts.ready, 1);
}
