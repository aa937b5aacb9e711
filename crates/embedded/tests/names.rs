//! The limit of names: a store has so many queues at most, and unused ones make room.

use std::sync::Arc;

use auxo_conformance::bench::{Bench, ack, named, plain, secs};
use auxo_conformance::queue_limit;
use auxo_conformance::suite::run_case;
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Change, Settle};
use auxo_core::queue::{MAX_QUEUES, QueueConfig};
use auxo_core::{NewJob, QueueName, When};
use auxo_embedded::disk::SimDisk;
use auxo_embedded::{Embedded, MOST_QUEUES, Options, salvage_disks};

fn store(options: Options) -> Bench {
    store_on(SimDisk::new(), options)
}

fn store_on(disk: SimDisk, options: Options) -> Bench {
    let clock = ManualClock::at(1_700_000_000_000);
    let options = Options {
        clock: Some(clock.clone()),
        seed: Some(7),
        ..options
    };
    let engine = Embedded::on(Arc::new(disk), options).expect("the store opens");
    Bench {
        engine: Arc::new(engine),
        clock,
        steady: true,
        together: true,
        reopen: None,
    }
}

#[test]
fn at_the_limit_the_longest_unused_queue_makes_room() {
    let small = || Options {
        max_queues: 8,
        ..Options::default()
    };
    let case =
        async |t: &Bench| queue_limit::at_the_limit_the_longest_unused_queue_makes_room(t, 8).await;
    run_case(async || store(small()), case);
}

/// Somebody makes as many queues as there may be, and has their jobs done. Others can make queues at once, and an hour later all
/// names and their memory are given back.
#[test]
fn a_hundred_thousand_names_are_given_back() {
    let case = async |t: &Bench| {
        let names: Vec<QueueName> = (0..MAX_QUEUES).map(|n| named(&format!("a.{n}"))).collect();
        for names in names.chunks(1000) {
            let job = |queue: &QueueName| NewJob {
                queue: queue.clone(),
                spec: plain(),
            };
            let pushed = t.engine.push(names.iter().map(job).collect()).await;
            assert!(pushed.unwrap().iter().all(Result::is_ok));
        }
        assert_eq!(
            auxo_conformance::bench::code(t.try_push(&named("b"), plain()).await),
            auxo_core::Code::TooLarge
        );
        for names in names.chunks(1000) {
            let mut items = Vec::new();
            for name in names {
                let leased = t.take_from(std::slice::from_ref(name), 1).await;
                items.push(Settle {
                    token: leased[0].token,
                    outcome: ack(),
                });
            }
            let settled = t.engine.settle(items).await.unwrap();
            assert!(settled.iter().all(Result::is_ok));
        }
        t.push_to(&named("b"), plain()).await;
        assert!(!t.is_known(&names[0]).await);
        assert!(t.is_known(&names[1]).await);
        t.pass(secs(3600));
        let left = t.engine.queues(None).await.unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!(t.forgotten().await.done, u64::from(MAX_QUEUES));
    };
    run_case(async || store(Options::default()), case);
}

/// The number of a forgotten queue is given to the next. What is salvaged is in the queue that it was in.
#[test]
fn a_number_that_was_given_again_is_salvaged_as_the_new_queue() {
    auxo_conformance::bench::run(async {
        let disk = SimDisk::new();
        let t = store_on(disk.clone(), Options::default());
        t.use_up(&named("old")).await;
        t.push_to(&named("kept"), plain()).await;
        t.pass(secs(3600));
        assert!(!t.is_known(&named("old")).await);
        t.push_to(&named("new"), plain()).await;
        t.engine.close().await.unwrap();
        let whole = SimDisk::new();
        let report = salvage_disks(
            &disk,
            Arc::new(whole.clone()),
            Options::default().segment_size,
        )
        .unwrap();
        assert_eq!(report.lost, Vec::<String>::new());
        let copied = [(named("kept"), 1), (named("new"), 1)];
        assert_eq!(report.copied, copied);
        let t = store_on(whole, Options::default());
        assert_eq!(t.engine.queues(None).await.unwrap().len(), 2);
        t.check_books().await;
    });
}

/// A salvage brings back queues that were forgotten since the checkpoint, so it may find more than there may be.
#[test]
fn a_salvage_copies_more_queues_than_there_may_be() {
    auxo_conformance::bench::run(async {
        let disk = SimDisk::new();
        let wide = || Options {
            max_queues: MOST_QUEUES,
            ..Options::default()
        };
        let t = store_on(disk.clone(), wide());
        let names: Vec<QueueName> = (0..=MAX_QUEUES).map(|n| named(&format!("a.{n}"))).collect();
        for names in names.chunks(1000) {
            let job = |queue: &QueueName| NewJob {
                queue: queue.clone(),
                spec: plain(),
            };
            let pushed = t.engine.push(names.iter().map(job).collect()).await;
            assert!(pushed.unwrap().iter().all(Result::is_ok));
        }
        t.engine.close().await.unwrap();
        let whole = SimDisk::new();
        let size = Options::default().segment_size;
        let report = salvage_disks(&disk, Arc::new(whole.clone()), size).unwrap();
        assert_eq!(report.lost, Vec::<String>::new());
        assert_eq!(report.copied.len(), names.len());
        let t = store_on(whole, Options::default());
        let queues = t.engine.queues(None).await.unwrap();
        assert_eq!(queues.len(), names.len());
    });
}

/// Pauses a queue that has nothing for a week, and resumes it when it has been looked at.
async fn pause_and_resume(t: &Bench, name: &QueueName) {
    let week = secs(7 * 24 * 3600);
    let paused = QueueConfig {
        paused_until: Some(When::At(t.wall().plus(week))),
        ..QueueConfig::default()
    };
    t.change(Change::Queue(name.clone(), paused)).await;
    t.pass(secs(3600));
    assert!(t.is_known(name).await);
    let resumed = Change::Queue(name.clone(), QueueConfig::default());
    t.change(resumed).await;
}

#[test]
fn a_queue_that_was_resumed_before_its_pause_was_over_is_forgotten_an_hour_later() {
    let case = async |t: &Bench| {
        let name = named("paused");
        pause_and_resume(t, &name).await;
        t.pass(secs(3599));
        assert!(t.is_known(&name).await);
        t.pass(secs(1));
        assert!(!t.is_known(&name).await);
    };
    run_case(async || store(Options::default()), case);
}

#[test]
fn a_queue_that_was_resumed_before_its_pause_was_over_makes_room_for_another() {
    let case = async |t: &Bench| {
        let name = named("paused");
        pause_and_resume(t, &name).await;
        t.push_to(&named("new"), plain()).await;
        assert!(!t.is_known(&name).await);
    };
    let small = || Options {
        max_queues: 1,
        ..Options::default()
    };
    run_case(async || store(small()), case);
}
