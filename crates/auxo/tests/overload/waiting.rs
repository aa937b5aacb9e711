//! Calls that wait for work in queues that nobody ever heard of.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

use crate::port::{Guest, Port};
use crate::server::{MB, Server, until};
use auxo_harness::http::Client;

/// A call that waits in as many queues as one may name, each with as long a name as there may be.
fn long_ask(call: usize) -> String {
    let name = |i| format!("\"{}-{call:05}-{i:05}\"", "n".repeat(180));
    let names: Vec<String> = (1..1000).map(name).collect();
    let body = format!(r#"{{"queues":["known",{}],"wait":"60s"}}"#, names.join(","));
    let length = body.len();
    format!("POST /v1/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}")
}

/// A client at another address of this machine.
fn client_from(number: usize, server: SocketAddr) -> Client {
    let own = Ipv4Addr::new(127, 0, 0, 1 + number as u8);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((own, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    Client::over(socket.into())
}

#[test]
fn calls_that_wait_in_a_thousand_queues_each_have_a_bounded_memory() {
    let server = Server::start(&[]);
    let mut worker = server.client();
    assert_eq!(worker.call("PUT", "/v1/queues/known", "{}").status, 200);
    let start = server.memory();
    // A quarter of the room is the most that one address gets.
    let send = |call: usize| {
        let mut client = client_from(call / 50, server.address);
        client.send(long_ask(call).as_bytes());
        client
    };
    let probe = || {
        let ask = r#"{"queues":["q","known"],"wait":"1ms"}"#;
        server.client().post("/v1/lease", ask)
    };
    let mut calls: Vec<Client> = (0..50).map(send).collect();
    until("the first address waits", || {
        let known = worker.get("/v1/queues/known").json();
        (known["waiting"] == 50).then_some(())
    });
    let mut greedy = client_from(0, server.address);
    greedy.send(long_ask(50).as_bytes());
    assert_eq!(greedy.reply().unwrap().status, 503);
    calls.extend((50..200).map(send));
    until("all of them wait", || {
        let known = worker.get("/v1/queues/known").json();
        (known["waiting"] == 200).then_some(())
    });
    // Those for whom there is no room are told at once; the others go on waiting.
    assert_eq!(probe().status, 503);
    for call in 200..300 {
        let reply = send(call).reply().unwrap();
        assert_eq!(reply.status, 503, "{reply:?}");
        assert!(reply.text.contains("queues"), "{reply:?}");
    }
    let grown = server.memory().saturating_sub(start);
    println!("200,000 names in 200 calls that wait: {} MB", grown / MB);
    assert!(grown < 200 * MB);
    drop(calls);
    until("there is room again", || {
        (probe().status == 200).then_some(())
    });
    server.assert_well();
}

#[test]
fn a_million_tubes_that_are_only_watched_have_a_bounded_memory() {
    let server = Server::start(&[]);
    server.client().get("/healthz");
    let start = server.memory();
    let watching: Vec<Guest> = (0..1000)
        .map(|guest| {
            let mut client = Guest::new(&server, Port::Beanstalk);
            let names =
                (1..1000).map(|i| format!("watch {}-{guest:05}-{i:05}\r\n", "n".repeat(180)));
            let (question, answer) = Port::Beanstalk.greeting();
            let watches = names.collect::<String>() + question;
            client.socket().write_all(watches.as_bytes()).unwrap();
            assert!(client.hears(answer));
            client
        })
        .collect();
    let grown = server.memory().saturating_sub(start);
    println!(
        "{} connections that watch a thousand tubes each: {} MB",
        watching.len(),
        grown / MB
    );
    assert!(grown < 200 * MB);
    server.assert_well();
}
