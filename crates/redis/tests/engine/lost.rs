//! A store of several shards that lost the first of them, the one that says how many there are.

use auxo_conformance::bench::{asking, named, plain, secs};
use auxo_core::{Code, Engine, Error, NewJob, Result};
use auxo_redis::{Options, RedisEngine};

use auxo_harness::redis::Single;

async fn open(server: &Single, options: &str) -> Result<RedisEngine> {
    let url = server.url(options).parse().expect("a good URL");
    RedisEngine::open(&url, Options::default()).await
}

async fn refused(server: &Single, options: &str) -> Error {
    let refused = open(server, options).await.err();
    refused.expect("a store that is not opened")
}

#[tokio::test]
async fn a_store_that_lost_its_first_shard_is_not_taken_for_a_new_one() {
    let server = Single::start(&[]);
    let engine = open(&server, "?durability=none&shards=4").await.unwrap();
    let names: Vec<_> = (0..20).map(|n| named(&format!("q{n}"))).collect();
    let mut kept = 0;
    for queue in &names {
        let job = NewJob {
            queue: queue.clone(),
            spec: plain(),
        };
        let pushed = engine.push(vec![job]).await.unwrap().remove(0).unwrap();
        kept += usize::from(pushed.id.shard(4) != 0);
    }
    assert!((1..20).contains(&kept), "queues are in all shards: {kept}");
    drop(engine);
    let lose = "for _, key in ipairs(redis.call('KEYS', 'auxo{0}:*')) do redis.call('DEL', key) end return 1";
    server.ask(&["EVAL", lose, "0"]);
    let before = server.ask(&["DBSIZE"]).int();
    for options in ["?durability=none", "?durability=none&shards=3"] {
        let refused = refused(&server, options).await;
        assert_eq!(refused.code(), Code::Conflict);
        assert!(refused.message().contains("shards=4"), "{refused}");
        assert_eq!(server.ask(&["DBSIZE"]).int(), before, "nothing was written");
    }
    for options in ["?durability=none&shards=4", "?durability=none"] {
        let engine = open(&server, options).await.unwrap();
        engine.repair().await.unwrap();
        assert_eq!(engine.queues(None).await.unwrap().len(), kept);
        let audit = engine.audit().await.unwrap();
        assert_eq!(audit.problems, Vec::<String>::new());
    }
    let engine = open(&server, "?durability=none").await.unwrap();
    let ask = asking(&names, 100, secs(0));
    assert!(!engine.lease(ask).await.unwrap().is_empty());
}

#[tokio::test]
async fn processes_that_make_a_store_at_once_make_one() {
    let server = Single::start(&[]);
    let opening = (0..8).map(|_| open(&server, "?durability=none&shards=8"));
    for engine in futures_util::future::join_all(opening).await {
        engine.expect("the store opens").health().unwrap();
    }
}
