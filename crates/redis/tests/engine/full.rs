//! A Redis that is full takes no more jobs; all that it has can be worked off, and then it takes jobs again.

use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_conformance::bench::{
    ack, asking, bury, code, fail, keyed, later, named, plain, queue, release, secs, snooze, text,
};
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Action, Change, Outcome, Settle};
use auxo_core::job::{Key, OnDuplicate};
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::{Code, Engine, JobSpec, NewJob, State};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::Single;

/// A store on a server of its own.
struct Store {
    server: Arc<Single>,
    bench: Bench,
}

impl Store {
    async fn new() -> Store {
        let server = Arc::new(Single::start(&["--maxmemory-policy", "noeviction"]));
        let url = server.url("?durability=none");
        Store {
            bench: crate::store::on(url, server.clone()).await,
            server,
        }
    }

    /// So much memory is what Redis may use. Less than it does, and it is full; nothing is no limit.
    fn limit(&self, bytes: u64) {
        let bytes = bytes.to_string();
        self.server.ask(&["CONFIG", "SET", "maxmemory", &bytes]);
    }

    /// From now on it has no memory for anything.
    async fn fill(&self) {
        self.limit(1);
        self.refuses().await;
    }

    async fn refuses(&self) {
        let refused = self.bench.try_push(&queue(), plain()).await;
        assert_eq!(code(refused), Code::QueueFull);
    }

    fn used(&self) -> u64 {
        let info = self.server.ask(&["INFO", "memory"]);
        let lines = info.text().lines();
        let mut used = lines.filter_map(|line| line.strip_prefix("used_memory:"));
        used.next().unwrap().trim().parse().unwrap()
    }
}

/// Kept for an hour when it is done.
fn kept() -> JobSpec {
    JobSpec {
        retention: secs(3600),
        ..plain()
    }
}

/// Kept for an hour, but its key for a minute only.
fn kept_with_key(name: &str) -> JobSpec {
    let key = Key {
        name: name.to_owned(),
        on_duplicate: OnDuplicate::Reject,
        window: secs(60),
    };
    JobSpec {
        key: Some(key),
        ..kept()
    }
}

#[tokio::test]
async fn what_filled_redis_is_worked_off_and_then_there_is_room_again() {
    let store = Store::new().await;
    let t = &store.bench;
    store.limit(store.used() + (2 << 20));
    let mut pushed = 0;
    let refused = loop {
        let payload = text(&"x".repeat(2000));
        let key = keyed(&format!("key {pushed}"), OnDuplicate::Reject);
        let spec = match pushed % 3 {
            0 => plain(),
            1 => kept(),
            _ => key,
        };
        match t.try_push(&queue(), JobSpec { payload, ..spec }).await {
            Ok(_) => pushed += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code(), Code::QueueFull, "{refused}");
    assert!(pushed > 300, "{pushed} jobs were enough");
    let mut done = 0;
    loop {
        let leased = t.take(100).await;
        if leased.is_empty() {
            break;
        }
        for leased in &leased {
            t.extend(leased.token, None).await.expect("a longer lease");
        }
        let end = leased.into_iter().map(|leased| Settle {
            token: leased.token,
            outcome: ack(),
        });
        for settled in t.engine.settle(end.collect()).await.expect("ends") {
            settled.expect("a running lease");
            done += 1;
        }
    }
    assert_eq!(done, pushed);
    t.pass(secs(3600));
    t.push(plain()).await;
    t.check_books().await;
}

#[tokio::test]
async fn each_end_of_a_lease_is_taken_by_a_full_redis() {
    for batch in [
        vec![("kept", kept(), ack())],
        vec![("keyed", keyed("k", OnDuplicate::Reject), ack())],
        vec![("both", kept_with_key("k"), ack())],
        vec![("fail", plain(), fail("why"))],
        vec![("release", plain(), release())],
        vec![("to another priority", plain(), {
            let priority = Some(7);
            Outcome::Release {
                priority,
                delay: None,
            }
        })],
        vec![("bury", plain(), bury("why"))],
        vec![("snooze", plain(), snooze(secs(9)))],
        vec![("kept", kept(), ack()), ("plain", plain(), ack())],
    ] {
        let store = Store::new().await;
        let t = &store.bench;
        let mut ends = Vec::new();
        for (what, spec, outcome) in batch {
            t.push(spec).await;
            let token = t.one().await.token;
            ends.push((what, Settle { token, outcome }));
        }
        store.fill().await;
        let items = ends.iter().map(|(_, end)| end.clone()).collect();
        let settled = t.engine.settle(items).await;
        let settled = settled.unwrap_or_else(|error| panic!("{}: {error}", ends[0].0));
        for ((what, _), settled) in ends.iter().zip(settled) {
            settled.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        store.refuses().await;
        t.check_books().await;
    }
}

#[tokio::test]
async fn leases_begin_last_and_are_waited_for_on_a_full_redis() {
    let store = Store::new().await;
    let t = &store.bench;
    let once = named("once");
    let spec = JobSpec {
        ttr: secs(0),
        ..kept()
    };
    t.push_to(&once, spec).await;
    let fair = named("fair");
    let config = QueueConfig {
        fair: true,
        ..QueueConfig::default()
    };
    t.change(Change::Queue(fair.clone(), config)).await;
    let spec = JobSpec {
        group: Some("a group".to_owned()),
        ..plain()
    };
    t.push_to(&fair, spec).await;
    let first = t.push(plain()).await;
    t.push(later(secs(10))).await;
    store.fill().await;
    for name in [once, fair] {
        let leased = t
            .engine
            .lease(asking(std::slice::from_ref(&name), 1, secs(0)))
            .await;
        let leased = leased.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(leased.len(), 1, "{name}");
    }
    let leased = t.one().await;
    assert_eq!(leased.job.id, first);
    let longer = t.extend(leased.token, Some(secs(600))).await;
    assert_eq!(longer.unwrap().deadline, t.wall().plus(secs(600)));
    let waiting = t.wait_on(&[queue()], 1).await;
    t.pass(secs(10));
    assert_eq!(t.answer(waiting).await.len(), 1);
}

#[tokio::test]
async fn a_full_redis_is_degraded_until_it_takes_jobs_again() {
    let store = Store::new().await;
    let t = &store.bench;
    t.push(plain()).await;
    assert_eq!(t.engine.outages(), []);
    store.fill().await;
    t.engine.health().expect("leases and acks work");
    let refused = t.engine.outages();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].part, "pushes");
    t.work(ack()).await;
    store.limit(0);
    t.push(plain()).await;
    assert_eq!(t.engine.outages(), []);
}

#[tokio::test]
async fn what_falls_due_happens_on_a_full_redis() {
    let store = Store::new().await;
    let t = &store.bench;
    let kept = t.push(kept_with_key("k")).await;
    t.work(ack()).await;
    t.push(plain()).await;
    let vanishes = t.one().await.job.id;
    store.fill().await;
    // First the key is let go, though the job is kept.
    t.pass(secs(60));
    assert_eq!(t.one().await.job.id, vanishes, "its worker did not settle");
    assert_eq!(t.state(kept).await, Some(State::Done));
    t.pass(secs(3600));
    assert_eq!(t.state(kept).await, None);
    t.engine.health().expect("all is well");
}

#[tokio::test]
async fn a_full_redis_refuses_jobs_also_while_something_falls_due() {
    let store = Store::new().await;
    let t = &store.bench;
    t.push(kept()).await;
    t.work(ack()).await;
    store.fill().await;
    // By the clock of another process, which has not looked yet.
    let url = store.server.url("?durability=none").parse().unwrap();
    let options = Options {
        clock: Some(ManualClock::at(t.wall().plus(secs(3600)).0)),
    };
    let later = RedisEngine::open(&url, options).await.unwrap();
    let job = NewJob {
        queue: queue(),
        spec: plain(),
    };
    let refused = later.push(vec![job]).await;
    assert_eq!(code(refused), Code::QueueFull);
    assert!(t.idle().await);
}

#[tokio::test]
async fn operators_can_act_on_a_full_redis() {
    let store = Store::new().await;
    let t = &store.bench;
    let scheduled = t.push(later(secs(60))).await;
    let moved = t.push(later(secs(60))).await;
    let dead = t.push(plain()).await;
    t.work(bury("why")).await;
    t.push(plain()).await;
    let leased = t.one().await;
    store.fill().await;
    assert_eq!(t.steer(scheduled, Action::Kick).await, Ok(State::Ready));
    let at = Action::Reschedule(auxo_core::time::When::After(secs(5)));
    assert_eq!(t.steer(moved, at).await, Ok(State::Scheduled));
    assert_eq!(t.steer(dead, Action::Kick).await, Ok(State::Ready));
    let flagged = t.steer(leased.job.id, Action::Cancel).await;
    assert_eq!(flagged, Ok(State::Leased));
    assert!(t.extend(leased.token, None).await.unwrap().cancel);
    for paused in [true, false] {
        let config = QueueConfig {
            paused_out: paused,
            ..QueueConfig::default()
        };
        t.configure(config).await;
        assert_eq!(t.idle().await, paused);
    }
    t.check_books().await;
}

#[tokio::test]
async fn a_process_can_begin_on_a_full_redis() {
    let store = Store::new().await;
    store.bench.push(kept()).await;
    store.fill().await;
    let url = store.server.url("?durability=none").parse().unwrap();
    let other = RedisEngine::open(&url, Options::default()).await;
    let other = other.expect("the store opens");
    let leased = other.lease(asking(&[queue()], 1, secs(0))).await.unwrap();
    let end = Settle {
        token: leased[0].token,
        outcome: ack(),
    };
    other.settle(vec![end]).await.unwrap().remove(0).unwrap();
}

#[tokio::test]
async fn ticks_that_come_while_redis_is_full_are_dropped() {
    let store = Store::new().await;
    let t = &store.bench;
    t.push(plain()).await;
    t.change(Change::Schedule(Schedule {
        name: "s".to_owned(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(10)),
        missed: Missed::Once,
        spec: plain(),
        next: None,
        last: None,
    }))
    .await;
    store.fill().await;
    t.pass(secs(10));
    // It does not stay due, to be tried again and again.
    let next = t.engine.catalog().await.unwrap().schedules[0].next;
    assert_eq!(next.unwrap().at, t.wall().plus(secs(10)));
    assert_eq!(t.info().await.counts.ready, 1, "nothing was made");
    t.work(ack()).await;
    store.limit(0);
    t.pass(secs(10));
    assert_eq!(t.info().await.counts.ready, 1);
    t.check_books().await;
}
