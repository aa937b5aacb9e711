//! How a server stops.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::bench::{Bench, read_head, read_reply, within};
use super::work::waiting;

#[tokio::test]
async fn a_waiting_lease_is_answered_with_nothing_and_the_job_stays() {
    let mut bench = Bench::start().await;
    let mut stream = waiting(&bench, "q").await;
    bench.tell_to_stop();
    let reply = read_reply(&mut stream).await;
    assert_eq!((reply.status, reply.json()), (200, json!({"jobs": []})));
    let (address, service) = (bench.address, bench.service.clone());
    bench.stopped().await;
    assert!(TcpStream::connect(address).await.is_err());
    // The queue itself goes on.
    assert!(service.health().is_ok());
}

#[tokio::test]
async fn idle_connections_and_event_streams_end_at_once() {
    let mut bench = Bench::start().await;
    let mut silent = bench.connect().await;
    let mut idle = bench.connect().await;
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_reply(&mut idle).await.status, 200);
    let mut watcher = bench.connect().await;
    watcher
        .write_all(b"GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    within(read_head(&mut watcher)).await;
    bench.tell_to_stop();
    for stream in [&mut silent, &mut idle, &mut watcher] {
        let mut rest = Vec::new();
        let _ = within(stream.read_to_end(&mut rest)).await;
    }
    bench.stopped().await;
}

#[tokio::test]
async fn a_request_that_is_half_sent_may_finish_and_finds_the_server_not_ready() {
    let mut bench = Bench::start().await;
    let mut stream = bench.connect().await;
    let head = "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server has begun with this request when it asks for more of its body; another request shows that it runs.
    stream.write_all(b"{").await.unwrap();
    assert_eq!(bench.get("/readyz").await.status, 200);
    bench.tell_to_stop();
    stream.write_all(b"}").await.unwrap();
    assert_eq!(read_reply(&mut stream).await.status, 201);
    bench.stopped().await;
}

#[tokio::test]
async fn who_does_not_end_within_the_grace_is_cut_off() {
    let mut bench = Bench::with(|settings| settings.grace = Duration::from_millis(50)).await;
    let mut stream = bench.connect().await;
    let head = "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(bench.get("/readyz").await.status, 200);
    bench.tell_to_stop();
    bench.stopped().await;
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    assert_eq!(rest, b"");
}
