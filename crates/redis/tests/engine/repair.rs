//! Whatever a hand did to the keys, the auditor finds it and puts it right, and the jobs can be worked on.

use std::time::{Duration, Instant};

use auxo_conformance::bench::{ack, asking, bury, keyed, plain, queue, release, secs, urgency};
use auxo_core::engine::Which;
use auxo_core::job::{OnDuplicate, Ttl};
use auxo_core::life::State;
use auxo_core::{Engine, JobId, JobSpec};

use crate::damage::{Damaged, grouped};

/// The audit finds something, the repair puts it right, and the audit finds nothing.
async fn mended(store: &Damaged, what: &str) {
    let problems = store.engine.audit().await.expect("an audit").problems;
    assert!(!problems.is_empty(), "nobody noticed: {what}");
    let before = store.engine.repaired();
    let repaired = store.engine.repair().await.expect("a repair");
    assert!(repaired > 0, "nothing was repaired: {what}");
    assert_eq!(store.engine.repaired() - before, repaired, "the count");
    let problems = store.engine.audit().await.expect("an audit").problems;
    assert_eq!(problems, Vec::<String>::new(), "{what}");
    let again = store.engine.repair().await.expect("a repair");
    assert_eq!(
        again, 0,
        "something to repair where nothing is wrong: {what}"
    );
}

async fn state(store: &Damaged, job: JobId) -> Option<State> {
    let found = store.engine.find(Which::Id(job)).await.expect("a look");
    found.map(|job| job.state)
}

#[tokio::test]
async fn a_job_that_waits_is_put_back_into_its_line() {
    for deed in [
        "call('ZREM', key('l:1024:q'), id)",
        "call('DEL', key('l:1024:q'))",
        "call('DEL', key('c:q'))",
        "call('DEL', key('l:1024:q'), key('c:q'))",
        "call('ZADD', key('d:q'), 1, id)",
        "call('ZADD', key('e:q'), 1, id)",
        "call('ZREM', key('l:1024:q'), id) call('ZADD', key('d:q'), 1, id)",
        "call('ZADD', key('l:7:q'), 1, id) call('ZADD', key('c:q'), 7, 7)",
        "call('ZADD', key('timers'), 1e13, id)",
        "call('DEL', key('queues'))",
        "call('DEL', key('q:q'))",
        "call('DEL', key('q:q'), key('queues'), key('c:q'), key('l:1024:q'))",
        "call('HINCRBY', key('q:q'), 'done', 1)",
        "call('HINCRBY', key('q:q'), 'dead', 1)",
        "call('HINCRBY', key('q:q'), 'bytes', 5)",
        "call('HINCRBY', key('q:q'), 'accepted', 3)",
    ] {
        let store = Damaged::new().await;
        let job = store.bench.push(plain()).await;
        store.by_hand(job, deed);
        mended(&store, deed).await;
        let leased = store.bench.one().await;
        assert_eq!(leased.job.id, job, "{deed}");
        store.bench.settle(leased.token, ack()).await;
        store
            .engine
            .audit()
            .await
            .unwrap()
            .into_result()
            .expect(deed);
    }
}

#[tokio::test]
async fn a_job_that_went_back_keeps_its_due_time() {
    let store = Damaged::new().await;
    let job = store.bench.push(plain()).await;
    let leased = store.bench.one().await;
    let later = auxo_conformance::bench::snooze(secs(100));
    store.bench.settle(leased.token, later).await;
    store.by_hand(job, "call('DEL', key('l:1024:q'), key('c:q'))");
    mended(&store, "the line of a job that waits for its time").await;
    assert_eq!(state(&store, job).await, Some(State::Scheduled));
    store.bench.pass(secs(101));
    assert_eq!(store.bench.order(1).await, [job]);
}

#[tokio::test]
async fn a_lease_gets_its_end_back() {
    for deed in [
        "call('DEL', key('timers'))",
        "call('ZADD', key('timers'), 1e13, id)",
        "call('ZADD', key('l:1024:q'), 1, id) call('ZADD', key('c:q'), 1024, 1024)",
        "call('ZADD', key('d:q'), 1, id)",
    ] {
        let store = Damaged::new().await;
        let job = store.bench.push(plain()).await;
        let leased = store.bench.one().await;
        store.by_hand(job, deed);
        mended(&store, deed).await;
        assert!(store.bench.idle().await, "it is leased: {deed}");
        store.bench.pass(leased.job.ttr);
        let again = store.bench.one().await;
        assert_eq!((again.job.id, again.job.attempt), (job, 2), "{deed}");
    }
}

#[tokio::test]
async fn a_lease_whose_life_was_lost_begins_anew() {
    let store = Damaged::new().await;
    let job = store.bench.push(plain()).await;
    let leased = store.bench.one().await;
    store.by_hand(job, "call('HDEL', key('lives'), id)");
    mended(&store, "the life of a leased job").await;
    let lost = store.bench.try_settle(leased.token, ack()).await;
    assert!(lost.is_err(), "its lease went with it");
    assert_eq!(store.bench.order(1).await, [job]);
}

#[tokio::test]
async fn the_dead_and_the_done_are_where_they_were() {
    for deed in [
        "call('DEL', key('d:q'))",
        "call('DEL', key('e:q'))",
        "call('ZADD', key('l:1024:q'), 1, id) call('ZADD', key('c:q'), 1024, 1024)",
        "call('ZADD', key('timers'), 1e13, id)",
        "call('DEL', key('timers'))",
        "call('ZADD', key('e:q'), 1, id)",
    ] {
        let store = Damaged::new().await;
        let dead = store.bench.push(plain()).await;
        let leased = store.bench.one().await;
        store.bench.settle(leased.token, bury("no")).await;
        let kept = JobSpec {
            retention: secs(100),
            ..plain()
        };
        let done = store.bench.push(kept).await;
        let leased = store.bench.one().await;
        store.bench.settle(leased.token, ack()).await;
        store.by_hand(dead, deed);
        mended(&store, deed).await;
        assert_eq!(state(&store, dead).await, Some(State::Dead), "{deed}");
        assert_eq!(state(&store, done).await, Some(State::Done), "{deed}");
        assert!(store.bench.idle().await, "{deed}");
        store.bench.pass(secs(101));
        assert_eq!(
            state(&store, done).await,
            None,
            "it was kept too long: {deed}"
        );
    }
}

#[tokio::test]
async fn what_is_left_of_a_job_that_is_gone_is_removed() {
    for (fair, deed) in [
        (false, "call('ZADD', key('d:q'), 1, 'nobody__')"),
        (false, "call('ZADD', key('e:q'), 1, 'nobody__')"),
        (false, "call('ZADD', key('timers'), 1e13, 'nobody__')"),
        (false, "call('HSET', key('lives'), 'nobody__', 'x')"),
        (false, "call('HSET', key('k:q'), 'some key', 'nobody__')"),
        (
            false,
            "call('ZADD', key('l:5:q'), 1, 'nobody__') call('ZADD', key('c:q'), 5, 5)",
        ),
        (false, "call('HDEL', key('jobs'), id)"),
        (true, "call('HDEL', key('jobs'), id)"),
        (true, "call('ZADD', key('g:1024:2:+a:q'), 1, 'nobody__')"),
        (true, "call('ZADD', key('r:1024:q'), 1, '+b')"),
    ] {
        let store = Damaged::new().await;
        if fair {
            store.be_fair().await;
        }
        let job = store.bench.push(grouped("a")).await;
        let other = store.bench.push(grouped("a")).await;
        store.by_hand(job, deed);
        mended(&store, deed).await;
        let gone = deed.contains("'HDEL'");
        let left = if gone { vec![other] } else { vec![job, other] };
        assert_eq!(store.bench.order(5).await, left, "{deed}");
    }
}

#[tokio::test]
async fn a_group_of_a_fair_queue_is_put_together_again() {
    for deed in [
        "call('DEL', key('g:1024:2:+a:q'))",
        "call('DEL', key('r:1024:q'))",
        "call('DEL', key('g:1024:2:+a:q'), key('r:1024:q'), key('l:1024:q'), key('c:q'))",
    ] {
        let store = Damaged::new().await;
        store.be_fair().await;
        let a = store.bench.push(grouped("a")).await;
        let b = store.bench.push(grouped("b")).await;
        store.by_hand(a, deed);
        mended(&store, deed).await;
        let mut both = store.bench.order(5).await;
        both.sort();
        assert_eq!(both, [a, b], "{deed}");
    }
}

#[tokio::test]
async fn a_job_has_its_key_again_and_a_key_of_nobody_is_free() {
    let store = Damaged::new().await;
    let job = store.bench.push(keyed("k", OnDuplicate::Return)).await;
    for deed in [
        "call('DEL', key('k:q'))",
        "call('HSET', key('k:q'), 'k', 'nobody__')",
        "call('HSET', key('k:q'), 'another', id)",
    ] {
        store.by_hand(job, deed);
        mended(&store, deed).await;
        let same = store.bench.push(keyed("k", OnDuplicate::Return)).await;
        assert_eq!(same, job, "{deed}");
    }
}

#[tokio::test]
async fn a_job_that_ends_by_itself_still_does() {
    let store = Damaged::new().await;
    let spec = JobSpec {
        ttl: Ttl::After(secs(50)),
        ..plain()
    };
    let job = store.bench.push(spec).await;
    store.by_hand(job, "call('DEL', key('timers'))");
    mended(&store, "the end of a life").await;
    store.bench.pass(secs(51));
    assert_eq!(state(&store, job).await, Some(State::Dead));
}

#[tokio::test]
async fn who_waits_is_woken_for_a_job_that_was_put_back() {
    let store = Damaged::new().await;
    let job = store.bench.push(plain()).await;
    store.by_hand(job, "call('ZREM', key('l:1024:q'), id)");
    let waiting = store.bench.wait_on(&[queue()], 1).await;
    store.engine.repair().await.expect("a repair");
    let woken = tokio::time::timeout(secs(10), waiting).await;
    let leased = woken.expect("in time").expect("a task");
    assert_eq!(leased[0].job.id, job);
}

#[tokio::test]
async fn many_jobs_of_all_sorts_are_walked_through() {
    let store = Damaged::new().await;
    for priority in 0..40 {
        let large = JobSpec {
            payload: vec![b'x'; 20_000].into(),
            ..urgency(priority)
        };
        store.bench.push(large).await;
        store.bench.push_many(20, urgency(priority)).await;
    }
    let all = store.bench.take(100).await;
    for leased in &all[..50] {
        store.bench.settle(leased.token, release()).await;
    }
    for leased in &all[50..80] {
        store.bench.settle(leased.token, bury("no")).await;
    }
    let audit = store.engine.audit().await.unwrap();
    assert_eq!((audit.jobs, audit.problems), (840, vec![]));
    store.by_hand(
        all[0].job.id,
        "call('DEL', key('l:3:q'), key('l:21:q'), key('timers'), key('d:q'))",
    );
    mended(&store, "several sets at once").await;
    assert_eq!(store.engine.audit().await.unwrap().jobs, 840);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repairs_while_others_work_find_nothing_wrong() {
    let store = Damaged::new().await;
    let until = Instant::now() + Duration::from_secs(1);
    let mut rounds = 0;
    let work = async {
        while Instant::now() < until {
            store.bench.push_many(50, plain()).await;
            let ask = asking(&[queue()], 45, Duration::ZERO);
            for leased in store.engine.lease(ask).await.expect("jobs") {
                let outcome = match leased.job.id.0 % 3 {
                    0 => ack(),
                    1 => release(),
                    _ => bury("no"),
                };
                store.bench.settle(leased.token, outcome).await;
            }
        }
    };
    let repair = async {
        while Instant::now() < until {
            assert_eq!(store.engine.repair().await.expect("a repair"), 0);
            rounds += 1;
        }
    };
    tokio::join!(work, repair);
    assert!(rounds > 1, "{rounds} repairs");
    store
        .engine
        .audit()
        .await
        .unwrap()
        .into_result()
        .expect("books");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_jobs_with_one_key_are_told_of_and_left_alone() {
    let store = Damaged::new().await;
    let first = store.bench.push(keyed("k", OnDuplicate::Reject)).await;
    store.by_hand(first, "call('DEL', key('k:q'))");
    let second = store.bench.push(keyed("k", OnDuplicate::Reject)).await;
    assert_eq!(store.engine.repair().await.unwrap(), 0);
    let problems = store.engine.audit().await.unwrap().problems;
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].contains("does not have its key"),
        "{problems:?}"
    );
    assert_eq!(store.bench.order(5).await, [first, second]);
}
