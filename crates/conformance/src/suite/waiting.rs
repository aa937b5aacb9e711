//! Lease calls that wait: on a signal, never by looking again and again.

use auxo_core::engine::{Action, Change, Message, Outcome};
use auxo_core::job::{Leased, OnDuplicate};
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::When;
use auxo_core::topic::Subscription;
use auxo_core::{Code, JobId, JobSpec, State};
use tokio::task::JoinHandle;

use crate::bench::*;

/// A push is handed to who waits for it.
pub async fn a_push_wakes_who_waits(t: &Bench) {
    let task = waiter(t).await;
    let id = t.push(plain()).await;
    assert_eq!(ids(t.answer(task).await), [id]);
    assert_eq!(t.info().await.waiting, 0);
}

/// A wait that was in vain ends with nothing, at its time.
pub async fn a_wait_in_vain_ends_with_nothing(t: &Bench) {
    t.configure(QueueConfig::default()).await;
    let task = t.wait_for(asking(&[queue()], 1, secs(30))).await;
    t.pass(ms(29_999));
    assert_eq!(t.info().await.waiting, 1);
    t.pass(ms(1));
    assert!(t.answer(task).await.is_empty());
    assert_eq!(t.info().await.waiting, 0);
}

/// A job that falls due is handed to who waits for it.
pub async fn a_job_falling_due_wakes_who_waits(t: &Bench) {
    let id = t.push(later(secs(60))).await;
    let task = waiter(t).await;
    t.pass(ms(59_999));
    assert_eq!(t.info().await.waiting, 1);
    t.pass(ms(1));
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// An earlier due time than the one waited for sets the alarm anew.
pub async fn an_earlier_due_time_re_arms_the_alarm(t: &Bench) {
    let late = t.push(later(secs(100))).await;
    let task = waiter(t).await;
    let early = t.push(later(secs(10))).await;
    t.pass(secs(10));
    let leased = t.answer(task).await.remove(0);
    assert_eq!(leased.job.id, early);
    t.settle(leased.token, ack()).await;
    let task = waiter(t).await;
    t.pass(secs(90));
    assert_eq!(ids(t.answer(task).await), [late]);
}

/// The first to come is the first to be served.
pub async fn waiters_are_served_in_the_order_they_came(t: &Bench) {
    let (first, second) = (waiter(t).await, waiter(t).await);
    let a = t.push(plain()).await;
    assert_eq!(ids(t.answer(first).await), [a]);
    t.until_waiting(&queue(), 1).await;
    let b = t.push(plain()).await;
    assert_eq!(ids(t.answer(second).await), [b]);
}

/// Jobs pushed in one call go to all who wait, one each, in order.
pub async fn a_batch_serves_many_waiters(t: &Bench) {
    let mut tasks = Vec::new();
    for _ in 0..5 {
        tasks.push(waiter(t).await);
    }
    let pushed = t.push_many(5, plain()).await;
    for (task, id) in tasks.into_iter().zip(pushed) {
        assert_eq!(ids(t.answer(task).await), [id]);
    }
}

/// A waiter that wants many takes what there is, and does not wait for more.
pub async fn a_waiter_takes_what_there_is(t: &Bench) {
    t.configure(QueueConfig::default()).await;
    let task = t.wait_on(&[queue()], 10).await;
    let pushed = t.push_many(3, plain()).await;
    assert_eq!(ids(t.answer(task).await), pushed);
}

/// Who waits for several queues is served by whichever gets work first.
pub async fn a_waiter_listens_to_all_its_queues(t: &Bench) {
    let (a, b) = (named("a"), named("b"));
    for queue in [&a, &b] {
        t.change(Change::Queue(queue.clone(), QueueConfig::default()))
            .await;
    }
    let task = t.wait_on(&[a.clone(), b.clone()], 1).await;
    t.until_waiting(&b, 1).await;
    let id = t.push_to(&b, plain()).await;
    assert_eq!(ids(t.answer(task).await), [id]);
    assert_eq!(t.info_of(&a).await.waiting, 0);
    assert_eq!(t.info_of(&b).await.waiting, 0);
}

/// A queue may be waited for before it exists.
pub async fn a_queue_may_be_waited_for_before_it_exists(t: &Bench) {
    let (known, unborn) = (named("known"), named("unborn"));
    t.change(Change::Queue(known.clone(), QueueConfig::default()))
        .await;
    let task = t.wait_on(&[known, unborn.clone()], 1).await;
    let id = t.push_to(&unborn, plain()).await;
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// A push to one queue does not go to who waits for another.
pub async fn a_push_elsewhere_wakes_nobody(t: &Bench) {
    let task = waiter(t).await;
    let other = named("other");
    t.push_to(&other, plain()).await;
    assert_eq!(t.info().await.waiting, 1);
    assert_eq!(t.info_of(&other).await.counts.ready, 1);
    let id = t.push(plain()).await;
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// A worker's job that comes back goes to who waits.
pub async fn a_vanished_lease_wakes_who_waits(t: &Bench) {
    let id = t.push(plain()).await;
    t.one().await;
    let task = waiter(t).await;
    t.pass(secs(60));
    let leased = t.answer(task).await;
    assert_eq!((leased[0].job.id, leased[0].job.attempt), (id, 2));
}

/// A job given back goes to who waits; a failed one when its wait is over.
pub async fn a_job_given_back_wakes_who_waits(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    let task = waiter(t).await;
    t.settle(leased.token, release()).await;
    let leased = t.answer(task).await.remove(0);
    assert_eq!(leased.job.id, id);
    let task = waiter(t).await;
    t.settle(leased.token, fail("no")).await;
    assert_eq!(t.info().await.waiting, 1);
    t.pass(secs(1));
    let leased = t.answer(task).await.remove(0);
    let task = waiter(t).await;
    t.settle(leased.token, snooze(secs(5))).await;
    t.pass(secs(5));
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// An operator's kick, or an earlier due time, reaches who waits.
pub async fn a_kick_and_an_earlier_time_wake_who_waits(t: &Bench) {
    let dead = t.push(plain()).await;
    t.work(bury("no")).await;
    let task = waiter(t).await;
    t.steer(dead, Action::Kick).await.unwrap();
    assert_eq!(ids(t.answer(task).await), [dead]);
    let id = t.push(later(secs(3000))).await;
    let task = waiter(t).await;
    let when = When::After(secs(10));
    t.steer(id, Action::Reschedule(when)).await.unwrap();
    t.pass(secs(10));
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// A replaced job with an earlier due time reaches who waits.
pub async fn a_replaced_job_wakes_who_waits(t: &Bench) {
    let when = When::After(secs(1000));
    let spec = JobSpec {
        when,
        ..keyed("k", OnDuplicate::Replace)
    };
    let id = t.push(spec).await;
    let task = waiter(t).await;
    t.push(keyed("k", OnDuplicate::Replace)).await;
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// A queue that hands out again serves who waits.
pub async fn a_resumed_queue_wakes_who_waits(t: &Bench) {
    t.configure(QueueConfig {
        paused_out: true,
        ..QueueConfig::default()
    })
    .await;
    let id = t.push(plain()).await;
    let task = waiter(t).await;
    assert_eq!(t.state(id).await, Some(State::Ready));
    t.configure(QueueConfig::default()).await;
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// A pause that ends by itself, or is taken back before, serves who waits.
pub async fn a_pause_that_ends_wakes_who_waits(t: &Bench) {
    let until = |seconds| QueueConfig {
        paused_until: Some(When::After(secs(seconds))),
        ..QueueConfig::default()
    };
    t.configure(until(10)).await;
    let id = t.push(plain()).await;
    let task = waiter(t).await;
    t.pass(ms(9_999));
    assert_eq!(t.info().await.waiting, 1);
    t.pass(ms(1));
    assert_eq!(ids(t.answer(task).await), [id]);
    t.configure(until(3600)).await;
    let id = t.push(plain()).await;
    let task = waiter(t).await;
    t.configure(QueueConfig::default()).await;
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// A lease that ends makes room for the next, where leases are limited.
pub async fn a_freed_slot_wakes_who_waits(t: &Bench) {
    t.configure(QueueConfig {
        max_leased: Some(1),
        ..QueueConfig::default()
    })
    .await;
    for outcome in [ack(), fail("no"), bury("no"), snooze(secs(9))] {
        let pushed = t.push_many(2, plain()).await;
        let leased = t.one().await;
        let task = waiter(t).await;
        t.settle(leased.token, outcome).await;
        let next = t.answer(task).await.remove(0);
        assert_eq!(next.job.id, pushed[1]);
        t.settle(next.token, ack()).await;
        t.purge(&queue()).await;
    }
}

/// A rate that allows the next lease serves who waits.
pub async fn a_refilled_rate_wakes_who_waits(t: &Bench) {
    t.configure(QueueConfig {
        rate: Some(Rate {
            count: 1,
            per: secs(10),
            burst: 1,
        }),
        ..QueueConfig::default()
    })
    .await;
    let pushed = t.push_many(2, plain()).await;
    assert_eq!(t.order(10).await, pushed[..1]);
    let task = waiter(t).await;
    t.pass(ms(9_999));
    assert_eq!(t.info().await.waiting, 1);
    t.pass(ms(1));
    assert_eq!(ids(t.answer(task).await), pushed[1..]);
}

/// A message to a topic reaches who waits for the queue of a subscription.
pub async fn a_message_wakes_who_waits(t: &Bench) {
    t.change(Change::Subscribe(Subscription {
        topic: "news".into(),
        name: "s".into(),
        queue: queue(),
        pattern: None,
    }))
    .await;
    let task = waiter(t).await;
    let message = Message {
        topic: "news".into(),
        routing_key: None,
        spec: plain(),
    };
    let pushed = t.engine.publish(message).await.unwrap();
    assert_eq!(ids(t.answer(task).await), [pushed[0].id]);
}

/// A schedule's tick reaches who waits.
pub async fn a_tick_wakes_who_waits(t: &Bench) {
    t.change(Change::Schedule(Schedule {
        name: "s".into(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(10)),
        missed: Missed::Once,
        spec: plain(),
        next: None,
        last: None,
    }))
    .await;
    let task = waiter(t).await;
    t.pass(secs(10));
    assert_eq!(t.answer(task).await.len(), 1);
}

/// A step of the wall clock makes absolute times come, for who waits too.
pub async fn a_step_of_the_wall_clock_wakes_who_waits(t: &Bench) {
    let when = When::At(t.wall().plus(secs(500)));
    let id = t.push(JobSpec { when, ..plain() }).await;
    let task = waiter(t).await;
    t.clock.step_wall_forward(secs(500));
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// Dropping a lease call gives back what it was about to return.
pub async fn a_dropped_lease_gives_its_jobs_back(t: &Bench) {
    let task = waiter(t).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    t.until_waiting(&queue(), 0).await;
    let id = t.push(plain()).await;
    assert_eq!(t.order(10).await, [id]);
}

/// A call that was answered but dropped before it could take the answer gives it back.
pub async fn an_answer_that_nobody_takes_is_given_back(t: &Bench) {
    let pushed = t.lend_to_nobody().await;
    let leased = t.one().await;
    assert_eq!(leased.job.id, pushed);
    assert_eq!((leased.job.failures, leased.job.vanished), (0, 0));
    t.settle(leased.token, ack()).await;
}

/// A dropped call that stood first in line does not swallow what the next could have.
pub async fn a_dropped_waiter_makes_way_for_the_next(t: &Bench) {
    let (first, second) = (waiter(t).await, waiter(t).await);
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    t.until_waiting(&queue(), 1).await;
    let id = t.push(plain()).await;
    assert_eq!(ids(t.answer(second).await), [id]);
}

/// A hundred who wait are all served when a hundred jobs fall due.
pub async fn a_hundred_waiters_are_served_by_a_hundred_jobs(t: &Bench) {
    t.push_many(100, later(secs(60))).await;
    let mut tasks = Vec::new();
    for _ in 0..100 {
        let engine = t.engine.clone();
        let ask = asking(&[queue()], 1, secs(3600));
        tasks.push(tokio::spawn(async move { engine.lease(ask).await }));
    }
    t.until_waiting(&queue(), 100).await;
    t.pass(secs(60));
    let mut served = Vec::new();
    for task in tasks {
        served.extend(ids(t.answer(task).await.unwrap()));
    }
    served.sort();
    served.dedup();
    assert_eq!(served.len(), 100);
}

/// A call that waits is answered when the engine stops.
pub async fn closing_ends_every_wait(t: &Bench) {
    t.configure(QueueConfig::default()).await;
    let engine = t.engine.clone();
    let ask = asking(&[queue()], 1, secs(3600));
    let task = tokio::spawn(async move { engine.lease(ask).await });
    t.until_waiting(&queue(), 1).await;
    t.engine.close().await.unwrap();
    assert_eq!(code(t.answer(task).await), Code::Unavailable);
}

/// A job released with a delay while somebody waits is theirs when the delay is over.
pub async fn a_delayed_release_wakes_who_waits(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    let task = waiter(t).await;
    let outcome = Outcome::Release {
        priority: None,
        delay: Some(secs(3)),
    };
    t.settle(leased.token, outcome).await;
    t.pass(secs(3));
    assert_eq!(ids(t.answer(task).await), [id]);
}

/// A lease call for one job that waits for the usual queue, which is made if need be.
async fn waiter(t: &Bench) -> JoinHandle<Vec<Leased>> {
    let known = t.engine.queues(Some(vec![queue()])).await.unwrap();
    if known.is_empty() {
        t.configure(QueueConfig::default()).await;
    }
    t.wait_on(&[queue()], 1).await
}

fn ids(leased: Vec<Leased>) -> Vec<JobId> {
    leased.into_iter().map(|leased| leased.job.id).collect()
}
