//! A store that was damaged by hand: a way to do so, and what leases do about it.

use std::sync::Arc;

use auxo_conformance::Bench;
use auxo_conformance::bench::{ack, asking, code, fail, named, plain, queue, release, secs};
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Change, Settle};
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, Engine, JobId, JobSpec, State};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::{Reply, Single, wait};

/// A store that can be damaged.
pub struct Damaged {
    pub server: Single,
    pub engine: Arc<RedisEngine>,
    pub bench: Bench,
}

impl Damaged {
    /// An empty store, still whole. Its clock stands still.
    pub async fn new() -> Damaged {
        let server = Single::start(&[]);
        let clock = ManualClock::at(1_760_000_000_000);
        let options = Options {
            clock: Some(clock.clone()),
        };
        let url = server.url("?durability=none").parse().expect("a good URL");
        let engine = RedisEngine::open(&url, options).await;
        let engine = Arc::new(engine.expect("the store opens"));
        let bench = Bench {
            engine: engine.clone(),
            clock,
            steady: false,
            together: false,
            reopen: None,
        };
        Damaged {
            server,
            engine,
            bench,
        }
    }

    /// Does something to Redis, in Lua. `call` is `redis.call`, `id` is the job's as Redis has it, `key` makes the name of a key.
    pub fn by_hand(&self, job: JobId, deed: &str) -> Reply {
        let script = format!(
            "local call = redis.call
             local id = string.gsub(ARGV[1], '..', function(hex) return string.char(tonumber(hex, 16)) end)
             local function key(part) return 'auxo{{0}}:' .. part end
             {deed}"
        );
        let hex = format!("{:016x}", job.0);
        self.server.ask(&["EVAL", &script, "0", &hex])
    }

    /// Lets the groups of the queue take turns.
    pub async fn be_fair(&self) {
        let fair = QueueConfig {
            fair: true,
            ..QueueConfig::default()
        };
        let change = Change::Queue(queue(), fair);
        self.engine.change(change).await.expect("a fair queue");
    }
}

/// A job of a group.
pub fn grouped(group: &str) -> JobSpec {
    JobSpec {
        group: Some(group.to_owned()),
        ..plain()
    }
}

#[tokio::test]
async fn a_fair_queue_passes_over_a_job_that_is_gone() {
    let store = Damaged::new().await;
    store.be_fair().await;
    for deed in [
        "call('HDEL', key('jobs'), id)",
        "call('HDEL', key('jobs'), id) call('ZREM', key('l:1024:q'), id)",
    ] {
        let gone = store.bench.push(grouped("a")).await;
        let left = store.bench.push(grouped("a")).await;
        store.by_hand(gone, deed);
        assert_eq!(store.bench.order(5).await, [left], "{deed}");
    }
}

#[tokio::test]
async fn a_leased_job_that_stands_in_line_too_is_not_lent_again() {
    let store = Damaged::new().await;
    for fair in [false, true] {
        if fair {
            store.be_fair().await;
        }
        let job = store.bench.push(grouped("a")).await;
        let first = store.bench.one().await;
        store.by_hand(
            job,
            "call('ZADD', key('l:1024:q'), 1, id)
             call('ZADD', key('c:q'), 1024, 1024)
             call('ZADD', key('g:1024:2:+a:q'), 1, id)
             call('ZADD', key('r:1024:q'), 0, '+a')",
        );
        assert!(store.bench.idle().await, "fair: {fair}");
        store.bench.settle(first.token, ack()).await;
    }
}

#[tokio::test]
async fn a_leased_job_whose_record_is_gone_spoils_no_other_end() {
    let store = Damaged::new().await;
    for watched in [false, true] {
        let _watcher = watched.then(|| store.engine.watch());
        let gone = store.bench.push(plain()).await;
        store.bench.push(plain()).await;
        let leased = store.bench.take(2).await;
        store.by_hand(gone, "call('HDEL', key('jobs'), id)");
        let outcomes = [fail("no"), ack()];
        let ends = leased.iter().zip(outcomes).map(|(leased, outcome)| Settle {
            token: leased.token,
            outcome,
        });
        let answers = store.engine.settle(ends.collect()).await.unwrap();
        assert_eq!(code(answers[0].clone()), Code::LeaseLost);
        assert_eq!(answers[1].as_ref().unwrap().state, State::Done);
    }
}

#[tokio::test]
async fn a_tick_of_no_schedule_or_of_one_that_cannot_be_read_holds_nobody_up() {
    let store = Damaged::new().await;
    let job = store.bench.push(plain()).await;
    for deed in [
        "call('ZADD', key('ticks'), 1, 'ghost')",
        "call('HSET', key('schedules'), 'ghost', 'what is this')",
    ] {
        store.by_hand(job, deed);
        let leased = store.bench.one().await;
        assert_eq!(leased.job.id, job, "{deed}");
        store.bench.settle(leased.token, release()).await;
        assert_eq!(store.bench.info().await.counts.ready, 1, "{deed}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_queue_leaves_nothing_behind_in_redis() {
    let store = Damaged::new().await;
    let ask = asking(&[named("never")], 1, secs(1));
    let engine = store.engine.clone();
    let waiting = tokio::spawn(async move { engine.lease(ask).await });
    wait("somebody waits", || {
        store.server.ask(&["EXISTS", "auxo{0}:w:never"]).int() == 1
    });
    let left = store.server.ask(&["PTTL", "auxo{0}:w:never"]).int();
    assert!((1..=60_000).contains(&left), "{left}");
    store.bench.pass(secs(1));
    assert_eq!(store.bench.answer(waiting).await, Ok(Vec::new()));
}
