//! A queue that is spread over the nodes of a cluster, one of which is gone or hangs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_conformance::bench::{asking, code, named, plain, secs};
use auxo_core::engine::{Change, Holds, NamedJob};
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, Engine, NewJob};
use auxo_redis::RedisEngine;

use crate::load::open;
use auxo_harness::proxy::{Net, Plan, Proxy, Way};
use auxo_harness::redis::{ClusterSet, Server};

const SHARDS: u16 = 16;
/// What a call may take beyond what it waits, on a machine that is busy with other tests.
const SLACK: Duration = Duration::from_secs(2);
/// The store's timeout.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A queue over all shards of a cluster of three nodes, with some jobs in each.
async fn spread() -> (ClusterSet, Arc<RedisEngine>) {
    let cluster = tokio::task::block_in_place(|| ClusterSet::start(3));
    let engine = open(&cluster.url("?durability=none")).await;
    let config = QueueConfig {
        shards: Some(SHARDS),
        ..QueueConfig::default()
    };
    engine
        .change(Change::Queue(named("q"), config))
        .await
        .unwrap();
    let job = |_| NewJob {
        queue: named("q"),
        spec: plain(),
    };
    let pushed = engine.push((0..SHARDS * 2).map(job).collect()).await;
    pushed
        .unwrap()
        .into_iter()
        .for_each(|one| assert!(one.is_ok(), "{one:?}"));
    (cluster, engine)
}

/// Whether an answer says that not all shards could be asked. One that hangs may have been asked, and have answered nothing.
fn unsure(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::UnknownOutcome)
}

/// Takes all that can be reached, and then waits for more.
async fn take(engine: &RedisEngine) {
    let mut got = 0;
    loop {
        let began = Instant::now();
        let leased = engine.lease(asking(&[named("q")], 1, secs(1))).await;
        let took = began.elapsed();
        assert!(took < secs(1) + SLACK, "{took:?} for {leased:?}");
        match leased {
            Ok(leased) => got += leased.len(),
            // Of nothing it is told that it may not be all.
            Err(error) => {
                assert!(unsure(error.code()), "{error}");
                break;
            }
        }
    }
    assert!(got > 0, "what lives gives");
    // What is known to be away is not waited for.
    let began = Instant::now();
    let nothing = engine.lease(asking(&[named("q")], 1, Duration::ZERO)).await;
    assert!(unsure(code(nothing)));
    let took = began.elapsed();
    assert!(took < TIMEOUT + SLACK, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spread_queue_gives_what_it_has_in_time_though_a_node_is_gone() {
    let (mut cluster, engine) = spread().await;
    cluster.servers[1].kill();
    take(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spread_queue_gives_what_it_has_in_time_though_a_node_hangs() {
    let (cluster, engine) = spread().await;
    cluster.servers[1].pause();
    take(&engine).await;
    // When its shards are known to be away, a call does not ask them, but says what is remembered of them.
    let mut said = String::new();
    for _ in 0..30 {
        let nothing = engine.lease(asking(&[named("q")], 1, Duration::ZERO)).await;
        said = nothing.unwrap_err().to_string();
        if said.contains("when it was last asked") {
            break;
        }
        let waiting = engine.lease(asking(&[named("q")], 1, secs(1))).await;
        assert!(waiting.is_err(), "{waiting:?}");
    }
    assert!(said.contains("when it was last asked"), "{said}");
    cluster.servers[1].resume();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_ends_in_time_though_redis_hangs() {
    let server = Server::start(&[]);
    let mut network = Proxy::new(server.address().parse().unwrap(), Plan::default).await;
    let options = "?durability=none&timeout=2s";
    let engine = open(&format!("redis://{}{options}", network.address)).await;
    let job = NewJob {
        queue: named("q"),
        spec: plain(),
    };
    let id = engine.push(vec![job]).await.unwrap().remove(0).unwrap().id;
    network.set(Net::OneWay(Way::Up));
    // A call that waits has its desk busy when the others come.
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.lease(asking(&[named("q")], 1, secs(3))).await }
    });
    network.until_held(1).await;
    let mut by_id = asking(&[named("q")], 1, Duration::ZERO);
    by_id.job = Some(NamedJob {
        id,
        holds: Holds::Bypass,
    });
    for ask in [asking(&[named("q")], 1, Duration::ZERO), by_id] {
        let began = Instant::now();
        assert!(engine.lease(ask).await.is_err());
        let took = began.elapsed();
        assert!(took < secs(2) + SLACK / 2, "{took:?}");
    }
    assert!(waiting.await.unwrap().is_err());
}
