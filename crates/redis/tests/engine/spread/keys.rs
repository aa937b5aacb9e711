//! A key is unique in all shards of a queue, also while it is spread otherwise.

use std::collections::BTreeMap;

use auxo_conformance::bench::{ack, code, queue};
use auxo_core::engine::Accepted;
use auxo_core::job::OnDuplicate::{self, Reject, Replace, Return};
use auxo_core::{Code, JobId};

use super::{Spread, shards_of, with_key};

const KEYS: usize = 60;

/// Pushes jobs with all keys.
async fn push_all(store: &Spread, policy: OnDuplicate) -> BTreeMap<String, (JobId, Accepted)> {
    let mut held = BTreeMap::new();
    for number in 0..KEYS {
        let key = format!("key {number}");
        let pushed = store.bench.try_push(&queue(), with_key(&key, policy)).await;
        let pushed = pushed.unwrap();
        held.insert(key, (pushed.id, pushed.how));
    }
    held
}

#[tokio::test]
async fn a_key_is_held_whatever_becomes_of_the_shards() {
    let store = Spread::over(1).await;
    // A process that does not know of any change.
    let other = store.another().await;
    let first = push_all(&store, Return).await;
    for shards in [4, 2, 7, 1, 3] {
        store.set(shards).await;
        for (key, (id, _)) in &first {
            for process in [&other, &store] {
                let again = process
                    .bench
                    .try_push(&queue(), with_key(key, Return))
                    .await;
                let again = again.unwrap();
                assert_eq!((again.id, again.how), (*id, Accepted::Existing), "{key}");
            }
            let refused = other.bench.try_push(&queue(), with_key(key, Reject)).await;
            assert_eq!(code(refused), Code::DuplicateKey);
            let holder = other.bench.holder(key).await;
            assert_eq!(holder.map(|job| job.id), Some(*id), "{key} in {shards}");
        }
    }
    assert_eq!(store.bench.info().await.books.accepted, KEYS as u64);
}

#[tokio::test]
async fn a_key_that_is_free_is_given_once_after_any_change() {
    let store = Spread::over(5).await;
    let other = store.another().await;
    for shards in [2, 6, 1, 7, 3] {
        let jobs = push_all(&store, Return).await;
        let ids: Vec<JobId> = jobs.values().map(|(id, _)| *id).collect();
        assert!(jobs.values().all(|(_, how)| *how == Accepted::New));
        assert_eq!(push_all(&other, Return).await.len(), KEYS);
        let info = store.bench.info().await;
        assert_eq!(info.counts.ready, KEYS as u64, "{}", shards_of(&ids));
        store.set(shards).await;
        let kept = push_all(&other, Replace).await;
        assert!(kept.values().all(|(_, how)| *how == Accepted::Replaced));
        for _ in 0..KEYS {
            other.bench.work(ack()).await;
        }
    }
    store.bench.check_books().await;
}

#[tokio::test]
async fn keys_go_to_all_shards_and_back_to_one() {
    let store = Spread::over(7).await;
    let jobs = push_all(&store, Reject).await;
    let ids: Vec<JobId> = jobs.values().map(|(id, _)| *id).collect();
    assert_eq!(shards_of(&ids), 7);
    store.set(1).await;
    for _ in 0..KEYS {
        store.bench.work(ack()).await;
    }
    let jobs = push_all(&store, Reject).await;
    let ids: Vec<JobId> = jobs.values().map(|(id, _)| *id).collect();
    assert_eq!(shards_of(&ids), 1);
}
