//! Bodies that are announced or sent past every limit.

use std::io::Write;

use crate::server::{MB, Server, until};
use auxo_harness::http::Client;

const POST: &str = "POST /v1/queues/q/jobs HTTP/1.1\r\nhost: localhost\r\n";

#[test]
fn what_is_announced_takes_no_memory() {
    let server = Server::start(&[]);
    server.client().get("/healthz");
    let start = server.memory();
    let mut open: Vec<Client> = Vec::new();
    for announced in [
        "content-length: 4294967296\r\n\r\n",
        "content-length: 18446744073709551615\r\n\r\n",
        "content-length: 67108865\r\n\r\n",
    ] {
        for _ in 0..50 {
            let mut client = server.client();
            client.send(format!("{POST}{announced}").as_bytes());
            let reply = client.reply().unwrap();
            assert!(matches!(reply.status, 413 | 431), "{announced}: {reply:?}");
            open.push(client);
        }
    }
    // Within the limit but never sent: room is taken as bytes arrive.
    for announced in [
        "content-length: 67108864\r\n\r\n{",
        "transfer-encoding: chunked\r\n\r\nFFFFFFFF\r\n{",
        "transfer-encoding: chunked\r\n\r\nFFFFFFFFFFFFFFF\r\n{",
    ] {
        for _ in 0..50 {
            let mut client = server.client();
            client.send(format!("{POST}{announced}").as_bytes());
            open.push(client);
        }
    }
    assert_eq!(server.client().get("/healthz").status, 200);
    let grown = server.peak().saturating_sub(start);
    println!(
        "{} connections that announce gigabytes: {grown} bytes",
        open.len()
    );
    // What three hundred connections cost, and no more.
    assert!(grown < 12 * MB, "{grown}");
    drop(open);
    server.assert_well();
}

#[test]
fn what_is_sent_past_the_limit_is_refused_and_its_memory_given_back() {
    let server = Server::start(&[]);
    let mut worker = server.client();
    worker.get("/healthz");
    let start = server.memory();
    let chunk = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
    let mut client = server.client();
    client.send(format!("{POST}transfer-encoding: chunked\r\n\r\n").as_bytes());
    for _ in 0..80 {
        // The server may have closed by now.
        if client.socket().write_all(&chunk).is_err() {
            break;
        }
    }
    let reply = client.reply().expect("an answer");
    assert_eq!(reply.status, 413, "{reply:?}");
    let peak = server.peak() - start;
    println!("64 MiB and more: {} MB at most", peak / MB);
    assert!(peak < 200 * MB, "{peak}");
    // The allocator waits some seconds whether it is wanted again, and looks at that only when it is asked for something.
    until("its memory is given back", || {
        assert_eq!(worker.post("/v1/queues/q/jobs", "{}").status, 201);
        (server.memory() < start + 16 * MB).then_some(())
    });
    server.assert_well();
}
