//! A store on a disk in memory: what is asked here is what the engine does, not what a disk does to it.

use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_core::Engine;
use auxo_core::clock::ManualClock;
use auxo_embedded::disk::SimDisk;
use auxo_embedded::{Embedded, Options};

/// A new and empty store with small segments, so that sealing, checkpoints and compaction happen in every test.
pub async fn make() -> Bench {
    bench(SimDisk::new(), ManualClock::at(1_760_000_000_000))
}

fn bench(disk: SimDisk, clock: Arc<ManualClock>) -> Bench {
    let options = Options {
        segment_size: 64 << 10,
        clock: Some(clock.clone()),
        seed: Some(7),
        ..Options::default()
    };
    let engine = Arc::new(Embedded::on(Arc::new(disk.clone()), options).expect("the store opens"));
    let closing = engine.clone();
    let again = clock.clone();
    Bench {
        engine,
        clock,
        steady: true,
        together: true,
        reopen: Some(Arc::new(move || {
            let (engine, disk, clock) = (closing.clone(), disk.clone(), again.clone());
            Box::pin(async move {
                engine.close().await.expect("the store closes");
                bench(disk, clock)
            })
        })),
    }
}
