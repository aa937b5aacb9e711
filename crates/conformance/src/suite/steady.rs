//! What an engine with a steady clock of its own promises: a step of the wall clock moves absolute times and nothing else. An
//! engine that lives by the clock of another server cannot keep it.

use auxo_core::job::{OnDuplicate, Ttl};
use auxo_core::{JobSpec, State};

use super::schedules::{every, made, set};
use crate::bench::*;

/// No step of the wall clock ends a lease early.
pub async fn a_clock_set_forward_ends_no_lease(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    t.pass(secs(1));
    t.clock.step_wall_forward(secs(365 * 24 * 60 * 60));
    assert_eq!(t.state(id).await, Some(State::Leased));
    assert!(t.idle().await);
    t.pass(ms(58_999));
    assert_eq!(t.settle(leased.token, ack()).await.state, State::Done);
}

/// No step of the wall clock keeps a lease alive.
pub async fn a_clock_set_back_prolongs_no_lease(t: &Bench) {
    let id = t.push(plain()).await;
    t.one().await;
    t.clock.step_wall_back(secs(365 * 24 * 60 * 60));
    t.pass(ms(59_999));
    assert_eq!(t.state(id).await, Some(State::Leased));
    t.pass(ms(1));
    assert_eq!(t.state(id).await, Some(State::Ready));
}

/// A delay is elapsed time, whatever the wall clock does; where it ends is shown on the wall clock as it is now.
pub async fn a_delay_does_not_feel_the_wall_clock(t: &Bench) {
    let id = t.push(later(secs(60))).await;
    t.clock.step_wall_forward(secs(3600));
    assert!(t.idle().await);
    assert_eq!(t.job(id).await.run_at, t.wall().plus(secs(60)));
    t.clock.step_wall_back(secs(7200));
    t.pass(ms(59_999));
    assert!(t.idle().await);
    t.pass(ms(1));
    assert_eq!(t.order(1).await, [id]);
}

/// A life that is a length of time does not feel the wall clock; one that ends at an instant does.
pub async fn the_end_of_a_life_follows_its_own_clock(t: &Bench) {
    let ttl = Ttl::After(secs(60));
    let length = t.push(JobSpec { ttl, ..plain() }).await;
    let ttl = Ttl::At(t.wall().plus(secs(60)));
    let instant = t.push(JobSpec { ttl, ..plain() }).await;
    t.clock.step_wall_forward(secs(60));
    assert_eq!(t.state(length).await, Some(State::Ready));
    assert_eq!(t.state(instant).await, Some(State::Dead));
    t.pass(secs(60));
    assert_eq!(t.state(length).await, Some(State::Dead));
}

/// Waits between tries, retention and key windows are elapsed time.
pub async fn retries_and_memories_do_not_feel_the_wall_clock(t: &Bench) {
    let spec = JobSpec {
        retention: secs(30),
        ..keyed("k", OnDuplicate::Reject)
    };
    let id = t.push(spec).await;
    t.work(fail("no")).await;
    t.clock.step_wall_forward(secs(48 * 60 * 60));
    assert!(t.idle().await);
    t.pass(secs(1));
    t.work(ack()).await;
    t.clock.step_wall_forward(secs(48 * 60 * 60));
    assert_eq!(t.info().await.counts.done, 1);
    assert!(t.holder("k").await.is_some());
    t.clock.step_wall_back(secs(96 * 60 * 60));
    t.pass(secs(30));
    assert_eq!(t.info().await.counts.done, 0);
    t.pass(secs(24 * 60 * 60 - 30));
    assert_eq!(t.find(id).await, None);
}

/// Ids rise and jobs keep their order while the wall clock is set back.
pub async fn order_and_ids_survive_a_clock_set_back(t: &Bench) {
    let first = t.push(plain()).await;
    t.clock.step_wall_back(secs(3600));
    let second = t.push(plain()).await;
    t.pass(ms(1));
    t.clock.step_wall_forward(secs(7200));
    let third = t.push(plain()).await;
    assert!(first < second && second < third);
    assert_eq!(t.order(10).await, [first, second, third]);
}

/// Intervals count elapsed time: no step of the wall clock moves them.
pub async fn an_interval_does_not_feel_the_wall_clock(t: &Bench) {
    set(t, every(10)).await;
    t.pass(secs(5));
    t.clock.step_wall_forward(secs(3600));
    assert_eq!(made(t).await, 0);
    t.clock.step_wall_back(secs(7200));
    t.pass(ms(4_999));
    assert_eq!(made(t).await, 0);
    t.pass(ms(1));
    assert_eq!(made(t).await, 1);
}
