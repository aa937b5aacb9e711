//! Ids name their shard, rise whatever the clock says, and are the same in a store of another number of shards only by chance; and
//! stores of an earlier layout, whose ids were others.

use std::sync::Arc;

use auxo_conformance::bench::{Bench, plain, queue, run, secs, text};
use auxo_core::clock::ManualClock;
use auxo_core::job::{Key, OnDuplicate};
use auxo_core::passage::{Adoption, Departure, Passage, Step};
use auxo_core::{Code, Engine, JobId, JobSpec};
use auxo_redis::{Options, RedisEngine};

use crate::store::{on, open};
use auxo_harness::redis::Single;

/// Jobs in batches and alone, plain ones and some with a key, which take another way; all are found by their ids alone.
async fn push_some(t: &Bench, round: usize) -> Vec<JobId> {
    let mut ids = t.push_many(600, plain()).await;
    let keyed = JobSpec {
        key: Some(Key {
            name: format!("k{round}"),
            on_duplicate: OnDuplicate::Reject,
            window: secs(0),
        }),
        ..plain()
    };
    ids.push(t.push(keyed).await);
    ids.push(t.push(plain()).await);
    for id in [ids[0], ids[599], ids[600], ids[601]] {
        let job = t.job(id).await;
        assert_eq!(job.created_at, t.wall(), "{id}");
    }
    ids
}

#[test]
fn ids_name_their_shard_and_rise_whatever_the_clock_says() {
    run(async {
        for shards in [1, 3, 16, 128] {
            let server = Arc::new(Single::start(&[]));
            let url = server.url(&format!("?durability=none&shards={shards}"));
            let (year, mut ids) = (365 * 86_400_000, Vec::new());
            let begin = 1_735_689_600_000;
            // A clock that is not set, 2025, later, one that was set back, and one that is wrong.
            for (round, now) in [
                1,
                begin,
                begin + 30 * year,
                begin + year,
                begin + 200 * year,
            ]
            .into_iter()
            .enumerate()
            {
                let t = open(url.clone(), ManualClock::at(now), server.clone()).await;
                ids.extend(push_some(&t, round).await);
                t.engine.close().await.expect("the store closes");
            }
            assert!(ids.is_sorted_by(|a, b| a < b), "{shards} shards");
            let home = ids[0].shard(shards);
            let wrong = |id: &&JobId| id.0 == 0 || id.0 >= 1 << 53 || id.shard(shards) != home;
            assert_eq!(ids.iter().find(wrong), None, "{shards} shards");
        }
    });
}

async fn of_shards(shards: u16) -> Bench {
    let server = Single::start(&[]);
    on(
        server.url(&format!("?durability=none&shards={shards}")),
        Arc::new(server),
    )
    .await
}

/// What a queue has, and what its store is known by.
async fn all_of(t: &Bench) -> (String, Vec<Passage>) {
    let departure = Departure {
        queue: queue(),
        cursor: None,
        limit: 1000,
    };
    let page = t.engine.passages(departure).await.expect("a page");
    assert_eq!(page.next, None);
    (page.store, page.jobs)
}

async fn copy(from: &Bench, to: &Bench) -> Vec<JobId> {
    let (store, jobs) = all_of(from).await;
    let mut results = Vec::new();
    for step in [Step::Begin, Step::Jobs(jobs), Step::End] {
        let adoption = Adoption {
            queue: queue(),
            store: store.clone(),
            run: 1,
            step,
        };
        let adopted = to.engine.adopt(adoption).await.expect("a step");
        results.extend(adopted.results);
    }
    results.into_iter().map(|id| id.expect("a job")).collect()
}

#[test]
fn jobs_move_between_stores_of_different_numbers_of_shards_in_their_order() {
    run(async {
        let [one, three, five, again] = [1, 3, 5, 1].map(of_shards);
        let (one, three, five, again) = (one.await, three.await, five.await, again.await);
        for number in 0..100 {
            let payload = text(&number.to_string());
            one.push(JobSpec { payload, ..plain() }).await;
        }
        // Of 100 ids that follow each other some would be right in any case: those would come before all others.
        for (from, to, shards) in [(&one, &three, 3), (&three, &five, 5)] {
            let ids = copy(from, to).await;
            let home = ids[0].shard(shards);
            assert!(ids.iter().all(|id| id.shard(shards) == home));
            for id in &ids {
                to.job(*id).await;
            }
        }
        // A store of one shard keeps all ids.
        let kept: Vec<JobId> = all_of(&five).await.1.iter().map(|p| p.job.id).collect();
        assert_eq!(copy(&five, &again).await, kept);
        for t in [&one, &three, &five, &again] {
            let leased = t.take(100).await;
            let payloads: Vec<_> = leased
                .iter()
                .map(|leased| &leased.job.payload[..])
                .collect();
            let numbers: Vec<String> = (0..100).map(|number: u32| number.to_string()).collect();
            let pushed: Vec<_> = numbers.iter().map(|number| number.as_bytes()).collect();
            assert_eq!(payloads, pushed);
        }
    });
}

#[test]
fn a_store_of_another_layout_is_not_opened_and_left_as_it_is() {
    run(async {
        let server = Single::start(&[]);
        let url = server.url("?durability=none&shards=3");
        let url = url.parse().expect("a good URL");
        let open = async || RedisEngine::open(&url, Options::default()).await;
        // In any of its shards: another build may have made it while some were away.
        for shard in ["auxo{0}:meta", "auxo{2}:meta"] {
            for (said, words) in [
                ("3", ["has layout 1,", "auxo migrate --from http://"]),
                ("7:3", ["has layout 7,", "a build that knows layout 7"]),
            ] {
                server.ask(&["FLUSHALL"]);
                server.ask(&["HSET", shard, "shards", said, "store", "x"]);
                let refused = open().await.err().expect("a refusal");
                assert_eq!(refused.code(), Code::Conflict);
                for words in words {
                    assert!(refused.message().contains(words), "{refused}");
                }
                let meta = server.ask(&["HGETALL", shard]);
                let fields: Vec<String> = meta
                    .items()
                    .iter()
                    .map(|item| item.text().to_owned())
                    .collect();
                assert_eq!(fields, ["shards", said, "store", "x"]);
            }
        }
        // And a build of the first layout does not take this one's number of shards for one of its own.
        server.ask(&["FLUSHALL"]);
        open()
            .await
            .expect("a new store")
            .close()
            .await
            .expect("it closes");
        let said = server.ask(&["HGET", "auxo{0}:meta", "shards"]);
        assert_eq!(said.text(), "2:3");
        assert!(said.text().parse::<f64>().is_err());
        // One shard of a store is of another layout: an older build made it before this one came.
        server.ask(&["HSET", "auxo{2}:meta", "shards", "3", "store", "x"]);
        let refused = open().await.err().expect("a refusal");
        assert!(refused.message().contains("has layout 1,"), "{refused}");
        let said = server.ask(&["HGET", "auxo{2}:meta", "store"]);
        assert_eq!(said.text(), "x");
    });
}
