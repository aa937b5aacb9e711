//! An engine on the test bench: a store of its own on a Redis that is already there, or on one of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use auxo_conformance::Bench;
use auxo_conformance::bench::Later;
use auxo_core::Engine;
use auxo_core::clock::ManualClock;
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::Single;

/// What must live as long as an engine.
type Held = Arc<dyn std::any::Any + Send + Sync>;

/// An empty store on a server of its own.
pub async fn make() -> Bench {
    alone("?durability=none").await
}

/// With so many shards that every queue of a case is likely to be elsewhere.
pub async fn make_sharded() -> Bench {
    alone("?durability=none&shards=7").await
}

async fn alone(options: &str) -> Bench {
    let server = Single::start(&[]);
    let url = server.url(options);
    on(url, Arc::new(server)).await
}

/// An empty store beside others, each with a prefix of its own. The URL ends where the prefix is to follow.
pub async fn beside(url: &str) -> Bench {
    static STORES: AtomicUsize = AtomicUsize::new(0);
    let number = STORES.fetch_add(1, Ordering::Relaxed);
    let url = format!("{url}durability=none&prefix=s{number}");
    on(url, Arc::new(())).await
}

/// A store at a URL. `held` lives as long as the engine.
pub async fn on(url: String, held: Held) -> Bench {
    open(url, ManualClock::at(1_760_000_000_000), held).await
}

/// A cluster has several unless its URL says otherwise.
fn is_one_shard(url: &str) -> bool {
    !(url.contains("shards=") || url.starts_with("redis+cluster:"))
}

/// The same with this clock.
pub fn open(url: String, clock: Arc<ManualClock>, held: Held) -> Later<Bench> {
    Box::pin(async move {
        let options = Options {
            clock: Some(clock.clone()),
        };
        let parsed = url.parse().expect("a good URL");
        let engine = RedisEngine::open(&parsed, options).await;
        let engine = Arc::new(engine.expect("the store opens"));
        let again = clock.clone();
        Bench {
            engine: engine.clone(),
            clock,
            steady: false,
            together: is_one_shard(&url),
            reopen: Some(Arc::new(move || {
                let (engine, url) = (engine.clone(), url.clone());
                let (clock, held) = (again.clone(), held.clone());
                Box::pin(async move {
                    engine.close().await.expect("the store closes");
                    open(url, clock, held).await
                })
            })),
        }
    })
}
