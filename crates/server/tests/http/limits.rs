//! Requests that are too large, too deep, too many, or of the wrong kind.

use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use super::bench::{Bench, read_head, read_reply, within};

#[tokio::test]
async fn an_unknown_route_is_404_and_a_wrong_method_405() {
    let bench = Bench::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/queues/",
        "/v1/queue",
        "/v1/jobs/1/2/3",
        "/../etc/passwd",
        "/v1/..%2f",
    ] {
        bench.get(path).await.problem(404, "not_found");
    }
    for (method, path, allowed) in [
        ("GET", "/v1/lease", "POST"),
        ("DELETE", "/v1/queues", "GET,HEAD"),
        ("PATCH", "/v1/jobs/7", "GET,HEAD,DELETE"),
        ("OPTIONS", "/v1/settle", "POST"),
        ("BREW", "/healthz", "GET,HEAD"),
    ] {
        let reply = bench.call(method, path, "").await;
        reply.problem(405, "bad_request");
        let allow = |list: &str| {
            let mut list: Vec<String> = list.split(',').map(|m| m.trim().to_owned()).collect();
            list.sort();
            list
        };
        assert_eq!(
            allow(reply.header("allow").unwrap()),
            allow(allowed),
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn a_body_of_another_type_is_415() {
    let bench = Bench::start().await;
    let path = "/v1/queues/q/jobs";
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "json",
        "",
    ] {
        let header = format!("content-type: {kind}");
        let reply = bench.call_with("POST", path, &[&header], "{}").await;
        let message = reply.problem(415, "bad_request");
        assert!(message.contains("application/json"), "{message}");
    }
    for kind in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/vnd.a+json",
    ] {
        let header = format!("content-type: {kind}");
        let reply = bench.call_with("POST", path, &[&header], "{}").await;
        assert_eq!(reply.status, 201, "{kind}");
    }
    assert_eq!(bench.call_with("POST", path, &[], "{}").await.status, 201);
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_before_it_is_read() {
    let bench = Bench::with(|settings| settings.body = 1000).await;
    let path = "/v1/queues/q/jobs";
    let fits = format!("{{{}}}", " ".repeat(998));
    assert_eq!(bench.call("POST", path, fits).await.status, 201);
    let over = format!("{{{}}}", " ".repeat(999));
    bench
        .call("POST", path, over)
        .await
        .problem(413, "too_large");

    let mut stream = bench.connect().await;
    let announced =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4000000000\r\n\r\n");
    stream.write_all(announced.as_bytes()).await.unwrap();
    read_reply(&mut stream).await.problem(413, "too_large");

    let mut stream = bench.connect().await;
    let chunked =
        format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    stream.write_all(chunked.as_bytes()).await.unwrap();
    let chunk = format!("200\r\n{}\r\n", " ".repeat(0x200));
    stream.write_all(chunk.as_bytes()).await.unwrap();
    stream.write_all(chunk.as_bytes()).await.unwrap();
    read_reply(&mut stream).await.problem(413, "too_large");
}

#[tokio::test]
async fn a_payload_over_the_limit_is_413_and_a_batch_over_the_limit_too() {
    let bench = Bench::start().await;
    let path = "/v1/queues/q/jobs";
    let large = format!(r#"{{"payload":"{}"}}"#, "x".repeat(1 << 20));
    bench
        .call("POST", path, large)
        .await
        .problem(413, "too_large");
    let many = format!("[{}{{}}]", "{},".repeat(1000));
    bench
        .call("POST", path, many)
        .await
        .problem(413, "too_large");
    let most = format!("[{}{{}}]", "{},".repeat(999));
    assert_eq!(bench.call("POST", path, most).await.status, 200);
}

#[tokio::test]
async fn bodies_share_a_bounded_room_and_give_it_back() {
    let bench = Bench::with(|settings| {
        settings.body = 100 << 10;
        settings.bodies = 64 << 10;
    })
    .await;
    let path = "/v1/queues/q/jobs";
    let large = format!("{{{}}}", " ".repeat(80 << 10));
    bench
        .call("POST", path, large)
        .await
        .problem(503, "unavailable");
    let fits = format!("{{{}}}", " ".repeat(60 << 10));
    for _ in 0..3 {
        assert_eq!(bench.call("POST", path, fits.clone()).await.status, 201);
    }
}

#[tokio::test]
async fn large_answers_share_a_bounded_room_and_give_it_back() {
    let bench = Bench::with(|settings| settings.answers = 12 << 20).await;
    let payload = "x".repeat(1_000_000);
    for _ in 0..9 {
        bench
            .push("q", &format!(r#"{{"payload":"{payload}"}}"#))
            .await;
    }
    // Takes the head and then nothing more; what the system buffers for it is far less than the page.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut deaf = socket.connect(bench.address).await.unwrap();
    let list = "GET /v1/jobs HTTP/1.1\r\nhost: localhost\r\n\r\n";
    deaf.write_all(list.as_bytes()).await.unwrap();
    assert!(read_head(&mut deaf).await.starts_with("HTTP/1.1 200"));
    let refused = bench.get("/v1/jobs").await;
    refused.problem(503, "unavailable");
    // Small answers and changes need no room.
    assert_eq!(bench.get("/v1/jobs?limit=1&state=dead").await.status, 200);
    bench.push("q", "{}").await;
    drop(deaf);
    within(async { while bench.get("/v1/jobs").await.status != 200 {} }).await;
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing() {
    let bench = Bench::start().await;
    let path = "/v1/queues/q/jobs";
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1"] {
        let header = format!("origin: {origin}");
        let reply = bench.call_with("POST", path, &[&header], "{}").await;
        reply.problem(403, "forbidden");
    }
    let own = format!("origin: http://{}", bench.address);
    assert_eq!(
        bench.call_with("POST", path, &[&own], "{}").await.status,
        201
    );
    let read = bench
        .call_with("GET", "/v1/queues", &["origin: https://evil.example"], "")
        .await;
    assert_eq!(
        (read.status, read.header("access-control-allow-origin")),
        (200, None)
    );
}

#[tokio::test]
async fn a_request_keeps_its_own_id_if_that_fits_into_a_log() {
    let bench = Bench::start().await;
    let own = bench
        .call_with("GET", "/healthz", &["x-request-id: abc-7"], "")
        .await;
    assert_eq!(own.header("x-request-id"), Some("abc-7"));
    let long = format!("x-request-id: {}", "x".repeat(200));
    let a = bench.call_with("GET", "/healthz", &[&long], "").await;
    let b = bench
        .call_with("GET", "/healthz", &["x-request-id: two words"], "")
        .await;
    let (a, b) = (
        a.header("x-request-id").unwrap(),
        b.header("x-request-id").unwrap(),
    );
    assert!(a != b && a.len() < 40 && b.len() < 40, "{a} {b}");
}

#[tokio::test]
async fn a_name_that_somebody_made_lead_here_is_not_answered() {
    let bench = Bench::start().await;
    let ask = async |method: &str, head: &str| {
        let mut stream = bench.connect().await;
        let request = format!("{method} /v1/queues HTTP/1.1\r\n{head}connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        read_reply(&mut stream).await
    };
    for host in [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.0.2.1:8000",
        "[::2]:8000",
        "evil.example\r\nhost: localhost",
        "localhost:8000@evil.example",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let reply = ask(method, &format!("host: {host}\r\n")).await;
            let told = reply.problem(421, "forbidden");
            assert!(told.contains("--hosts"), "{told}");
        }
    }
    for host in [
        "localhost",
        "LocalHost:8000",
        "localhost.",
        "auxo.localhost:1",
        "127.0.0.1",
        "127.1.2.3:8000",
        "[::1]:8000",
        "[::1]",
        "",
    ] {
        let reply = ask("GET", &format!("host: {host}\r\n")).await;
        assert_eq!(reply.status, 200, "{host}: {reply:?}");
    }
    assert_eq!(ask("GET", "").await.status, 200);
}

#[tokio::test]
async fn a_name_that_was_said_to_be_its_own_is_answered() {
    let bench = Bench::with(|settings| settings.hosts = vec!["queue.example".into()]).await;
    for (host, status) in [("Queue.Example:8000", 200), ("a.queue.example", 421)] {
        let mut stream = bench.connect().await;
        let request =
            format!("GET /v1/queues HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(read_reply(&mut stream).await.status, status, "{host}");
    }
}
