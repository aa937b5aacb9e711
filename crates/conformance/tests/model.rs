//! The suite, tested against the model: a case that the contract itself does not pass is wrong.

use std::sync::Arc;

use auxo_conformance::{Bench, ModelEngine};
use auxo_core::Engine;
use auxo_core::clock::ManualClock;

async fn make() -> Bench {
    let clock = ManualClock::at(1_700_000_000_000);
    bench(ModelEngine::new(clock.clone()), clock)
}

/// The model outlives its process as far as a test can tell: its memory is handed on.
fn bench(engine: ModelEngine, clock: Arc<ManualClock>) -> Bench {
    let engine = Arc::new(engine);
    Bench {
        engine: engine.clone(),
        clock: clock.clone(),
        reopen: Some(Arc::new(move || {
            let (engine, clock) = (engine.clone(), clock.clone());
            Box::pin(async move {
                engine.close().await.expect("the model closes");
                bench(engine.reopen(), clock)
            })
        })),
    }
}

auxo_conformance::suite!(make, restarts);
