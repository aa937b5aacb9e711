//! Sentinels replace a primary that was killed or hangs, again and again, under 500 pushes a second.
//!
//! `scripts/prove failovers` does so more often. How long one takes is told, and held against no limit: a sentinel that got no time to run for
//! two seconds does nothing for half a minute ("tilt"), and a machine that is busy with other tests does that.

use std::time::{Duration, Instant};

use auxo_conformance::rounds;

use crate::load::{Load, Plan};
use crate::tale::{count, judge};
use auxo_harness::redis::{SentinelSet, wait};

const FAILOVERS: u64 = 2;
/// How long a primary goes on without replicas.
const MAX_LAG: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_replicas_confirmed_survives_every_failover() {
    let (_set, load, _) = fail_over("?durability=replicated").await;
    judge(&load, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_confirmation_a_failover_takes_little_and_workers_go_on() {
    let (_set, load, faults) = fail_over("").await;
    let plain = count(&load).await;
    // What is lost is what the primary took while its replicas were too far behind for it to go on much longer.
    for lost in &plain.lost {
        let near = |fault: &Fault| {
            let earliest = fault.began.saturating_sub(MAX_LAG.as_micros() as u64);
            (earliest..fault.over).contains(lost)
        };
        assert!(faults.iter().any(near), "{lost} is near none of {faults:?}");
    }
    assert_eq!(plain.doubled_in_spite_of_answers, 0);
}

/// When a primary was taken away, and when it followed another one: until then, who did not yet know better may be answered by
/// it. By the recorder's clock.
#[derive(Debug)]
struct Fault {
    began: u64,
    over: u64,
}

fn failovers() -> u64 {
    rounds::or(FAILOVERS)
}

/// Kills the primary and lets it hang, in turns. The load goes on each time by itself, and is drained at the end.
async fn fail_over(options: &str) -> (SentinelSet, Load, Vec<Fault>) {
    let lag = MAX_LAG.as_secs().to_string();
    let careful = [
        "--min-replicas-to-write",
        "1",
        "--min-replicas-max-lag",
        &lag,
    ];
    let mut set = tokio::task::block_in_place(|| SentinelSet::start_with(&careful));
    set.be_patient();
    let url = set.url(options);
    let mut load = Load::start(Plan {
        urls: vec![url.clone(), url],
        queues: 1,
        ttr: Duration::from_secs(5),
        // Four producers.
        pace: Some(Duration::from_millis(8)),
    })
    .await;
    let mut times = Vec::new();
    let mut faults = Vec::new();
    let rounds = failovers();
    for round in 0..rounds {
        load.progress(200).await;
        let (before, index) = (set.primary(), set.primary_index());
        // The new primary may have to wait for its replica, and answer some looks too late.
        load.trouble(4);
        let (began, at) = (Instant::now(), load.recorder.now());
        match round % 2 {
            0 => set.servers[index].kill(),
            _ => set.servers[index].pause(),
        }
        load.progress(20).await;
        times.push(began.elapsed());
        tokio::task::block_in_place(|| {
            set.wait_for_another_primary(before);
            let primary = set.primary().to_string();
            match round % 2 {
                0 => set.servers[index].restart_with(&["--replicaof", "127.0.0.1", &primary]),
                // It learns from the sentinels that it is a replica now.
                _ => set.servers[index].resume(),
            }
            wait("the set is whole again", || set.is_whole());
        });
        faults.push(Fault {
            began: at,
            over: load.recorder.now(),
        });
        load.killed();
    }
    load.drain().await;
    let (unavailable, unknown) = load.failures();
    let slowest = times.iter().max().expect("a failover");
    println!(
        "{rounds} failovers with {options:?}: workers went on {} of {rounds} times, within {slowest:?}; \
         {unavailable} calls found nobody, {unknown} had no sure answer",
        times.len()
    );
    (set, load, faults)
}
