//! Clients that ask and do not listen, and clients that ask a hundred thousand times before they do.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::port::{Guest, PORTS, Port};
use crate::server::{MB, Server};

const DEAF: usize = 16;

#[test]
fn who_does_not_take_answers_is_not_listened_to_and_takes_no_memory() {
    PORTS.into_iter().for_each(deaf_on);
}

fn deaf_on(port: Port) {
    let server = Server::start(&[]);
    let mut worker = server.client();
    assert_eq!(worker.get("/openapi.json").status, 200);
    let start = server.memory();
    let ask = port.talkative().repeat(1000);
    let asked = std::thread::scope(|scope| {
        let deaf: Vec<_> = (0..DEAF)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Guest::new(&server, port);
                    let socket = client.socket();
                    let patience = Some(Duration::from_millis(500));
                    socket.set_write_timeout(patience).unwrap();
                    let mut sent = 0;
                    // Until the server stops reading, and all buffers between the two are full.
                    while let Ok(n) = socket.write(ask.as_bytes()) {
                        sent += n;
                        assert!(sent < 64 << 20, "it takes requests without end");
                    }
                    (client, sent)
                })
            })
            .collect();
        // Meanwhile somebody works.
        for _ in 0..200 {
            assert_eq!(worker.post("/v1/queues/q/jobs", "{}").status, 201);
        }
        deaf.into_iter()
            .map(|deaf| deaf.join().unwrap())
            .collect::<Vec<_>>()
    });
    let grown = server.memory().saturating_sub(start);
    let sent: usize = asked.iter().map(|(_, sent)| sent).sum();
    println!(
        "{port:?}: {DEAF} deaf clients sent {sent} bytes of requests; the server grew by {grown} bytes"
    );
    // An answer of a few hundred kilobytes at most and the buffers of a connection, each.
    assert!(grown < DEAF as u64 * MB);
    let began = Instant::now();
    assert_eq!(worker.post("/v1/queues/q/jobs", "{}").status, 201);
    println!("a push beside them takes {:?}", began.elapsed());
    drop(asked);
    server.assert_well();
}

#[test]
fn a_million_requests_in_one_go_on_the_other_ports_take_no_memory() {
    const ASKED: usize = 1_000_000;
    for port in [Port::Resp, Port::Beanstalk] {
        let server = Server::start(&[]);
        let mut client = Guest::new(&server, port);
        client.greet();
        let start = server.memory();
        let (question, answer) = port.greeting();
        let mut socket = client.socket().try_clone().unwrap();
        let began = Instant::now();
        let ask = std::thread::spawn(move || {
            let ask = question.repeat(1000);
            (0..ASKED / 1000).for_each(|_| socket.write_all(ask.as_bytes()).unwrap());
        });
        let mut left = ASKED * answer.len();
        let mut bytes = vec![0; answer.len() * 1000];
        while left > 0 {
            client.socket().read_exact(&mut bytes).unwrap();
            let whole = bytes.chunks(answer.len());
            assert!(whole.into_iter().all(|one| one == answer.as_bytes()));
            left -= bytes.len();
        }
        ask.join().unwrap();
        let grown = server.peak().saturating_sub(start);
        let time = began.elapsed();
        println!("{port:?}: {ASKED} in {time:?}; the server grew by {grown} bytes");
        assert!(grown < 16 * MB);
        server.assert_well();
    }
}

#[test]
fn a_hundred_thousand_requests_in_one_go_are_answered_one_after_the_other() {
    const ASKED: usize = 100_000;
    let server = Server::start(&[]);
    let mut client = server.client();
    client.get("/healthz");
    let start = server.memory();
    let mut socket = client.socket().try_clone().unwrap();
    let began = Instant::now();
    let ask = std::thread::spawn(move || {
        let ask = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
        (0..ASKED / 1000).for_each(|_| socket.write_all(ask.as_bytes()).unwrap());
    });
    for i in 0..ASKED {
        let reply = client.reply().unwrap();
        assert_eq!(reply.status, 200, "{i}: {reply:?}");
    }
    ask.join().unwrap();
    let grown = server.peak().saturating_sub(start);
    println!(
        "{ASKED} in {:?}; the server grew by {grown} bytes",
        began.elapsed()
    );
    assert!(grown < 8 * MB);
    server.assert_well();
}
