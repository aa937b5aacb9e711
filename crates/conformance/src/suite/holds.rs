//! A lease of a named job that heeds what holds the job back.

use auxo_core::engine::Holds;
use auxo_core::job::{Leased, Ttl};
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::refusal::{self, Hold};
use auxo_core::{JobId, JobSpec, Result, State};

use super::lease::lease_named;
use crate::bench::*;

async fn lease(t: &Bench, id: JobId) -> Result<Option<Leased>> {
    lease_named(t, id, Holds::Respect).await
}

/// Refused, and nothing of it has changed.
async fn held(t: &Bench, id: JobId, hold: Hold) {
    let before = t.job(id).await;
    assert_eq!(lease(t, id).await, Err(refusal::held_back(id, hold)));
    assert_eq!(t.job(id).await, before);
}

/// What is ready in a queue that hands out jobs is lent, wherever it stands in its line.
pub async fn a_named_job_that_is_ready_is_lent(t: &Bench) {
    let pushed = t.push_many(3, plain()).await;
    let leased = lease(t, pushed[2]).await.unwrap().expect("the job");
    assert_eq!((leased.job.id, leased.job.attempt), (pushed[2], 1));
    t.settle(leased.token, ack()).await;
    assert_eq!(t.order(10).await, pushed[..2]);
}

/// A job that is not due, or dead, stays so.
pub async fn a_named_job_that_is_not_due_or_dead_is_refused_and_stays_as_it_is(t: &Bench) {
    let dead = t.push(plain()).await;
    t.work(bury("no")).await;
    let scheduled = t.push(later(secs(10))).await;
    held(t, dead, Hold::Dead).await;
    held(t, scheduled, Hold::NotDue).await;
    t.pass(secs(10));
    assert!(lease(t, scheduled).await.unwrap().is_some());
}

/// A pause holds back jobs that are named, too.
pub async fn a_named_job_of_a_paused_queue_is_refused(t: &Bench) {
    let id = t.push(plain()).await;
    t.configure(QueueConfig {
        paused_out: true,
        ..QueueConfig::default()
    })
    .await;
    held(t, id, Hold::Paused).await;
    t.configure(QueueConfig::default()).await;
    assert!(lease(t, id).await.unwrap().is_some());
}

/// So does the number of leases that there may be.
pub async fn a_named_job_past_the_most_leases_is_refused(t: &Bench) {
    let pushed = t.push_many(2, plain()).await;
    t.configure(QueueConfig {
        max_leased: Some(1),
        ..QueueConfig::default()
    })
    .await;
    let first = lease(t, pushed[0]).await.unwrap().expect("the job");
    held(t, pushed[1], Hold::MaxLeased).await;
    t.settle(first.token, ack()).await;
    assert!(lease(t, pushed[1]).await.unwrap().is_some());
}

/// And the rate.
pub async fn a_named_job_past_the_rate_is_refused(t: &Bench) {
    let pushed = t.push_many(2, plain()).await;
    t.configure(QueueConfig {
        rate: Some(Rate {
            count: 1,
            per: secs(10),
            burst: 1,
        }),
        ..QueueConfig::default()
    })
    .await;
    assert!(lease(t, pushed[0]).await.unwrap().is_some());
    held(t, pushed[1], Hold::Rate).await;
    t.pass(secs(10));
    assert!(lease(t, pushed[1]).await.unwrap().is_some());
}

/// A job that is leased, done, expired or not there is not lent, and that is no refusal.
pub async fn a_named_job_that_cannot_be_lent_at_all_is_not_held_back(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = lease(t, id).await.unwrap().expect("the job");
    assert_eq!(lease(t, id).await, Ok(None));
    t.settle(leased.token, ack()).await;
    assert_eq!(lease(t, id).await, Ok(None));
    let spec = JobSpec {
        ttl: Ttl::After(secs(10)),
        ..plain()
    };
    let expired = t.push(spec).await;
    t.pass(secs(10));
    assert_eq!(lease(t, expired).await, Ok(None));
    assert_eq!(t.state(expired).await, Some(State::Dead));
    assert_eq!(lease(t, JobId(expired.0 + 1)).await, Ok(None));
}
