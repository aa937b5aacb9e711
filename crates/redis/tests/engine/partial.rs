//! Calls of which a part fails: what was done is said to be done, and what failed is not passed over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auxo_conformance::Bench;
use auxo_conformance::bench::{ack, asking, bury, named, plain, queue, secs};
use auxo_core::engine::{Action, Change, Filter, Mode, Order, Query, Target};
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, NewJob, QueueName, State};

use auxo_harness::redis::Single;

/// A store of 7 shards, of which the user can be made to do less, and one of whom nothing is taken.
async fn two_users() -> (Arc<Single>, Bench, Bench) {
    let server = Arc::new(Single::start(&[]));
    let options = "?durability=none&shards=7";
    let limited = crate::store::on(server.limited(&[], options), server.clone()).await;
    let other = crate::store::on(server.url(options), server.clone()).await;
    (server, limited, other)
}

/// Spread over so many shards.
fn over(shards: u16) -> QueueConfig {
    QueueConfig {
        shards: Some(shards),
        ..QueueConfig::default()
    }
}

fn job(queue: &QueueName) -> NewJob {
    NewJob {
        queue: queue.clone(),
        spec: plain(),
    }
}

#[tokio::test]
async fn what_a_batch_stored_is_said_though_the_rest_of_it_fails() {
    let (server, t, other) = two_users().await;
    let home = t.push(plain()).await.shard(7);
    // One whose jobs are in the same shard. Where jobs of a spread queue go is counted by calls; the next is not to go home.
    let mut beside = None;
    for calls in 2.. {
        let name = named(&format!("beside-{calls}"));
        let shard = t.push_to(&name, plain()).await.shard(7);
        beside = beside.or((shard == home).then_some(name));
        if beside.is_some() && (calls + 1) % 7 > 0 {
            break;
        }
    }
    let beside = beside.unwrap();
    // It does not know yet that the queue is elsewhere, and may not go there.
    other.change(Change::Queue(queue(), over(7))).await;
    let keys = format!("~auxo{{{home}}}:*");
    server.ask(&["ACL", "SETUSER", "auxo", "resetkeys", &keys]);
    let answers = t.engine.push(vec![job(&beside), job(&queue())]).await;
    let answers = answers.expect("an answer for each");
    let stored = answers[0].as_ref().expect("it was stored").id;
    assert_eq!(other.state(stored).await, Some(State::Ready));
    let refused = answers[1].as_ref().expect_err("it could not be");
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert_eq!(other.info().await.counts.ready, 1, "only the first one");
}

#[tokio::test]
async fn a_move_by_filter_fails_if_a_shard_does() {
    let (server, t, other) = two_users().await;
    t.configure(over(4)).await;
    t.push_many(8, plain()).await;
    for _ in 0..8 {
        t.work(bury("why")).await;
    }
    let filter = Filter {
        states: vec![State::Dead],
        ..Filter::default()
    };
    let query = Query {
        filter,
        cursor: None,
        limit: 100,
    };
    let kick = Order {
        target: Target::Matching(query),
        action: Action::Kick,
        mode: Mode::Act,
    };
    server.ask(&["ACL", "SETUSER", "auxo", "-zrem"]);
    let failed = t.engine.steer(kick.clone()).await;
    assert_eq!(
        failed.expect_err("nothing was moved").code(),
        Code::Internal
    );
    assert_eq!(other.info().await.books.dead, 8);
    server.ask(&["ACL", "SETUSER", "auxo", "+zrem"]);
    assert_eq!(t.engine.steer(kick).await.unwrap().moved, 8);
}

/// Which queues have subscriptions only the first shard knows, so while it is away none is forgotten; all others are shown.
#[tokio::test]
async fn queues_are_shown_while_the_shard_of_the_subscriptions_is_away() {
    let (server, t, _other) = two_users().await;
    let mut by_shard: BTreeMap<u16, Vec<QueueName>> = BTreeMap::new();
    let (shard, idle, used) = loop {
        let number = by_shard.values().map(Vec::len).sum::<usize>();
        let name = named(&format!("q{number}"));
        let shard = t.push_to(&name, plain()).await.shard(7);
        let names = by_shard.entry(shard).or_default();
        names.push(name);
        if let ([idle, used], true) = (names.as_slice(), shard > 0) {
            break (shard, idle.clone(), used.clone());
        }
    };
    let leased = t.engine.lease(asking(&[idle], 1, Duration::ZERO)).await;
    t.settle(leased.unwrap()[0].token, ack()).await;
    t.pass(secs(3600));
    let keys = format!("~auxo{{{shard}}}:*");
    server.ask(&["ACL", "SETUSER", "auxo", "resetkeys", &keys]);
    let shown = t.engine.queues(Some(vec![used.clone()])).await.unwrap();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].name, used);
}
