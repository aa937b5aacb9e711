//! A Redis that forgets scripts, drops connections, or does not answer for a while.

use std::time::Duration;

use crate::load::{Load, Plan};
use crate::tale::judge;
use auxo_harness::redis::{Server, wait};

/// What a cut connection may cost until the load goes on: a pause before the next try, and jobs that nobody heard of.
const SOON: Duration = Duration::from_secs(6);

/// Two engines, the first of which has little patience.
async fn start() -> (Server, Load) {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let load = Load::start(Plan {
        urls: vec![
            server.url("?durability=none&timeout=1s"),
            server.url("?durability=none&timeout=20s"),
        ],
        queues: 1,
        ttr: Duration::from_secs(1),
        pace: None,
    })
    .await;
    (server, load)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_redis_forgot_are_told_again_and_no_call_fails() {
    let (server, mut load) = start().await;
    for _ in 0..100 {
        server.ask(&["SCRIPT", "FLUSH"]);
        load.progress(5).await;
    }
    load.drain().await;
    println!("100 flushes, failures: {:?}", load.failures());
    assert_eq!(load.failures(), (0, 0));
    let verdict = judge(&load, 500).await;
    assert_eq!(verdict.counts.duplicated, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_all_connections_are_cut_nothing_is_lost_and_nobody_stays_deaf() {
    let (server, mut load) = start().await;
    let mut slowest = Duration::ZERO;
    for _ in 0..15 {
        load.progress(50).await;
        load.trouble(1);
        server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        slowest = slowest.max(load.progress(10).await);
    }
    load.drain().await;
    let (unavailable, unknown) = load.failures();
    println!(
        "15 cuts: {unavailable} calls found nobody, {unknown} had no answer; went on within {slowest:?}"
    );
    judge(&load, 500).await;
    assert!(slowest < SOON, "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_sleeps_costs_only_those_who_have_no_patience() {
    let (server, mut load) = start().await;
    let mut slowest = Duration::ZERO;
    // The short ones first: what a long one costs may still come in while the next begins.
    for seconds in ["0.3", "0.3", "2", "2"] {
        let (unavailable, unknown) = load.failures();
        load.progress(50).await;
        load.trouble(2);
        tokio::task::block_in_place(|| server.ask(&["DEBUG", "SLEEP", seconds]));
        slowest = slowest.max(load.progress(10).await);
        if seconds == "0.3" {
            let same = load.failures() == (unavailable, unknown);
            assert!(same, "a short sleep is nobody's failure");
        }
    }
    load.drain().await;
    let (unavailable, unknown) = load.failures();
    println!(
        "slept 4 times: {unavailable} calls found nobody, {unknown} had no answer; went on within {slowest:?}"
    );
    judge(&load, 200).await;
    assert!(unknown > 0, "two seconds are longer than the first waits");
    assert_eq!(load.failures_of_the_last(), 0, "twenty seconds are enough");
    assert!(slowest < SOON, "{slowest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_hangs_longer_than_all_patience_loses_nothing() {
    let (server, mut load) = start().await;
    load.progress(50).await;
    load.trouble(4);
    server.pause();
    // Until the impatient engine has given up more than once, also on new connections.
    tokio::task::block_in_place(|| wait("calls find nobody", || load.failures().0 >= 5));
    server.resume();
    let resumed = load.progress(10).await;
    load.drain().await;
    let (unavailable, unknown) = load.failures();
    println!(
        "hung: {unavailable} calls found nobody, {unknown} had no answer; went on within {resumed:?}"
    );
    judge(&load, 50).await;
    assert!(resumed < SOON, "{resumed:?}");
}
