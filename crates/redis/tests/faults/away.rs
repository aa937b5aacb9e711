//! Redis is away for long, and comes back.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use auxo_conformance::bench::{ack, asking, code, named, plain, secs};
use auxo_core::engine::Settle;
use auxo_core::{Code, Engine, Error, NewJob, Result, Token};
use auxo_redis::RedisEngine;
use tokio::task::JoinSet;

use crate::load::{PATIENCE, open};
use auxo_harness::redis::{Server, wait};

/// The store's timeout, and what a call may take beyond it: one that was under way when it came, and a busy machine.
const TIMEOUT: Duration = Duration::from_secs(1);
const SLACK: Duration = Duration::from_secs(5);
/// How long the outage is.
const OUTAGE: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_takes_no_changes_is_known_though_nobody_asks() {
    let server = Server::start(&["--appendonly", "yes"]);
    let engine = open(&server.url("")).await;
    let replicas = |count| server.ask(&["CONFIG", "SET", "min-replicas-to-write", count]);
    let until = |what, well| {
        let known = || engine.health().is_ok() == well;
        tokio::task::block_in_place(|| wait(what, known));
    };
    // The first look has something to write.
    let looked = || server.ask(&["EXISTS", "auxo{0}:timers"]).int() == 1;
    tokio::task::block_in_place(|| wait("the first look", looked));
    replicas("1");
    until("the store is not well", false);
    let error = engine.health().unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().contains("NOREPLICAS"), "{error}");
    replicas("0");
    until("the store is well", true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_calls_fail_in_time_and_nobody_storms_it() {
    let mut server = Server::start(&["--appendonly", "yes"]);
    let engine = open(&server.url("?timeout=1s")).await;
    let token = leased(&engine).await;
    let mut waiters = JoinSet::new();
    for n in 0..20 {
        let engine = engine.clone();
        let ask = asking(&[named(&format!("later-{}", n % 4))], 1, PATIENCE);
        waiters.spawn(async move { engine.lease(ask).await });
    }
    for n in 0..4 {
        until_waiting(&server, &format!("later-{n}"));
    }
    server.kill();
    let rude = Rude::listen(&server);
    let began = Instant::now();
    let mut calls = 0;
    while began.elapsed() < OUTAGE {
        calls += 3;
        let (pushed, settled, got) = tokio::join!(
            timed(push(&engine, "q")),
            timed(settle(&engine, token)),
            timed(lease(&engine, Duration::ZERO)),
        );
        for (what, (code, took)) in [("push", pushed), ("settle", settled), ("lease", got)] {
            // The very first may have been sent before we noticed.
            let unsure = calls == 3 && code == Code::UnknownOutcome;
            assert!(code == Code::Unavailable || unsure, "{what}: {code}");
            assert!(took < 2 * TIMEOUT + SLACK, "{what} took {took:?}");
        }
    }
    let tries = rude.tries();
    println!("{calls} calls failed in {OUTAGE:?}; {tries} tries to connect");
    // A few quick ones, and then one a second by the mean.
    let most = 8 + OUTAGE.as_secs() * 3 / 2;
    assert!((3..=most).contains(&tries), "{tries} tries");
    assert_eq!(waiters.try_join_next().map(drop), None, "waiters wait on");
    rude.stop();

    tokio::task::block_in_place(|| server.restart());
    let back = Instant::now();
    let other = open(&server.url("")).await;
    for n in 0..20 {
        push(&other, &format!("later-{}", n % 4)).await.unwrap();
    }
    while let Some(answer) = waiters.join_next().await {
        assert_eq!(answer.unwrap().unwrap().len(), 1);
    }
    let resumed = back.elapsed();
    println!("all 20 who waited had a job {resumed:?} after Redis was back");
    assert!(resumed < secs(20), "{resumed:?}");
    settle(&engine, token).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waited_in_vain_because_redis_is_away_is_told_so() {
    // One that keeps the store: who finds it empty refuses it.
    let mut server = Server::start(&["--appendonly", "yes"]);
    let engine = open(&server.url("?durability=none&timeout=1s")).await;
    let waiting = tokio::spawn({
        let engine = engine.clone();
        async move { timed(lease(&engine, secs(3))).await }
    });
    until_waiting(&server, "q");
    server.kill();
    let (told, took) = waiting.await.unwrap();
    assert_eq!(told, Code::Unavailable);
    assert!(took < secs(3) + 2 * TIMEOUT + SLACK, "{took:?}");
    // Nothing is known of who comes later, either.
    let (told, _) = timed(lease(&engine, secs(1))).await;
    assert_eq!(told, Code::Unavailable);
    tokio::task::block_in_place(|| server.restart());
    // With Redis there, there is nothing.
    wait_until_back(&engine).await;
    let ask = asking(&[named("q")], 1, Duration::from_millis(10));
    assert_eq!(engine.lease(ask).await.unwrap(), Vec::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_that_comes_while_redis_is_away_holds_nobody_up() {
    let mut server = Server::start(&["--appendonly", "yes"]);
    let engine = open(&server.url("?durability=none&timeout=1s")).await;
    server.kill();
    let mut watcher = engine.watch();
    for _ in 0..5 {
        let (told, took) = timed(push(&engine, "q")).await;
        assert_ne!(told, Code::Internal);
        assert!(took < 2 * TIMEOUT + SLACK, "{took:?}");
    }
    tokio::task::block_in_place(|| server.restart());
    wait_until_back(&engine).await;
    // It hears again soon, though not necessarily the first that happens.
    let began = Instant::now();
    loop {
        push(&engine, "q").await.unwrap();
        let heard = tokio::time::timeout(TIMEOUT / 10, watcher.recv()).await;
        if let Ok(heard) = heard {
            heard.expect("a notice");
            return;
        }
        assert!(began.elapsed() < 60 * TIMEOUT, "it stays deaf");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_the_engine_is_not_well() {
    let mut server = Server::start(&["--appendonly", "yes"]);
    let engine = open(&server.url("?durability=none&timeout=1s")).await;
    assert_eq!(engine.health(), Ok(()));
    server.kill();
    let well = |is: bool| {
        tokio::task::block_in_place(|| {
            wait("a change of health", || engine.health().is_ok() == is)
        });
    };
    well(false);
    assert_eq!(code(engine.health()), Code::Unavailable);
    tokio::task::block_in_place(|| server.restart());
    well(true);
}

async fn leased(engine: &RedisEngine) -> Token {
    push(engine, "q").await.unwrap();
    let ask = asking(&[named("q")], 1, secs(10));
    engine.lease(ask).await.unwrap()[0].token
}

/// Until Redis knows of somebody who waits.
pub fn until_waiting(server: &Server, queue: &str) {
    let key = format!("auxo{{0}}:w:{queue}");
    tokio::task::block_in_place(|| {
        wait("somebody waits", || {
            server.ask(&["EXISTS", &key]).int() == 1
        })
    });
}

async fn wait_until_back(engine: &RedisEngine) {
    while engine.queues(None).await.is_err() {}
}

async fn push(engine: &RedisEngine, queue: &str) -> Result<()> {
    let (queue, spec) = (named(queue), plain());
    let mut answers = engine.push(vec![NewJob { queue, spec }]).await?;
    answers.remove(0).map(drop)
}

async fn settle(engine: &RedisEngine, token: Token) -> Result<()> {
    let outcome = ack();
    let mut answers = engine.settle(vec![Settle { token, outcome }]).await?;
    answers.remove(0).map(drop)
}

async fn lease(engine: &RedisEngine, wait: Duration) -> Result<()> {
    engine.lease(asking(&[named("q")], 1, wait)).await.map(drop)
}

/// Why a call failed, and after how long.
async fn timed(call: impl Future<Output = Result<()>>) -> (Code, Duration) {
    let began = Instant::now();
    let error: Result<(), Error> = call.await;
    (code(error), began.elapsed())
}

/// Takes connections in Redis' place, counts and drops them: the worst that a server can do.
struct Rude {
    tries: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    address: String,
}

impl Rude {
    fn listen(server: &Server) -> Rude {
        let address = server.address();
        let listener = TcpListener::bind(&address).expect("the port of a dead server");
        let (tries, over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let thread = std::thread::spawn({
            let (tries, over) = (tries.clone(), over.clone());
            move || {
                for connection in listener.incoming() {
                    drop(connection);
                    tries.fetch_add(1, Relaxed);
                    if over.load(Relaxed) {
                        return;
                    }
                }
            }
        });
        Rude {
            tries,
            over,
            thread,
            address,
        }
    }

    fn tries(&self) -> u64 {
        self.tries.load(Relaxed)
    }

    fn stop(self) {
        self.over.store(true, Relaxed);
        // Also if somebody else's was the last one that it took.
        wait("the listener ends", || {
            let _ = std::net::TcpStream::connect(&self.address);
            self.thread.is_finished()
        });
    }
}
