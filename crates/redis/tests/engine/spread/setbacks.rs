//! Redis came back without the last changes of how a queue is spread: all of it, or one of its nodes.

use auxo_conformance::bench::{ack, code, plain, queue};
use auxo_core::job::OnDuplicate::Reject;
use auxo_core::queue::QueueConfig;
use auxo_core::{Code, Engine};

use super::{Spread, over, shards_of, with_key};

impl Spread {
    /// Keeps the settings of the queue as all shards know them now.
    fn keep(&self) {
        for shard in 0..7 {
            let deed = "
                local config = redis.call('HGET', KEYS[1], 'config')
                if config then redis.call('SET', 'kept:' .. KEYS[1], config) else redis.call('DEL', 'kept:' .. KEYS[1]) end
                return 1";
            self.by_hand(shard, deed);
        }
    }

    /// A shard knows again what was kept, and no more.
    fn set_back(&self, shard: u16) {
        let deed = "
            local config = redis.call('GET', 'kept:' .. KEYS[1])
            redis.call('HDEL', KEYS[1], 'config', 'next', 'decision')
            if config then redis.call('HSET', KEYS[1], 'config', config) end
            return 1";
        self.by_hand(shard, deed);
    }

    /// The shard that the name of the queue names: the one where it is as long as it is not spread.
    async fn home(&self) -> u16 {
        let id = self.bench.push(plain()).await;
        self.bench.work(ack()).await;
        id.shard(7)
    }

    /// The auditor comes, and finds one thing to mend. What it makes wide to be sure, it makes narrow again the next time.
    async fn is_mended(&self) {
        let problems = self.engine.audit().await.unwrap().problems;
        assert_eq!(problems, ["queue q: its shards know different settings"]);
        assert_eq!(self.engine.repair().await.unwrap(), 1);
        assert_eq!(self.engine.repair().await.unwrap(), 1);
        assert_eq!(self.engine.repair().await.unwrap(), 0);
        assert_eq!(self.engine.repaired(), 1);
    }

    /// Jobs with and without a key come in, as many as there may be and no more, and all are lent.
    async fn is_well(&self, limit: u64) {
        let stored = self.bench.info().await.books.live;
        for number in stored..limit {
            let job = match number % 2 {
                0 => plain(),
                _ => with_key(&format!("after {number}"), Reject),
            };
            self.bench.push(job).await;
        }
        let refused = self.bench.try_push(&queue(), plain()).await;
        assert_eq!(code(refused), Code::QueueFull);
        assert_eq!(self.bench.take(100).await.len() as u64, limit);
        self.bench.check_books().await;
    }
}

#[tokio::test]
async fn who_knows_more_than_redis_takes_its_word() {
    let store = Spread::over(1).await;
    let other = store.another().await;
    store.keep();
    store.set(4).await;
    for process in [&store, &other] {
        let jobs = process.bench.push_many(8, plain()).await;
        assert_eq!(shards_of(&jobs), 4);
    }
    assert_eq!(store.bench.take(50).await.len(), 16);
    (0..7).for_each(|shard| store.set_back(shard));
    for process in [&store, &other] {
        let jobs = process.bench.push_many(8, plain()).await;
        assert_eq!(shards_of(&jobs), 1);
        assert_eq!(process.bench.take(50).await.len(), 8);
    }
    store.set(3).await;
    for process in [&store, &other] {
        let jobs = process.bench.push_many(9, plain()).await;
        assert_eq!(shards_of(&jobs), 3);
        assert_eq!(process.bench.take(50).await.len(), 9);
    }
}

#[tokio::test]
async fn a_change_takes_those_along_that_are_ahead() {
    let store = Spread::over(1).await;
    let home = store.home().await;
    store.set(2).await;
    store.keep();
    for shards in [4, 5, 4] {
        store.set(shards).await;
    }
    store.set_back(home);
    store
        .bench
        .configure(QueueConfig {
            max_jobs: Some(30),
            ..over(5)
        })
        .await;
    store.is_well(30).await;
}

/// Each of the places of a queue over four shards, home first, loses the last change; then the auditor comes.
#[tokio::test]
async fn the_auditor_brings_places_together_that_differ() {
    for behind in 0..4 {
        let store = Spread::over(1).await;
        let home = store.home().await;
        let limited = |jobs| QueueConfig {
            max_jobs: Some(jobs),
            ..over(4)
        };
        store.bench.configure(limited(20)).await;
        store.keep();
        store.bench.configure(limited(30)).await;
        let before = store.bench.push_many(8, plain()).await;
        assert_eq!(shards_of(&before), 4);
        store.set_back((home + behind) % 7);
        let other = store.another().await;
        other.is_mended().await;
        // What is lost at home is lost.
        let limit = if behind == 0 { 20 } else { 30 };
        assert_eq!(store.bench.info().await.config, limited(limit));
        store.is_well(limit).await;
    }
}

#[tokio::test]
async fn jobs_in_places_that_home_forgot_are_lent_after_the_auditor_came() {
    let store = Spread::over(1).await;
    let home = store.home().await;
    store.keep();
    let config = QueueConfig {
        max_jobs: Some(30),
        ..over(6)
    };
    store.bench.configure(config.clone()).await;
    store.bench.push_many(12, plain()).await;
    store.set_back(home);
    let other = store.another().await;
    other.is_mended().await;
    // Home knew no settings at all: then those hold that others know.
    assert_eq!(other.bench.info().await.config, config);
    other.is_well(30).await;
}
