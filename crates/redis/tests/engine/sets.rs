//! The contract of an engine, kept on a cluster, and through sentinels.

use auxo_conformance::bench;
use auxo_conformance::random;
use auxo_harness::redis::{ClusterSet, SentinelSet};

const SEEDS: u64 = 3;
const STEPS: usize = 700;

#[test]
fn a_cluster_of_three_keeps_the_contract() {
    let cluster = ClusterSet::start(3);
    let url = cluster.url("?");
    let make = async || crate::store::beside(&url).await;
    auxo_conformance::run_all!(make, restarts);
}

#[test]
fn sentinels_keep_the_contract() {
    let set = SentinelSet::start();
    let url = set.url("?");
    let make = async || crate::store::beside(&url).await;
    auxo_conformance::run_all!(make, restarts, together);
}

#[test]
fn engine_and_model_agree_on_a_cluster() {
    let cluster = ClusterSet::start(3);
    let url = cluster.url("?");
    let make = async || crate::store::beside(&url).await;
    for seed in 1..=SEEDS {
        bench::run(random::run(&make, seed, STEPS)).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn engine_and_model_agree_through_sentinels() {
    let set = SentinelSet::start();
    let url = set.url("?");
    let make = async || crate::store::beside(&url).await;
    for seed in 1..=SEEDS {
        bench::run(random::run(&make, seed, STEPS)).unwrap_or_else(|failure| panic!("{failure}"));
    }
}
