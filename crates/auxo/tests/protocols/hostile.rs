//! Clients that only cost.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::reply;
use crate::servers::Auxo;

const MB: u64 = 1 << 20;

fn connect(server: &Auxo) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(server.resp()).unwrap();
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
    for _ in 0..100 {
        let mut liar = connect(&server);
        let promise = b"*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$4294967296\r\n";
        liar.get_mut().write_all(promise).unwrap();
        let error = reply::read(&mut liar, "promise");
        assert_eq!(error, "-ERR Protocol error: invalid bulk length");
        assert_eq!(liar.read_to_end(&mut Vec::new()).unwrap(), 0);
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
fn a_browser_is_closed_and_nothing_of_it_is_obeyed() {
    let server = Auxo::on_a_directory();
    let body = "*4\r\n$6\r\nADDJOB\r\n$1\r\nq\r\n$1\r\nx\r\n$1\r\n0\r\n";
    for request in [
        format!("POST / HTTP/1.1\r\nHost: x\r\n\r\n{body}"),
        format!("GET / HTTP/1.1\r\n\r\n{body}"),
        format!("Host: x\r\n{body}"),
    ] {
        let mut browser = connect(&server);
        browser.get_mut().write_all(request.as_bytes()).unwrap();
        let mut rest = Vec::new();
        // It may be closed so hard that nothing can be read at all.
        let _ = browser.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
    assert_eq!(ask(&mut connect(&server), "QLEN q"), ":0");
}
