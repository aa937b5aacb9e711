//! One server that goes away, hangs, or says that it cannot.

use std::net::TcpListener;

use super::*;
use auxo_harness::redis::{Single, wait};

#[tokio::test]
async fn calls_go_on_after_all_connections_were_cut() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    for round in 1..=20 {
        server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
        // Whether or not we have noticed yet: reading is sent again.
        assert_eq!(read(&link, KEY).await.unwrap(), round - 1);
        assert_eq!(bump(&link, KEY).await.unwrap(), round);
    }
}

#[tokio::test]
async fn calls_fail_clearly_while_redis_is_away_and_then_work_again() {
    let mut server = Single::start(&[]);
    let link = open(&server.url("?timeout=2s")).await;
    bump(&link, KEY).await.unwrap();
    server.kill();
    // The first may have left before we noticed.
    let _ = read(&link, KEY).await;
    let began = Instant::now();
    let error = bump(&link, KEY).await.unwrap_err();
    is(&error, Code::Unavailable, "Connection refused");
    assert!(began.elapsed() >= SECOND * 19 / 10, "it gave up early");
    within(20 * SECOND, began);
    server.restart();
    wait_for_calls(&link).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
}

/// Until Redis is there.
async fn wait_for_calls(link: &Link) {
    let began = Instant::now();
    while let Err(error) = read(link, KEY).await {
        assert!(began.elapsed() < 60 * SECOND, "it stays away: {error}");
    }
}

#[tokio::test]
async fn a_call_waits_for_a_redis_that_is_about_to_come_back() {
    let mut server = Single::start(&[]);
    let link = open(&server.url("?timeout=20s")).await;
    server.kill();
    let waiting = tokio::spawn({
        let link = link.clone();
        async move { read(&link, KEY).await }
    });
    server.restart();
    assert_eq!(waiting.await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_change_that_was_sent_and_not_answered_is_unknown() {
    let server = Single::start(&[]);
    let link = open(&server.url("?timeout=2s")).await;
    bump(&link, KEY).await.unwrap();
    server.pause();
    let error = bump(&link, KEY).await.unwrap_err();
    is(
        &error,
        Code::UnknownOutcome,
        "bump may or may not have been done",
    );
    // Reading is certain, and nothing is sent to a server that does not even greet.
    let error = read(&link, KEY).await.unwrap_err();
    is(&error, Code::Unavailable, "did not answer");
    let error = bump(&link, KEY).await.unwrap_err();
    is(&error, Code::Unavailable, "did not answer");
    server.resume();
    wait_for_calls(&link).await;
    // The one that was unknown happened.
    assert_eq!(bump(&link, KEY).await.unwrap(), 3);
}

#[tokio::test]
async fn a_change_on_its_way_when_redis_dies_is_unknown_at_once() {
    let mut server = Single::start(&[]);
    let link = open(&server.url("?timeout=60s")).await;
    server.pause();
    let began = Instant::now();
    let (bumped, ()) = tokio::join!(bump(&link, KEY), async { server.kill() });
    is(
        &bumped.unwrap_err(),
        Code::UnknownOutcome,
        "was lost before it answered",
    );
    within(30 * SECOND, began);
}

#[tokio::test]
async fn a_redis_that_is_loading_is_waited_for() {
    // It looks at its connections after every key.
    let often = [
        "--dbfilename",
        "dump.rdb",
        "--loading-process-events-interval-bytes",
        "1024",
    ];
    let mut server = Single::start(&often);
    let fill = "for i = 1, 3000 do redis.call('SET', i, string.rep('x', 1000)) end";
    server.ask(&["EVAL", fill, "0"]);
    server.ask(&["SAVE"]);
    // A fiftieth of a second for a key is a minute for all, or until it is told to hurry.
    server.restart_with(&["--key-load-delay", "20000"]);
    let error = refused(&server.url("?timeout=5s")).await;
    is(&error, Code::Unavailable, "LOADING");
    let url = server.url("?timeout=60s");
    let waiting = tokio::spawn(async move { open(&url).await });
    server.ask(&["CONFIG", "SET", "key-load-delay", "0"]);
    let link = waiting.await.unwrap();
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
}

#[tokio::test]
async fn a_replica_is_refused_until_it_is_a_primary() {
    let primary = Single::start(&[]);
    let server = Single::start(&[]);
    let link = open(&server.url("?timeout=3s")).await;
    server.ask(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let error = bump(&link, KEY).await.unwrap_err();
    is(&error, Code::Unavailable, "cannot do it now: READONLY");
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
}

#[tokio::test]
async fn a_redis_that_is_busy_with_a_script_is_waited_for() {
    let server = Single::start(&["--lua-time-limit", "10"]);
    let link = open(&server.url("?timeout=3s")).await;
    bump(&link, KEY).await.unwrap();
    server
        .client()
        .send(&["EVAL", "while true do end", "0"])
        .unwrap();
    wait("redis is busy", || {
        let answer = server.client().try_ask(&["PING"]).unwrap();
        matches!(answer, auxo_harness::redis::Reply::Error(busy) if busy.starts_with("BUSY"))
    });
    let error = bump(&link, KEY).await.unwrap_err();
    is(&error, Code::Unavailable, "cannot do it now: BUSY");
    server.ask(&["SCRIPT", "KILL"]);
    assert_eq!(bump(&link, KEY).await.unwrap(), 2);
}

#[tokio::test]
async fn a_redis_that_misses_replicas_is_not_written_to() {
    let server = Single::start(&["--min-replicas-to-write", "1"]);
    let link = open(&server.url("?timeout=3s")).await;
    let error = bump(&link, KEY).await.unwrap_err();
    is(&error, Code::Unavailable, "cannot do it now: NOREPLICAS");
}

/// Counts connections, and drops each: the worst that a server can do.
#[tokio::test]
async fn a_server_that_drops_connections_is_not_stormed() {
    let mut server = Single::start(&[]);
    let link = open(&server.url("?timeout=4s")).await;
    server.kill();
    let listener = TcpListener::bind(server.address()).unwrap();
    let (counted, count) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            drop(connection);
            if counted.send(()).is_err() {
                return;
            }
        }
    });
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let link = link.clone();
            tokio::spawn(async move { read(&link, KEY).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().code(), Code::Unavailable);
    }
    let tries = count.try_iter().count();
    // Seven quick ones and then about one a second, by the mean.
    assert!(
        (3..=25).contains(&tries),
        "{tries} connections in four seconds"
    );
}
