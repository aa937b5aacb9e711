//! Workers that wait on a cluster are woken at once also after a failover or a moved slot.
//!
//! `scripts/prove cluster-waits` makes more of each. The time is measured from the first answer of the server that has the
//! queue's shard now to the moment in which the worker has its job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_conformance::bench::{ack, asking, named, plain, secs};
use auxo_conformance::rounds;
use auxo_core::engine::Settle;
use auxo_core::{Engine, NewJob};
use auxo_redis::RedisEngine;
use tokio::task::JoinSet;

use crate::load::open;
use auxo_harness::redis::{ClusterSet, Server, wait};

const MOVES: u64 = 2;
const PRIMARIES: u16 = 3;
const SHARDS: u16 = 16;
/// The store's timeout, of which a wait that began long before has used up all.
const OPTIONS: &str = "?durability=none&timeout=1s";
/// How soon a replica is asked again to take over.
const AGAIN: Duration = Duration::from_secs(6);
/// What a wake-up may take; and what it may take on a machine that is busy with other tests.
const BAR: Duration = Duration::from_secs(1);
const BUSY: Duration = Duration::from_secs(3);

fn moves() -> usize {
    rounds::or(MOVES) as usize
}

/// So many that each of the store's shards has some.
fn queues() -> Vec<String> {
    (0..SHARDS * 8).map(|n| format!("q{n}")).collect()
}

/// A worker for each queue, in a process that does nothing else.
fn workers(engine: &Arc<RedisEngine>, queues: &[String]) -> JoinSet<Instant> {
    let mut workers = JoinSet::new();
    for queue in queues {
        let (engine, queue) = (engine.clone(), named(queue));
        workers.spawn(async move {
            let leased = engine.lease(asking(&[queue], 1, secs(120))).await.unwrap();
            let woken = Instant::now();
            let settle = |leased: auxo_core::job::Leased| Settle {
                token: leased.token,
                outcome: ack(),
            };
            let settles = leased.into_iter().map(settle).collect();
            engine.settle(settles).await.unwrap().remove(0).unwrap();
            woken
        });
    }
    workers
}

/// How many connections wait for a signal at a server, each for longer than the store's timeout.
fn waits(server: &Server) -> usize {
    let clients = server.ask(&["CLIENT", "LIST"]);
    let long = |line: &&str| {
        let idle = line.split(" idle=").nth(1).unwrap_or_default();
        let idle = idle.split(' ').next().unwrap_or_default();
        line.contains(" cmd=blpop ") && idle.parse::<u64>().is_ok_and(|idle| idle >= 2)
    };
    clients.text().lines().filter(long).count()
}

/// Waits until every connection for signals has waited longer than the store's timeout.
fn until_all_wait(servers: &[Server], processes: usize) {
    tokio::task::block_in_place(|| {
        wait("all of them wait", || {
            let all: usize = servers.iter().map(waits).sum();
            all >= processes * usize::from(SHARDS)
        });
    });
}

/// Pushes one job to each queue, and says how long after `answered` each worker had its own.
async fn wake(
    pusher: &RedisEngine,
    queues: &[String],
    mut workers: JoinSet<Instant>,
    answered: Instant,
) -> Vec<Duration> {
    let job = |queue: &String| NewJob {
        queue: named(queue),
        spec: plain(),
    };
    let pushed = pusher.push(queues.iter().map(job).collect()).await.unwrap();
    pushed
        .into_iter()
        .for_each(|pushed| assert!(pushed.is_ok(), "{pushed:?}"));
    let mut times = Vec::new();
    while let Some(woken) = workers.join_next().await {
        times.push(woken.unwrap().saturating_duration_since(answered));
    }
    times
}

fn judge(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let (half, most) = (times[times.len() / 2], times[times.len() - 1]);
    println!(
        "{what}: {} idle workers woken after {half:?} (half of them), {most:?} (at most)",
        times.len()
    );
    let bar = if rounds::asked().is_some() { BAR } else { BUSY };
    assert!(most < bar, "{most:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_workers_are_woken_at_once_after_each_failover() {
    let set = tokio::task::block_in_place(|| {
        let mut set = ClusterSet::start(PRIMARIES);
        (0..usize::from(PRIMARIES)).for_each(|primary| _ = set.add_replica(primary));
        set
    });
    let engine = open(&set.url(OPTIONS)).await;
    let pusher = open(&set.url("?durability=none")).await;
    let queues = queues();
    let mut times = Vec::new();
    for _ in 0..moves() {
        let workers = workers(&engine, &queues);
        until_all_wait(&set.servers, 2);
        let answered = tokio::task::block_in_place(|| fail_over(&set));
        times.extend(wake(&pusher, &queues, workers, answered).await);
    }
    judge(&format!("{} failovers", moves()), times);
}

/// Makes each replica the primary, one after the other; when the last of them had given its first answer.
fn fail_over(set: &ClusterSet) -> Instant {
    let is_primary = |server: &&Server| server.ask(&["ROLE"]).items()[0].text() == "master";
    let replicas: Vec<&Server> = set.servers.iter().filter(|one| !is_primary(one)).collect();
    for replica in replicas {
        let mut asked = Instant::now() - AGAIN;
        wait("it is a primary", || {
            // One that lost the vote must be asked again.
            if asked.elapsed() >= AGAIN && !is_primary(&replica) {
                asked = Instant::now();
                let _ = replica.client().try_ask(&["CLUSTER", "FAILOVER"]);
            }
            is_primary(&replica)
        });
    }
    // A primary that handed over lets its clients wait for up to ten seconds. Made a primary again before that, it keeps them waiting;
    // so the first answer is that to something that may change data.
    for server in set.servers.iter().filter(is_primary) {
        assert_eq!(server.ask(&["EVAL", "return 1", "0"]).int(), 1);
    }
    Instant::now()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_workers_are_woken_at_once_after_each_move_of_a_slot() {
    let set = tokio::task::block_in_place(|| ClusterSet::start(2));
    let engine = open(&set.url(OPTIONS)).await;
    let pusher = open(&set.url("?durability=none")).await;
    // From then on each queue is known in its shard.
    wake(
        &pusher,
        &queues(),
        workers(&engine, &queues()),
        Instant::now(),
    )
    .await;
    let mut times = Vec::new();
    for round in 0..moves() {
        let meta = format!("auxo{{{}}}:meta", round as u16 % SHARDS);
        let (slot, from, queues) = tokio::task::block_in_place(|| {
            let slot = set.slot(&meta);
            let from = set.owner(slot);
            let known = meta.replace("meta", "queues");
            let known = set.servers[from].ask(&["ZRANGE", &known, "0", "-1"]);
            let queues = known.items().iter().map(|name| name.text().to_owned());
            (slot, from, queues.collect::<Vec<String>>())
        });
        let workers = workers(&engine, &queues);
        until_all_wait(&set.servers, 2);
        let answered = tokio::task::block_in_place(|| {
            set.move_slot(slot, from, 1 - from);
            Instant::now()
        });
        times.extend(wake(&pusher, &queues, workers, answered).await);
    }
    judge(&format!("{} moved slots", moves()), times);
}
