//! A primary that sentinels replace.

use super::*;
use auxo_harness::redis::SentinelSet;

/// Until calls work, which they do by themselves: one call is enough when it may take long.
async fn bump_until_known(link: &Link) -> i64 {
    loop {
        match bump(link, KEY).await {
            Ok(number) => return number,
            Err(error) => is(&error, Code::UnknownOutcome, ""),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_work_again_by_themselves_after_the_primary_died() {
    let mut set = SentinelSet::start();
    let link = open(&set.url("?timeout=60s")).await;
    let mut messages = link.subscribe("auxo{0}:events").await.unwrap();
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    let waiting = tokio::spawn({
        let link = link.clone();
        async move { link.pop("auxo{0}:s:1", 120 * SECOND, || {}).await }
    });
    let before = set.primary();
    let dead = set.primary_index();
    // Not a test of how soon replicas know.
    set.servers[dead].ask(&["WAIT", "2", "5000"]);
    set.servers[dead].kill();

    assert_eq!(read(&link, KEY).await.unwrap(), 1);
    assert_eq!(bump_until_known(&link).await, 2);
    assert_ne!(set.primary(), before);

    // Who waited was told, or waits at the new primary already.
    let primary = &set.servers[set.primary_index()];
    primary.ask(&["RPUSH", "auxo{0}:s:1", "a"]);
    match waiting.await.unwrap() {
        Ok(popped) => assert_eq!(popped.unwrap(), b"a"),
        Err(error) => {
            is(&error, Code::UnknownOutcome, "");
            let popped = link.pop("auxo{0}:s:1", 30 * SECOND, || {}).await;
            assert_eq!(popped.unwrap().unwrap(), b"a");
        }
    }
    assert_eq!(heard(&mut messages).await, None);
    primary.ask(&["PUBLISH", "auxo{0}:events", "on"]);
    assert_eq!(heard(&mut messages).await.unwrap(), "on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hangs_is_left_when_another_took_over() {
    let set = SentinelSet::start();
    // A call would wait for minutes, if nobody told it.
    let link = open(&set.url("?timeout=5m")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    let index = set.primary_index();
    set.servers[index].ask(&["WAIT", "2", "5000"]);
    set.servers[index].pause();
    let began = Instant::now();
    let bumped = tokio::time::timeout(60 * SECOND, bump(&link, KEY)).await;
    let error = bumped.expect("an answer in time").unwrap_err();
    is(&error, Code::UnknownOutcome, "");
    assert_eq!(bump(&link, KEY).await.unwrap(), 2);
    within(60 * SECOND, began);
    // Back as a replica, it is not mistaken for the primary.
    set.servers[index].resume();
    for number in 3..100 {
        assert_eq!(bump(&link, KEY).await.unwrap(), number);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_change_of_the_primary_costs_no_reading_call() {
    let set = SentinelSet::start();
    let link = open(&set.url("?timeout=60s")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let reading = tokio::spawn({
        let link = link.clone();
        async move {
            while stopped.try_recv().is_err() {
                assert_eq!(read(&link, KEY).await.unwrap(), 1);
            }
        }
    });
    let set = tokio::task::spawn_blocking(move || {
        set.failover();
        set
    })
    .await
    .unwrap();
    stop.send(()).unwrap();
    reading.await.unwrap();
    // The old primary takes calls for ten seconds more; we are told to leave it.
    let began = Instant::now();
    let primary = &set.servers[set.primary_index()];
    while primary.ask(&["GET", KEY]).text() == "1" {
        bump_until_known(&link).await;
        within(8 * SECOND, began);
    }
}

#[tokio::test]
async fn sentinels_that_cannot_help_say_why() {
    let mut set = SentinelSet::start();
    let url = set.url("?timeout=5s").replace("/main", "/other");
    is(
        &refused(&url).await,
        Code::Unavailable,
        "knows no primary named \"other\"",
    );
    // A sentinel that was told nonsense, or does not know better yet.
    let replica = set.servers[1].port().to_string();
    set.sentinels[0].ask(&["SENTINEL", "MONITOR", "other", "127.0.0.1", &replica, "2"]);
    let first = format!(
        "redis+sentinel://{}/other?timeout=5s",
        set.sentinels[0].address()
    );
    is(
        &refused(&first).await,
        Code::Unavailable,
        "is not a primary",
    );
    // One of three is enough.
    set.sentinels[0].kill();
    set.sentinels[1].kill();
    open(&set.url("?timeout=5s")).await;
    set.sentinels[2].kill();
    is(
        &refused(&set.url("?timeout=5s")).await,
        Code::Unavailable,
        "Connection refused",
    );
}
