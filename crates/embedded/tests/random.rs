//! The engine and the model take the same random steps and must answer alike, through restarts as well.
//!
//! `AUXO_RANDOM_SEEDS` sets how many seeds are tried.

mod store;

use auxo_conformance::{bench, random};

/// How many seeds one test tries, and how many steps each.
const SEEDS: u64 = 50;
const STEPS: usize = 10_000;

fn agree(part: u64) {
    let seeds = std::env::var("AUXO_RANDOM_SEEDS")
        .map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    for seed in part * 1_000_000..part * 1_000_000 + seeds {
        bench::run(random::run(store::make, seed, STEPS))
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{seeds} seeds of {STEPS} steps: engine and model agree");
}

#[test]
fn engine_and_model_agree() {
    agree(1);
}
