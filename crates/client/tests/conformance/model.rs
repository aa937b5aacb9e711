//! Over the model, which is the simplest engine there can be.

use std::sync::Arc;

use auxo_conformance::{Bench, ModelEngine};
use auxo_core::clock::ManualClock;

use crate::served::{Over, Served};

async fn make(over: Over) -> Bench {
    let clock = ManualClock::at(1_760_000_000_000);
    let engine = Arc::new(ModelEngine::new(clock.clone()));
    Bench {
        engine: Served::new(over, engine, clock.clone()).client,
        clock,
        reopen: None,
        steady: true,
        together: true,
    }
}

mod http {
    use super::*;

    async fn served() -> Bench {
        make(Over::Http).await
    }

    auxo_conformance::suite!(served, steady, together);
}

mod grpc {
    use super::*;

    async fn served() -> Bench {
        make(Over::Grpc).await
    }

    auxo_conformance::suite!(served, steady, together);
}
