//! The engine and the model take the same random steps and must answer alike, through restarts as well.
//!
//! `scripts/prove redis-random` tries more seeds.

use auxo_conformance::{Bench, bench, random, rounds};

const SEEDS: u64 = 4;
const STEPS: usize = 1000;

#[test]
fn engine_and_model_agree() {
    agree(crate::store::make);
}

#[test]
fn engine_and_model_agree_on_several_shards() {
    agree(crate::store::make_sharded);
}

fn agree(make: impl AsyncFn() -> Bench) {
    let seeds = rounds::or(SEEDS);
    for seed in 1..=seeds {
        println!("seed {seed}");
        bench::run(random::run(&make, seed, STEPS)).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{seeds} seeds of {STEPS} steps: engine and model agree");
}
