//! SIGTERM: what runs may finish, what waits is answered, and nothing is lost or done twice.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::load::Load;
use crate::raw::{answer, ask, request};
use crate::server::{PATIENCE, Server};
use crate::tale::{Least, judge};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_told_to_stop_under_load_ends_well_within_its_grace() {
    // Nothing in this load takes long, so neither does the end. A server that uses up its grace is still there when the time
    // for a test is over.
    let mut server = Server::with(&["--grace", "1h"]);
    let mut load = Load::start(server.address);
    for _ in 0..3 {
        load.progress(200).await;
        server.signal("TERM");
        let ran = server.ended();
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(ran.err.contains("everything answered is kept"), "{ran:?}");
        server.audit();
        server.again();
    }
    load.progress(200).await;
    let recorder = load.drain().await;
    let least = Least {
        accepted: 300,
        restarts: 0,
    };
    judge(&recorder, &server.client(), least).await;
    server.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_long_polls_are_answered_at_once_when_the_server_stops() {
    let mut server = Server::with(&["--grace", "1h"]);
    ask(server.address, "PUT", "/v1/queues/q", "{}").await;
    let mut polls = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let body = r#"{"queues":["q"],"wait":"60s"}"#;
        let poll = request("POST", "/v1/lease", &[], body);
        stream.write_all(poll.as_bytes()).await.unwrap();
        polls.push(stream);
    }
    let began = Instant::now();
    while ask(server.address, "GET", "/v1/queues/q", "").await.1["waiting"] != 100 {
        assert!(began.elapsed() < PATIENCE, "the polls do not wait");
    }
    let told = Instant::now();
    server.signal("TERM");
    for poll in &mut polls {
        let (status, body) = answer(poll).await.expect("an answer");
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((status, body), (200, json!({ "jobs": [] })));
    }
    let ran = server.ended();
    assert_eq!(ran.code, 0, "{ran:?}");
    // They would have waited for a minute.
    assert!(told.elapsed() < Duration::from_secs(30), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_the_server_at_once_with_another_code() {
    let mut server = Server::with(&["--grace", "1h"]);
    ask(server.address, "POST", "/v1/queues/q/jobs", "{}").await;
    // A request whose end does not come holds the server up for as long as the grace allows.
    let mut half = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{";
    half.write_all(head.as_bytes()).await.unwrap();
    ask(server.address, "GET", "/healthz", "").await;
    server.signal("TERM");
    server.says("a second signal stops at once");
    server.signal("TERM");
    let ran = server.ended();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("stopped at once"), "{ran:?}");
    server.again();
    let (_, queue) = ask(server.address, "GET", "/v1/queues/q", "").await;
    assert_eq!(queue["books"]["accepted"], 1, "{queue}");
    server.audit();
}
