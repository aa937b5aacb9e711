//! Several servers on one Redis, and worker processes that use all of them in turn: a job is pushed through one, leased through
//! another and settled through a third. Servers and workers are killed with -9 in between.
//!
//! `scripts/prove several` does so more often.

use std::time::Instant;

use auxo::Remote;
use auxo::core::Engine;
use auxo_conformance::checker::{FinalState, Outcome, Rules, check};
use auxo_conformance::rounds;

use crate::server::{PATIENCE, Server};
use crate::worker::{self, Crew};
use auxo_harness::command::Ran;
use auxo_harness::redis;

const ROUNDS: u64 = 9;
const SERVERS: usize = 4;
const WORKERS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_and_eight_workers_that_are_killed_keep_every_promise() {
    if worker::is_one().await {
        return;
    }
    let rounds = rounds::or(ROUNDS);
    let redis = redis::Server::start(&[]);
    let url = redis.url("?durability=none");
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| Server::on(&url)).collect();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let test = "several::four_servers_and_eight_workers_that_are_killed_keep_every_promise";
    let mut crew = Crew::start(test, &urls, WORKERS);
    let (mut killed_servers, mut killed_workers, mut late) = (0, 0, 0);
    for round in 0..rounds as usize {
        crew.progress(100).await;
        if round % 3 == 2 {
            let server = &mut servers[round / 3 % SERVERS];
            late += tokio::task::block_in_place(|| {
                let late = late_leases(&server.kill());
                server.again();
                late
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
    for server in &mut servers {
        server.audit();
        late += late_leases(&server.kill());
    }
    let rules = Rules {
        dropped: late,
        min_accepted: 50 * rounds,
        min_restarts: killed_servers,
        ..Rules::default()
    };
    let verdict = check(&history, &end, &rules);
    println!(
        "{SERVERS} servers, {WORKERS} workers; {killed_servers} servers and {killed_workers} workers killed; {late} leases \
         over before their answer came: {verdict}"
    );
    assert_eq!(verdict.outcome, Outcome::Pass);
}

/// Of how many leases a server said that they were over when Redis answered: no worker saw those. The shortest have 50 ms, which
/// on a busy machine is not always enough.
fn late_leases(server: &Ran) -> u64 {
    let lines = server.err.lines();
    let said = lines.filter_map(|line| line.split_once(" leases were over"));
    let counts = said.map(|(before, _)| before.rsplit(' ').next().unwrap_or_default());
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
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
