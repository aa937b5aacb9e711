//! HTTP by hand: a client that knows exactly what it sent and what came back, and no more.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::PATIENCE;

/// What became of a request.
#[derive(Debug)]
pub enum Said {
    /// The status and the body.
    Answer(u16, Vec<u8>),
    /// There was nobody to send it to.
    Unsent,
    /// It was sent, in part at least, and no whole answer came.
    Unknown,
}

/// One kept connection, made anew when it breaks.
pub struct Wire {
    address: SocketAddr,
    stream: Option<TcpStream>,
}

impl Wire {
    pub fn new(address: SocketAddr) -> Wire {
        Wire {
            address,
            stream: None,
        }
    }

    pub async fn post(&mut self, path: &str, headers: &[&str], body: &str) -> Said {
        self.call(&request("POST", path, headers, body)).await
    }

    /// Sends a request, and waits for the whole answer.
    pub async fn call(&mut self, request: &str) -> Said {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => match TcpStream::connect(self.address).await {
                Ok(stream) => stream,
                Err(_) => return Said::Unsent,
            },
        };
        if stream.write_all(request.as_bytes()).await.is_err() {
            return Said::Unknown;
        }
        match tokio::time::timeout(PATIENCE, answer(&mut stream)).await {
            Ok(Some((status, body))) => {
                self.stream = Some(stream);
                Said::Answer(status, body)
            }
            _ => Said::Unknown,
        }
    }
}

/// A request in one piece.
pub fn request(method: &str, path: &str, headers: &[&str], body: &str) -> String {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n");
    for header in headers {
        head += &format!("{header}\r\n");
    }
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

/// Reads one whole answer; `None` when the connection ends before.
pub async fn answer(stream: &mut TcpStream) -> Option<(u16, Vec<u8>)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    };
    let length = head.lines().find_map(field)?;
    let mut body = bytes.split_off(end);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some((status, body))
}

/// One request on a connection of its own, which must be answered.
pub async fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let (status, body) = bytes(address, method, path, body).await;
    (status, serde_json::from_slice(&body).unwrap())
}

/// What is at a path, as it is.
pub async fn text(address: SocketAddr, path: &str) -> String {
    let (status, body) = bytes(address, "GET", path, "").await;
    assert_eq!(status, 200, "{path}");
    String::from_utf8(body).unwrap()
}

async fn bytes(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Vec<u8>) {
    let request = request(method, path, &[], body);
    match Wire::new(address).call(&request).await {
        Said::Answer(status, body) => (status, body),
        other => panic!("{method} {path}: {other:?}"),
    }
}
