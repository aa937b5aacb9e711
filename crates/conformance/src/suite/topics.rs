//! Publishing: one job for each subscription, or none at all.

use auxo_core::engine::{Change, Message, Pushed};
use auxo_core::job::OnDuplicate;
use auxo_core::queue::QueueConfig;
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{Code, JobSpec, QueueName, Result};

use crate::bench::*;

/// Each subscription gets a job of its own.
pub async fn a_message_reaches_every_subscription(t: &Bench) {
    let queues = ["a", "b", "c"].map(named);
    for queue in &queues {
        subscribe(t, queue.as_str(), queue, None).await;
    }
    let spec = JobSpec {
        payload: text("news"),
        ..plain()
    };
    let pushed = publish(t, None, spec).await.unwrap();
    assert_eq!(pushed.len(), 3);
    for (queue, pushed) in queues.iter().zip(pushed) {
        let leased = t.take_from(std::slice::from_ref(queue), 10).await;
        assert_eq!(leased.len(), 1);
        assert_eq!(leased[0].job.id, pushed.id);
        assert_eq!(leased[0].job.payload, text("news"));
    }
}

/// A message that nobody wants is no error.
pub async fn a_message_that_nobody_wants_is_no_error(t: &Bench) {
    assert_eq!(publish(t, None, plain()).await, Ok(Vec::new()));
    subscribe(t, "s", &queue(), Some("order.*")).await;
    assert_eq!(publish(t, Some("mail"), plain()).await, Ok(Vec::new()));
    assert_eq!(t.engine.queues(None).await.unwrap(), []);
}

/// A pattern chooses by routing key; without a key only who wants everything is served.
pub async fn a_pattern_chooses_by_routing_key(t: &Bench) {
    let patterns = [
        ("all", None),
        ("any", Some("#")),
        ("one", Some("order.*")),
        ("exact", Some("order.paid")),
    ];
    for (name, pattern) in patterns {
        subscribe(t, name, &named(name), pattern).await;
    }
    let table: [(Option<&str>, &[&str]); 4] = [
        (None, &["all", "any"]),
        (Some("order.paid"), &["all", "any", "exact", "one"]),
        (Some("order.sent"), &["all", "any", "one"]),
        (Some("order.sent.late"), &["all", "any"]),
    ];
    for (routing_key, expected) in table {
        let pushed = publish(t, routing_key, plain()).await.unwrap();
        let mut reached = Vec::new();
        for pushed in pushed {
            reached.push(t.job(pushed.id).await.queue.to_string());
        }
        reached.sort();
        assert_eq!(reached, expected, "{routing_key:?}");
    }
}

/// Topics are apart.
pub async fn a_message_stays_in_its_topic(t: &Bench) {
    let subscription = Subscription {
        topic: "other".into(),
        name: "s".into(),
        queue: queue(),
        pattern: None,
    };
    t.change(Change::Subscribe(subscription)).await;
    assert_eq!(publish(t, None, plain()).await, Ok(Vec::new()));
}

/// Two subscriptions that lead to one queue make two jobs.
pub async fn two_subscriptions_of_one_queue_make_two_jobs(t: &Bench) {
    subscribe(t, "a", &queue(), None).await;
    subscribe(t, "b", &queue(), None).await;
    let pushed = publish(t, None, plain()).await.unwrap();
    let ids: Vec<_> = pushed.iter().map(|pushed| pushed.id).collect();
    assert_eq!(t.order(10).await, ids);
    assert_eq!(ids.len(), 2);
}

/// A delayed message is delayed in every queue.
pub async fn a_message_may_be_delayed(t: &Bench) {
    subscribe(t, "s", &queue(), None).await;
    let pushed = publish(t, None, later(secs(60))).await.unwrap();
    assert!(t.idle().await);
    t.pass(secs(60));
    assert_eq!(t.order(1).await, [pushed[0].id]);
}

/// If one queue refuses, no queue gets the message.
pub async fn a_message_that_is_refused_somewhere_goes_nowhere(t: &Bench) {
    let (a, b) = (named("a"), named("b"));
    subscribe(t, "1", &a, None).await;
    subscribe(t, "2", &b, None).await;
    let taken = || keyed("k", OnDuplicate::Reject);
    t.push_to(&b, taken()).await;
    t.push_to(&a, plain()).await;
    let before = t.engine.queues(None).await.unwrap();
    assert_eq!(code(publish(t, None, taken()).await), Code::DuplicateKey);
    assert_eq!(t.engine.queues(None).await.unwrap(), before);
    let paused = QueueConfig {
        paused_in: true,
        ..QueueConfig::default()
    };
    let full = QueueConfig {
        max_jobs: Some(1),
        ..QueueConfig::default()
    };
    for (config, refusal) in [(paused, Code::QueuePaused), (full, Code::QueueFull)] {
        t.change(Change::Queue(b.clone(), config)).await;
        let before = t.engine.queues(None).await.unwrap();
        assert_eq!(code(publish(t, None, plain()).await), refusal);
        assert_eq!(t.engine.queues(None).await.unwrap(), before);
    }
}

/// Two copies must fit into a queue that two subscriptions lead to.
pub async fn all_copies_must_fit(t: &Bench) {
    subscribe(t, "a", &queue(), None).await;
    subscribe(t, "b", &queue(), None).await;
    t.configure(QueueConfig {
        max_jobs: Some(1),
        ..QueueConfig::default()
    })
    .await;
    assert_eq!(code(publish(t, None, plain()).await), Code::QueueFull);
    assert_eq!(t.info().await.books.accepted, 0);
}

/// A removed subscription gets no more messages, and its jobs stay.
pub async fn a_removed_subscription_keeps_its_jobs(t: &Bench) {
    subscribe(t, "s", &queue(), None).await;
    let pushed = publish(t, None, plain()).await.unwrap();
    t.change(Change::Unsubscribe("topic".into(), "s".into()))
        .await;
    assert_eq!(publish(t, None, plain()).await, Ok(Vec::new()));
    assert_eq!(t.order(10).await, [pushed[0].id]);
    let again = Change::Unsubscribe("topic".into(), "s".into());
    assert_eq!(code(t.engine.change(again).await), Code::NotFound);
}

/// A subscription that is set again is replaced.
pub async fn a_subscription_can_be_replaced(t: &Bench) {
    subscribe(t, "s", &named("a"), None).await;
    subscribe(t, "s", &named("b"), None).await;
    let pushed = publish(t, None, plain()).await.unwrap();
    assert_eq!(pushed.len(), 1);
    assert_eq!(t.job(pushed[0].id).await.queue, named("b"));
}

/// Subscriptions are shown in the order of topic and name.
pub async fn subscriptions_are_shown_in_order(t: &Bench) {
    for name in ["b", "c", "a"] {
        subscribe(t, name, &queue(), Some("x.#")).await;
    }
    let shown = t.engine.catalog().await.unwrap().subscriptions;
    let names: Vec<&str> = shown.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(shown[0].pattern, Some(Pattern::new("x.#").unwrap()));
    assert_eq!(shown[0].queue, queue());
}

async fn subscribe(t: &Bench, name: &str, queue: &QueueName, pattern: Option<&str>) {
    let subscription = Subscription {
        topic: "topic".into(),
        name: name.into(),
        queue: queue.clone(),
        pattern: pattern.map(|pattern| Pattern::new(pattern).expect("a pattern")),
    };
    t.change(Change::Subscribe(subscription)).await;
}

async fn publish(t: &Bench, routing_key: Option<&str>, spec: JobSpec) -> Result<Vec<Pushed>> {
    let message = Message {
        topic: "topic".into(),
        routing_key: routing_key.map(str::to_owned),
        spec,
    };
    t.engine.publish(message).await
}
