//! Schedules for queues that are spread.

use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_conformance::bench::{ack, code, keyed, plain, queue, secs, text};
use auxo_core::engine::Change;
use auxo_core::job::OnDuplicate;
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::{Base, Due};
use auxo_core::{Code, JobSpec};

use auxo_harness::redis::Single;

/// A queue with these limits that is spread over 4 of 7 shards.
async fn spread(limits: QueueConfig) -> Bench {
    let server = Arc::new(Single::start(&[]));
    let url = server.url("?durability=none&shards=7");
    let t = crate::store::on(url, server).await;
    let shards = Some(4);
    t.configure(QueueConfig { shards, ..limits }).await;
    t
}

fn every_second(missed: Missed, spec: JobSpec) -> Schedule {
    Schedule {
        name: "s".to_owned(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(1)),
        missed,
        spec,
        next: None,
        last: None,
    }
}

#[tokio::test]
async fn ticks_find_the_room_that_a_queue_has_in_any_of_its_shards() {
    let eight = JobSpec {
        payload: text("12345678"),
        ..plain()
    };
    let limits = [
        QueueConfig {
            max_jobs: Some(40),
            ..QueueConfig::default()
        },
        QueueConfig {
            max_bytes: Some(40 * 8 + 7),
            ..QueueConfig::default()
        },
    ];
    for limits in limits {
        let t = spread(limits).await;
        let schedule = every_second(Missed::Once, eight.clone());
        t.change(Change::Schedule(schedule)).await;
        for tick in 1..=45 {
            t.pass(secs(1));
            assert_eq!(t.info().await.books.accepted, tick.min(40));
        }
        let shown = t.engine.catalog().await.unwrap().schedules;
        assert_eq!(shown[0].last, Some(t.wall().minus(secs(5))));
        t.work(ack()).await;
        t.pass(secs(1));
        assert_eq!(t.info().await.books.accepted, 41, "there is room again");
        t.check_books().await;
    }
}

#[tokio::test]
async fn of_many_ticks_at_once_as_many_make_jobs_as_there_is_room() {
    let t = spread(QueueConfig {
        max_jobs: Some(40),
        ..QueueConfig::default()
    })
    .await;
    let schedule = every_second(Missed::All, plain());
    t.change(Change::Schedule(schedule)).await;
    for (passed, made) in [(30, 30), (30, 40)] {
        t.pass(secs(passed));
        assert_eq!(t.info().await.books.accepted, made);
    }
}

#[tokio::test]
async fn no_schedule_makes_jobs_with_a_key_for_a_queue_that_is_spread() {
    let t = spread(QueueConfig::default()).await;
    let schedule = every_second(Missed::Once, keyed("k", OnDuplicate::Reject));
    let armed = Schedule {
        next: Some(Due {
            at: t.wall().plus(secs(1)),
            base: Base::Wall,
        }),
        ..schedule.clone()
    };
    for change in [Change::Schedule(schedule), Change::Arm(armed)] {
        let refused = t.engine.change(change).await;
        assert_eq!(code(refused), Code::Conflict);
        assert_eq!(t.engine.catalog().await.unwrap().schedules, []);
    }
}
