//! A call for several shards of which only some can be reached.

use std::sync::Arc;

use auxo_conformance::bench::{ack, asking, code, named, plain, secs};
use auxo_core::engine::{Pushed, Settle};
use auxo_core::{Code, Engine, JobId, NewJob, QueueName, Result};
use auxo_redis::RedisEngine;

use crate::load::open;
use crate::servers::ClusterSet;

/// A cluster of three, and two queues that different nodes have; the node of the second is the last of the three numbers.
async fn cluster() -> (ClusterSet, Arc<RedisEngine>, QueueName, QueueName, usize) {
    let cluster = tokio::task::block_in_place(|| ClusterSet::start(3));
    let engine = open(&cluster.url("?durability=none&timeout=1s")).await;
    let mut first: Option<(QueueName, usize)> = None;
    for n in 0.. {
        let queue = named(&format!("q{n}"));
        let pushed = push(&engine, &[&queue]).await.unwrap().remove(0).unwrap();
        let node = tokio::task::block_in_place(|| node_of(&cluster, pushed.id));
        match &first {
            None => first = Some((queue, node)),
            Some((other, there)) if *there != node => {
                return (cluster, engine, other.clone(), queue, node);
            }
            Some(_) => {}
        }
    }
    unreachable!("queues are spread over all nodes")
}

fn node_of(cluster: &ClusterSet, id: JobId) -> usize {
    let key = format!("auxo{{{}}}:meta", id.shard());
    cluster.owner(cluster.slot(&key))
}

async fn push(engine: &RedisEngine, queues: &[&QueueName]) -> Result<Vec<Result<Pushed>>> {
    let job = |queue: &&QueueName| NewJob {
        queue: (*queue).clone(),
        spec: plain(),
    };
    engine.push(queues.iter().map(job).collect()).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_says_of_each_item_whether_its_shard_took_it() {
    let (mut cluster, engine, here, away, node) = cluster().await;
    let mut tokens = Vec::new();
    for queue in [&here, &away] {
        let ask = asking(std::slice::from_ref(queue), 1, secs(10));
        tokens.push(engine.lease(ask).await.unwrap()[0].token);
    }
    cluster.servers[node].kill();
    for queues in [[&here, &away], [&away, &here]] {
        let answers = push(&engine, &queues).await.unwrap();
        let kept = answers.iter().map(Result::is_ok);
        let expected = queues.iter().map(|queue| *queue == &here);
        assert!(kept.eq(expected), "{answers:?}");
        let refused = answers.iter().find_map(|answer| answer.as_ref().err());
        // The very first may have been sent before the node was known to be gone.
        let code = refused.unwrap().code();
        assert!(matches!(code, Code::Unavailable | Code::UnknownOutcome));
    }
    let end = |token| Settle {
        token,
        outcome: ack(),
    };
    let answers = engine.settle(tokens.into_iter().map(end).collect()).await;
    let answers = answers.unwrap();
    assert!(answers[0].is_ok(), "{answers:?}");
    assert_eq!(answers[1].as_ref().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_who_travel_together_do_not_share_a_failure() {
    let (mut cluster, engine, here, away, node) = cluster().await;
    cluster.servers[node].kill();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..40 {
        let (engine, here, away) = (engine.clone(), here.clone(), away.clone());
        calls.spawn(async move {
            let queue = if n % 2 == 0 { &here } else { &away };
            let kept = push(&engine, &[queue]).await;
            (n, kept.and_then(|mut kept| kept.remove(0)))
        });
    }
    while let Some(call) = calls.join_next().await {
        let (n, kept) = call.unwrap();
        assert_eq!(kept.is_ok(), n % 2 == 0, "{kept:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_for_several_queues_gets_what_can_be_reached() {
    let (mut cluster, engine, here, away, node) = cluster().await;
    cluster.servers[node].kill();
    // One job is there since its queue was looked for.
    let ask = |wait| asking(&[away.clone(), here.clone()], 1, wait);
    assert_eq!(engine.lease(ask(secs(0))).await.unwrap().len(), 1);
    // Of nothing it is told that it may not be all.
    let nothing = engine.lease(ask(secs(0))).await;
    assert_eq!(code(nothing), Code::Unavailable);
    let waiting = tokio::spawn({
        let (engine, ask) = (engine.clone(), ask(secs(60)));
        async move { engine.lease(ask).await }
    });
    push(&engine, &[&here]).await.unwrap().remove(0).unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().len(), 1);
}
