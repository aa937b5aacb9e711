//! Whether a store has kept the promises of a trace.

use auxo_core::State;
use auxo_embedded::Embedded;

use crate::trace::{Promise, Trace, contents};

/// Compares what a store shows with the promises; answers how many it kept.
pub async fn check(trace: &Trace, engine: &Embedded) -> usize {
    let shown = contents(engine).await.expect("a whole store");
    for (id, (payload, promise)) in &trace.promises {
        match (shown.get(id), promise) {
            (Some((_, State::Done)), Promise::There(_)) => {
                panic!("job {id} is done, but nobody acked it")
            }
            (Some((_, state)), Promise::Gone) => {
                assert_eq!(*state, State::Done, "job {id} came back")
            }
            (Some((bytes, state)), Promise::There(states)) => {
                assert_eq!(bytes, payload, "job {id} has another payload");
                assert!(states.contains(state), "job {id} is {state}");
            }
            (None, Promise::There(_)) => panic!("job {id} is lost"),
            (None, Promise::Gone) | (_, Promise::Either) => {}
        }
    }
    for (id, (bytes, _)) in &shown {
        let known = trace.promises.contains_key(id) || trace.asked.contains(bytes);
        assert!(known, "job {id} came from nowhere");
    }
    trace.promises.len()
}
