//! Over the model, which is the simplest engine there can be.

use std::sync::Arc;

use auxo_conformance::{Bench, ModelEngine};
use auxo_core::clock::ManualClock;

use crate::served::Served;

async fn make() -> Bench {
    let clock = ManualClock::at(1_700_000_000_000);
    let engine = Arc::new(ModelEngine::new(clock.clone()));
    Bench {
        engine: Served::new(engine, clock.clone()).client,
        clock,
        reopen: None,
        steady: true,
    }
}

auxo_conformance::suite!(make, steady);
