//! What is no HTTP, and answers to those who do not listen yet.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::bench::{Bench, read_reply, within};

#[tokio::test]
async fn what_is_no_http_is_told_so_in_the_form_of_every_other_error() {
    let bench = Bench::start().await;
    let long = "y".repeat(100 << 10);
    let lines = |count| {
        (0..count)
            .map(|i| format!("a{i}: b\r\n"))
            .collect::<String>()
    };
    for (sent, status, code) in [
        ("nonsense\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET / HTTP/9.9\r\n\r\n".to_owned(), 400, "bad_request"),
        ("G\0T / HTTP/1.1\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET /a b HTTP/1.1\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET  / HTTP/1.1\r\n\r\n".to_owned(), 400, "bad_request"),
        ("GET /\u{1} HTTP/1.1\r\n\r\n".to_owned(), 400, "bad_request"),
        (
            "GET / HTTP/1.1\r\nno colon\r\n\r\n".to_owned(),
            400,
            "bad_request",
        ),
        (
            "GET / HTTP/1.1\r\na: b\rc\r\n\r\n".to_owned(),
            400,
            "bad_request",
        ),
        (
            "\u{16}\u{3}\u{1}\u{2}\0\u{1}".to_owned(),
            400,
            "bad_request",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n".to_owned(),
            400,
            "bad_request",
        ),
        (
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_owned(),
            400,
            "bad_request",
        ),
        (
            format!("GET / HTTP/1.1\r\nx: {long}\r\n\r\n"),
            431,
            "too_large",
        ),
        (
            format!("GET / HTTP/1.1\r\n{}\r\n", lines(200)),
            431,
            "too_large",
        ),
        (format!("GET /{long} HTTP/1.1\r\n\r\n"), 431, "too_large"),
    ] {
        let start = &sent[..sent.len().min(40)];
        let mut stream = bench.connect().await;
        stream.write_all(sent.as_bytes()).await.unwrap();
        let reply = read_reply(&mut stream).await;
        assert_eq!(reply.status, status, "{start:?}: {reply:?}");
        let message = reply.problem(status, code);
        assert!(!message.contains(char::is_control), "{message:?}");
        assert!(reply.header("x-request-id").is_some(), "{reply:?}");
        assert_eq!(reply.header("connection"), Some("close"), "{reply:?}");
        let mut rest = Vec::new();
        within(stream.read_to_end(&mut rest)).await.unwrap();
        assert_eq!(rest, b"", "{start:?}");
    }
    assert_eq!(bench.get("/healthz").await.status, 200);
    let metrics = bench.get("/metrics").await.text;
    let counted = r#"auxo_http_requests_total{method="other",route="none",status="431"} 3"#;
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn garbage_behind_a_good_request_is_refused_after_its_answer() {
    let bench = Bench::start().await;
    let mut stream = bench.connect().await;
    let two = "GET /v1/jobs/7 HTTP/1.1\r\nhost: localhost\r\n\r\nnonsense\r\n\r\n";
    stream.write_all(two.as_bytes()).await.unwrap();
    read_reply(&mut stream).await.problem(404, "not_found");
    read_reply(&mut stream).await.problem(400, "bad_request");
}

#[tokio::test]
async fn who_sends_to_the_end_before_listening_still_gets_the_answer() {
    let bench = Bench::with(|settings| settings.body = 1000).await;
    let body = vec![b' '; 8 << 20];
    for announced in [
        format!("content-length: {}\r\n\r\n", body.len()),
        format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", body.len()),
    ] {
        let mut stream = bench.connect().await;
        let head = format!("POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\n{announced}");
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
        read_reply(&mut stream).await.problem(413, "too_large");
    }
}
