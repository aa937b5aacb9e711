//! A store with as many queues as it may have. Not in the suite, for the limit is an engine's own.

use auxo_core::engine::Change;
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, QueueName};

use crate::bench::*;

/// At the limit, a new name takes the place of the queue that went unused the longest. Where all are in use it is refused. For an
/// engine that has so many queues at most.
pub async fn at_the_limit_the_longest_unused_queue_makes_room(t: &Bench, limit: usize) {
    let names: Vec<QueueName> = (0..limit).map(|n| named(&format!("n{n}"))).collect();
    for name in &names {
        t.use_up(name).await;
        t.pass(secs(1));
    }
    t.push_to(&names[0], plain()).await;
    assert_eq!(t.take_from(&names[1..2], 1).await, Vec::new());
    t.push_to(&named("new"), plain()).await;
    assert!(!t.is_known(&names[2]).await);
    assert_eq!(t.engine.queues(None).await.unwrap().len(), limit);
    assert_eq!(t.forgotten().await.done, 1);
    let config = QueueConfig {
        fair: true,
        ..QueueConfig::default()
    };
    t.change(Change::Queue(named("set"), config.clone())).await;
    assert!(!t.is_known(&names[3]).await);
    for name in names[1..2].iter().chain(&names[4..]) {
        t.push_to(name, plain()).await;
    }
    for _ in 0..2 {
        let refused = t.try_push(&named("newer"), plain()).await;
        assert_eq!(code(refused), Code::TooLarge);
        let change = Change::Queue(named("newest"), config.clone());
        assert_eq!(code(t.engine.change(change).await), Code::TooLarge);
    }
    let leased = t.take_from(&names[5..6], 1).await;
    t.settle(leased[0].token, ack()).await;
    t.push_to(&named("newer"), plain()).await;
    assert!(!t.is_known(&names[5]).await);
    assert_eq!(t.engine.queues(None).await.unwrap().len(), limit);
    assert_eq!(t.forgotten().await.done, 4);
    t.check_books().await;
}
