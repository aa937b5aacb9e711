//! Replicas that hang or are away, with `durability=replicated`: no worker is given a job that too few of them know to be leased,
//! and no job suffers from that.
//!
//! `scripts/prove unconfirmed` plays each of the three scenarios with sentinels more often.

use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_conformance::bench::{ack, asking, ms, named, plain, secs};
use auxo_conformance::rounds;
use auxo_core::engine::{Holds, NamedJob, Settle, Which};
use auxo_core::job::{Job, Leased};
use auxo_core::{Code, Engine, JobId, NewJob, State};
use auxo_redis::RedisEngine;
use tokio::task::JoinSet;

use crate::load::open;
use auxo_harness::proxy::{Net, Plan, Proxy, Way};
use auxo_harness::redis::{SentinelSet, Server, wait};

const REPLICATED: &str = "?durability=replicated&timeout=1s";
const JOBS: usize = 6;
/// The shortest lease that does not count if nobody got it.
const TTR: Duration = secs(1);

/// A primary and its replicas, all in sync.
fn servers(replicas: usize) -> (Server, Vec<Server>) {
    let fast = ["--repl-diskless-sync-delay", "0"];
    let fast = [fast, ["--repl-ping-replica-period", "1"]].concat();
    let mut args = fast.clone();
    args.extend(["--appendonly", "yes"]);
    let primary = Server::start(&args);
    let port = primary.port().to_string();
    let follow = || Server::start(&["--replicaof", "127.0.0.1", &port]);
    let all: Vec<Server> = (0..replicas).map(|_| follow()).collect();
    primary.wait_for_replicas(replicas);
    (primary, all)
}

/// Pushes jobs that die with the first worker that vanishes, soon after it got them.
async fn push(engine: &RedisEngine, jobs: usize) -> Vec<JobId> {
    push_with(engine, jobs, 1).await
}

async fn push_with(engine: &RedisEngine, jobs: usize, max_attempts: u32) -> Vec<JobId> {
    let mut spec = plain();
    spec.ttr = TTR;
    spec.max_attempts = max_attempts;
    let job = || NewJob {
        queue: named("q"),
        spec: spec.clone(),
    };
    let pushed = engine.push((0..jobs).map(|_| job()).collect()).await;
    let ids = pushed.unwrap().into_iter().map(|one| one.unwrap().id);
    ids.collect()
}

async fn job(engine: &RedisEngine, id: JobId) -> Job {
    engine.find(Which::Id(id)).await.unwrap().unwrap()
}

async fn done(engine: &RedisEngine, leased: &Leased) {
    let (token, outcome) = (leased.token, ack());
    let settles = vec![Settle { token, outcome }];
    engine.settle(settles).await.unwrap().remove(0).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_too_few_replicas_confirmed_never_was() {
    let (primary, replicas) = tokio::task::block_in_place(|| servers(2));
    // A tenth of it is for the way of the answer, also on a busy machine; later, and the outcome would be unknown.
    let engine = open(&primary.url("?durability=replicated&timeout=3s")).await;
    let id = push(&engine, 1).await[0];
    let before = job(&engine, id).await;
    replicas[0].pause();
    for _ in 0..2 {
        let refused = engine.lease(asking(&[named("q")], 1, Duration::ZERO)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        let mut by_id = asking(&[named("q")], 1, Duration::ZERO);
        by_id.job = Some(NamedJob {
            id,
            holds: Holds::Bypass,
        });
        // It may have been dead, and is not any more.
        let refused = engine.lease(by_id).await.unwrap_err();
        assert_eq!(refused.code(), Code::UnknownOutcome, "{refused}");
    }
    assert_eq!(job(&engine, id).await, before);
    replicas[0].resume();
    let leased = engine.lease(asking(&[named("q")], 1, secs(10))).await;
    let leased = leased.unwrap().remove(0);
    assert_eq!((leased.job.id, leased.job.attempt), (id, 1));
    done(&engine, &leased).await;
    assert_eq!(engine.audit().await.unwrap().problems, Vec::<String>::new());
}

/// No worker waits at this process, so no lease finds out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_too_few_replicas_confirmed_shows_in_the_health() {
    let (primary, replicas) = tokio::task::block_in_place(|| servers(1));
    let engine = open(&primary.url(REPLICATED)).await;
    push(&engine, 1).await;
    assert_eq!(engine.outages(), []);
    replicas[0].pause();
    let job = NewJob {
        queue: named("q"),
        spec: plain(),
    };
    let pushed = engine.push(vec![job]).await;
    let refused = pushed.and_then(|mut all| all.remove(0)).unwrap_err();
    assert_eq!(refused.code(), Code::UnknownOutcome, "{refused}");
    let parts = engine.outages().into_iter().map(|outage| outage.part);
    assert_eq!(parts.collect::<Vec<_>>(), ["changes"]);
    replicas[0].resume();
    tokio::task::block_in_place(|| primary.wait_for_replicas(1));
    push(&engine, 1).await;
    assert_eq!(engine.outages(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmed_lease_counts_as_any_other() {
    let (primary, _replicas) = tokio::task::block_in_place(|| servers(1));
    let engine = open(&primary.url(REPLICATED)).await;
    let id = push(&engine, 1).await[0];
    let leased = engine.lease(asking(&[named("q")], 1, secs(10))).await;
    assert_eq!(leased.unwrap().len(), 1);
    tokio::task::block_in_place(|| {
        wait("the worker is taken for dead", || {
            primary.ask(&["ZCARD", "auxo{0}:d:q"]).int() == 1
        });
    });
    assert_eq!(job(&engine, id).await.vanished, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_was_over_before_it_was_confirmed_is_not_handed_out() {
    let (primary, replicas) = tokio::task::block_in_place(|| servers(1));
    let slow = open(&primary.url("?durability=replicated&timeout=6s")).await;
    let quick = open(&primary.url("?durability=async")).await;
    let id = push(&slow, 1).await[0];
    replicas[0].pause();
    let first = tokio::spawn({
        let slow = slow.clone();
        async move { slow.lease(asking(&[named("q")], 1, Duration::ZERO)).await }
    });
    tokio::task::block_in_place(|| {
        wait("the first has leased it", || {
            primary.ask(&["HLEN", "auxo{0}:lives"]).int() == 1
        });
    });
    // When that lease is over, another worker gets the job and does it.
    let second = quick.lease(asking(&[named("q")], 1, secs(60))).await;
    let second = second.unwrap().remove(0);
    assert_eq!((second.job.id, second.job.attempt), (id, 1));
    done(&quick, &second).await;
    replicas[0].resume();
    let first = first.await.unwrap();
    println!("the first was answered {first:?}");
    assert!(
        !matches!(&first, Ok(leased) if !leased.is_empty()),
        "{first:?}"
    );
}

/// What happens to a job between its lease and the moment at which the answer arrives, too late.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    /// Nothing looks at Redis.
    Nothing,
    /// Another process notices that the lease is over.
    Vanishes,
    /// It does, and that was the last attempt.
    Dies,
}

/// Leases a job, holds back the answer of Redis until the lease is over, and tells what the call was answered.
async fn too_late(meanwhile: Meanwhile) {
    let server = Server::start(&[]);
    let address = server.address().parse().unwrap();
    let mut network = Proxy::new(address, Plan::default).await;
    let slow = open(&format!("redis://{}?durability=none", network.address)).await;
    let other = open(&server.url("?durability=none")).await;
    let attempts = if meanwhile == Meanwhile::Dies { 1 } else { 25 };
    let id = push_with(&slow, 1, attempts).await[0];
    let before = job(&other, id).await;
    // So that Redis knows the script, and does the next lease without asking for it.
    let nothing = other.lease(asking(&[named("empty")], 1, Duration::ZERO));
    assert!(nothing.await.unwrap().is_empty());
    network.set(Net::OneWay(Way::Down));
    let late = tokio::spawn({
        let slow = slow.clone();
        async move { slow.lease(asking(&[named("q")], 1, Duration::ZERO)).await }
    });
    network.until_held(1).await;
    // A key that Redis forgets when the lease is over.
    let over = TTR.as_millis().to_string();
    tokio::task::block_in_place(|| {
        wait("the job is leased", || {
            server.ask(&["HLEN", "auxo{0}:lives"]).int() == 1
        });
        server.ask(&["SET", "over", "1", "PX", &over]);
        wait("the lease is over", || {
            server.ask(&["EXISTS", "over"]).int() == 0
        });
    });
    if meanwhile != Meanwhile::Nothing {
        // Who reads lets happen whose time has come.
        assert_eq!(job(&other, id).await.vanished, 1);
    }
    network.set(Net::Whole);
    let refused = late.await.unwrap().unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    // It is taken back in a call of its own.
    let began = Instant::now();
    while job(&other, id).await.attempt > 0 {
        assert!(began.elapsed() < secs(10), "{meanwhile:?}: it is counted");
    }
    let leased = other.lease(asking(&[named("q")], 1, secs(60))).await;
    let leased = leased.unwrap().remove(0);
    assert_eq!(
        (leased.job.attempt, leased.job.vanished),
        (1, 0),
        "{meanwhile:?}"
    );
    // Its life shows nothing of the lease that nobody got, and then this one.
    let shown = leased.job.timeline.split_last().unwrap().1;
    assert_eq!(shown, before.timeline, "{meanwhile:?}");
    done(&other, &leased).await;
    assert_eq!(other.audit().await.unwrap().problems, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_whose_answer_comes_too_late_does_not_count() {
    too_late(Meanwhile::Nothing).await;
    too_late(Meanwhile::Vanishes).await;
}

/// A job whose lease is shorter than any way to Redis ends as other jobs do that no worker gets done, and holds up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_no_worker_can_get_in_time_dies_and_others_are_delivered() {
    for options in ["?durability=none", REPLICATED] {
        let (primary, _replicas) = tokio::task::block_in_place(|| servers(1));
        let engine = open(&primary.url(options)).await;
        let mut short = plain();
        (short.ttr, short.max_attempts) = (ms(1), 3);
        let short = NewJob {
            queue: named("q"),
            spec: short,
        };
        let short = engine.push(vec![short]).await.unwrap().remove(0);
        let short = short.unwrap().id;
        let other = push(&engine, 1).await[0];
        let (mut seen, began) = (Vec::new(), Instant::now());
        while !seen.contains(&other) || job(&engine, short).await.state != State::Dead {
            // Now and then an answer is quick enough, and a worker gets the short one.
            let leased = engine.lease(asking(&[named("q")], 1, Duration::ZERO)).await;
            seen.extend(leased.iter().flatten().map(|leased| leased.job.id));
            engine.health().unwrap();
            assert!(began.elapsed() < secs(20), "{options}: {seen:?}");
        }
        assert_eq!(job(&engine, short).await.vanished, 3);
    }
}

/// A lease that was taken back when it ended is not taken back once more when its process hears that it never counted: that would
/// undo an earlier lease that did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_vanished_stays_counted_though_a_later_lease_is_taken_back() {
    let (primary, replicas) = tokio::task::block_in_place(|| servers(1));
    let slow = open(&primary.url("?durability=replicated&timeout=4s")).await;
    let other = open(&primary.url("?durability=async")).await;
    let id = push_with(&slow, 1, 25).await[0];
    let vanishes = slow.lease(asking(&[named("q")], 1, secs(10))).await;
    assert_eq!(vanishes.unwrap().len(), 1);
    let until = async |what: &str, there: &dyn Fn(&Job) -> bool| {
        let began = Instant::now();
        while !there(&job(&other, id).await) {
            assert!(began.elapsed() < secs(20), "{what}");
        }
    };
    until("the worker is taken for dead", &|job| job.vanished == 1).await;
    replicas[0].pause();
    let unconfirmed = tokio::spawn({
        let slow = slow.clone();
        async move { slow.lease(asking(&[named("q")], 1, Duration::ZERO)).await }
    });
    until("it is leased", &|job| job.attempt == 2).await;
    until("that lease is over", &|job| job.attempt == 1).await;
    assert!(unconfirmed.await.unwrap().is_err());
    replicas[0].resume();
    let after = job(&other, id).await;
    assert_eq!((after.attempt, after.vanished), (1, 1), "{after:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_dies_of_a_lease_whose_answer_came_too_late() {
    too_late(Meanwhile::Dies).await;
}

/// As many processes as there are in each scenario.
async fn processes(url: &str) -> Vec<Arc<RedisEngine>> {
    vec![open(url).await, open(url).await, open(url).await]
}

/// Lets two workers in each process wait for the jobs, for many times as long as a lease; how many died of that.
async fn undelivered(engines: &[Arc<RedisEngine>], jobs: &[JobId]) -> usize {
    let mut workers = JoinSet::new();
    for engine in engines.iter().chain(engines) {
        workers.spawn(in_vain(engine.clone()));
    }
    while let Some(got) = workers.join_next().await {
        assert!(got.unwrap().is_empty(), "nobody could confirm it");
    }
    let (mut dead, began) = (0, Instant::now());
    for id in jobs {
        let mut job = job(&engines[0], *id).await;
        // A lease whose answer did not come in time ends by itself, and does not count then.
        while job.state == State::Leased {
            assert!(began.elapsed() < secs(20), "{job:?}");
            job = self::job(&engines[0], *id).await;
        }
        dead += usize::from(job.state == State::Dead);
        assert_eq!((job.attempt, job.vanished), (0, 0), "{job:?}");
    }
    dead
}

async fn in_vain(engine: Arc<RedisEngine>) -> Vec<Leased> {
    let mut got = Vec::new();
    for _ in 0..2 {
        let leased = engine.lease(asking(&[named("q")], 1, secs(1))).await;
        got.extend(leased.unwrap_or_default());
    }
    got
}

/// Does all jobs; each is delivered for the first time.
async fn drain(engine: &RedisEngine, jobs: usize) {
    for _ in 0..jobs {
        let leased = engine.lease(asking(&[named("q")], 1, secs(60))).await;
        let leased = leased.unwrap().remove(0);
        assert_eq!(leased.job.attempt, 1);
        done(engine, &leased).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_job_dies_undelivered_while_replicas_hang_or_are_away() {
    for _ in 0..rounds::or(1) {
        let careful = [
            "--min-replicas-to-write",
            "1",
            "--min-replicas-max-lag",
            "10",
        ];
        let set = tokio::task::block_in_place(|| SentinelSet::start_with(&careful));
        set.be_patient();
        let url = set.url(REPLICATED);
        let engines = processes(&url).await;
        let jobs = push(&engines[0], JOBS).await;
        set.servers[1].pause();
        let dead = undelivered(&engines, &jobs).await;
        println!("one of two replicas stopped: {dead} of {JOBS} dead undelivered");
        assert_eq!(dead, 0);
        set.servers[1].resume();
        drain(&engines[0], JOBS).await;
    }
    for _ in 0..rounds::or(1) {
        let (primary, mut replicas) = tokio::task::block_in_place(|| servers(1));
        let url = primary.url(REPLICATED);
        let engines = processes(&url).await;
        let jobs = push(&engines[0], JOBS).await;
        replicas[0].kill();
        primary.wait_for_replicas(0);
        let dead = undelivered(&engines, &jobs).await;
        println!("the replica killed, min-replicas-to-write 0: {dead} of {JOBS} dead undelivered");
        assert_eq!(dead, 0);
        tokio::task::block_in_place(|| {
            replicas[0].restart();
            primary.wait_for_replicas(1);
        });
        drain(&engines[0], JOBS).await;
    }
    for _ in 0..rounds::or(1) {
        let mut set = tokio::task::block_in_place(SentinelSet::start);
        let url = set.url("?durability=replicated&timeout=1s&replicas=2");
        let engines = processes(&url).await;
        let jobs = push(&engines[0], JOBS).await;
        let (before, index) = (set.primary(), set.primary_index());
        set.servers[index].kill();
        tokio::task::block_in_place(|| set.wait_for_another_primary(before));
        let dead = undelivered(&engines, &jobs).await;
        println!("replicas=2 after one failover: {dead} of {JOBS} dead undelivered");
        assert_eq!(dead, 0);
        tokio::task::block_in_place(|| {
            let primary = set.primary().to_string();
            set.servers[index].restart_with(&["--replicaof", "127.0.0.1", &primary]);
            wait("the set is whole again", || set.is_whole());
        });
        drain(&engines[0], JOBS).await;
    }
}
