//! The engine and the model take the same random steps and must answer alike, through restarts as well.
//!
//! `AUXO_RANDOM_SEEDS` sets how many seeds each part tries.

mod store;

use auxo_conformance::{bench, random};

/// How many seeds each of the four parts tries, and how many steps each seed takes.
const SEEDS: u64 = 50;
const STEPS: usize = 10_000;

fn agree(part: u64) {
    let seeds = std::env::var("AUXO_RANDOM_SEEDS")
        .map_or(SEEDS, |seeds| seeds.parse().expect("a number of seeds"));
    for seed in part * 1_000_000..part * 1_000_000 + seeds {
        println!("seed {seed}");
        bench::run(random::run(store::make, seed, STEPS))
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{seeds} seeds of {STEPS} steps: engine and model agree");
}

#[test]
fn engine_and_model_agree_in_the_first_part() {
    agree(1);
}

#[test]
fn engine_and_model_agree_in_the_second_part() {
    agree(2);
}

#[test]
fn engine_and_model_agree_in_the_third_part() {
    agree(3);
}

#[test]
fn engine_and_model_agree_in_the_fourth_part() {
    agree(4);
}
