//! Waiting for what comes: lists and messages.

use super::*;
use auxo_harness::redis::{Single, wait};

const LIST: &str = "auxo{0}:s:1";
const CHANNEL: &str = "auxo{0}:events";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_in_a_list_is_taken_and_an_empty_one_is_waited_for() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    server.ask(&["RPUSH", LIST, "a", "b"]);
    assert_eq!(link.pop(LIST, SECOND, || {}).await.unwrap().unwrap(), b"a");
    assert_eq!(
        link.pop(LIST, Duration::ZERO, || {})
            .await
            .unwrap()
            .unwrap(),
        b"b"
    );
    let began = Instant::now();
    assert_eq!(link.pop(LIST, SECOND / 4, || {}).await.unwrap(), None);
    assert!(began.elapsed() >= SECOND / 4);

    // A connection to wait on serves one after the other.
    let connections = || {
        let stats = server.ask(&["INFO", "stats"]);
        let line = stats
            .text()
            .lines()
            .find(|line| line.starts_with("total_connections_received:"));
        line.unwrap()
            .split(':')
            .nth(1)
            .unwrap()
            .parse::<u32>()
            .unwrap()
    };
    let before = connections();
    for _ in 0..20 {
        assert_eq!(link.pop(LIST, Duration::ZERO, || {}).await.unwrap(), None);
    }
    // The one that asks.
    assert_eq!(connections(), before + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_list_holds_up_nobody() {
    let server = Single::start(&[]);
    let link = open(&server.url("?timeout=30s")).await;
    let waiting = tokio::spawn({
        let link = link.clone();
        async move { link.pop(LIST, 60 * SECOND, || {}).await }
    });
    wait("it waits", || clients(&server).contains("cmd=blpop"));
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    server.ask(&["RPUSH", "auxo{0}:s:2", "second"]);
    assert_eq!(
        link.pop("auxo{0}:s:2", SECOND, || {})
            .await
            .unwrap()
            .unwrap(),
        b"second"
    );
    server.ask(&["RPUSH", LIST, "first"]);
    assert_eq!(waiting.await.unwrap().unwrap().unwrap(), b"first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_gives_up_waiting_is_forgotten_by_redis() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    let waiting = tokio::spawn({
        let link = link.clone();
        async move { link.pop(LIST, 60 * SECOND, || {}).await }
    });
    wait("it waits", || clients(&server).contains("cmd=blpop"));
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    wait("it is gone", || !clients(&server).contains("cmd=blpop"));
    server.ask(&["RPUSH", LIST, "a"]);
    assert_eq!(link.pop(LIST, SECOND, || {}).await.unwrap().unwrap(), b"a");
}

fn clients(server: &Single) -> String {
    server.ask(&["CLIENT", "LIST"]).text().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_list_is_told_when_redis_goes_and_can_wait_for_its_return() {
    let mut server = Single::start(&[]);
    let link = open(&server.url("?timeout=30s")).await;
    let pop = || {
        let link = link.clone();
        tokio::spawn(async move { link.pop(LIST, 60 * SECOND, || {}).await })
    };
    let waiting = pop();
    wait("it waits", || clients(&server).contains("cmd=blpop"));
    let began = Instant::now();
    server.kill();
    let error = waiting.await.unwrap().unwrap_err();
    is(&error, Code::UnknownOutcome, "was lost before it answered");
    within(30 * SECOND, began);
    let waiting = pop();
    server.restart();
    server.ask(&["RPUSH", LIST, "back"]);
    assert_eq!(waiting.await.unwrap().unwrap().unwrap(), b"back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_and_a_gap_is_told() {
    let mut server = Single::start(&[]);
    let link = open(&server.url("")).await;
    let mut messages = link.subscribe(CHANNEL).await.unwrap();
    server.ask(&["PUBLISH", CHANNEL, "one"]);
    assert_eq!(heard(&mut messages).await.unwrap(), "one");

    server.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert_eq!(heard(&mut messages).await, None);
    server.ask(&["PUBLISH", CHANNEL, "two"]);
    assert_eq!(heard(&mut messages).await.unwrap(), "two");

    server.restart();
    assert_eq!(heard(&mut messages).await, None);
    server.ask(&["PUBLISH", CHANNEL, "three"]);
    assert_eq!(heard(&mut messages).await.unwrap(), "three");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_no_longer_listens_is_forgotten_by_redis() {
    let server = Single::start(&[]);
    let link = open(&server.url("")).await;
    let messages = link.subscribe(CHANNEL).await.unwrap();
    let subscribers = || {
        let numbers = server.ask(&["PUBSUB", "NUMSUB", CHANNEL]);
        numbers.items()[1].int()
    };
    assert_eq!(subscribers(), 1);
    drop(messages);
    wait("it is gone", || subscribers() == 0);
}
