//! Calls of many tasks share messages, and each caller gets its own answers.

use std::collections::BTreeSet;

use auxo_core::Code;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::road::Served;

/// How many calls of a method the server has answered.
async fn answered(served: &Served, method: &str) -> u64 {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(head).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let name = format!("route=\"/auxo.v1.{method}\"");
    let counter = "auxo_http_requests_total";
    let line = text
        .lines()
        .find(|line| line.starts_with(counter) && line.contains(&name));
    line.and_then(|line| line.rsplit(' ').next())
        .map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn pushes_and_settles_of_many_tasks_go_in_few_messages() {
    let served = Served::start().await;
    let auxo = served.connect().await;
    let push = |n: usize| {
        let auxo = auxo.clone();
        tokio::spawn(async move { auxo.queue("q").unwrap().push(&n).await })
    };
    let pushes: Vec<_> = (0..500).map(push).collect();
    let mut ids = BTreeSet::new();
    for pushed in pushes {
        ids.insert(pushed.await.unwrap().unwrap().id);
    }
    assert_eq!(ids.len(), 500);
    let messages = answered(&served, "Jobs/Push").await;
    assert!((1..250).contains(&messages), "{messages} messages");
    let leases = auxo.lease(["q"]).max(500).many().await.unwrap();
    let settle = |lease: auxo_client::Lease| tokio::spawn(async move { lease.ack().await });
    let settles: Vec<_> = leases.into_iter().map(settle).collect();
    for settled in settles {
        settled.await.unwrap().unwrap();
    }
    assert_eq!(auxo.queues().await.unwrap()[0].books.done, 500);
    let messages = answered(&served, "Workers/Settle").await;
    assert!((1..250).contains(&messages), "{messages} messages");
}

#[tokio::test]
async fn each_caller_gets_its_own_answers() {
    let served = Served::start().await;
    let auxo = served.connect().await;
    let push = |n: usize| {
        let auxo = auxo.clone();
        // Every other one wants a key that its neighbour has, too.
        let key = format!("k{}", n / 2);
        let draft = auxo.queue("q").unwrap().job(&n).unwrap().key(&key);
        tokio::spawn(async move { (key, draft.push().await) })
    };
    let pushes: Vec<_> = (0..200).map(push).collect();
    let (mut kept, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for pushed in pushes {
        match pushed.await.unwrap() {
            (key, Ok(_)) => assert!(kept.insert(key)),
            (key, Err(error)) => {
                assert_eq!(error.code(), Code::DuplicateKey);
                assert!(error.message().contains(&format!("{key:?}")), "{error}");
                assert!(refused.insert(key));
            }
        }
    }
    assert_eq!((kept.len(), refused.len()), (100, 100));
}
