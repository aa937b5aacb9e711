//! A call for several shards of which only some can be reached.

use std::sync::Arc;

use auxo_conformance::bench::{ack, asking, code, named, plain, secs};
use auxo_core::engine::{Filter, Outage, Pushed, Query, Settle};
use auxo_core::{Code, Engine, JobId, NewJob, QueueName, Result};
use auxo_redis::{Options, RedisEngine};

use crate::load::open;
use auxo_harness::redis::{ClusterSet, wait};

/// A node that comes back has what it had.
const KEEPS: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];

/// A cluster of three, and two queues that different nodes have; the node of the second is the last of the three numbers.
async fn cluster() -> (ClusterSet, Arc<RedisEngine>, QueueName, QueueName, usize) {
    let cluster = tokio::task::block_in_place(|| ClusterSet::start_with(3, KEEPS));
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
    let key = format!("auxo{{{}}}:meta", id.shard(16));
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

/// The shards whose node this is.
fn shards_of(cluster: &ClusterSet, node: usize) -> Vec<String> {
    let owned = |shard: &u16| {
        let key = format!("auxo{{{shard}}}:meta");
        cluster.owner(cluster.slot(&key)) == node
    };
    tokio::task::block_in_place(|| {
        let shards = (0..16).filter(owned);
        shards.map(|shard| format!("shard {shard}")).collect()
    })
}

fn parts(outages: Vec<Outage>) -> Vec<String> {
    outages.into_iter().map(|outage| outage.part).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_node_leaves_the_rest_working_and_is_named() {
    let (mut cluster, engine, here, away, node) = cluster().await;
    let lost = shards_of(&cluster, node);
    assert_eq!(engine.outages(), []);
    cluster.servers[node].kill();
    // Each shard is looked at every few seconds.
    tokio::task::block_in_place(|| {
        wait("all lost shards are known", || {
            parts(engine.outages()) == lost
        });
    });
    assert_eq!(engine.health(), Ok(()));
    let list = engine.reachable_queues().await.unwrap();
    let shown: Vec<&QueueName> = list.queues.iter().map(|info| &info.name).collect();
    assert!(shown.contains(&&here), "{shown:?}");
    assert!(!shown.contains(&&away), "{shown:?}");
    assert_eq!(parts(list.unavailable), lost);
    // Who wants all of them hears that there are more.
    assert_eq!(code(engine.queues(None).await), Code::Unavailable);
    // The jobs of one queue do not need the shards of others.
    let query = Query {
        filter: Filter {
            queue: Some(here.clone()),
            ..Filter::default()
        },
        limit: 10,
        ..Query::default()
    };
    assert_eq!(engine.list(query).await.unwrap().jobs.len(), 1);

    // The others go, too: now nothing works, and that is something else.
    for server in &mut cluster.servers {
        server.kill();
    }
    tokio::task::block_in_place(|| wait("nothing works", || engine.health().is_err()));
    assert_eq!(engine.outages(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_opened_while_a_node_is_away_whichever_it_is() {
    let (mut cluster, engine, ..) = cluster().await;
    let all = engine.queues(None).await.unwrap().len();
    engine.close().await.unwrap();
    for node in 0..3 {
        let lost = shards_of(&cluster, node);
        cluster.servers[node].kill();
        let engine = open(&cluster.url("?durability=none&timeout=1s")).await;
        assert_eq!(parts(engine.outages()), lost, "known from the start");
        let unseen = engine.setup().lines.iter();
        let unseen = unseen.filter(|line| line.contains("does not answer"));
        assert_eq!(unseen.count(), 1, "{:?}", engine.setup());
        let list = engine.reachable_queues().await.unwrap();
        assert!(!list.queues.is_empty());
        assert_eq!(parts(list.unavailable), lost);
        // When it is back all is as it was.
        tokio::task::block_in_place(|| {
            cluster.servers[node].restart();
            wait("nothing is missing", || engine.outages().is_empty());
        });
        assert_eq!(engine.queues(None).await.unwrap().len(), all);
        engine.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_store_is_not_made_while_a_node_is_away() {
    let mut cluster = tokio::task::block_in_place(|| ClusterSet::start(3));
    cluster.servers[1].kill();
    let url = cluster.url("?durability=none&timeout=1s").parse().unwrap();
    let refused = RedisEngine::open(&url, Options::default()).await;
    assert_eq!(code(refused.map(drop)), Code::Unavailable);
}
