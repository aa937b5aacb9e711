//! Redis under load is killed with -9 again and again.
//!
//! `scripts/prove redis-kills` does so more often.

use std::time::Duration;

use auxo_conformance::rounds;
use auxo_core::Engine;

use crate::load::{Load, Plan};
use crate::tale::judge;
use auxo_harness::redis::Server;

const ROUNDS: u64 = 5;
/// How soon after Redis is back the load must go on by itself. Leases of answers that were lost do not come into it.
const RESUMED: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_syncs_always_and_is_killed_loses_nothing_and_repeats_nothing() {
    killed(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_the_shards_of_a_batch_is_told_to_the_right_callers() {
    killed(4).await;
}

async fn killed(shards: u32) {
    let rounds = rounds::or(ROUNDS);
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = server.url(&format!("?shards={shards}&timeout=2s"));
    let mut load = Load::start(Plan {
        urls: vec![url.clone(), url],
        queues: shards,
        ttr: Duration::from_secs(1),
        pace: None,
    })
    .await;
    let mut slowest = Duration::ZERO;
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..rounds {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        load.progress(20 + dice % 600).await;
        load.trouble(1);
        tokio::task::block_in_place(|| {
            server.kill();
            server.restart();
        });
        load.killed();
        slowest = slowest.max(load.progress(20).await);
    }
    load.drain().await;
    let (unavailable, unknown) = load.failures();
    println!(
        "{rounds} kills, {shards} shards: {unavailable} calls found nobody, {unknown} had no answer; \
         the load went on within {slowest:?}"
    );
    judge(&load, 20 * rounds).await;
    assert!(slowest < RESUMED, "{slowest:?}");
    let health = load.engines[1].health();
    health.expect("an engine that outlived all of it");
}
