//! What a call costs when there is much that it does not ask for. Counted in reads of the disk, never in time.

use std::collections::BTreeSet;
use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_conformance::bench::{bury, later, named, plain, queue, run, secs, urgency};
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Change, Filter, Page, Query};
use auxo_core::job::JobSpec;
use auxo_core::queue::QueueConfig;
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
        steady: true,
        together: true,
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

/// Waits until the maintenance thread has written some index files; it never does if it does not here.
async fn indexed(disk: &SimDisk) {
    loop {
        let names = disk.list().expect("names");
        if names.iter().filter(|name| name.ends_with(".idx")).count() > 3 {
            return;
        }
        tokio::task::yield_now().await;
    }
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
        indexed(&disk).await;
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
        indexed(&disk).await;
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

#[test]
fn a_fair_queue_of_thousands_of_groups_is_listed_whole() {
    run(async {
        let disk = SimDisk::new();
        let t = store(&disk);
        t.configure(QueueConfig {
            fair: true,
            ..QueueConfig::default()
        })
        .await;
        let mut pushed = BTreeSet::new();
        for group in 0..5000 {
            let spec = JobSpec {
                priority: group % 3,
                group: (group % 7 != 0).then(|| format!("group {group}")),
                ..plain()
            };
            pushed.insert(t.push(spec).await);
        }
        indexed(&disk).await;
        let listed = t.all(Filter::default(), 700).await;
        assert_eq!(listed.len(), pushed.len());
        let listed: BTreeSet<JobId> = listed.into_iter().map(|job| job.id).collect();
        assert_eq!(listed, pushed);
    });
}

#[test]
fn a_page_ends_though_it_finds_nothing_in_many_empty_queues() {
    run(async {
        let t = store(&SimDisk::new());
        for number in 0..20_000 {
            let name = named(&format!("q{number}"));
            t.change(Change::Queue(name, QueueConfig::default())).await;
        }
        let last = t.push_to(&named("last"), plain()).await;
        let query = Query {
            limit: 10,
            ..Query::default()
        };
        let first = t.engine.list(query).await.expect("a page");
        assert_eq!(ids(&first), []);
        assert!(first.next.is_some(), "a page over twenty thousand queues");
        let all = t.all(Filter::default(), 10).await;
        assert_eq!(all.iter().map(|job| job.id).collect::<Vec<_>>(), [last]);
    });
}

#[test]
fn leased_jobs_of_two_queues_are_listed_whole_and_in_order() {
    run(async {
        let t = store(&SimDisk::new());
        let mut leased = Vec::new();
        for name in ["a", "b"] {
            let job = NewJob {
                queue: named(name),
                spec: plain(),
            };
            t.engine.push(vec![job; 3000]).await.expect("a batch");
            let some = t.take_from(&[named(name)], 2900).await;
            leased.extend(some.into_iter().map(|leased| leased.job.id));
        }
        let filter = Filter {
            states: vec![State::Leased],
            ..Filter::default()
        };
        let listed = t.all(filter, 5000).await;
        assert_eq!(listed.iter().map(|job| job.id).collect::<Vec<_>>(), leased);
    });
}
