//! A client of HTTP, of few words, on one kept connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(100);

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Client {
    pub fn connect(address: SocketAddr) -> Client {
        Client::over(TcpStream::connect(address).unwrap())
    }

    pub fn over(stream: TcpStream) -> Client {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        // Small, since some tests have ten thousand of them.
        let stream = BufReader::with_capacity(512, stream);
        Client { stream }
    }

    pub fn get(&mut self, path: &str) -> Reply {
        self.call("GET", path, "")
    }

    pub fn post(&mut self, path: &str, body: &str) -> Reply {
        self.call("POST", path, body)
    }

    pub fn call(&mut self, method: &str, path: &str, body: &str) -> Reply {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes());
        self.reply().expect("no answer")
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// The next answer, or `None` when the server has closed the connection.
    pub fn reply(&mut self) -> Option<Reply> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.stream.read_exact(&mut body).ok()?;
        Some(Reply {
            status: head.split(' ').nth(1)?.parse().ok()?,
            text: String::from_utf8(body).unwrap(),
            head,
        })
    }

    /// The socket itself.
    pub fn socket(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }
}
