//! What a call costs when there is much that it does not ask for. Counted in reads of the disk, never in time.

use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_conformance::bench::{bury, later, plain, queue, run, secs, urgency};
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Filter, Page, Query};
use auxo_core::job::JobSpec;
use auxo_core::{JobId, NewJob, State};
use auxo_embedded::disk::{Disk, SimDisk};
use auxo_embedded::{Embedded, Options};

/// A new store with the smallest segments there are.
fn store(disk: &SimDisk) -> Bench {
    let clock = ManualClock::at(1_700_000_000_000);
    let options = Options {
        segment_size: 64 << 10,
        clock: Some(clock.clone()),
        seed: Some(7),
        ..Options::default()
    };
    let engine = Embedded::on(Arc::new(disk.clone()), options).expect("the store opens");
    Bench {
        engine: Arc::new(engine),
        clock,
        reopen: None,
    }
}

async fn page(t: &Bench, state: State) -> Page {
    let filter = Filter {
        states: vec![state],
        ..Filter::default()
    };
    let query = Query {
        filter,
        cursor: None,
        limit: 100,
    };
    t.engine.list(query).await.expect("a page")
}

fn ids(page: &Page) -> Vec<JobId> {
    page.jobs.iter().map(|job| job.id).collect()
}

fn indexes(disk: &SimDisk) -> usize {
    let names = disk.list().expect("names");
    names.iter().filter(|name| name.ends_with(".idx")).count()
}

#[test]
fn a_few_dead_among_thousands_of_ready_jobs_are_one_page_and_few_reads() {
    run(async {
        let disk = SimDisk::new();
        let t = store(&disk);
        let mut dead = Vec::new();
        for _ in 0..5 {
            t.push_many(1000, plain()).await;
            dead.push(t.work(bury("no")).await.id);
        }
        t.push_many(1000, plain()).await;
        assert!(indexes(&disk) > 3, "{:?}", disk.list());
        let before = disk.reads();
        let shown = page(&t, State::Dead).await;
        assert_eq!((ids(&shown), shown.next), (dead, None));
        let reads = disk.reads() - before;
        assert!(reads < 50, "{reads} reads for five jobs");
    });
}

#[test]
fn a_few_ready_among_thousands_of_scheduled_jobs_are_one_page_and_few_reads() {
    run(async {
        let disk = SimDisk::new();
        let t = store(&disk);
        let mut ready = Vec::new();
        for priority in [1, 2, 3] {
            let soon = JobSpec {
                priority,
                ..later(secs(60))
            };
            t.push_many(2000, soon).await;
            ready.push(
                t.push(JobSpec {
                    priority,
                    ..plain()
                })
                .await,
            );
        }
        assert!(indexes(&disk) > 3, "{:?}", disk.list());
        let before = disk.reads();
        let shown = page(&t, State::Ready).await;
        assert_eq!((ids(&shown), shown.next), (ready, None));
        let reads = disk.reads() - before;
        assert!(reads < 50, "{reads} reads for three jobs");
    });
}

#[test]
fn twenty_thousand_priorities_are_leased_in_order() {
    run(async {
        let t = store(&SimDisk::new());
        let priorities: Vec<u32> = (0..20_000).collect();
        for some in priorities.rchunks(1000) {
            let job = |priority: &u32| NewJob {
                queue: queue(),
                spec: urgency(*priority),
            };
            let jobs = some.iter().rev().map(job).collect();
            for pushed in t.engine.push(jobs).await.expect("a batch") {
                pushed.expect("a push");
            }
        }
        let mut leased = Vec::new();
        while leased.len() < priorities.len() {
            let some = t.take(500).await;
            assert!(!some.is_empty(), "only {} jobs", leased.len());
            leased.extend(some.iter().map(|leased| leased.job.priority));
        }
        assert_eq!(leased, priorities);
        assert!(t.idle().await);
    });
}
