//! A server under load is killed with -9 again and again.
//!
//! `scripts/prove kills` does so more often.

use auxo_conformance::rounds;

use crate::load::Load;
use crate::server::Server;
use crate::tale::{Least, judge};

const ROUNDS: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_at_any_moment_loses_nothing_and_repeats_nothing() {
    let rounds = rounds::or(ROUNDS);
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
