//! Queues that are spread over several shards: the contract, and what is special about them.

mod changes;
mod contract;
mod keys;
mod limits;
mod setbacks;

use std::sync::Arc;
use std::time::Duration;

use auxo_conformance::Bench;
use auxo_conformance::bench::{plain, queue};
use auxo_core::clock::ManualClock;
use auxo_core::job::{Key, OnDuplicate};
use auxo_core::queue::QueueConfig;
use auxo_core::{JobId, JobSpec};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::Single;

/// A store of 7 shards, with as many processes as there are engines. Their clock stands still.
struct Spread {
    server: Arc<Single>,
    clock: Arc<ManualClock>,
    engine: Arc<RedisEngine>,
    bench: Bench,
}

impl Spread {
    /// One process, and a queue that is spread over so many shards.
    async fn over(shards: u16) -> Spread {
        let server = Arc::new(Single::start(&[]));
        let clock = ManualClock::at(1_760_000_000_000);
        let spread = Spread::beside(&server, &clock).await;
        spread.set(shards).await;
        spread
    }

    /// Another process on the same store.
    async fn another(&self) -> Spread {
        Spread::beside(&self.server, &self.clock).await
    }

    async fn beside(server: &Arc<Single>, clock: &Arc<ManualClock>) -> Spread {
        let url = server.url("?durability=none&shards=7").parse().unwrap();
        let options = Options {
            clock: Some(clock.clone()),
        };
        let engine = Arc::new(RedisEngine::open(&url, options).await.unwrap());
        Spread {
            server: server.clone(),
            clock: clock.clone(),
            bench: Bench {
                engine: engine.clone(),
                clock: clock.clone(),
                steady: false,
                together: false,
                reopen: None,
            },
            engine,
        }
    }

    async fn set(&self, shards: u16) {
        self.bench.configure(over(shards)).await;
    }

    /// Does something to Redis, in Lua, with the key of the queue's books in a shard.
    fn by_hand(&self, shard: u16, deed: &str) -> auxo_harness::redis::Reply {
        let key = format!("auxo{{{shard}}}:q:{}", queue());
        self.server.ask(&["EVAL", deed, "1", &key])
    }
}

fn over(shards: u16) -> QueueConfig {
    QueueConfig {
        shards: Some(shards),
        ..QueueConfig::default()
    }
}

/// A job with a key that is free as soon as it is done.
fn with_key(name: &str, on_duplicate: OnDuplicate) -> JobSpec {
    let key = Key {
        name: name.to_owned(),
        on_duplicate,
        window: Duration::ZERO,
    };
    JobSpec {
        key: Some(key),
        ..plain()
    }
}

/// In how many shards these jobs are.
fn shards_of(jobs: &[JobId]) -> usize {
    let shards: std::collections::BTreeSet<u16> = jobs.iter().map(|id| id.shard(7)).collect();
    shards.len()
}
