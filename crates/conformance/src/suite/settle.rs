//! How a lease ends, and what becomes of the job.

use auxo_core::engine::{Outcome, Retry, Settle};
use auxo_core::job::{Backoff, DeadReason, Jitter, TIMELINE_LENGTH, Ttl};
use auxo_core::life::Event;
use auxo_core::{Code, JobId, JobSpec, State};

use crate::bench::*;

/// Done and gone, unless it is to be kept.
pub async fn an_acked_job_is_done(t: &Bench) {
    let id = t.push(plain()).await;
    let settled = t.work(ack()).await;
    assert_eq!((settled.id, settled.state), (id, State::Done));
    assert_eq!(settled.run_at, None);
    assert_eq!(t.find(id).await, None);
    t.pass(secs(3600));
    assert!(t.idle().await);
}

/// Retention keeps the job with its result, to the millisecond.
pub async fn a_done_job_is_kept_for_its_retention(t: &Bench) {
    let spec = JobSpec {
        payload: text("p"),
        retention: secs(10),
        ..plain()
    };
    let id = t.push(spec).await;
    let result = Some(text("42"));
    t.pass(secs(1));
    t.work(Outcome::Ack {
        result: result.clone(),
    })
    .await;
    let ended_at = Some(t.wall());
    t.pass(ms(9_999));
    let job = t.job(id).await;
    assert_eq!((job.state, job.payload), (State::Done, text("p")));
    assert_eq!((job.result, job.ended_at), (result, ended_at));
    assert_eq!(job.holder, None);
    assert_eq!(t.info().await.counts.done, 1);
    t.pass(ms(1));
    assert_eq!(t.find(id).await, None);
    let info = t.info().await;
    assert_eq!((info.counts.done, info.books.done), (0, 1));
}

/// A token is good for one end.
pub async fn a_lease_ends_once(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    t.settle(leased.token, fail("no")).await;
    let again = t.try_settle(leased.token, ack()).await;
    assert_eq!(code(again), Code::LeaseLost);
    assert_eq!(t.state(id).await, Some(State::Scheduled));
}

/// A batch is answered per item in order, and each item sees those before it.
pub async fn a_batch_of_ends_is_answered_per_item(t: &Bench) {
    let ids = t.push_many(3, plain()).await;
    let leased = t.take(3).await;
    let items = [
        (0, ack()),
        (1, fail("no")),
        (0, ack()),
        (2, release()),
        (1, ack()),
    ];
    let items = items.map(|(which, outcome)| Settle {
        token: leased[which].token,
        outcome,
    });
    let answers = t.engine.settle(items.to_vec()).await.unwrap();
    let states = answers.iter().map(|answer| match answer {
        Ok(settled) => Ok((settled.id, settled.state)),
        Err(error) => Err(error.code()),
    });
    let expected = [
        Ok((ids[0], State::Done)),
        Ok((ids[1], State::Scheduled)),
        Err(Code::LeaseLost),
        Ok((ids[2], State::Ready)),
        Err(Code::LeaseLost),
    ];
    assert_eq!(states.collect::<Vec<_>>(), expected);
}

/// The answer to an unknown job is the same as to an old token: nothing can be probed.
pub async fn a_token_of_an_unknown_job_is_lost(t: &Bench) {
    t.push(plain()).await;
    let mut token = t.one().await.token;
    token.job = JobId(token.job.0 + 1000);
    let refused = t.try_settle(token, ack()).await;
    assert_eq!(code(refused), Code::LeaseLost);
    assert_eq!(code(t.extend(token, None).await), Code::LeaseLost);
}

/// A failure leads to another try after the wait that the policy says.
pub async fn a_failed_job_is_tried_again_later(t: &Bench) {
    let id = t.push(plain()).await;
    for (failures, wait) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
        let settled = t.work(fail("no luck")).await;
        assert_eq!(settled.state, State::Scheduled);
        assert_eq!(settled.run_at, Some(t.wall().plus(secs(wait))));
        let job = t.job(id).await;
        assert_eq!((job.failures, job.attempt), (failures, failures));
        assert_eq!(job.last_error.as_deref(), Some("no luck"));
        assert_eq!(job.run_at, t.wall().plus(secs(wait)));
        t.pass(ms(wait * 1000 - 1));
        assert!(t.idle().await);
        t.pass(ms(1));
    }
    assert_eq!(t.state(id).await, Some(State::Ready));
}

/// Fixed waits, and waits from a list whose last one repeats.
pub async fn each_kind_of_wait_is_kept(t: &Bench) {
    let fixed = Backoff::Fixed { delay: secs(3) };
    let list = Backoff::List {
        delays: vec![secs(1), secs(60)],
    };
    for (backoff, waits) in [(fixed, [3, 3, 3]), (list, [1, 60, 60])] {
        t.push(JobSpec { backoff, ..plain() }).await;
        for wait in waits {
            let settled = t.work(fail("no")).await;
            assert_eq!(settled.run_at, Some(t.wall().plus(secs(wait))));
            t.pass(secs(wait));
        }
        t.work(ack()).await;
    }
}

/// Jitter spreads a wait between nothing and the whole of it.
pub async fn a_spread_wait_is_never_longer_than_the_whole(t: &Bench) {
    let backoff = Backoff::Exponential {
        base: secs(10),
        factor: 1.0,
        cap: secs(10),
        jitter: Jitter::Full,
    };
    for _ in 0..20 {
        let backoff = backoff.clone();
        t.push(JobSpec { backoff, ..plain() }).await;
    }
    for leased in t.take(20).await {
        let settled = t.settle(leased.token, fail("no")).await;
        let run_at = settled.run_at.unwrap();
        assert!(run_at >= t.wall() && run_at <= t.wall().plus(secs(10)));
    }
    t.pass(secs(10));
    assert_eq!(t.order(100).await.len(), 20);
}

/// The worker may know better when to try again.
pub async fn a_failure_may_name_its_own_wait(t: &Bench) {
    let id = t.push(plain()).await;
    let outcome = Outcome::Fail {
        error: "busy".into(),
        delay: Some(secs(77)),
        retry: Retry::Policy,
    };
    let settled = t.work(outcome).await;
    assert_eq!(settled.run_at, Some(t.wall().plus(secs(77))));
    assert_eq!(t.job(id).await.failures, 1);
}

/// A wait of nothing makes the job ready at once, behind those that were due before.
pub async fn a_failure_without_a_wait_is_ready_at_once(t: &Bench) {
    let backoff = Backoff::Fixed { delay: ms(0) };
    let id = t.push(JobSpec { backoff, ..plain() }).await;
    let leased = t.one().await;
    t.pass(secs(1));
    let other = t.push(plain()).await;
    t.pass(secs(1));
    let settled = t.settle(leased.token, fail("no")).await;
    assert_eq!(settled.state, State::Ready);
    assert_eq!(t.order(10).await, [other, id]);
}

/// After as many failures as it may have, a job is dead, with its payload and last error.
pub async fn a_job_that_failed_too_often_is_dead(t: &Bench) {
    let spec = JobSpec {
        max_attempts: 2,
        payload: text("p"),
        ..plain()
    };
    let id = t.push(spec).await;
    t.work(fail("first")).await;
    t.pass(secs(1));
    let settled = t.work(fail("second")).await;
    assert_eq!((settled.state, settled.run_at), (State::Dead, None));
    let job = t.job(id).await;
    assert_eq!(job.dead, Some(DeadReason::Failed));
    assert_eq!(job.last_error.as_deref(), Some("second"));
    assert_eq!(job.ended_at, Some(t.wall()));
    assert_eq!((job.payload, job.holder), (text("p"), None));
    t.pass(secs(365 * 24 * 60 * 60));
    assert!(t.idle().await);
    assert_eq!(t.state(id).await, Some(State::Dead));
}

/// A job with one attempt does not get a second.
pub async fn a_single_attempt_is_the_last_one(t: &Bench) {
    let max_attempts = 1;
    let spec = JobSpec {
        max_attempts,
        ..plain()
    };
    t.push(spec).await;
    assert_eq!(t.work(fail("no")).await.state, State::Dead);
}

/// Failed and vanished leases are counted together; the waits grow with the failed ones only.
pub async fn failures_and_vanished_leases_add_up(t: &Bench) {
    let max_attempts = 3;
    let spec = JobSpec {
        max_attempts,
        ..plain()
    };
    let id = t.push(spec).await;
    t.one().await;
    t.pass(secs(60));
    let settled = t.work(fail("no")).await;
    assert_eq!(settled.run_at, Some(t.wall().plus(secs(1))));
    t.pass(secs(1));
    assert_eq!(t.work(fail("no")).await.state, State::Dead);
    let job = t.job(id).await;
    assert_eq!((job.attempt, job.failures, job.vanished), (3, 2, 1));
    assert_eq!(job.dead, Some(DeadReason::Failed));
}

/// A worker may say that trying again is of no use.
pub async fn a_failure_that_forbids_a_retry_is_the_last(t: &Bench) {
    let id = t.push(plain()).await;
    let outcome = Outcome::Fail {
        error: "bad input".into(),
        delay: Some(secs(1)),
        retry: Retry::Never,
    };
    assert_eq!(t.work(outcome).await.state, State::Dead);
    let job = t.job(id).await;
    assert_eq!((job.dead, job.failures), (Some(DeadReason::Failed), 1));
}

/// Giving back and putting off count no failure, however often.
pub async fn giving_back_counts_no_failure(t: &Bench) {
    let max_attempts = 2;
    let spec = JobSpec {
        max_attempts,
        ..plain()
    };
    let id = t.push(spec).await;
    for round in 0..10 {
        t.work(release()).await;
        let settled = t.work(snooze(secs(5))).await;
        assert_eq!(settled.state, State::Scheduled);
        assert_eq!(settled.run_at, Some(t.wall().plus(secs(5))));
        t.pass(secs(5));
        let job = t.job(id).await;
        assert_eq!((job.failures, job.vanished), (0, 0));
        assert_eq!((job.attempt, job.state), (2 * (round + 1), State::Ready));
    }
}

/// Buried means dead at once, with the reason that was given.
pub async fn a_buried_job_is_dead(t: &Bench) {
    let id = t.push(plain()).await;
    let settled = t.work(bury("hopeless")).await;
    assert_eq!((settled.state, settled.run_at), (State::Dead, None));
    let job = t.job(id).await;
    assert_eq!(job.dead, Some(DeadReason::Buried));
    assert_eq!(job.last_error.as_deref(), Some("hopeless"));
    assert_eq!(job.failures, 0);
}

/// Buried without a reason, the last error stays.
pub async fn a_job_buried_without_a_reason_keeps_its_last_error(t: &Bench) {
    let id = t.push(plain()).await;
    t.work(fail("first")).await;
    t.pass(secs(1));
    let outcome = Outcome::Bury {
        error: None,
        priority: Some(3),
    };
    t.work(outcome).await;
    let job = t.job(id).await;
    assert_eq!(job.last_error.as_deref(), Some("first"));
    assert_eq!(job.priority, 3);
}

/// A life that is over ends in `dead`, not in a worker's hands.
pub async fn an_expired_job_is_dead_and_never_handed_out(t: &Bench) {
    let ttl = Ttl::After(secs(10));
    let waits = t.push(JobSpec { ttl, ..plain() }).await;
    let scheduled = JobSpec {
        ttl,
        ..later(secs(60))
    };
    let scheduled = t.push(scheduled).await;
    t.pass(ms(9_999));
    assert_eq!(t.state(waits).await, Some(State::Ready));
    t.pass(ms(1));
    assert!(t.idle().await);
    for id in [waits, scheduled] {
        let job = t.job(id).await;
        assert_eq!(job.state, State::Dead);
        assert_eq!(job.dead, Some(DeadReason::Expired));
        assert_eq!(job.ended_at, Some(t.wall()));
    }
    let info = t.info().await;
    assert_eq!((info.books.expired, info.books.dead), (2, 0));
    assert_eq!(info.counts.dead, 2);
}

/// A life that ends at an instant follows the wall clock.
pub async fn a_life_may_end_at_an_instant(t: &Bench) {
    let at = t.wall().plus(secs(10));
    let ttl = Ttl::At(at);
    let id = t.push(JobSpec { ttl, ..plain() }).await;
    assert_eq!(t.job(id).await.expires_at, Some(at));
    t.pass(ms(9_999));
    assert_eq!(t.state(id).await, Some(State::Ready));
    t.pass(ms(1));
    assert_eq!(t.state(id).await, Some(State::Dead));
}

/// A job whose life is over before it begins is dead at once, and still accepted.
pub async fn a_job_that_is_pushed_too_late_is_expired(t: &Bench) {
    let ttl = Ttl::At(t.wall());
    let pushed = t.try_push(&queue(), JobSpec { ttl, ..plain() }).await;
    let pushed = pushed.unwrap();
    assert_eq!(pushed.state, State::Dead);
    assert!(t.idle().await);
    let books = t.info().await.books;
    assert_eq!((books.accepted, books.expired, books.live), (1, 1, 0));
    let dead = t.job(pushed.id).await.dead;
    assert_eq!(dead, Some(DeadReason::Expired));
}

/// Who works on a job when its life ends may finish it.
pub async fn a_leased_job_may_be_finished_after_its_life(t: &Bench) {
    let id = t.push(mortal()).await;
    let leased = t.one().await;
    t.pass(secs(30));
    assert_eq!(t.state(id).await, Some(State::Leased));
    t.extend(leased.token, None).await.unwrap();
    assert_eq!(t.settle(leased.token, ack()).await.state, State::Done);
    assert_eq!(t.info().await.books.done, 1);
}

/// Any other end of such a lease finds the job's life over.
pub async fn a_job_that_comes_back_after_its_life_is_expired(t: &Bench) {
    for (outcome, failures) in [(fail("no"), 1), (release(), 0), (snooze(secs(1)), 0)] {
        let id = t.push(mortal()).await;
        let leased = t.one().await;
        t.pass(secs(30));
        let settled = t.settle(leased.token, outcome).await;
        assert_eq!((settled.state, settled.run_at), (State::Dead, None));
        let job = t.job(id).await;
        assert_eq!(job.dead, Some(DeadReason::Expired));
        assert_eq!(job.failures, failures);
        assert_eq!(job.last_error.is_some(), failures > 0);
    }
    assert_eq!(t.info().await.books.expired, 3);
}

/// A worker that vanished after the job's life leaves it expired.
pub async fn a_job_that_vanishes_after_its_life_is_expired(t: &Bench) {
    let id = t.push(mortal()).await;
    t.one().await;
    t.pass(secs(60));
    let job = t.job(id).await;
    assert_eq!((job.dead, job.vanished), (Some(DeadReason::Expired), 1));
}

/// The last failure and the last vanished worker say more than the age.
pub async fn a_last_attempt_is_the_reason_even_after_the_life(t: &Bench) {
    let last = || JobSpec {
        max_attempts: 1,
        ..mortal()
    };
    let failed = t.push(last()).await;
    let leased = t.one().await;
    t.pass(secs(30));
    t.settle(leased.token, fail("no")).await;
    assert_eq!(t.job(failed).await.dead, Some(DeadReason::Failed));
    let vanished = t.push(last()).await;
    t.one().await;
    t.pass(secs(60));
    assert_eq!(t.job(vanished).await.dead, Some(DeadReason::Vanished));
    let buried = t.push(last()).await;
    let leased = t.one().await;
    t.pass(secs(30));
    t.settle(leased.token, bury("no")).await;
    assert_eq!(t.job(buried).await.dead, Some(DeadReason::Buried));
}

/// What is dead or done does not die again of age.
pub async fn dead_and_done_jobs_do_not_expire(t: &Bench) {
    let retention = secs(3600);
    let done = t
        .push(JobSpec {
            retention,
            ..mortal()
        })
        .await;
    t.work(ack()).await;
    let dead = t.push(mortal()).await;
    t.work(bury("no")).await;
    t.pass(secs(60));
    assert_eq!(t.state(done).await, Some(State::Done));
    assert_eq!(t.job(dead).await.dead, Some(DeadReason::Buried));
    assert_eq!(t.info().await.books.expired, 0);
}

/// The timeline tells the whole story, with times, workers and reasons.
pub async fn the_timeline_tells_what_happened(t: &Bench) {
    let retention = secs(60);
    let id = t
        .push(JobSpec {
            retention,
            ..plain()
        })
        .await;
    let begin = t.wall();
    t.pass(secs(1));
    t.work(fail("oops")).await;
    t.pass(secs(1));
    t.work(release()).await;
    t.work(snooze(ms(0))).await;
    t.one().await;
    t.pass(secs(60));
    t.work(ack()).await;
    let timeline = t.job(id).await.timeline;
    let events: Vec<Event> = timeline.iter().map(|moment| moment.event).collect();
    use Event::*;
    let expected = [
        Push, Lease, Retry, Lease, Release, Lease, Snooze, Lease, Vanish, Lease, Ack,
    ];
    assert_eq!(events, expected);
    assert_eq!(timeline[0].at, begin);
    assert_eq!(timeline[1].at, begin.plus(secs(1)));
    assert_eq!(timeline[1].by, "worker-1");
    assert_eq!((&*timeline[2].by, &*timeline[2].note), ("worker-1", "oops"));
    assert_eq!(timeline[8].at, begin.plus(secs(62)));
}

/// A job that goes round and round does not grow: its beginning and its newest moments are kept.
pub async fn the_timeline_is_bounded(t: &Bench) {
    let id = t.push(plain()).await;
    for _ in 0..40 {
        t.work(release()).await;
    }
    let leased = t.one().await;
    assert_eq!(leased.job.timeline.len(), TIMELINE_LENGTH);
    assert_eq!(t.job(id).await.timeline.len(), TIMELINE_LENGTH);
    t.settle(leased.token, snooze(secs(1))).await;
    let timeline = t.job(id).await.timeline;
    assert_eq!(timeline.len(), TIMELINE_LENGTH);
    assert_eq!(timeline[0].event, Event::Push);
    let last = timeline.last().unwrap();
    assert_eq!(last.event, Event::Snooze);
}

/// A plain job that lives for 30 seconds.
fn mortal() -> JobSpec {
    JobSpec {
        ttl: Ttl::After(secs(30)),
        ..plain()
    }
}
