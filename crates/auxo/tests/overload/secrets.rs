//! What a client sends stays out of logs and metrics, and cannot forge a line there.

use std::io::Read;

use tempfile::TempDir;

use crate::command::auxo;
use crate::server::Server;

/// Looks like nothing else that is written anywhere.
const CANARY: &str = "kanarienvogel";

/// A server that says all it can say, with a secret in its environment.
fn talkative() -> Server {
    let mut command = auxo();
    command
        .args([
            "serve",
            "--http",
            "127.0.0.1:0",
            "--sync",
            "os",
            "--log",
            "trace",
        ])
        .env("SOME_SECRET", CANARY);
    Server::spawn(command, TempDir::new().unwrap())
}

#[test]
fn nothing_that_a_client_sent_is_in_logs_or_metrics() {
    let server = talkative();
    let mut client = server.client();
    let push = format!(
        r#"{{"payload":"{CANARY}","key":"{CANARY}","kind":"{CANARY}","group":"{CANARY}","headers":{{"a":"{CANARY}"}}}}"#
    );
    let id = client.post("/v1/queues/q/jobs", &push).json()["id"].to_string();
    let id = id.trim_matches('"').to_owned();
    let lease = format!(r#"{{"queues":["q"],"worker":"{CANARY}"}}"#);
    let leased = client.post("/v1/lease", &lease).json();
    let token = leased["jobs"][0]["token"].as_str().unwrap().to_owned();
    for (method, path, body, status) in [
        ("POST", "/v1/queues/q/jobs".to_owned(), push, 409),
        ("GET", format!("/v1/jobs/{id}"), String::new(), 200),
        (
            "GET",
            format!("/v1/jobs?search={CANARY}&key={CANARY}"),
            String::new(),
            200,
        ),
        (
            "GET",
            format!("/v1/jobs?{CANARY}={CANARY}"),
            String::new(),
            400,
        ),
        (
            "GET",
            format!("/v1/queues/q/keys/{CANARY}"),
            String::new(),
            200,
        ),
        ("GET", format!("/{CANARY}"), String::new(), 404),
        (
            "POST",
            "/v1/lease".to_owned(),
            format!(r#"{{"{CANARY}":1}}"#),
            400,
        ),
        ("POST", "/v1/lease".to_owned(), CANARY.to_owned(), 400),
        (
            "POST",
            "/v1/settle".to_owned(),
            format!(r#"{{"token":"{token}","outcome":"fail","error":"{CANARY}"}}"#),
            200,
        ),
        (
            "POST",
            "/v1/settle".to_owned(),
            format!(r#"{{"token":"{CANARY}","outcome":"ack"}}"#),
            400,
        ),
        (
            "PUT",
            format!("/v1/topics/{CANARY}/subscriptions/{CANARY}"),
            r#"{"queue":"q"}"#.to_owned(),
            200,
        ),
        (
            "PUT",
            format!("/v1/schedules/{CANARY}"),
            r#"{"queue":"q","every":"1h"}"#.to_owned(),
            200,
        ),
    ] {
        let reply = client.call(method, &path, &body);
        assert_eq!(reply.status, status, "{path}: {reply:?}");
    }
    let with = format!(
        "GET /healthz HTTP/1.1\r\nhost: {CANARY}\r\nauthorization: {CANARY}\r\ncookie: {CANARY}\r\n\r\n"
    );
    client.send(with.as_bytes());
    assert_eq!(client.reply().unwrap().status, 200);
    client.send(format!("{CANARY}\r\n\r\n").as_bytes());
    assert_eq!(client.reply().unwrap().status, 400);
    http2(&server);

    let metrics = server.client().get("/metrics").text;
    assert!(metrics.contains("auxo_http_requests_total"), "{metrics}");
    assert!(!metrics.contains(CANARY), "{metrics}");
    let log = server.stop();
    assert!(log.contains("answered"), "{log}");
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(CANARY)).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}

/// The same over HTTP/2, whose library has a log of its own.
fn http2(server: &Server) {
    let field = |name: &str, value: &str| {
        let (n, v) = (name.len() as u8, value.len() as u8);
        [&[0, n], name.as_bytes(), &[v], value.as_bytes()].concat()
    };
    let path = format!("/v1/jobs?search={CANARY}");
    let head = [
        b"\x82\x86\x04".as_slice(),
        &[path.len() as u8],
        path.as_bytes(),
        b"\x01\x01x",
        &field("authorization", CANARY),
        &field("cookie", CANARY),
    ]
    .concat();
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = payload.len() as u8;
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let mut client = server.client();
    client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    client.send(&frame(4, 0, 0, &[]));
    client.send(&frame(1, 5, 1, &head));
    let mut answer = Vec::new();
    let socket = client.socket();
    // Up to the end of the answer's body.
    while !answer.ends_with(b"}") {
        let mut bytes = [0; 4096];
        let n = socket.read(&mut bytes).unwrap();
        assert!(n > 0, "{}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&bytes[..n]);
    }
    let text = String::from_utf8_lossy(&answer);
    assert!(text.contains("jobs"), "{text}");
}

#[test]
fn nobody_can_forge_a_line_of_the_log() {
    let server = Server::start(&["--log", "debug"]);
    let mut client = server.client();
    let forged = "2026-01-01T00:00:00.000000Z  INFO forged: all is well";
    let escaped = forged.replace(' ', "%20");
    for path in [
        format!("/%0a{escaped}"),
        format!("/v1/queues/q%0d%0a{escaped}"),
        format!("/v1/jobs?queue=%0a{escaped}"),
        format!("/v1/queues/q/keys/%0a{escaped}"),
    ] {
        assert!(client.get(&path).status >= 400);
    }
    let body = format!(r#"{{"kind":"\n{forged}","payload":"\n{forged}"}}"#);
    assert_eq!(client.post("/v1/queues/q/jobs", &body).status, 400);
    // A name for a request is the one thing that is taken over.
    let named = "a\\\"}:forged{id=\"7";
    client.send(
        format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx-request-id: {named}\r\n\r\n").as_bytes(),
    );
    assert!(client.reply().unwrap().head.contains(named));
    let log = server.stop();
    let (_, log) = log.split_once("try: ").unwrap();
    let mut answered = 0;
    for line in log.lines().skip(1) {
        if line.contains("forged") {
            // Within its quotes.
            assert!(line.contains(r#"id="a\\\"}:forged{id=\"7""#), "{line}");
        }
        answered += usize::from(line.contains(": answered status"));
        let known = line.starts_with("20") || line.starts_with("stopp");
        assert!(known, "{line}");
    }
    assert_eq!(answered, 6, "{log}");
}
