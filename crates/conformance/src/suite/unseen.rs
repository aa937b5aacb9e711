//! Leases whose answer nobody got. No worker has their tokens, so they never were.

use auxo_core::life::Event;

use crate::bench::*;

/// Such a lease counts as no attempt, and its job's timeline does not have it.
pub async fn an_answer_that_nobody_takes_is_no_attempt(t: &Bench) {
    t.lend_to_nobody().await;
    let leased = t.one().await;
    assert_eq!(leased.job.attempt, 1);
    let events = leased.job.timeline.iter().map(|entry| entry.event);
    assert_eq!(events.collect::<Vec<_>>(), [Event::Push, Event::Lease]);
    t.settle(leased.token, ack()).await;
}
