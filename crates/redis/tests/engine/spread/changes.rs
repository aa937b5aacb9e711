//! How a queue is spread can change at any time, and nothing is stranded.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use auxo_conformance::bench::{ack, asking, code, fail, later, named, plain, queue, secs, urgency};
use auxo_core::engine::{Change, Filter, Settle};
use auxo_core::job::OnDuplicate::Reject;
use auxo_core::passage::{Adoption, Departure, Step};
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::{Code, Engine, JobId, NewJob, State};
use auxo_redis::{Options, RedisEngine};

use super::{Spread, over, shards_of, with_key};
use auxo_harness::redis::Single;

#[tokio::test]
async fn a_queue_that_shrinks_strands_nothing() {
    let store = Spread::over(7).await;
    let ready = store.bench.push_many(14, plain()).await;
    let waits = store.bench.push_many(14, later(secs(60))).await;
    assert_eq!((shards_of(&ready), shards_of(&waits)), (7, 7));
    let leased = store.bench.take(7).await;
    store.set(1).await;
    let other = store.another().await;
    let more = other.bench.push_many(7, plain()).await;
    assert_eq!(shards_of(&more), 1);
    assert_eq!(other.bench.take(50).await.len(), 14);
    for leased in leased {
        other.bench.settle(leased.token, fail("no")).await;
    }
    other.bench.pass(secs(3600));
    let rest = other.bench.take(50).await;
    assert_eq!(
        rest.len(),
        35,
        "the failed, the late, and those that vanished"
    );
    for leased in rest {
        store.bench.settle(leased.token, ack()).await;
    }
    assert_eq!(store.bench.info().await.books.done, 35);
    store.bench.check_books().await;
}

#[tokio::test]
async fn who_waits_is_served_where_the_queue_goes() {
    let store = Spread::over(1).await;
    let other = store.another().await;
    let waiting = other.bench.wait_on(&[queue()], 100).await;
    store.set(7).await;
    let jobs = store.bench.push_many(7, plain()).await;
    assert_eq!(shards_of(&jobs), 7);
    let leased = store.bench.answer(waiting).await;
    assert!(!leased.is_empty());
    assert_eq!(leased.len() + store.bench.take(10).await.len(), 7);
}

#[tokio::test]
async fn a_change_that_was_begun_is_completed_by_whoever_comes() {
    for step in ["push", "lease", "look", "change"] {
        let store = Spread::over(3).await;
        let before = store.bench.push_many(6, plain()).await;
        // As a process leaves it that was killed after its first step: home is frozen, and has the plan.
        let home = (0..7).find(|shard| {
            let there =
                "return redis.call('HEXISTS', KEYS[1], 'next') + redis.call('EXISTS', KEYS[1])";
            store.by_hand(*shard, there).int() > 0 && frozen(&store, *shard)
        });
        assert!(home.is_some(), "the home of the queue");
        let other = store.another().await;
        match step {
            "push" => drop(other.bench.push_many(9, plain()).await),
            "lease" => assert_eq!(other.bench.take(20).await.len(), 6),
            "look" => assert_eq!(other.bench.all(Filter::default(), 3).await.len(), 6),
            _ => other.set(2).await,
        }
        let shards = other.bench.info().await.config.shards;
        assert_eq!(shards, Some(if step == "change" { 2 } else { 5 }), "{step}");
        let more = store.bench.push_many(20, plain()).await;
        assert_eq!(shards_of(&more), usize::from(shards.unwrap()));
        let mut all: BTreeSet<JobId> = before.into_iter().collect();
        all.extend(more);
        let listed = store.bench.all(Filter::default(), 7).await;
        let listed: BTreeSet<JobId> = listed.iter().map(|job| job.id).collect();
        assert!(listed.is_superset(&all));
        store.bench.check_books().await;
    }
}

/// Freezes a shard with a plan for five shards, if it is the home of the queue.
fn frozen(store: &Spread, shard: u16) -> bool {
    // The spread is the 13 bytes before the last 24, which are the shares.
    let deed = "
        local config = redis.call('HGET', KEYS[1], 'config')
        if not config then return 0 end
        local at = #config - 36
        local epoch, _, count, low, reach, extent = struct.unpack('>I4BI2I2I2I2', config, at)
        local function with(epoch, changing, count, reach, extent)
          return string.sub(config, 1, at - 1) .. struct.pack('>I4BI2I2I2I2', epoch, changing, count, low, reach, extent)
            .. string.sub(config, at + 13)
        end
        redis.call('HSET', KEYS[1], 'next', with(epoch + 1, 0, 5, 5, 5))
        redis.call('HSET', KEYS[1], 'config', with(epoch + 1, 1, count, reach, extent))
        return 1";
    store.by_hand(shard, deed).int() == 1
}

#[tokio::test]
async fn places_that_are_empty_are_left() {
    let store = Spread::over(7).await;
    for number in 0..30 {
        let job = with_key(&format!("{number}"), Reject);
        store.bench.push(job).await;
    }
    store.set(2).await;
    assert_eq!(store.engine.repair().await.unwrap(), 0, "they are full");
    for _ in 0..30 {
        store.bench.work(ack()).await;
    }
    assert_eq!(store.engine.repair().await.unwrap(), 1);
    assert_eq!(store.engine.repair().await.unwrap(), 0);
    let info = store.bench.info().await;
    assert_eq!((info.books.accepted, info.books.done), (30, 30));
    let jobs = store.bench.push_many(20, plain()).await;
    assert_eq!(shards_of(&jobs), 2);
    assert_eq!(store.bench.take(50).await.len(), 20);
}

#[tokio::test]
async fn urgent_jobs_come_first_within_a_shard_and_in_what_one_call_gets() {
    let store = Spread::over(3).await;
    for priority in [900, 100, 500] {
        store.bench.push_many(30, urgency(priority)).await;
    }
    let mut last = std::collections::BTreeMap::new();
    loop {
        let leased = store.bench.take(7).await;
        if leased.is_empty() {
            break;
        }
        let priorities: Vec<u32> = leased.iter().map(|leased| leased.job.priority).collect();
        assert!(priorities.is_sorted(), "{priorities:?}");
        for leased in leased {
            let (shard, priority) = (leased.job.id.shard(7), leased.job.priority);
            let before = last.insert(shard, priority);
            assert!(
                before.is_none_or(|before| before <= priority),
                "shard {shard}"
            );
        }
    }
    assert_eq!(last.len(), 3);
}

#[tokio::test]
async fn a_paused_queue_is_paused_in_all_shards() {
    let store = Spread::over(4).await;
    let other = store.another().await;
    other.bench.push_many(8, plain()).await;
    let paused = QueueConfig {
        paused_in: true,
        paused_out: true,
        ..over(4)
    };
    store.bench.configure(paused).await;
    assert!(other.bench.idle().await);
    for _ in 0..8 {
        let refused = other.bench.try_push(&queue(), plain()).await;
        assert_eq!(code(refused), Code::QueuePaused);
    }
    store.set(4).await;
    assert_eq!(other.bench.take(20).await.len(), 8);
}

#[tokio::test]
async fn what_cannot_be_spread_is_refused_with_a_reason() {
    let store = Spread::over(2).await;
    let refused = store.engine.change(Change::Queue(queue(), over(8))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Conflict);
    assert!(
        refused.message().contains("its store has 7 shards"),
        "{refused}"
    );
    let schedule = |spec| Schedule {
        name: "s".into(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(60)),
        missed: Missed::default(),
        spec,
        next: None,
        last: None,
    };
    let keyed_one = Change::Schedule(schedule(with_key("k", Reject)));
    let refused = store.engine.change(keyed_one.clone()).await;
    assert_eq!(code(refused), Code::Conflict);
    store
        .bench
        .change(Change::Schedule(schedule(plain())))
        .await;
    store.bench.pass(secs(60));
    assert_eq!(store.bench.take(5).await.len(), 1, "without a key it ticks");
    let single = store.another().await;
    let home = named("single");
    let keyed_one = match keyed_one {
        Change::Schedule(schedule) => Change::Schedule(Schedule {
            queue: home.clone(),
            ..schedule
        }),
        other => other,
    };
    single.bench.change(keyed_one).await;
    let refused = single.engine.change(Change::Queue(home, over(2))).await;
    assert_eq!(code(refused), Code::Conflict);
}

/// Three producers and three workers, of two processes, while the queue is spread otherwise again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_under_load_lose_and_double_nothing() {
    let server = Single::start(&[]);
    let url = server.url("?durability=none&shards=7").parse().unwrap();
    let mut engines = Vec::new();
    for _ in 0..2 {
        let engine = RedisEngine::open(&url, Options::default()).await.unwrap();
        engines.push(Arc::new(engine));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut producers = Vec::new();
    for producer in 0..3 {
        let (engine, stop) = (engines[producer % 2].clone(), stop.clone());
        producers.push(tokio::spawn(async move {
            let mut pushed = Vec::new();
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let job = |at| NewJob {
                    queue: queue(),
                    spec: match at {
                        0 => with_key(&format!("{producer} {number}"), Reject),
                        _ => plain(),
                    },
                };
                let answers = engine.push((0..3).map(job).collect()).await.unwrap();
                pushed.extend(answers.into_iter().map(|answer| answer.unwrap().id));
            }
            pushed
        }));
    }
    let quiet = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for worker in 0..3 {
        let (engine, quiet) = (engines[worker % 2].clone(), quiet.clone());
        workers.push(tokio::spawn(async move {
            let mut done = Vec::new();
            loop {
                let over = quiet.load(Ordering::SeqCst);
                let ask = asking(&[queue()], 20, secs(u64::from(!over)));
                let leased = engine.lease(ask).await.unwrap();
                if leased.is_empty() && over {
                    return done;
                }
                let settle = leased.iter().map(|leased| Settle {
                    token: leased.token,
                    outcome: ack(),
                });
                for settled in engine.settle(settle.collect()).await.unwrap() {
                    let settled = settled.unwrap();
                    assert_eq!(settled.state, State::Done);
                    done.push(settled.id);
                }
            }
        }));
    }
    for (round, shards) in [3, 7, 1, 5, 2, 6, 1, 4].into_iter().enumerate() {
        let change = Change::Queue(queue(), over(shards));
        engines[round % 2].change(change).await.unwrap();
        engines[round % 2].repair().await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    let mut pushed = BTreeSet::new();
    for producer in producers {
        pushed.extend(producer.await.unwrap());
    }
    quiet.store(true, Ordering::SeqCst);
    let mut done = Vec::new();
    for worker in workers {
        done.extend(worker.await.unwrap());
    }
    println!("{} pushed, {} done", pushed.len(), done.len());
    assert_eq!(done.len(), pushed.len());
    assert_eq!(done.into_iter().collect::<BTreeSet<_>>(), pushed);
    let audit = engines[0].audit().await.unwrap();
    assert_eq!(audit.problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_queue_leaves_from_all_its_shards_and_comes_to_one() {
    let store = Spread::over(5).await;
    let jobs = store.bench.push_many(20, plain()).await;
    for number in 0..10 {
        store
            .bench
            .push(with_key(&format!("{number}"), Reject))
            .await;
    }
    assert_eq!(shards_of(&jobs), 5);
    let mut cursor = None;
    let mut found = BTreeSet::new();
    let mut passages = Vec::new();
    loop {
        let departure = Departure {
            queue: queue(),
            cursor,
            limit: 3,
        };
        let page = store.engine.passages(departure).await.unwrap();
        found.extend(page.jobs.iter().map(|passage| passage.job.id));
        passages.extend(page.jobs);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!((found.len(), passages.len()), (30, 30));
    let adoption = |step| Adoption {
        queue: queue(),
        store: "another".into(),
        run: 1,
        step,
    };
    store.engine.adopt(adoption(Step::Begin)).await.unwrap();
    let refused = store.engine.adopt(adoption(Step::Jobs(passages))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::Conflict);
    assert!(
        refused.message().contains("set its shards to 1"),
        "{refused}"
    );
}
