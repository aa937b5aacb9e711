//! Over the durable engine, through restarts of the server as well. The disk is one in memory: what is asked here is whether
//! the two fit together, not what a disk does to them.

use std::sync::{Arc, Mutex};

use auxo_conformance::Bench;
use auxo_core::Engine;
use auxo_core::clock::ManualClock;
use auxo_embedded::disk::SimDisk;
use auxo_embedded::{Embedded, Options};

use crate::served::{Over, Served};

async fn make(over: Over) -> Bench {
    bench(over, SimDisk::new(), ManualClock::at(1_760_000_000_000))
}

/// Small segments, so that sealing, checkpoints and compaction happen in every test.
fn bench(over: Over, disk: SimDisk, clock: Arc<ManualClock>) -> Bench {
    let options = Options {
        segment_size: 64 << 10,
        clock: Some(clock.clone()),
        seed: Some(7),
        ..Options::default()
    };
    let engine = Arc::new(Embedded::on(Arc::new(disk.clone()), options).expect("the store opens"));
    let served = Served::new(over, engine.clone(), clock.clone());
    let client = served.client.clone();
    let running = Arc::new(Mutex::new(Some(served)));
    let again = clock.clone();
    Bench {
        engine: client,
        clock,
        steady: true,
        together: true,
        reopen: Some(Arc::new(move || {
            let (engine, disk, clock) = (engine.clone(), disk.clone(), again.clone());
            let served = running.lock().expect("one thread").take();
            Box::pin(async move {
                served.expect("a server that runs").stop().await;
                engine.close().await.expect("the store closes");
                bench(over, disk, clock)
            })
        })),
    }
}

mod http {
    use super::*;

    async fn served() -> Bench {
        make(Over::Http).await
    }

    auxo_conformance::suite!(served, restarts, steady, together);
}

mod grpc {
    use super::*;

    async fn served() -> Bench {
        make(Over::Grpc).await
    }

    auxo_conformance::suite!(served, restarts, steady, together);
}
