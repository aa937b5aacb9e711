//! Connections: many, slow, silent, and of the other version.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::bench::{Bench, read_reply, within};

const SOON: Duration = Duration::from_millis(50);
const NEVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_kept_connection_answers_many_requests() {
    let bench = Bench::start().await;
    let mut stream = bench.connect().await;
    for _ in 0..3 {
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(read_reply(&mut stream).await.status, 200);
    }
    let two = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\nGET /v1/jobs/7 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(two.as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.status, 200);
    assert_eq!(read_reply(&mut stream).await.status, 404);
}

#[tokio::test]
async fn a_head_that_does_not_end_is_cut_off_while_an_idle_connection_stays() {
    let bench = Bench::with(|settings| {
        settings.head_time = SOON;
        settings.idle_time = NEVER;
    })
    .await;
    let mut idle = bench.connect().await;
    let mut used = bench.connect().await;
    used.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_reply(&mut used).await.status, 200);
    for begin in [
        "G",
        "GET /healthz HTTP/1.1\r\n",
        "P",
        "PRI",
        "PRI * HTTP/2.0\r\n",
    ] {
        let mut slow = bench.connect().await;
        slow.write_all(begin.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let _ = within(slow.read_to_end(&mut rest)).await;
        let answer = String::from_utf8_lossy(&rest);
        assert!(!answer.starts_with("HTTP/1.1 2"), "{answer}");
    }
    // By now more than the time for a head has passed for these, too.
    for stream in [&mut idle, &mut used] {
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(read_reply(stream).await.status, 200);
    }
    used.write_all(b"GET /heal").await.unwrap();
    let mut rest = Vec::new();
    let _ = within(used.read_to_end(&mut rest)).await;
}

#[tokio::test]
async fn a_connection_without_a_request_closes_in_the_end() {
    let bench = Bench::with(|settings| settings.idle_time = SOON).await;
    let mut silent = bench.connect().await;
    let mut rest = Vec::new();
    within(silent.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"");
    // Also one that has had its answer.
    let mut used = bench.connect().await;
    used.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    within(used.read_to_end(&mut rest)).await.unwrap();
    assert!(rest.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let bench = Bench::with(|settings| settings.body_time = SOON).await;
    let mut slow = bench.connect().await;
    let head = "POST /v1/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    read_reply(&mut slow).await.problem(408, "bad_request");
}

#[tokio::test]
async fn a_refusal_before_the_body_was_read_says_that_the_connection_ends() {
    let bench = Bench::start().await;
    for (status, begin) in [
        (404, "POST /nowhere HTTP/1.1\r\nhost: localhost\r\n"),
        (405, "PUT /v1/lease HTTP/1.1\r\nhost: localhost\r\n"),
        (421, "POST /v1/lease HTTP/1.1\r\nhost: example.org\r\n"),
        (
            403,
            "POST /v1/lease HTTP/1.1\r\nhost: localhost\r\norigin: http://example.org\r\n",
        ),
        (
            415,
            "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n",
        ),
        (
            400,
            "POST /v1/queues/-wrong/jobs HTTP/1.1\r\nhost: localhost\r\n",
        ),
    ] {
        for length in ["content-length: 10", "transfer-encoding: chunked"] {
            let mut stream = bench.connect().await;
            let head = format!("{begin}{length}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let reply = read_reply(&mut stream).await;
            assert_eq!(reply.status, status, "{begin}");
            assert_eq!(reply.header("connection"), Some("close"), "{begin}");
            let rest = within(stream.read_to_end(&mut Vec::new())).await;
            assert_eq!(rest.unwrap(), 0, "{begin}");
        }
    }
    // What was read to its end, or has no body, leaves the connection as it is.
    let mut stream = bench.connect().await;
    for (status, request) in [
        (
            400,
            "POST /v1/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{]",
        ),
        (404, "GET /v1/jobs/7 HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        (
            404,
            "POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n",
        ),
        (
            201,
            "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}",
        ),
    ] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let reply = read_reply(&mut stream).await;
        assert_eq!(reply.status, status, "{request}");
        assert_eq!(reply.header("connection"), None, "{request}");
    }
}

#[tokio::test]
async fn a_connection_past_the_limit_is_told_so_and_the_others_go_on() {
    let bench = Bench::with(|settings| settings.connections = 2).await;
    let mut first = bench.connect().await;
    let mut second = bench.connect().await;
    for stream in [&mut first, &mut second] {
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(read_reply(stream).await.status, 200);
    }
    let mut third = bench.connect().await;
    third
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let refused = read_reply(&mut third).await;
    refused.problem(503, "unavailable");
    first
        .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_reply(&mut first).await.status, 200);
    // A place that becomes free is given away again.
    drop(second);
    within(async {
        loop {
            let mut next = bench.connect().await;
            next.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .await
                .unwrap();
            if read_reply(&mut next).await.status == 200 {
                return;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_does_not_take_its_answers_is_cut_off() {
    let bench = Bench::with(|settings| settings.stall_time = SOON).await;
    let payload = "x".repeat(500_000);
    for _ in 0..40 {
        bench
            .push("q", &format!(r#"{{"payload":"{payload}"}}"#))
            .await;
    }
    let mut deaf = bench.connect().await;
    // More than all buffers between the two hold, and never read.
    let request = "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(10);
    deaf.write_all(request.as_bytes()).await.unwrap();
    let open = async || {
        let text = bench.get("/metrics").await.text;
        let line = text
            .lines()
            .find(|line| line.starts_with("auxo_http_connections "))
            .unwrap();
        line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    within(async {
        while open().await > 1 {
            tokio::task::yield_now().await
        }
    })
    .await;
}

#[tokio::test]
async fn http_2_is_spoken_on_the_same_port() {
    let bench = Bench::with(|settings| settings.head_time = SOON).await;
    let io = TokioIo::new(bench.connect().await);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    for (method, path, status) in [
        ("POST", "/v1/queues/q/jobs", 201),
        ("GET", "/v1/queues/q", 200),
        ("GET", "/x", 404),
    ] {
        let body = if method == "POST" { "{}" } else { "" };
        let request = hyper::Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", bench.address))
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let reply = within(sender.send_request(request)).await.unwrap();
        assert_eq!(reply.status(), status);
        assert!(reply.headers().contains_key("x-request-id"));
        reply.into_body().collect().await.unwrap();
    }
}
