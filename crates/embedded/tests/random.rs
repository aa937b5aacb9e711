//! The engine and the model take the same random steps and must answer alike, through restarts as well.
//!
//! `scripts/prove random` tries more seeds in each part.

mod store;

use auxo_conformance::{bench, random, rounds};

/// How many seeds each of the four parts tries, and how many steps each seed takes.
const SEEDS: u64 = 6;
const STEPS: usize = 10_000;

fn agree(part: u64) {
    let seeds = rounds::or(SEEDS);
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
