//! A small store in memory, to be damaged.

mod disk;
mod image;

use std::sync::Arc;
use std::time::Duration;

use auxo_core::clock::ManualClock;
use auxo_core::engine::{Ask, Pick, Query};
use auxo_core::{Code, Engine, QueueName, Result};
use auxo_embedded::{Embedded, Options, salvage_disks};

pub use self::disk::MemoryDisk;
pub use self::image::{Image, Images, images};
use crate::refusal;

/// The moment at which every store is opened.
const START: u64 = 1_700_000_000_000;
/// The size of its segments.
const SEGMENT: u64 = 64 << 10;

/// What is believed of what a store shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Its bytes were damaged by somebody who knows nothing of checksums: what it shows was once pushed.
    Shown,
    /// Its checksums were made anew, so it may show anything.
    Nothing,
}

/// Opens the store on a disk.
pub fn open(disk: &MemoryDisk) -> Result<Embedded> {
    let options = Options {
        segment_size: SEGMENT,
        clock: Some(ManualClock::at(START)),
        seed: Some(11),
        ..Options::default()
    };
    Embedded::on(Arc::new(disk.clone()), options)
}

/// Opens a damaged store: it is refused, or what it shows was once true.
pub fn look(disk: &MemoryDisk, trust: Trust) {
    match open(disk) {
        Ok(engine) => block_on(walk(&engine, trust)),
        Err(error) => {
            let known = [Code::Internal, Code::Unavailable];
            assert!(known.contains(&error.code()), "{error:?}");
            assert!(error.message().contains("file "), "{error}");
            refusal::line(error.message());
        }
    }
}

/// Looks at all there is, and takes some of it. The first error ends it: a store that met damage has stopped.
async fn walk(engine: &Embedded, trust: Trust) {
    let mut query = Query {
        limit: 100,
        ..Query::default()
    };
    let mut ended = false;
    // No store here has so many pages.
    for _ in 0..100 {
        let Ok(page) = engine.list(query.clone()).await else {
            ended = true;
            break;
        };
        if trust == Trust::Shown {
            for job in &page.jobs {
                assert_eq!(images().payloads.get(&job.id), Some(&job.payload));
            }
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    assert!(ended || query.cursor.is_none(), "the pages do not end");
    let ask = Ask {
        queues: vec![QueueName::new("q").expect("a name")],
        job: None,
        pick: Pick::First,
        max: 5,
        wait: Duration::ZERO,
        ttr: None,
        worker: "w".into(),
    };
    if let Ok(leased) = engine.lease(ask).await
        && trust == Trust::Shown
    {
        for leased in leased {
            let known = images().payloads.get(&leased.job.id);
            assert_eq!(known, Some(&leased.job.payload));
        }
    }
    let _ = (engine.audit().await, engine.queues(None).await);
    let _ = engine.close().await;
}

/// Copies what is whole; says what is not.
pub fn salvage(disk: &MemoryDisk) {
    match salvage_disks(disk, Arc::new(MemoryDisk::default()), SEGMENT) {
        Ok(report) => report.lost.iter().for_each(|lost| refusal::line(lost)),
        Err(error) => refusal::line(error.message()),
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime for one thread").block_on(work)
}
