//! Queues come with their first use and go when nobody uses them; totals never fall.

use auxo_core::engine::{Action, Change, Filter};
use auxo_core::job::OnDuplicate;
use auxo_core::queue::{Books, QueueConfig, Side};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::When;
use auxo_core::topic::Subscription;
use auxo_core::{JobSpec, QueueName};

use crate::bench::*;

/// An hour after its last job was done, a queue is gone. Its books are not, and the name is free for a new queue.
pub async fn an_unused_queue_is_forgotten_after_an_hour(t: &Bench) {
    t.use_up(&queue()).await;
    t.pass(secs(3599));
    assert_eq!(t.info().await.books.done, 1);
    assert_eq!(t.forgotten().await, Books::default());
    t.pass(secs(1));
    assert!(!t.is_known(&queue()).await);
    assert_eq!(t.engine.queues(None).await.unwrap(), Vec::new());
    let books = Books {
        accepted: 1,
        done: 1,
        ..Books::default()
    };
    assert_eq!(t.forgotten().await, books);
    let audit = t.engine.audit().await.unwrap();
    assert_eq!((audit.queues, audit.forgotten), (Vec::new(), books));
    t.push(plain()).await;
    let new = t.info().await;
    assert_eq!((new.books.accepted, new.books.done), (1, 0));
    assert_eq!(t.forgotten().await, books);
}

/// Each column of the books goes to the same column, queue after queue.
pub async fn the_books_of_forgotten_queues_are_added_up(t: &Bench) {
    for number in 0..150 {
        let queue = named(&format!("q{number}"));
        t.use_up(&queue).await;
        let cancelled = t.push_to(&queue, plain()).await;
        t.steer(cancelled, Action::Cancel).await.unwrap();
        let deleted = t.push_to(&queue, plain()).await;
        t.steer(deleted, Action::Delete).await.unwrap();
    }
    assert_eq!(t.engine.queues(None).await.unwrap().len(), 150);
    t.pass(secs(3600));
    assert_eq!(t.engine.queues(None).await.unwrap(), Vec::new());
    let books = Books {
        accepted: 450,
        done: 150,
        cancelled: 150,
        deleted: 150,
        ..Books::default()
    };
    assert_eq!(t.forgotten().await, books);
}

/// A queue stays while it has a job in any state, or a key that is held; the hour begins when the last of it is gone.
pub async fn a_queue_with_a_job_or_a_held_key_is_kept(t: &Bench) {
    let retained = JobSpec {
        retention: secs(3 * 3600),
        ..plain()
    };
    let retrying = JobSpec {
        ttr: secs(12 * 3600),
        ..plain()
    };
    let names = ["ready", "scheduled", "leased", "dead", "done", "key"].map(named);
    let [ready, scheduled, leased, dead, done, key] = &names;
    t.push_to(ready, plain()).await;
    t.push_to(scheduled, later(secs(24 * 3600))).await;
    t.push_to(leased, retrying).await;
    let lease = t.take_from(std::slice::from_ref(leased), 1).await[0].token;
    for (queue, spec, outcome) in [
        (dead, plain(), bury("no")),
        (done, retained, ack()),
        (key, keyed("k", OnDuplicate::Reject), ack()),
    ] {
        t.push_to(queue, spec).await;
        let token = t.take_from(std::slice::from_ref(queue), 1).await[0].token;
        t.settle(token, outcome).await;
    }
    t.pass(secs(2 * 3600));
    assert_eq!(t.engine.queues(None).await.unwrap().len(), names.len());
    // The retained job is gone after the third hour, and its queue after the fourth.
    t.pass(secs(3600));
    assert!(t.is_known(done).await);
    t.pass(secs(3600));
    assert!(!t.is_known(done).await);
    assert_eq!(t.engine.queues(None).await.unwrap().len(), names.len() - 1);
    t.settle(lease, ack()).await;
    for queue in [ready, scheduled, dead] {
        t.purge(queue).await;
    }
    // The key is held for a day from when its job was done.
    t.pass(secs(3600));
    let left = t.engine.queues(None).await.unwrap();
    let left: Vec<QueueName> = left.into_iter().map(|info| info.name).collect();
    assert_eq!(left, std::slice::from_ref(key));
    t.pass(secs(19 * 3600));
    assert!(t.is_known(key).await);
    t.pass(secs(3600));
    assert!(!t.is_known(key).await);
    assert_eq!(t.forgotten().await.accepted, names.len() as u64);
    assert_eq!(t.all(Filter::default(), 100).await, Vec::new());
}

/// A queue stays while anything is set on it. A pause that is over is nothing.
pub async fn a_queue_with_a_setting_is_kept(t: &Bench) {
    let mut paused = QueueConfig::default();
    paused.set_paused(Side::In, true);
    let limited = QueueConfig {
        max_jobs: Some(10),
        ..QueueConfig::default()
    };
    let until = |seconds| QueueConfig {
        paused_until: Some(When::After(secs(seconds))),
        ..QueueConfig::default()
    };
    for (name, config) in [
        ("paused", paused),
        ("limited", limited),
        ("shortly", until(60)),
        ("long", until(7200)),
        ("nothing", QueueConfig::default()),
    ] {
        t.change(Change::Queue(named(name), config)).await;
    }
    let left = async || -> Vec<String> {
        let left = t.engine.queues(None).await.unwrap();
        left.iter().map(|info| info.name.to_string()).collect()
    };
    t.pass(secs(3599));
    assert_eq!(left().await.len(), 5);
    t.pass(secs(1));
    assert_eq!(left().await, ["limited", "long", "paused"]);
    t.pass(secs(3600));
    assert_eq!(left().await, ["limited", "paused"]);
    for name in ["limited", "paused"] {
        let change = Change::Queue(named(name), QueueConfig::default());
        t.change(change).await;
    }
    t.pass(secs(3599));
    assert_eq!(left().await.len(), 2);
    t.pass(secs(1));
    assert_eq!(left().await, Vec::<String>::new());
}

/// A queue stays while a schedule makes jobs for it, or a subscription does.
pub async fn a_queue_with_a_schedule_or_a_subscription_is_kept(t: &Bench) {
    let subscription = Subscription {
        topic: "topic".into(),
        name: "one".into(),
        queue: named("subscribed"),
        pattern: None,
    };
    let schedule = Schedule {
        name: "daily".into(),
        queue: named("scheduled"),
        rhythm: Rhythm::Every(secs(24 * 3600)),
        missed: Missed::Skip,
        spec: plain(),
        next: None,
        last: None,
    };
    t.use_up(&named("subscribed")).await;
    t.use_up(&named("scheduled")).await;
    t.change(Change::Subscribe(subscription)).await;
    t.change(Change::Schedule(schedule)).await;
    t.pass(secs(2 * 3600));
    assert_eq!(t.engine.queues(None).await.unwrap().len(), 2);
    let change = Change::Unsubscribe("topic".into(), "one".into());
    t.change(change).await;
    t.change(Change::Unschedule("daily".into())).await;
    t.pass(secs(3600));
    assert_eq!(t.engine.queues(None).await.unwrap(), Vec::new());
    assert_eq!(t.forgotten().await.done, 2);
}

/// A lease call that waits keeps its queues; when it waits no more, the hour begins.
pub async fn a_waiting_call_keeps_its_queue(t: &Bench) {
    t.use_up(&queue()).await;
    let waits = t.wait_for(asking(&[queue()], 1, secs(24 * 3600))).await;
    t.pass(secs(2 * 3600));
    assert_eq!(t.info().await.waiting, 1);
    waits.abort();
    assert!(waits.await.is_err());
    t.until_waiting(&queue(), 0).await;
    t.pass(secs(3599));
    assert!(t.is_known(&queue()).await);
    t.pass(secs(1));
    assert!(!t.is_known(&queue()).await);
}

/// Asking for jobs of a queue is using it, though there are none. Looking at it is not.
pub async fn a_queue_that_is_asked_for_is_in_use(t: &Bench) {
    t.use_up(&queue()).await;
    for _ in 0..3 {
        t.pass(secs(3000));
        assert!(t.idle().await);
    }
    t.pass(secs(3599));
    assert!(t.is_known(&queue()).await);
    t.pass(secs(1));
    assert!(!t.is_known(&queue()).await);
    // Who asks for a queue that is gone makes none.
    assert!(t.idle().await);
    assert!(!t.is_known(&queue()).await);
}
