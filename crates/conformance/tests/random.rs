//! The random test itself: two models agree, and a small mistake is found and shown in a few steps.

mod planted;

use std::sync::Arc;

use auxo_conformance::{Bench, ModelEngine, bench, random};
use auxo_core::clock::ManualClock;
use planted::Forgetful;

async fn immortal() -> Bench {
    ModelEngine::new(ManualClock::at(1_800_000_000_000)).on_bench()
}

async fn model() -> Bench {
    Bench {
        reopen: None,
        steady: true,
        ..immortal().await
    }
}

async fn forgetful() -> Bench {
    let Bench { engine, clock, .. } = model().await;
    Bench {
        engine: Arc::new(Forgetful(engine)),
        clock,
        reopen: None,
        steady: true,
        together: true,
    }
}

#[test]
fn a_model_agrees_with_itself() {
    for seed in 0..3 {
        let run = random::run(model, seed, 10_000);
        bench::run(run).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_model_agrees_with_itself_through_restarts() {
    for seed in 3..6 {
        let run = random::run(immortal, seed, 10_000);
        bench::run(run).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn a_planted_mistake_is_found_and_shown_in_a_few_steps() {
    let run = random::run(forgetful, 1, 10_000);
    let failure = bench::run(run).expect_err("the mistake");
    assert!(failure.ops.len() <= 6, "{failure}");
    assert!(failure.to_string().starts_with("seed 1, step "));
}
