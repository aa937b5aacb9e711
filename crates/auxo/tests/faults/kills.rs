//! A server under load is killed with -9 again and again.
//!
//! `AUXO_CRASH_ROUNDS` sets how often, here as for the engine alone.

use crate::load::Load;
use crate::server::Server;
use crate::tale::{Least, judge};

const ROUNDS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_at_any_moment_loses_nothing_and_repeats_nothing() {
    let rounds = std::env::var("AUXO_CRASH_ROUNDS")
        .map_or(ROUNDS, |n| n.parse().expect("a number of rounds"));
    let mut server = Server::start();
    let mut load = Load::start(server.address);
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..rounds {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        load.progress(20 + dice % 600).await;
        server.kill();
        server.again();
        load.killed();
        server.audit();
    }
    load.progress(200).await;
    let recorder = load.drain().await;
    server.audit();
    let least = Least {
        accepted: 50 * rounds,
        restarts: rounds,
    };
    judge(&recorder, &server.client(), least).await;
    server.kill();
    server.audit();
}
