//! The wall clock can be stepped, and time can pass in great leaps.

use auxo_core::time::When;
use auxo_core::{JobSpec, State};

use crate::bench::*;

/// An absolute due time follows the wall clock, forward and back.
pub async fn an_instant_follows_the_wall_clock(t: &Bench) {
    let at = t.wall().plus(secs(3600));
    let when = When::At(at);
    let id = t.push(JobSpec { when, ..plain() }).await;
    t.clock.step_wall_back(secs(3600));
    t.pass(secs(3600));
    assert!(t.idle().await);
    assert_eq!(t.job(id).await.run_at, at);
    t.clock.step_wall_forward(secs(3599));
    assert!(t.idle().await);
    t.clock.step_wall_forward(secs(1));
    assert_eq!(t.state(id).await, Some(State::Ready));
    assert_eq!(t.info().await.counts.ready, 1);
    t.clock.step_wall_back(secs(1));
    // Not due any more, and not handed out.
    assert!(t.idle().await);
    let counts = t.info().await.counts;
    assert_eq!((counts.ready, counts.scheduled), (0, 1));
    t.pass(secs(1));
    assert_eq!(t.order(1).await, [id]);
}

/// A clock that jumps to and fro many times loses and doubles nothing.
pub async fn a_strobing_clock_loses_nothing(t: &Bench) {
    let when = When::At(t.wall().plus(secs(30)));
    let mut ids = t.push_many(5, JobSpec { when, ..plain() }).await;
    ids.extend(t.push_many(5, later(secs(30))).await);
    for _ in 0..50 {
        t.clock.step_wall_forward(secs(20));
        t.info().await;
        t.clock.step_wall_back(secs(20));
        assert!(t.idle().await);
    }
    t.pass(secs(30));
    let mut out = t.order(100).await;
    out.sort();
    assert_eq!(out, ids);
}

/// Ids run ahead of a clock that was set back, and of a crowded millisecond; jobs say all the same when they were made and due.
pub async fn a_job_says_when_it_was_made_though_its_id_is_ahead_of_the_clock(t: &Bench) {
    for _ in 0..5 {
        t.push_many(1000, plain()).await;
    }
    let crowded = t.push(plain()).await;
    assert_eq!(t.job(crowded).await.created_at, t.wall());
    t.clock.step_wall_back(secs(3600));
    let first = t.push_many(3, urgency(0)).await[0];
    let job = t.job(first).await;
    assert_eq!((job.created_at, job.run_at), (t.wall(), t.wall()));
    let leased = t.one().await;
    assert_eq!(leased.job.id, first);
    assert_eq!(leased.job.created_at, t.wall());
    assert_eq!(leased.job.run_at, t.wall());
}

/// A year passes, and everything that it brings has happened when somebody looks.
pub async fn a_year_passes_in_one_step(t: &Bench) {
    let late = t.push(later(secs(300 * 24 * 60 * 60))).await;
    let max_attempts = 1;
    let spec = JobSpec {
        max_attempts,
        ..urgency(0)
    };
    let lost = t.push(spec).await;
    t.one().await;
    t.pass(secs(365 * 24 * 60 * 60));
    assert_eq!(t.state(late).await, Some(State::Ready));
    assert_eq!(t.state(lost).await, Some(State::Dead));
}
