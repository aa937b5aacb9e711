//! What a client sends stays out of logs and metrics, and cannot forge a line there.

use std::io::{Read, Write};

use auxo_proto::v1;
use tempfile::TempDir;

use crate::port::{Guest, Port};
use crate::server::{OTHERS, Server};
use auxo_harness::command::auxo;

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
        .args(OTHERS)
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
    // Not a name of this machine.
    assert_eq!(client.reply().unwrap().status, 421);
    client.send(format!("{CANARY}\r\n\r\n").as_bytes());
    assert_eq!(client.reply().unwrap().status, 400);
    http2(&server);
    resp(&server);
    beanstalk(&server);
    grpc(&server);

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
        b"\x01\x09localhost",
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

/// The same on Disque's port, where what is wrong is often quoted to who sent it.
fn resp(server: &Server) {
    let mut client = Guest::new(server, Port::Resp);
    assert_eq!(client.ask(&format!("CLIENT SETNAME {CANARY}")), "+OK");
    for (command, answer) in [
        (format!("ADDJOB r {CANARY} 0"), "+D-"),
        (
            format!(
                r#"AUXO.PUSH r {CANARY} key {CANARY} kind {CANARY} group {CANARY} headers '{{"a":"{CANARY}"}}'"#
            ),
            "*",
        ),
        (
            format!("AUXO.PUSH r {CANARY} key {CANARY}"),
            "-DUPLICATE_KEY",
        ),
        (format!("AUXO.PUSH r x {CANARY} {CANARY}"), "-BAD_REQUEST"),
        (format!("AUXO.PUSH r x priority {CANARY}"), "-BAD_REQUEST"),
        (format!("AUXO.SETTLE {CANARY} ack"), "-BAD_REQUEST"),
        (format!("ADDJOB r x {CANARY}"), "-"),
        (format!("SHOW {CANARY}"), "-BADID"),
        (format!("AUTH {CANARY} {CANARY}"), "-ERR"),
        (format!("HELLO 3 AUTH {CANARY} {CANARY}"), "-"),
        (format!("HELLO {CANARY}"), "-"),
        (format!("CONFIG GET {CANARY}"), "*0"),
        (CANARY.to_owned(), "-ERR unknown command"),
    ] {
        // Of longer answers the rest is not looked at.
        let reply = Guest::new(server, Port::Resp).ask(&command);
        assert!(reply.starts_with(answer), "{command}: {reply}");
    }
    let mut worker = Guest::new(server, Port::Resp);
    let token = {
        let lease = format!("AUXO.LEASE MAX 1 WORKER {CANARY} FROM r\r\nPING\r\n");
        let socket = worker.socket();
        socket.write_all(lease.as_bytes()).unwrap();
        let heard = worker.hears_all("+PONG\r\n");
        let (_, token) = heard.split_once("$5\r\ntoken\r\n").unwrap();
        token.lines().nth(1).unwrap().to_owned()
    };
    let settled = format!("AUXO.SETTLE {token} fail error {CANARY}");
    assert!(worker.ask(&settled).starts_with('*'));
    // Each of these ends its connection.
    for end in [
        format!("*{CANARY}\r\n"),
        format!("*1\r\n{CANARY}\r\n"),
        format!("ECHO \"{CANARY}\r\n"),
        format!("GET /{CANARY} HTTP/1.1\r\n\r\n"),
    ] {
        let mut client = Guest::new(server, Port::Resp);
        client.socket().write_all(end.as_bytes()).unwrap();
        let mut rest = Vec::new();
        let _ = client.socket().read_to_end(&mut rest);
    }
}

fn beanstalk(server: &Server) {
    let mut client = Guest::new(server, Port::Beanstalk);
    let length = CANARY.len();
    for (command, answer) in [
        (format!("put 0 0 60 {length}\r\n{CANARY}"), "INSERTED "),
        (format!("put 0 0 60 3\r\n{CANARY}"), "EXPECTED_CRLF"),
        (format!("put {CANARY} 0 60 3"), "BAD_FORMAT"),
        (format!("peek {CANARY}"), "BAD_FORMAT"),
        (format!("{CANARY} {}", CANARY.repeat(100)), "BAD_FORMAT"),
    ] {
        // What a body that is too long leaves behind is a request of its own.
        let mut client = Guest::new(server, Port::Beanstalk);
        let reply = client.ask(&command);
        assert!(reply.starts_with(answer), "{command:.60}: {reply}");
    }
    assert!(client.ask("reserve").starts_with("RESERVED "));
    let mut browser = Guest::new(server, Port::Beanstalk);
    let request = format!("GET /{CANARY} HTTP/1.1\r\n\r\n");
    browser.socket().write_all(request.as_bytes()).unwrap();
    let _ = browser.socket().read_to_end(&mut Vec::new());
}

/// The same over gRPC, whose libraries have logs of their own.
fn grpc(server: &Server) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let url = format!("http://{}", server.address);
        let channel = tonic::transport::Channel::from_shared(url).unwrap();
        let channel = channel.connect().await.unwrap();
        let mut jobs = v1::jobs_client::JobsClient::new(channel.clone());
        let mut workers = v1::workers_client::WorkersClient::new(channel);
        let spec = v1::JobSpec {
            kind: CANARY.to_owned(),
            payload: CANARY.into(),
            headers: [(CANARY.to_owned(), CANARY.to_owned())].into(),
            key: Some(CANARY.to_owned()),
            group: Some(CANARY.to_owned()),
            ..v1::JobSpec::default()
        };
        let job = v1::NewJob {
            queue: "g".to_owned(),
            spec: Some(spec),
        };
        for _ in 0..2 {
            let jobs_of = vec![job.clone()];
            let mut request = tonic::Request::new(v1::PushRequest { jobs: jobs_of });
            let meta = request.metadata_mut();
            meta.insert("authorization", CANARY.parse().unwrap());
            meta.insert("x-canary", CANARY.parse().unwrap());
            jobs.push(request).await.unwrap();
        }
        let ask = v1::LeaseRequest {
            queues: vec!["g".to_owned()],
            worker: CANARY.to_owned(),
            ..v1::LeaseRequest::default()
        };
        let leased = workers.lease(ask).await.unwrap().into_inner().jobs;
        for token in [leased[0].token.clone(), CANARY.to_owned()] {
            let fail = v1::settle::Fail {
                error: CANARY.to_owned(),
                ..v1::settle::Fail::default()
            };
            let items = vec![v1::Settle {
                token,
                outcome: Some(v1::settle::Outcome::Fail(fail)),
            }];
            // The second is told that this is no token.
            let _ = workers.settle(v1::SettleRequest { items }).await;
        }
        let filter = v1::Filter {
            search: Some(CANARY.to_owned()),
            ..v1::Filter::default()
        };
        let ask = v1::ListJobsRequest {
            filter: Some(filter),
            ..v1::ListJobsRequest::default()
        };
        assert!(!jobs.list(ask).await.unwrap().into_inner().jobs.is_empty());
    });
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
        format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-request-id: {named}\r\n\r\n")
            .as_bytes(),
    );
    assert!(client.reply().unwrap().head.contains(named));
    let mut resp = Guest::new(&server, Port::Resp);
    let lines = format!("x\r\n{forged}\r\n");
    for words in [
        vec![&*lines],
        vec!["ADDJOB", &lines, "x", "0"],
        vec!["CLIENT", "SETNAME", &lines],
        vec!["AUTH", &lines],
        vec!["GETJOB", "FROM", &lines],
    ] {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        let refused = resp.ask(request.strip_suffix("\r\n").unwrap());
        assert!(refused.starts_with('-'), "{refused}");
    }
    let mut beanstalk = Guest::new(&server, Port::Beanstalk);
    for request in [format!("use x\n{forged}"), format!("x\n{forged}")] {
        let refused = beanstalk.ask(&request);
        assert!(
            ["BAD_FORMAT", "UNKNOWN_COMMAND"].contains(&&*refused),
            "{refused}"
        );
    }
    // Who is closed is told about in the log.
    for port in [Port::Resp, Port::Beanstalk] {
        let mut browser = Guest::new(&server, port);
        let request = format!("GET /\n{forged} HTTP/1.1\r\n\r\n");
        browser.socket().write_all(request.as_bytes()).unwrap();
        let _ = browser.socket().read_to_end(&mut Vec::new());
    }
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
