//! Fair queues: groups take turns.

use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::{JobId, JobSpec};

use crate::bench::*;

/// A group with much work does not hold up one with little.
pub async fn groups_take_turns(t: &Bench) {
    fair(t).await;
    let big = t.push_many(6, of("big")).await;
    let small = t.push_many(2, of("small")).await;
    let order = one_by_one(t, 8).await;
    let place = |id: &JobId| order.iter().position(|out| out == id).unwrap();
    assert!(place(&small[0]) <= 1, "{order:?}");
    assert!(place(&small[1]) <= 3, "{order:?}");
    let of_big: Vec<JobId> = order.into_iter().filter(|id| big.contains(id)).collect();
    assert_eq!(of_big, big);
}

/// Turns are taken within one batch as well.
pub async fn a_batch_takes_turns(t: &Bench) {
    fair(t).await;
    let a = t.push_many(5, of("a")).await;
    let b = t.push_many(5, of("b")).await;
    let batch = t.order(4).await;
    let count = |group: &[JobId]| batch.iter().filter(|id| group.contains(id)).count();
    assert_eq!((count(&a), count(&b)), (2, 2));
}

/// Jobs without a group are a group of their own.
pub async fn jobs_without_a_group_are_one_group(t: &Bench) {
    fair(t).await;
    let none = t.push_many(5, plain()).await;
    let a = t.push_many(5, of("a")).await;
    let batch = t.order(4).await;
    let count = |group: &[JobId]| batch.iter().filter(|id| group.contains(id)).count();
    assert_eq!((count(&none), count(&a)), (2, 2));
}

/// Priority counts before turns.
pub async fn an_urgent_group_comes_first(t: &Bench) {
    fair(t).await;
    t.push_many(3, of("a")).await;
    let urgent = JobSpec {
        priority: 0,
        ..of("b")
    };
    let urgent = t.push_many(3, urgent).await;
    assert_eq!(t.order(3).await, urgent);
}

/// A job of a group that is not due yet takes nobody's turn.
pub async fn a_group_that_is_not_due_takes_no_turn(t: &Bench) {
    fair(t).await;
    let when = auxo_core::When::After(secs(30));
    let late = t.push(JobSpec { when, ..of("late") }).await;
    let a = t.push_many(3, of("a")).await;
    assert_eq!(one_by_one(t, 2).await, a[..2]);
    t.pass(secs(30));
    let next = one_by_one(t, 2).await;
    assert!(next.contains(&late) && next.contains(&a[2]), "{next:?}");
}

/// A queue that is not fair goes by due time alone.
pub async fn groups_mean_nothing_in_a_queue_that_is_not_fair(t: &Bench) {
    let mut ids = t.push_many(3, of("a")).await;
    ids.extend(t.push_many(3, of("b")).await);
    assert_eq!(t.order(10).await, ids);
}

/// A queue can be made fair, and unfair again, while it has jobs.
pub async fn a_queue_can_be_made_fair_with_jobs_in_it(t: &Bench) {
    let a = t.push_many(6, of("a")).await;
    let b = t.push_many(4, of("b")).await;
    fair(t).await;
    let mut batch = t.order(4).await;
    let count = |group: &[JobId]| batch.iter().filter(|id| group.contains(id)).count();
    assert_eq!((count(&a), count(&b)), (2, 2));
    t.configure(QueueConfig::default()).await;
    let rest = t.order(100).await;
    assert!(rest.is_sorted(), "{rest:?}");
    batch.extend(rest);
    batch.sort();
    assert_eq!(batch, [a, b].concat());
}

/// Many groups are all served, each in its own order.
pub async fn many_groups_are_all_served(t: &Bench) {
    fair(t).await;
    for round in 0..3 {
        for group in 0..50 {
            let spec = JobSpec {
                payload: text(&round.to_string()),
                ..of(&format!("group-{group}"))
            };
            t.push(spec).await;
        }
    }
    for round in 0..3 {
        let leased = t.take(50).await;
        let mut groups: Vec<_> = leased.iter().map(|l| l.job.group.clone()).collect();
        groups.sort();
        groups.dedup();
        assert_eq!(groups.len(), 50);
        let round = text(&round.to_string());
        assert!(leased.iter().all(|leased| leased.job.payload == round));
    }
}

async fn fair(t: &Bench) {
    let config = QueueConfig {
        fair: true,
        ..QueueConfig::default()
    };
    t.change(Change::Queue(queue(), config)).await;
}

fn of(group: &str) -> JobSpec {
    JobSpec {
        group: Some(group.into()),
        ..plain()
    }
}

async fn one_by_one(t: &Bench, count: usize) -> Vec<JobId> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(t.one().await.job.id);
    }
    ids
}
