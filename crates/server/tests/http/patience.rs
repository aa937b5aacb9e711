//! Clocks that a client cannot wind up again by sending something now and then.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::bench::Bench;

const SHORT: Duration = Duration::from_millis(300);
/// Longer than it takes; only a broken test waits for it.
const LONG: Duration = Duration::from_secs(20);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends `again` every 50 ms and answers when the server closed, if it did within LONG.
async fn closed(mut stream: TcpStream, again: &[u8]) -> Option<Duration> {
    let began = Instant::now();
    let mut bytes = [0; 4096];
    while began.elapsed() < LONG {
        match timeout(Duration::from_millis(50), stream.read(&mut bytes)).await {
            Ok(Ok(n)) if n > 0 => {}
            Ok(_) => return Some(began.elapsed()),
            Err(_) => drop(stream.write_all(again).await),
        }
    }
    None
}

#[tokio::test]
async fn a_head_that_begins_like_propfind_has_a_clock_too() {
    let bench = Bench::with(|settings| settings.head_time = SHORT).await;
    let mut stream = bench.connect().await;
    let head = b"PROPFIND / HTTP/1.1\r\nhost: localhost\r\nx: ";
    stream.write_all(head).await.unwrap();
    assert!(closed(stream, b"a").await.is_some(), "open after {LONG:?}");
}

#[tokio::test]
async fn an_http2_connection_without_a_request_closes_although_it_pings() {
    let bench = Bench::with(|settings| settings.idle_time = SHORT).await;
    let mut stream = bench.connect().await;
    stream.write_all(PREFACE).await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    let ping = frame(6, 0, 0, &[0; 8]);
    assert!(closed(stream, &ping).await.is_some(), "open after {LONG:?}");
}

#[tokio::test]
async fn an_http2_answer_that_is_not_taken_ends_its_connection() {
    let bench = Bench::with(|settings| settings.stall_time = SHORT).await;
    let mut stream = bench.connect().await;
    stream.write_all(PREFACE).await.unwrap();
    // INITIAL_WINDOW_SIZE 0: heads of answers come, bodies may not.
    stream
        .write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]))
        .await
        .unwrap();
    let get = b"\x82\x86\x04\x08/healthz\x01\x01x";
    stream.write_all(&frame(1, 5, 1, get)).await.unwrap();
    let ping = frame(6, 0, 0, &[0; 8]);
    assert!(closed(stream, &ping).await.is_some(), "open after {LONG:?}");
}
