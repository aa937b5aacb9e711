//! Changes that count when replicas have them.

use super::*;
use auxo_harness::redis::Single;

/// A primary and its replicas, all in sync.
fn servers(replicas: usize) -> (Single, Vec<Single>) {
    let fast = [
        "--repl-diskless-sync-delay",
        "0",
        "--repl-ping-replica-period",
        "1",
    ];
    let primary = Single::start(&fast);
    let port = primary.port().to_string();
    let all: Vec<Single> = (0..replicas)
        .map(|_| Single::start(&["--replicaof", "127.0.0.1", &port]))
        .collect();
    primary.wait_for_replicas(replicas);
    (primary, all)
}

#[tokio::test]
async fn a_change_counts_when_all_replicas_have_it() {
    let (primary, mut replicas) = servers(2);
    let link = open(&primary.url("?durability=replicated&timeout=8s")).await;
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    for replica in &replicas {
        assert_eq!(replica.ask(&["GET", KEY]).text(), "1");
    }

    replicas[0].pause();
    let error = bump(&link, KEY).await.unwrap_err();
    is(
        &error,
        Code::UnknownOutcome,
        "only 1 of 2 replicas confirmed",
    );
    // Reading waits for nobody.
    assert_eq!(read(&link, KEY).await.unwrap(), 2);
    replicas[0].resume();
    assert_eq!(bump(&link, KEY).await.unwrap(), 3);

    // One that is gone cannot take over, so it is not waited for.
    replicas[0].kill();
    primary.wait_for_replicas(1);
    assert_eq!(bump(&link, KEY).await.unwrap(), 4);
    replicas[1].kill();
    primary.wait_for_replicas(0);
    let error = bump(&link, KEY).await.unwrap_err();
    is(
        &error,
        Code::UnknownOutcome,
        "only 0 of 1 replicas confirmed",
    );
}

#[tokio::test]
async fn as_many_replicas_confirm_as_were_asked_for() {
    let (primary, replicas) = servers(2);
    let url = |number| {
        primary.url(&format!(
            "?durability=replicated&replicas={number}&timeout=8s"
        ))
    };
    let (one, two, three) = (
        open(&url(1)).await,
        open(&url(2)).await,
        open(&url(3)).await,
    );
    replicas[0].pause();
    assert_eq!(bump(&one, KEY).await.unwrap(), 1);
    let error = bump(&two, KEY).await.unwrap_err();
    is(
        &error,
        Code::UnknownOutcome,
        "only 1 of 2 replicas confirmed",
    );
    replicas[0].resume();
    assert_eq!(bump(&two, KEY).await.unwrap(), 3);
    let error = bump(&three, KEY).await.unwrap_err();
    is(
        &error,
        Code::UnknownOutcome,
        "only 2 of 3 replicas confirmed",
    );
}

#[tokio::test]
async fn calls_that_wait_for_replicas_go_together() {
    let (primary, replicas) = servers(1);
    let link = open(&primary.url("?durability=replicated&timeout=20s")).await;
    let calls: Vec<_> = (0..2000)
        .map(|_| {
            let link = link.clone();
            tokio::spawn(async move { bump(&link, KEY).await.unwrap() })
        })
        .collect();
    let mut seen = Vec::new();
    for call in calls {
        seen.push(call.await.unwrap());
    }
    seen.sort_unstable();
    assert_eq!(seen, (1..=2000).collect::<Vec<_>>());
    assert_eq!(replicas[0].ask(&["GET", KEY]).text(), "2000");
    let stats = primary.ask(&["INFO", "commandstats"]);
    let waits = stats
        .text()
        .lines()
        .find(|line| line.starts_with("cmdstat_wait:"));
    let waits = waits.unwrap().split(['=', ',']).nth(1).unwrap();
    let waits: u32 = waits.parse().unwrap();
    assert!(waits <= 200, "{waits} waits for 2000 calls");
}

#[tokio::test]
async fn scripts_that_fail_or_are_forgotten_do_so_beside_those_that_wait() {
    let (primary, _replicas) = servers(1);
    let link = open(&primary.url("?durability=replicated")).await;
    let error = run(&link, &BROKEN, KEY).await.unwrap_err();
    is(&error, Code::Internal, "broken failed in redis");
    assert_eq!(bump(&link, KEY).await.unwrap(), 1);
    primary.ask(&["SCRIPT", "FLUSH"]);
    assert_eq!(bump(&link, KEY).await.unwrap(), 2);
    primary.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
    assert_eq!(read(&link, KEY).await.unwrap(), 2);
    // Its own connection may not have noticed yet; then it says that it does not know.
    match bump(&link, KEY).await {
        Ok(number) => assert_eq!(number, 3),
        Err(error) => is(&error, Code::UnknownOutcome, "lost"),
    }
    assert!(bump(&link, KEY).await.unwrap() >= 3);
}
