//! Several servers on one Redis, and worker processes that use all of them in turn: a job is pushed through one, leased through
//! another and settled through a third. Servers and workers are killed with -9 in between.
//!
//! `AUXO_CRASH_ROUNDS` sets how often.

use std::time::Instant;

use auxo::Remote;
use auxo::core::Engine;
use auxo_conformance::checker::{FinalState, Outcome, Rules, check};

use crate::redis;
use crate::server::{PATIENCE, Server};
use crate::worker::{self, Crew};

const ROUNDS: u64 = 9;
const SERVERS: usize = 4;
const WORKERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_and_eight_workers_that_are_killed_keep_every_promise() {
    if worker::is_one().await {
        return;
    }
    let rounds = std::env::var("AUXO_CRASH_ROUNDS")
        .map_or(ROUNDS, |n| n.parse().expect("a number of rounds"));
    let redis = redis::Server::start(&[]);
    let url = redis.url("?durability=none");
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| Server::on(&url)).collect();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let test = "several::four_servers_and_eight_workers_that_are_killed_keep_every_promise";
    let mut crew = Crew::start(test, &urls, WORKERS);
    let (mut killed_servers, mut killed_workers) = (0, 0);
    for round in 0..rounds as usize {
        crew.progress(100).await;
        if round % 3 == 2 {
            let server = &mut servers[round / 3 % SERVERS];
            tokio::task::block_in_place(|| {
                server.kill();
                server.again();
            });
            crew.killed();
            killed_servers += 1;
        } else {
            tokio::task::block_in_place(|| crew.replace(round % WORKERS));
            killed_workers += 1;
        }
    }
    crew.progress(100).await;
    let recorder = tokio::task::block_in_place(|| crew.stop());
    let client = servers[0].client();
    until_nothing_is_leased(&client).await;
    let history = recorder.history().unwrap();
    let end = FinalState::read(&client).await.unwrap();
    let rules = Rules {
        min_accepted: 50 * rounds,
        min_restarts: killed_servers,
        ..Rules::default()
    };
    let verdict = check(&history, &end, &rules);
    println!(
        "{SERVERS} servers, {WORKERS} workers; {killed_servers} servers and {killed_workers} workers killed: {verdict}"
    );
    assert_eq!(verdict.outcome, Outcome::Pass);
    for server in &servers {
        server.audit();
    }
}

/// The last leases run out by themselves. While they do, who walks over all jobs may miss one that goes from one place to
/// another.
async fn until_nothing_is_leased(client: &Remote) {
    let began = Instant::now();
    loop {
        let queues = client.queues(None).await.unwrap();
        if queues.iter().all(|queue| queue.counts.leased == 0) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "a lease does not end");
    }
}
