//! A queue's rate with 32 clients of four processes, over a clean restart and a `kill -9` of Redis, by Redis' own lease times.
//!
//! `scripts/prove redis-rates` takes longer.

use std::sync::Arc;

use auxo_conformance::rate;
use auxo_core::Engine;

use crate::load::open;
use auxo_harness::redis::Server;

/// How many processes share the store.
const PROCESSES: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_holds_in_every_window_over_a_restart_and_a_kill() {
    for rate in rate::rates() {
        let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
        let mut engines: Vec<Arc<dyn Engine>> = Vec::new();
        for _ in 0..PROCESSES {
            engines.push(open(&server.url("?timeout=2s")).await);
        }
        let part = rate::part(rate);
        rate::prepare(&*engines[0], rate, 3).await;
        rate::lease(&engines, rate.burst as usize + part).await;
        tokio::task::block_in_place(|| {
            // Ends without an answer.
            let _ = server.client().try_ask(&["SHUTDOWN"]);
            server.restart();
        });
        rate::lease(&engines, part).await;
        tokio::task::block_in_place(|| {
            server.kill();
            server.restart();
        });
        rate::lease(&engines, part).await;
        let leases = rate::check(&*engines[0], rate).await;
        println!(
            "{} a second: {leases} leases, no window over the rate",
            rate.count
        );
        assert!(leases >= rate.burst as usize + 3 * part, "{leases} leases");
    }
}
