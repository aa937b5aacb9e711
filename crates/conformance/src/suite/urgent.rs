//! The most urgent job of several queues, for engines that have all their queues in one place.

use std::slice::from_ref;

use auxo_core::engine::{Ask, Change};
use auxo_core::job::{Leased, Ttl};
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::time::When;
use auxo_core::{JobId, JobSpec, QueueName, State};
use tokio::task::JoinHandle;

use crate::bench::*;

/// Zero is the most urgent, whatever the queue.
pub async fn the_most_urgent_job_of_all_queues_comes_first(t: &Bench) {
    let [a, b, c] = names();
    let low = t.push_to(&a, urgency(9)).await;
    let high = t.push_to(&b, urgency(0)).await;
    let middle = t.push_to(&c, urgency(5)).await;
    let order = one_by_one(t, &[a, named("never"), b, c], 4).await;
    assert_eq!(order, [high, middle, low]);
}

/// Among equals the one that was due earlier, not the one whose queue was named earlier.
pub async fn equals_come_by_due_time_whatever_their_queue(t: &Bench) {
    let [a, b, c] = names();
    let second = t.push_to(&a, later(secs(2))).await;
    let when = When::At(t.wall().plus(secs(1)));
    let first = t.push_to(&b, JobSpec { when, ..plain() }).await;
    t.pass(secs(5));
    let third = t.push_to(&c, plain()).await;
    t.pass(secs(1));
    let fourth = t.push_to(&a, plain()).await;
    let order = one_by_one(t, &[c, a, b], 4).await;
    assert_eq!(order, [first, second, third, fourth]);
}

/// Jobs due at the same moment come in the order they were pushed.
pub async fn equals_of_one_moment_come_by_age(t: &Bench) {
    let [a, b, c] = names();
    let mut ids = Vec::new();
    for queue in [&b, &a, &c, &b, &c, &a, &a] {
        ids.push(t.push_to(queue, plain()).await);
    }
    assert_eq!(one_by_one(t, &[a, b, c], 7).await, ids);
}

/// An answer has jobs of one queue, and ends where the next job of another comes first.
pub async fn an_answer_ends_where_another_queue_is_more_urgent(t: &Bench) {
    let [a, b, _] = names();
    let all = [a.clone(), b.clone(), a.clone()];
    let urgent = t.push_to(&a, urgency(1)).await;
    let early = t.push_to(&a, urgency(2)).await;
    t.pass(secs(1));
    let other = t.push_to(&b, urgency(2)).await;
    t.pass(secs(1));
    let late = t.push_to(&a, urgency(2)).await;
    let least = t.push_to(&a, urgency(3)).await;
    assert_eq!(t.most_urgent(&all, 10).await, [urgent, early]);
    assert_eq!(t.most_urgent(&all, 10).await, [other]);
    assert_eq!(t.most_urgent(&all, 10).await, [late, least]);
    assert_eq!(t.most_urgent(&all, 10).await, []);
}

/// Long runs come in one answer, as many as were asked for.
pub async fn a_batch_of_the_most_urgent_is_as_large_as_asked_for(t: &Bench) {
    let other = named("other");
    let first = t.push_many(150, urgency(1)).await;
    let last = t.push_many(150, urgency(3)).await;
    let between = t.push_to(&other, urgency(2)).await;
    let all = [other, queue()];
    assert_eq!(t.most_urgent(&all, 100).await, first[..100]);
    assert_eq!(t.most_urgent(&all, 100).await, first[100..]);
    assert_eq!(t.most_urgent(&all, 100).await, [between]);
    assert_eq!(t.most_urgent(&all, 1000).await, last);
}

/// Of a single queue the most urgent job is the first.
pub async fn a_single_queue_gives_its_jobs_in_order(t: &Bench) {
    let low = t.push_many(2, urgency(5)).await;
    let high = t.push_many(2, urgency(3)).await;
    let order = t.most_urgent(&[queue()], 10).await;
    assert_eq!(order, [high, low].concat());
}

/// A job whose worker vanished stands before all others of its priority, those of other queues, too.
pub async fn a_vanished_job_comes_before_the_jobs_of_other_queues(t: &Bench) {
    let [a, b, _] = names();
    t.push_to(&b, plain()).await;
    let lost = t.take_from(from_ref(&b), 1).await.remove(0).job.id;
    let old = JobSpec {
        when: When::At(t.wall()),
        ..plain()
    };
    let early = t.push_to(&a, old).await;
    t.pass(secs(60));
    let urgent = t.push_to(&a, urgency(0)).await;
    let order = one_by_one(t, &[a, b], 3).await;
    assert_eq!(order, [urgent, lost, early]);
}

/// An urgent job that is not due yet neither comes nor holds back others.
pub async fn an_urgent_job_elsewhere_that_is_not_due_blocks_nobody(t: &Bench) {
    let [a, b, _] = names();
    let when = When::After(secs(60));
    let urgent = t.push_to(&b, JobSpec { when, ..urgency(0) }).await;
    let plain = [
        t.push_to(&a, plain()).await,
        t.push_to(&a, urgency(2000)).await,
    ];
    assert_eq!(t.most_urgent(&[a.clone(), b.clone()], 10).await, plain);
    t.pass(secs(60));
    // Those that vanished meanwhile are of other priorities.
    assert_eq!(t.most_urgent(&[a, b], 10).await, [urgent]);
}

/// A queue that hands out nothing now is passed over, and holds back nobody: whether it is paused, has all its leases, or has
/// used up its rate.
pub async fn queues_that_hand_out_nothing_are_passed_over(t: &Bench) {
    let rate = Rate {
        count: 1,
        per: secs(3600),
        burst: 1,
    };
    let closed = |name: &str| match name {
        "paused" => QueueConfig {
            paused_out: true,
            ..QueueConfig::default()
        },
        "paused-until" => QueueConfig {
            paused_until: Some(When::After(secs(3600))),
            ..QueueConfig::default()
        },
        "limited" => QueueConfig {
            max_leased: Some(1),
            ..QueueConfig::default()
        },
        _ => QueueConfig {
            rate: Some(rate),
            ..QueueConfig::default()
        },
    };
    for name in ["paused", "paused-until", "limited", "rated"] {
        let (held, open) = (named(name), named(&format!("beside-{name}")));
        t.change(Change::Queue(held.clone(), closed(name))).await;
        for _ in 0..2 {
            t.push_to(&held, urgency(0)).await;
        }
        // The first of two uses up the limits.
        let used = t.take_from(from_ref(&held), 10).await.len();
        assert_eq!(used, usize::from(!name.starts_with("paused")), "{name}");
        let first = t.push_to(&open, urgency(1)).await;
        let second = t.push_to(&open, urgency(2)).await;
        let got = t.most_urgent(&[held, open], 10).await;
        assert_eq!(got, [first, second], "{name}");
    }
}

/// A queue gives no more than its limits allow, and then it is another one's turn.
pub async fn a_limit_that_is_reached_ends_an_answer(t: &Bench) {
    let [a, b, _] = names();
    let config = QueueConfig {
        max_leased: Some(2),
        ..QueueConfig::default()
    };
    t.change(Change::Queue(a.clone(), config)).await;
    let mut urgent = Vec::new();
    for _ in 0..3 {
        urgent.push(t.push_to(&a, urgency(0)).await);
    }
    let other = t.push_to(&b, plain()).await;
    let all = [b, a];
    assert_eq!(t.most_urgent(&all, 10).await, urgent[..2]);
    assert_eq!(t.most_urgent(&all, 10).await, [other]);
    assert_eq!(t.most_urgent(&all, 10).await, []);
}

/// A rate is paid for by the queue that gives, not by those that were only looked at.
pub async fn only_the_queue_that_gives_uses_its_rate(t: &Bench) {
    let [a, b, _] = names();
    let rate = Rate {
        count: 1,
        per: secs(10),
        burst: 2,
    };
    for queue in [&a, &b] {
        let config = QueueConfig {
            rate: Some(rate),
            ..QueueConfig::default()
        };
        t.change(Change::Queue(queue.clone(), config)).await;
    }
    let mut ids = Vec::new();
    for (queue, priority) in [(&a, 1), (&a, 1), (&a, 1), (&b, 2), (&b, 2), (&b, 2)] {
        ids.push(t.push_to(queue, urgency(priority)).await);
    }
    let all = [b, a];
    assert_eq!(t.most_urgent(&all, 1).await, ids[..1]);
    assert_eq!(t.most_urgent(&all, 10).await, ids[1..2]);
    assert_eq!(t.most_urgent(&all, 10).await, ids[3..5]);
    t.pass(secs(10));
    assert_eq!(t.most_urgent(&all, 10).await, ids[2..3]);
    assert_eq!(t.most_urgent(&all, 10).await, ids[5..]);
}

/// A job whose life is over is no reason to choose its queue, nor to end an answer.
pub async fn expired_jobs_are_no_reason_to_choose_a_queue(t: &Bench) {
    let [a, b, _] = names();
    let ttl = Ttl::After(secs(10));
    let mut expired = Vec::new();
    for priority in [0, 0, 3] {
        let spec = JobSpec {
            ttl,
            ..urgency(priority)
        };
        expired.push(t.push_to(&b, spec).await);
    }
    let first = t.push_to(&a, urgency(2)).await;
    let second = t.push_to(&a, urgency(4)).await;
    let last = t.push_to(&b, urgency(5)).await;
    t.pass(secs(10));
    let all = [b, a];
    assert_eq!(t.most_urgent(&all, 10).await, [first, second]);
    assert_eq!(t.most_urgent(&all, 10).await, [last]);
    for id in expired {
        assert_eq!(t.state(id).await, Some(State::Dead));
    }
}

/// The next job of a fair queue is the one whose turn it is, and to look at it takes nobody's turn.
pub async fn a_fair_queue_offers_the_job_whose_turn_it_is(t: &Bench) {
    let [fair, other, _] = names();
    let config = QueueConfig {
        fair: true,
        ..QueueConfig::default()
    };
    t.change(Change::Queue(fair.clone(), config)).await;
    let of = |group: &str| JobSpec {
        group: Some(group.into()),
        ..plain()
    };
    let x = [
        t.push_to(&fair, of("x")).await,
        t.push_to(&fair, of("x")).await,
    ];
    t.pass(secs(1));
    let between = t.push_to(&other, plain()).await;
    t.pass(secs(1));
    let y = t.push_to(&fair, of("y")).await;
    let all = [fair, other.clone()];
    for _ in 0..3 {
        let urgent = t.push_to(&other, urgency(0)).await;
        assert_eq!(t.most_urgent(&all, 10).await, [urgent]);
    }
    // The second of x is older than the one between, but it is the turn of y.
    assert_eq!(t.most_urgent(&all, 10).await, [x[0]]);
    assert_eq!(t.most_urgent(&all, 10).await, [between]);
    assert_eq!(t.most_urgent(&all, 10).await, [y, x[1]]);
}

/// Who is woken because several of its queues have something gets the most urgent of it.
pub async fn who_waits_gets_the_most_urgent_of_what_falls_due_at_once(t: &Bench) {
    let [a, b, c] = made(t).await;
    let task = waiter(t, &[&a, &b, &c]).await;
    let low = t.push_to(&a, due(5)).await;
    let high = t.push_to(&b, due(1)).await;
    let middle = t.push_to(&c, due(3)).await;
    t.pass(secs(10));
    assert_eq!(ids(t.answer(task).await), [high]);
    assert_eq!(one_by_one(t, &[a, b, c], 3).await, [middle, low]);
}

/// Calls that come at once get each what it wants, and no job goes to two of them.
pub async fn calls_that_come_together_get_what_each_wants(t: &Bench) {
    let [a, b, _] = names();
    let low = t.push_to(&a, urgency(9)).await;
    let high = t.push_to(&b, urgency(0)).await;
    let all = [a.clone(), b.clone()];
    let call = |ask: Ask| {
        let engine = t.engine.clone();
        tokio::spawn(async move { ids(engine.lease(ask).await.expect("a lease")) })
    };
    let first = call(asking(&all, 1, ms(0)));
    let urgent = call(urgently(asking(&all, 1, ms(0))));
    assert_eq!(t.answer(first).await, [low]);
    assert_eq!(t.answer(urgent).await, [high]);
    let mut pushed = Vec::new();
    for (queue, priority) in [(&b, 4), (&a, 3), (&b, 2), (&a, 1)] {
        pushed.push(t.push_to(queue, urgency(priority)).await);
    }
    let mut got = Vec::new();
    for task in [10, 1, 2, 10].map(|max| call(urgently(asking(&all, max, ms(0))))) {
        got.extend(t.answer(task).await);
    }
    got.sort();
    assert_eq!(got, pushed);
}

/// Whichever queue gets a job first serves who waits for the most urgent.
pub async fn who_waits_for_the_most_urgent_listens_to_all_its_queues(t: &Bench) {
    let [a, b, c] = made(t).await;
    for queue in [&c, &a, &b] {
        let task = waiter(t, &[&a, &b, &c]).await;
        let id = t.push_to(queue, plain()).await;
        assert_eq!(ids(t.answer(task).await), [id]);
    }
}

/// Those who wait are served in the order they came, whatever they wait for.
pub async fn waiters_for_the_most_urgent_are_served_in_the_order_they_came(t: &Bench) {
    let [a, b, c] = made(t).await;
    let plain = t.wait_on(from_ref(&b), 1).await;
    let first = waiter(t, &[&a, &b, &c]).await;
    let second = waiter(t, &[&c, &b, &a]).await;
    let jobs = [
        t.push_to(&a, due(5)).await,
        t.push_to(&b, due(1)).await,
        t.push_to(&c, due(3)).await,
    ];
    t.pass(secs(10));
    assert_eq!(ids(t.answer(plain).await), [jobs[1]]);
    assert_eq!(ids(t.answer(first).await), [jobs[2]]);
    assert_eq!(ids(t.answer(second).await), [jobs[0]]);
}

fn names() -> [QueueName; 3] {
    ["a", "b", "c"].map(named)
}

/// Queues that exist, so that it can be seen who waits for them.
async fn made(t: &Bench) -> [QueueName; 3] {
    for queue in names() {
        let change = Change::Queue(queue, QueueConfig::default());
        t.change(change).await;
    }
    names()
}

/// Of this priority, and due in ten seconds.
fn due(priority: u32) -> JobSpec {
    JobSpec {
        when: When::After(secs(10)),
        ..urgency(priority)
    }
}

/// Who waits for the most urgent job of some queues.
async fn waiter(t: &Bench, queues: &[&QueueName]) -> JoinHandle<Vec<Leased>> {
    let queues: Vec<QueueName> = queues.iter().map(|queue| (*queue).clone()).collect();
    let mut waiting = Vec::new();
    for queue in &queues {
        waiting.push(t.info_of(queue).await.waiting);
    }
    let ask: Ask = urgently(asking(&queues, 1, secs(3600)));
    let task = t.wait_for(ask).await;
    for (queue, before) in queues.iter().zip(waiting) {
        t.until_waiting(queue, before + 1).await;
    }
    task
}

fn ids(leased: Vec<Leased>) -> Vec<JobId> {
    leased.into_iter().map(|leased| leased.job.id).collect()
}

/// What as many calls get, each of which wants one job.
async fn one_by_one(t: &Bench, queues: &[QueueName], calls: usize) -> Vec<JobId> {
    let mut order = Vec::new();
    for _ in 0..calls {
        order.extend(t.most_urgent(queues, 1).await);
    }
    order
}
