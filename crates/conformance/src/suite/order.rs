//! Which job is handed out first.

use auxo_core::engine::{Action, Outcome};
use auxo_core::time::When;
use auxo_core::{JobId, JobSpec, State};

use crate::bench::*;

/// First in, first out.
pub async fn jobs_come_out_in_the_order_they_came_in(t: &Bench) {
    let mut ids = t.push_many(3, plain()).await;
    t.pass(ms(1));
    ids.extend(t.push_many(3, plain()).await);
    assert_eq!(t.order(10).await, ids);
}

/// Zero is the most urgent.
pub async fn a_more_urgent_job_comes_first(t: &Bench) {
    let low = t.push(urgency(9)).await;
    let high = t.push(urgency(0)).await;
    let middle = t.push(urgency(5)).await;
    assert_eq!(t.order(10).await, [high, middle, low]);
}

/// Among equals the one that was due earlier, not the one that was pushed earlier.
pub async fn an_earlier_due_time_comes_first_within_a_priority(t: &Bench) {
    let second = t.push(later(secs(2))).await;
    let first = t.push(later(secs(1))).await;
    let third = t.push(later(secs(2))).await;
    t.pass(secs(5));
    let fourth = t.push(plain()).await;
    assert_eq!(t.order(10).await, [first, second, third, fourth]);
}

/// Priority counts before the due time.
pub async fn an_urgent_job_overtakes_an_overdue_one(t: &Bench) {
    let overdue = t.push(plain()).await;
    t.pass(secs(3600));
    let urgent = t.push(urgency(0)).await;
    assert_eq!(t.order(10).await, [urgent, overdue]);
}

/// An urgent job that is not due yet does not stand in the way.
pub async fn an_urgent_job_that_is_not_due_blocks_nobody(t: &Bench) {
    let when = When::After(secs(60));
    let urgent = t.push(JobSpec { when, ..urgency(0) }).await;
    let plain = t.push(plain()).await;
    assert_eq!(t.order(10).await, [plain]);
    t.pass(secs(60));
    assert_eq!(t.state(urgent).await, Some(State::Ready));
}

/// Jobs due by the wall clock and jobs due by elapsed time stand in one line.
pub async fn jobs_due_by_either_clock_come_in_the_order_of_time(t: &Bench) {
    let at = |seconds| JobSpec {
        when: When::At(t.wall().plus(secs(seconds))),
        ..plain()
    };
    let third = t.push(at(3)).await;
    let second = t.push(later(secs(2))).await;
    let first = t.push(at(1)).await;
    let fourth = t.push(later(secs(4))).await;
    t.pass(secs(10));
    assert_eq!(t.order(10).await, [first, second, third, fourth]);
}

/// `max` bounds a lease, which takes the first jobs in one step.
pub async fn a_batch_lease_takes_the_first_jobs(t: &Bench) {
    let ids = t.push_many(5, plain()).await;
    assert_eq!(t.order(2).await, ids[..2]);
    assert_eq!(t.order(10).await, ids[2..]);
}

/// The first queue with work wins, and gives all of the batch.
pub async fn a_lease_takes_from_the_first_queue_that_has_any(t: &Bench) {
    let [a, b, c] = ["a", "b", "c"].map(named);
    t.push_to(&c, urgency(0)).await;
    let id = t.push_to(&b, plain()).await;
    let leased = t.take_from(&[a, b.clone(), c.clone()], 10).await;
    assert_eq!(leased.len(), 1);
    assert_eq!((leased[0].job.id, &leased[0].job.queue), (id, &b));
    let leased = t.take_from(&[b, c.clone()], 10).await;
    assert_eq!(leased[0].job.queue, c);
}

/// Given back without a delay, a job stands where it stood.
pub async fn a_released_job_goes_back_to_its_old_place(t: &Bench) {
    let ids = t.push_many(2, plain()).await;
    t.pass(secs(1));
    let last = t.push(plain()).await;
    let leased = t.one().await;
    t.pass(secs(1));
    let settled = t.settle(leased.token, release()).await;
    assert_eq!(settled.state, State::Ready);
    assert_eq!(t.order(10).await, [ids[0], ids[1], last]);
}

/// Given back with a delay, a job is due when the delay has passed.
pub async fn a_job_released_with_a_delay_waits_for_it(t: &Bench) {
    let ids = t.push_many(2, plain()).await;
    let outcome = Outcome::Release {
        priority: None,
        delay: Some(secs(5)),
    };
    let settled = t.work(outcome).await;
    assert_eq!(settled.state, State::Scheduled);
    assert_eq!(settled.run_at, Some(t.wall().plus(secs(5))));
    assert_eq!(t.order(10).await, [ids[1]]);
    t.pass(secs(5));
    assert_eq!(t.order(10).await, [ids[0]]);
}

/// A release may change the priority.
pub async fn a_job_released_with_a_priority_moves_there(t: &Bench) {
    let ids = t.push_many(2, urgency(5)).await;
    let outcome = Outcome::Release {
        priority: Some(6),
        delay: None,
    };
    t.work(outcome).await;
    assert_eq!(t.job(ids[0]).await.priority, 6);
    assert_eq!(t.order(10).await, [ids[1], ids[0]]);
}

/// A worker that died does not cost its job the place in line.
pub async fn a_job_whose_lease_vanishes_is_at_the_front_of_its_priority(t: &Bench) {
    let early = t.push(plain()).await;
    t.pass(secs(1));
    let lost = t.push(plain()).await;
    let urgent = t.push(urgency(0)).await;
    let first = t.one().await;
    assert_eq!(first.job.id, urgent);
    t.settle(first.token, ack()).await;
    let keeps = t.one().await;
    let [vanishes] = t.take(1).await.try_into().unwrap();
    assert_eq!((keeps.job.id, vanishes.job.id), (early, lost));
    t.extend(keeps.token, Some(secs(7200))).await.unwrap();
    t.pass(secs(60));
    t.settle(keeps.token, release()).await;
    let urgent = t.push(urgency(0)).await;
    // The lost one is younger than the early one, yet comes before it; a more urgent one still comes first.
    assert_eq!(t.order(10).await, [urgent, lost, early]);
}

/// Several that vanished stand before the others, oldest first.
pub async fn vanished_jobs_stand_at_the_front_by_age(t: &Bench) {
    let ids = t.push_many(4, plain()).await;
    let leased = t.take(3).await;
    // They vanish at different times, the youngest first.
    for (leased, seconds) in leased.iter().zip([30, 20, 10]) {
        let extended = t.extend(leased.token, Some(secs(seconds))).await;
        extended.unwrap();
    }
    for _ in 0..3 {
        t.pass(secs(10));
        t.info().await;
    }
    assert_eq!(t.order(10).await, ids);
}

/// The front place is kept through a lease that ends in a release.
pub async fn a_vanished_job_that_is_released_is_still_at_the_front(t: &Bench) {
    let (early, lost) = front_pair(t).await;
    let leased = t.one().await;
    assert_eq!(leased.job.id, lost);
    t.settle(leased.token, release()).await;
    assert_eq!(t.order(10).await, [lost, early]);
}

/// The front place is lost with a failure: the job has another due time then.
pub async fn a_vanished_job_that_fails_loses_the_front(t: &Bench) {
    let (early, lost) = front_pair(t).await;
    t.work(fail("no")).await;
    t.pass(secs(10));
    assert_eq!(t.order(10).await, [early, lost]);
}

/// The front place is lost with a new due time.
pub async fn a_vanished_job_that_is_rescheduled_loses_the_front(t: &Bench) {
    let (early, lost) = front_pair(t).await;
    let moved = t.steer(lost, Action::Reschedule(When::Now)).await;
    assert_eq!(moved, Ok(State::Ready));
    assert_eq!(t.order(10).await, [early, lost]);
}

/// Two ready jobs of one priority: an early one, and a younger one that stands before it because its worker vanished.
async fn front_pair(t: &Bench) -> (JobId, JobId) {
    let early = t.push(plain()).await;
    t.pass(secs(1));
    let lost = t.push(plain()).await;
    let leased = t.take(2).await;
    t.extend(leased[0].token, Some(secs(7200))).await.unwrap();
    t.pass(secs(60));
    t.settle(leased[0].token, release()).await;
    (early, lost)
}

/// There is no ceiling on what falls due in one moment.
pub async fn ten_thousand_jobs_due_at_once_come_out_at_once(t: &Bench) {
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.extend(t.push_many(1000, later(secs(60))).await);
    }
    t.pass(secs(60));
    assert_eq!(t.info().await.counts.ready, 10_000);
    let mut out = Vec::new();
    for _ in 0..10 {
        out.extend(t.order(1000).await);
    }
    assert!(out == ids);
}
