//! What a connection gets before it has shown who it is.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::{SystemClock, Timestamp};
use auxo_server::{Auth, Patience, Token, TokenFile};
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::bench::{Bench, read_reply, within};

const SOON: Duration = Duration::from_millis(50);

/// A server with one token, and the header that shows it.
async fn guarded(patience: Patience) -> (Bench, String, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = TokenFile::new(dir.path().join("tokens.toml"));
    let allow = vec!["admin:*".parse().unwrap()];
    let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
    file.change(|tokens| Ok((tokens.with(token), ()))).unwrap();
    let clock = Arc::new(SystemClock::new(Timestamp(0)));
    let auth = Auth::open(file, clock, patience).unwrap();
    let bench = Bench::with(|settings| {
        settings.auth = auth;
        settings.idle_time = Duration::from_secs(3600);
    })
    .await;
    (
        bench,
        format!("authorization: Bearer {}", secret.reveal()),
        dir,
    )
}

async fn closed(mut stream: TcpStream) -> String {
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    String::from_utf8_lossy(&rest).into_owned()
}

#[tokio::test]
async fn a_connection_that_does_not_say_who_it_is_is_closed_soon_and_one_that_has_is_not() {
    let patience = Patience {
        time: SOON,
        ..Patience::default()
    };
    let (bench, token, _dir) = guarded(patience).await;
    let mut known = bench.connect().await;
    let ask = format!("GET /v1/queues HTTP/1.1\r\nhost: localhost\r\n{token}\r\n\r\n");
    known.write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut known).await.status, 200);
    // One that says nothing, one that asks for what is open to all, and one that is refused.
    let open = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let refused = "GET /v1/queues HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for (said, answer) in [
        ("", ""),
        (open, "HTTP/1.1 200"),
        (refused, "HTTP/1.1 401"),
        ("G", ""),
    ] {
        let mut stream = bench.connect().await;
        stream.write_all(said.as_bytes()).await.unwrap();
        let heard = closed(stream).await;
        assert!(heard.starts_with(answer), "{said}: {heard}");
    }
    // More than that time is over.
    known.write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut known).await.status, 200);
}

#[tokio::test]
async fn no_more_than_four_kilobytes_are_taken_from_a_stranger() {
    let (bench, token, _dir) = guarded(Patience::default()).await;
    let mut stranger = bench.connect().await;
    let long = format!(
        "GET /v1/queues HTTP/1.1\r\nhost: localhost\r\nx: {}",
        "x".repeat(5000)
    );
    stranger.write_all(long.as_bytes()).await.unwrap();
    let heard = closed(stranger).await;
    assert!(!heard.starts_with("HTTP/1.1 2"), "{heard}");
    // A refused request and its long body: the answer comes, and the connection ends.
    let mut stranger = bench.connect().await;
    let head =
        "POST /v1/queues/mail/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n";
    let _ = stranger
        .write_all(format!("{head}{}", "x".repeat(100_000)).as_bytes())
        .await;
    let heard = closed(stranger).await;
    assert!(heard.starts_with("HTTP/1.1 401"), "{heard}");
    // Many small requests on one connection add up.
    let mut stranger = bench.connect().await;
    let ask = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
    let _ = stranger.write_all(ask.as_bytes()).await;
    let answers = closed(stranger).await.matches("HTTP/1.1 200").count();
    // What lies unread when the server hangs up takes some of the answers with it.
    assert!(answers < 200, "{answers}");
    // Whoever shows a token is not stopped by what follows it, in whatever pieces it is sent.
    let body = format!("{{\"payload\":\"{}\"}}", "x".repeat(500_000));
    let push = format!(
        "POST /v1/queues/mail/jobs HTTP/1.1\r\nhost: localhost\r\n{token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for piece in [push.len(), 1000, 4096] {
        let mut known = bench.connect().await;
        for piece in push.as_bytes().chunks(piece) {
            known.write_all(piece).await.unwrap();
        }
        assert_eq!(read_reply(&mut known).await.status, 201);
    }
}

#[tokio::test]
async fn the_same_over_http_2() {
    let (bench, token, _dir) = guarded(Patience::default()).await;
    let io = TokioIo::new(bench.connect().await);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
        .await
        .unwrap();
    tokio::spawn(connection);
    let body = format!("{{\"payload\":\"{}\"}}", "x".repeat(500_000));
    let (_, token) = token.split_once(": ").unwrap();
    let request = hyper::Request::post(format!("http://{}/v1/queues/mail/jobs", bench.address))
        .header("authorization", token)
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let reply = within(sender.send_request(request)).await.unwrap();
    assert_eq!(reply.status(), 201);
}

#[tokio::test]
async fn the_oldest_stranger_gives_way_to_a_new_one_and_those_who_are_known_stay() {
    let patience = Patience {
        connections: 3,
        ..Patience::default()
    };
    let (bench, token, _dir) = guarded(patience).await;
    let ask = format!("GET /v1/queues HTTP/1.1\r\nhost: localhost\r\n{token}\r\n\r\n");
    let mut known = Vec::new();
    for _ in 0..10 {
        let mut stream = bench.connect().await;
        stream.write_all(ask.as_bytes()).await.unwrap();
        assert_eq!(read_reply(&mut stream).await.status, 200);
        known.push(stream);
    }
    let open = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut strangers = Vec::new();
    for _ in 0..3 {
        let mut stream = bench.connect().await;
        stream.write_all(open).await.unwrap();
        assert_eq!(read_reply(&mut stream).await.status, 200);
        strangers.push(stream);
    }
    let mut fourth = bench.connect().await;
    fourth.write_all(open).await.unwrap();
    assert_eq!(read_reply(&mut fourth).await.status, 200);
    assert_eq!(closed(strangers.remove(0)).await, "");
    // One of them says who it is, and makes room: nobody has to go.
    strangers[0].write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut strangers[0]).await.status, 200);
    let mut fifth = bench.connect().await;
    fifth.write_all(ask.as_bytes()).await.unwrap();
    assert_eq!(read_reply(&mut fifth).await.status, 200);
    known.extend(strangers);
    known.push(fourth);
    for stream in &mut known {
        stream.write_all(ask.as_bytes()).await.unwrap();
        assert_eq!(read_reply(stream).await.status, 200);
    }
}

#[tokio::test]
async fn silent_connections_do_not_lock_out_a_right_token() {
    let (bench, token, _dir) = guarded(Patience::default()).await;
    let ask = format!("GET /v1/queues HTTP/1.1\r\nhost: localhost\r\n{token}\r\n\r\n");
    let mut silent = Vec::new();
    for _ in 0..Patience::default().each {
        silent.push(bench.connect().await);
    }
    for _ in 0..3 {
        let mut right = bench.connect().await;
        right.write_all(ask.as_bytes()).await.unwrap();
        assert_eq!(read_reply(&mut right).await.status, 200);
    }
    assert_eq!(closed(silent.remove(0)).await, "");
}
