//! Clients that only cost.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::servers::Auxo;
use auxo_harness::http::Client;
use auxo_harness::reply;

const MB: u64 = 1 << 20;

fn connect(server: &Auxo) -> BufReader<TcpStream> {
    connect_to(server.resp())
}

fn connect_to(address: SocketAddr) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    let patience = Some(Duration::from_secs(60));
    stream.set_read_timeout(patience).unwrap();
    BufReader::new(stream)
}

fn ask(connection: &mut BufReader<TcpStream>, line: &str) -> String {
    let sent = connection
        .get_mut()
        .write_all(format!("{line}\r\n").as_bytes());
    sent.unwrap();
    reply::read(connection, line)
}

#[test]
fn who_promises_four_gigabytes_is_closed_and_takes_no_memory() {
    let server = Auxo::on_a_directory();
    let mut worker = connect(&server);
    assert_eq!(ask(&mut worker, "PING"), "+PONG");
    let start = server.peak();
    for (promise, what) in [
        ("*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$4294967296\r\n", "bulk"),
        ("*2\r\n$4\r\nECHO\r\n$9223372036854775807\r\n", "bulk"),
        ("*2\r\n$4\r\nECHO\r\n$-1\r\n", "bulk"),
        ("*999999999\r\n", "multibulk"),
        ("*9223372036854775807\r\n", "multibulk"),
        ("*99999999999999999999\r\n", "multibulk"),
    ] {
        for _ in 0..50 {
            let mut liar = connect(&server);
            liar.get_mut().write_all(promise.as_bytes()).unwrap();
            let error = reply::read(&mut liar, promise);
            assert_eq!(error, format!("-ERR Protocol error: invalid {what} length"));
            assert_eq!(liar.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
    }
    // What may be promised takes memory as it comes.
    let promises: Vec<_> = (0..100)
        .map(|_| {
            let mut slow = connect(&server);
            let promise = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$1048576\r\n";
            slow.get_mut().write_all(promise).unwrap();
            slow
        })
        .collect();
    assert_eq!(ask(&mut worker, "PING"), "+PONG");
    drop(promises);
    let grown = server.peak() - start;
    assert!(grown < 16 * MB, "{grown} bytes");
}

#[test]
fn who_promises_a_put_of_four_gigabytes_takes_no_memory_and_one_too_large_is_passed_over() {
    let server = Auxo::on_a_directory();
    let mut worker = connect_to(server.beanstalk());
    let mut say = |sent: &[u8]| {
        worker.get_mut().write_all(sent).unwrap();
        let mut line = String::new();
        worker.read_line(&mut line).unwrap();
        line
    };
    assert_eq!(say(b"list-tube-used\r\n"), "USING default\r\n");
    let start = server.peak();
    let promises: Vec<_> = (0..100)
        .map(|i| {
            let mut liar = connect_to(server.beanstalk());
            // Past the limit nothing is kept of it; within, what has come.
            let size = if i % 2 == 0 { u32::MAX } else { 1 << 20 };
            let promise = format!("put 0 0 60 {size}\r\n{}", "x".repeat(1000));
            liar.get_mut().write_all(promise.as_bytes()).unwrap();
            liar
        })
        .collect();
    // Eight times as much as there may be, in one put, and then the same connection goes on.
    let large = [
        b"put 0 0 60 8388608\r\n".as_slice(),
        &[b'x'; 8 << 20],
        b"\r\n",
    ]
    .concat();
    assert_eq!(say(&large), "JOB_TOO_BIG\r\n");
    assert_eq!(say(b"put 0 0 60 4294967296\r\n"), "BAD_FORMAT\r\n");
    assert_eq!(say(b"list-tube-used\r\n"), "USING default\r\n");
    assert_eq!(say(b"peek-ready\r\n"), "NOT_FOUND\r\n");
    drop(promises);
    let grown = server.peak() - start;
    assert!(grown < 16 * MB, "{grown} bytes");
}

#[test]
fn a_million_commands_of_who_does_not_listen_take_no_memory() {
    let server = Auxo::on_a_directory();
    let mut worker = connect(&server);
    assert_eq!(ask(&mut worker, "PING"), "+PONG");
    let start = server.peak();
    let commands = "ECHO 0123456789012345678901234567890123456789\r\n".repeat(1000);
    let mut deaf = connect(&server);
    let socket = deaf.get_mut();
    socket
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let mut sent = 0;
    // Until the server stops reading, and all buffers between the two are full.
    while let Ok(n) = socket.write(&commands.as_bytes()[sent % commands.len()..]) {
        sent += n;
        assert!(
            sent < 1000 * commands.len(),
            "it takes commands without end"
        );
    }
    assert_eq!(ask(&mut worker, "PING"), "+PONG");
    let grown = server.peak() - start;
    assert!(grown < 8 * MB, "{grown} bytes");
    // Who begins to listen after all is answered to the last.
    let mut answers = 0;
    let whole = sent / (commands.len() / 1000);
    while answers < whole {
        let reply = reply::read(&mut deaf, "ECHO");
        assert_eq!(reply, "'0123456789012345678901234567890123456789'");
        answers += 1;
    }
}

#[test]
fn a_browser_is_closed_counted_and_nothing_of_it_is_obeyed() {
    let server = Auxo::on_a_directory();
    let counted = || {
        let metrics = Client::connect(server.http()).get("/metrics").text;
        let mut lines = metrics.lines();
        let count = lines.find_map(|line| line.strip_prefix("auxo_misdirected_connections_total "));
        count.unwrap().parse::<usize>().unwrap()
    };
    let resp = "*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$1\r\nx\r\n$1\r\n0\r\n";
    let beanstalk = "put 0 0 60 1\r\nx\r\n";
    let mut sent = 0;
    for (address, body) in [(server.resp(), resp), (server.beanstalk(), beanstalk)] {
        for request in [
            format!("POST / HTTP/1.1\r\nHost: x\r\n\r\n{body}"),
            format!("GET / HTTP/1.1\r\n\r\n{body}"),
            format!("Host: x\r\n{body}"),
            format!("hOsT: x\r\n{body}"),
            format!("PUT /x HTTP/1.1\r\n\r\n{body}"),
            format!("OPTIONS * HTTP/1.1\r\n\r\n{body}"),
            format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{body}"),
            format!("POST {} HTTP/1.1\r\n\r\n{body}", "x".repeat(100_000)),
        ] {
            let mut browser = connect_to(address);
            // It may be closed before all of it is sent.
            let _ = browser.get_mut().write_all(request.as_bytes());
            let mut rest = Vec::new();
            // It may be closed so hard that nothing can be read at all.
            let _ = browser.read_to_end(&mut rest);
            assert_eq!(String::from_utf8_lossy(&rest), "", "{request:.40}");
            sent += 1;
            assert_eq!(counted(), sent, "{request:.40}");
        }
    }
    let queues = Client::connect(server.http()).get("/v1/queues").text;
    assert!(!queues.contains("name"), "{queues}");
}
