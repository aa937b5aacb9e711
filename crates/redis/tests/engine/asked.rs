//! What one process shows of the workers of another.

use std::sync::Arc;
use std::time::Duration;

use auxo_conformance::bench::{asking, later, queue, secs};
use auxo_core::queue::QueueInfo;
use auxo_core::{Engine, NewJob};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::Single;

async fn open(server: &Single) -> Arc<RedisEngine> {
    let url = server.url("?durability=none&shards=3").parse().unwrap();
    Arc::new(RedisEngine::open(&url, Options::default()).await.unwrap())
}

/// Looks until the queue is as it should be.
async fn seen(engine: &RedisEngine, what: &str, is: impl Fn(&QueueInfo) -> bool) -> QueueInfo {
    let look = async {
        loop {
            let infos = engine.queues(Some(vec![queue()])).await.unwrap();
            if is(&infos[0]) {
                return infos[0].clone();
            }
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(60), look).await;
    seen.unwrap_or_else(|_| panic!("waited too long until {what}"))
}

#[tokio::test]
async fn a_process_knows_of_workers_that_wait_at_another_one() {
    let server = Single::start(&[]);
    let (here, there) = (open(&server).await, open(&server).await);
    let job = NewJob {
        queue: queue(),
        spec: later(secs(3600)),
    };
    here.push(vec![job]).await.unwrap().remove(0).unwrap();
    let before = seen(&here, "the queue is there", |_| true).await;
    assert_eq!((before.waiting, before.last_asked), (0, None));
    let wait_at = |engine: &Arc<RedisEngine>| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.lease(asking(&[queue()], 1, secs(600))).await })
    };
    let _waits = [wait_at(&there), wait_at(&there)];
    seen(&there, "both wait", |info| info.waiting == 2).await;
    let one = |info: &QueueInfo| info.waiting == 1 && info.last_asked.is_some();
    seen(&here, "the other process is seen to wait", one).await;
    let own = wait_at(&here);
    seen(&here, "our own is counted as well", |info| {
        info.waiting == 2
    })
    .await;
    seen(&there, "and by the other", |info| info.waiting == 3).await;
    own.abort();
    there.close().await.unwrap();
    let gone = seen(&here, "nobody waits", |info| info.waiting == 0).await;
    assert!(gone.last_asked.is_some(), "but somebody did");
    // Also who came after all that knows it.
    let new = open(&server).await;
    let late = seen(&new, "the queue is there", |_| true).await;
    assert!(late.last_asked.is_some());
}
