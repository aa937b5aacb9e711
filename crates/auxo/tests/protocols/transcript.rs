//! Conversations written down, and played to a server.
//!
//! A line begins with the name of a connection, which is made when it is first mentioned:
//!
//! ```text
//! A> put 0 0 60 5      sent, with CR LF behind it
//! A>| hello            sent as it is
//! A< INSERTED {job}    must come next, with CR LF behind it
//! A< OK                must come next, with the length of what follows
//! A<| name: default    must come next, with LF behind it; CR LF follows the last of these
//! A= ['a' :1]          must come next, as one reply of RESP: see `reply`
//! A< (closed)          the server must close the connection
//! A! close             closes it
//! A! end               sends no more, but listens
//! ```
//!
//! `\r`, `\n`, `\0`, `\\` and `\xNN` are the bytes they say, and `\x61*300` at the end of a line is that byte so often. `{job}` is whatever
//! stands there when it is first seen, and the same from then on; `{*}` is anything.

use auxo_harness::reply;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays a transcript; panics at the first difference.
pub fn play(name: &str, text: &str, server: SocketAddr) {
    let mut player = Player {
        server,
        connections: HashMap::new(),
        names: HashMap::new(),
    };
    let lines: Vec<&str> = text.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        at += 1;
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let here = format!("{name}:{at}: {line}");
        let (who, what) = line.split_at(1);
        if what == "< OK" {
            let begins = format!("{who}<| ");
            let data = lines[at..]
                .iter()
                .map_while(|line| line.strip_prefix(&begins));
            let data: Vec<&str> = data.collect();
            at += data.len();
            player.expect_data(who, &data, &here);
        } else if let Some(text) = what.strip_prefix(">| ") {
            player.send(who, text, b"", &here);
        } else if let Some(text) = what.strip_prefix("> ") {
            player.send(who, text, b"\r\n", &here);
        } else if what == ">" {
            player.send(who, "", b"\r\n", &here);
        } else if what == "< (closed)" {
            player.expect_end(who, &here);
        } else if let Some(text) = what.strip_prefix("< ") {
            let line = player.line(who, &here);
            player.compare(text, &line, &here);
        } else if let Some(text) = what.strip_prefix("= ") {
            let reply = reply::read(player.connection(who), &here);
            player.compare(text, &reply, &here);
        } else if what == "! close" {
            player.connections.remove(who);
        } else if what == "! end" {
            let connection = player.connection(who).get_mut();
            connection.shutdown(Shutdown::Write).unwrap();
        } else {
            panic!("{here}: not a line of a transcript");
        }
    }
    for (who, connection) in player.connections {
        assert_eq!(
            connection.buffer(),
            b"",
            "{name}: {who} got more than was written down"
        );
    }
}

struct Player {
    server: SocketAddr,
    connections: HashMap<String, BufReader<TcpStream>>,
    names: HashMap<String, String>,
}

impl Player {
    fn connection(&mut self, who: &str) -> &mut BufReader<TcpStream> {
        let server = self.server;
        self.connections.entry(who.to_owned()).or_insert_with(|| {
            let stream = TcpStream::connect(server).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.set_nodelay(true).unwrap();
            BufReader::new(stream)
        })
    }

    fn send(&mut self, who: &str, text: &str, end: &[u8], here: &str) {
        let mut text = text.to_owned();
        for (name, value) in &self.names {
            text = text.replace(&format!("{{{name}}}"), value);
        }
        let mut bytes = unescape(&text, here);
        bytes.extend(end);
        let sent = self.connection(who).get_mut().write_all(&bytes);
        sent.unwrap_or_else(|error| panic!("{here}: {error}"));
    }

    fn line(&mut self, who: &str, here: &str) -> String {
        let mut line = Vec::new();
        let read = self.connection(who).read_until(b'\n', &mut line);
        read.unwrap_or_else(|error| panic!("{here}: {error}"));
        let text = String::from_utf8_lossy(&line).into_owned();
        let line = text.strip_suffix("\r\n");
        line.unwrap_or_else(|| panic!("{here}: got {text:?}"))
            .to_owned()
    }

    fn expect_data(&mut self, who: &str, expected: &[&str], here: &str) {
        let head = self.line(who, here);
        let length = head.strip_prefix("OK ").and_then(|n| n.parse().ok());
        let length: usize = length.unwrap_or_else(|| panic!("{here}: got {head:?}"));
        let mut data = vec![0; length + 2];
        let read = self.connection(who).read_exact(&mut data);
        read.unwrap_or_else(|error| panic!("{here}: {error}"));
        let text = String::from_utf8(data).unwrap();
        let text = text.strip_suffix("\r\n");
        let text = text.unwrap_or_else(|| panic!("{here}: the data does not end where it says"));
        assert!(text.ends_with('\n'), "{here}: {text:?}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{here}: got\n{text}");
        for (expected, line) in expected.iter().zip(lines) {
            self.compare(expected, line, here);
        }
    }

    fn expect_end(&mut self, who: &str, here: &str) {
        let mut rest = Vec::new();
        let read = self.connection(who).read_to_end(&mut rest);
        read.unwrap_or_else(|error| panic!("{here}: {error}"));
        assert_eq!(String::from_utf8_lossy(&rest), "", "{here}");
    }

    /// Compares a line, and notes what the names in it stand for.
    fn compare(&mut self, expected: &str, line: &str, here: &str) {
        let (mut expected, mut rest) = (expected, line);
        while let Some((before, name_and_more)) = expected.split_once('{') {
            let (name, after) = name_and_more.split_once('}').expect("a name ends");
            let differs = || panic!("{here}: got {line:?}");
            rest = rest.strip_prefix(before).unwrap_or_else(differs);
            // What a name stands for ends where the next thing begins.
            let next = after.split('{').next().unwrap_or_default();
            let end = match next {
                "" => rest.len(),
                next => rest
                    .find(next)
                    .unwrap_or_else(|| panic!("{here}: got {line:?}")),
            };
            let (value, behind) = rest.split_at(end);
            match self.names.get(name) {
                Some(known) => assert_eq!(known, value, "{here}: got {line:?}"),
                None if name == "*" => {}
                None => {
                    self.names.insert(name.to_owned(), value.to_owned());
                }
            }
            (expected, rest) = (after, behind);
        }
        assert_eq!(
            rest.as_bytes(),
            unescape(expected, here),
            "{here}: got {line:?}"
        );
    }
}

fn unescape(text: &str, here: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend(plain.as_bytes());
        let (kind, behind) = escaped.split_at(1);
        rest = behind;
        match kind {
            "r" => bytes.push(b'\r'),
            "n" => bytes.push(b'\n'),
            "0" => bytes.push(0),
            "\\" => bytes.push(b'\\'),
            "x" => {
                let (digits, behind) = rest.split_at(2);
                let byte = u8::from_str_radix(digits, 16).expect("two digits");
                let times = behind.strip_prefix('*').map(|times| {
                    let digits =
                        times.len() - times.trim_start_matches(|c: char| c.is_ascii_digit()).len();
                    times.split_at(digits)
                });
                let (times, behind) = times.unwrap_or(("1", behind));
                bytes.extend(std::iter::repeat_n(byte, times.parse().expect("a number")));
                rest = behind;
            }
            other => panic!("{here}: \\{other} is not known"),
        }
    }
    bytes.extend(rest.as_bytes());
    bytes
}
