//! Limits hold for all shards of a queue together, to the job.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use auxo_conformance::bench::{ack, asking, code, fail, ms, plain, queue, secs, text};
use auxo_core::engine::Settle;
use auxo_core::job::Backoff;
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::{Code, Engine, JobSpec, NewJob};
use auxo_redis::{Options, RedisEngine};

use super::{Spread, over, shards_of};
use auxo_harness::redis::Single;

fn with(payload: &str) -> JobSpec {
    JobSpec {
        payload: text(payload),
        ..plain()
    }
}

#[tokio::test]
async fn so_many_are_leased_at_once_wherever_they_are() {
    let store = Spread::over(4).await;
    let limited = QueueConfig {
        max_leased: Some(5),
        ..over(4)
    };
    store.bench.configure(limited).await;
    let jobs = store.bench.push_many(40, plain()).await;
    assert_eq!(shards_of(&jobs), 4);
    let other = store.another().await;
    let mut leased = store.bench.take(3).await;
    leased.extend(other.bench.take(10).await);
    assert_eq!(leased.len(), 5, "both processes together");
    let mut done = BTreeSet::new();
    while let Some(last) = leased.pop() {
        done.insert(last.job.id);
        other.bench.settle(last.token, ack()).await;
        let next = store.bench.take(10).await;
        let left = 40 - done.len() - leased.len();
        assert_eq!(next.len(), left.min(1), "one ended, one begins");
        leased.extend(next);
    }
    assert_eq!(done.len(), 40);
}

#[tokio::test]
async fn a_single_lease_at_a_time_goes_round_all_shards() {
    let store = Spread::over(7).await;
    let limited = QueueConfig {
        max_leased: Some(1),
        ..over(7)
    };
    store.bench.configure(limited).await;
    let jobs = store.bench.push_many(21, plain()).await;
    assert_eq!(shards_of(&jobs), 7);
    for _ in &jobs {
        let leased = store.bench.take(5).await;
        assert_eq!(leased.len(), 1);
        assert!(store.bench.idle().await);
        store.bench.settle(leased[0].token, ack()).await;
    }
    assert!(store.bench.idle().await);
}

#[tokio::test]
async fn a_rate_is_one_for_all_shards() {
    let store = Spread::over(5).await;
    let rate = Rate {
        count: 2,
        per: secs(10),
        burst: 3,
    };
    let limited = QueueConfig {
        rate: Some(rate),
        ..over(5)
    };
    store.bench.configure(limited).await;
    store.bench.push_many(50, plain()).await;
    let other = store.another().await;
    assert_eq!(store.bench.take(50).await.len(), 3, "the burst");
    assert!(other.bench.idle().await);
    let allowed = store.bench.info().await.rate_wait;
    assert_eq!(allowed, Some(store.bench.wall().plus(secs(5))));
    store.bench.pass(ms(4_999));
    assert!(store.bench.idle().await);
    store.bench.pass(ms(1));
    assert_eq!(other.bench.take(50).await.len(), 1);
    assert!(store.bench.idle().await);
    store.bench.pass(secs(3600));
    assert_eq!(store.bench.take(50).await.len(), 3, "and no more than it");
}

/// A script that lends large jobs stops before it has lent all that were asked for; what was paid for the others is not lost.
#[tokio::test]
async fn all_that_a_rate_allows_is_leased_though_it_takes_several_scripts() {
    let store = Spread::over(2).await;
    let rate = Rate {
        count: 1,
        per: secs(3600),
        burst: 40,
    };
    let limited = QueueConfig {
        rate: Some(rate),
        ..over(2)
    };
    store.bench.configure(limited).await;
    store.bench.push_many(100, with(&"x".repeat(100_000))).await;
    let mut leased = 0;
    loop {
        let some = store.bench.take(40).await.len();
        if some == 0 {
            break;
        }
        leased += some;
    }
    assert_eq!(leased, 40, "the burst");
}

#[tokio::test]
async fn a_queue_is_full_when_all_its_shards_together_are() {
    let store = Spread::over(4).await;
    let limited = QueueConfig {
        max_jobs: Some(6),
        max_bytes: Some(30),
        ..over(4)
    };
    store.bench.configure(limited).await;
    for _ in 0..6 {
        store.bench.push(with("1")).await;
    }
    let refused = store.bench.try_push(&queue(), with("1")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::QueueFull);
    assert_eq!(
        refused.message(),
        "queue q has 6 jobs, its limit is 6",
        "as if it were in one"
    );
    store.bench.work(ack()).await;
    // Larger than what any shard may have alone.
    store.bench.push(with("1234567890123456789012345")).await;
    store.bench.work(ack()).await;
    let refused = store.bench.try_push(&queue(), with(&"x".repeat(30))).await;
    assert_eq!(code(refused), Code::QueueFull);
}

#[tokio::test]
async fn a_lowered_limit_waits_until_enough_has_ended_anywhere() {
    let store = Spread::over(3).await;
    let limit = |most| QueueConfig {
        max_leased: Some(most),
        max_jobs: Some(30 + u64::from(most)),
        ..over(3)
    };
    store.bench.configure(limit(9)).await;
    store.bench.push_many(35, plain()).await;
    let mut leased = store.bench.take(9).await;
    assert_eq!(leased.len(), 9);
    store.bench.configure(limit(2)).await;
    while leased.len() > 2 {
        assert!(store.bench.idle().await, "{} are leased", leased.len());
        let refused = store.bench.try_push(&queue(), plain()).await;
        assert!(leased.len() < 6 || refused.is_err(), "it has too many");
        store.bench.settle(leased.pop().unwrap().token, ack()).await;
    }
    assert!(store.bench.idle().await);
    store.bench.settle(leased.pop().unwrap().token, ack()).await;
    assert_eq!(store.bench.take(9).await.len(), 1);
}

#[tokio::test]
async fn a_share_that_was_lost_is_dealt_again() {
    let store = Spread::over(3).await;
    let limited = QueueConfig {
        max_leased: Some(3),
        ..over(3)
    };
    store.bench.configure(limited).await;
    store.bench.push_many(9, plain()).await;
    // As a process leaves it that was killed while it carried all to one.
    for shard in 0..7 {
        store.by_hand(
            shard,
            "local config = redis.call('HGET', KEYS[1], 'config')
             if config then
               redis.call('HSET', KEYS[1], 'config', string.sub(config, 1, -9) .. string.rep('\\0', 8))
             end
             return 1",
        );
    }
    assert_eq!(store.bench.take(9).await.len(), 3);
    assert!(store.bench.idle().await);
}

/// Eight workers of two processes on a queue in four shards: never more than three at work, never more than the rate allows, all
/// jobs done once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_limit_is_exceeded_while_many_work() {
    const JOBS: usize = 400;
    const AT_ONCE: i64 = 3;
    let server = Single::start(&[]);
    let url = server.url("?durability=none&shards=7").parse().unwrap();
    let mut engines = Vec::new();
    for _ in 0..2 {
        let engine = RedisEngine::open(&url, Options::default()).await.unwrap();
        engines.push(Arc::new(engine));
    }
    let limited = QueueConfig {
        max_leased: Some(AT_ONCE as u32),
        max_jobs: Some(50),
        ..over(4)
    };
    let change = auxo_core::engine::Change::Queue(queue(), limited);
    engines[0].change(change).await.unwrap();
    let (busy, most, done) = (
        Arc::new(AtomicI64::new(0)),
        Arc::new(AtomicI64::new(0)),
        Arc::new(AtomicU64::new(0)),
    );
    let mut workers = Vec::new();
    for number in 0..8 {
        let engine = engines[number % 2].clone();
        let (busy, most, done) = (busy.clone(), most.clone(), done.clone());
        workers.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            while done.load(Ordering::SeqCst) < JOBS as u64 {
                let ask = asking(&[queue()], 2, Duration::from_millis(200));
                let leased = engine.lease(ask).await.unwrap();
                let now = busy.fetch_add(leased.len() as i64, Ordering::SeqCst);
                most.fetch_max(now + leased.len() as i64, Ordering::SeqCst);
                for (nth, leased) in leased.into_iter().enumerate() {
                    tokio::task::yield_now().await;
                    // Counted as ended before it is: no lease can begin earlier than it ends.
                    busy.fetch_sub(1, Ordering::SeqCst);
                    let again = leased.job.attempt == 1 && nth == 1;
                    let outcome = match again {
                        true => fail("once more"),
                        false => ack(),
                    };
                    let settle = Settle {
                        token: leased.token,
                        outcome,
                    };
                    engine.settle(vec![settle]).await.unwrap()[0]
                        .as_ref()
                        .unwrap();
                    if !again {
                        ids.push(leased.job.id);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            ids
        }));
    }
    let mut pushed = 0;
    let mut turned_away = 0;
    while pushed < JOBS {
        let job = || NewJob {
            queue: queue(),
            spec: JobSpec {
                backoff: Backoff::Fixed {
                    delay: Duration::ZERO,
                },
                ..plain()
            },
        };
        let jobs = (0..10.min(JOBS - pushed)).map(|_| job()).collect();
        for answer in engines[pushed % 2].push(jobs).await.unwrap() {
            match answer {
                Ok(_) => pushed += 1,
                Err(error) => {
                    assert_eq!(error.code(), Code::QueueFull, "{error}");
                    turned_away += 1;
                }
            }
        }
        let info = engines[0].queues(Some(vec![queue()])).await.unwrap();
        let books = &info[0].books;
        assert!(books.live + books.dead <= 50, "{books:?}");
    }
    let mut ids = Vec::new();
    for worker in workers {
        ids.extend(worker.await.unwrap());
    }
    let most = most.load(Ordering::SeqCst);
    println!(
        "{} done, at most {most} at once, {turned_away} turned away",
        ids.len()
    );
    assert_eq!(ids.len(), JOBS);
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), JOBS, "each once");
    assert!(most <= AT_ONCE, "{most} at once");
    assert_eq!(shards_of(&ids), 4);
    let audit = engines[0].audit().await.unwrap();
    assert_eq!(audit.problems, Vec::<String>::new());
}
