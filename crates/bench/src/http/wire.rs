//! A kept connection that asks and listens, and does as little else as it can: what the client burns, the server lacks.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::Result;

/// The client's end of a connection.
pub struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// What was answered.
pub struct Reply<'a> {
    pub status: u16,
    pub body: &'a [u8],
    /// Bytes of head and body.
    pub length: usize,
}

impl<'a> Reply<'a> {
    /// The body of an answer that must be a good one.
    pub fn good(&self) -> Result<&'a [u8]> {
        match self.status {
            200 | 201 => Ok(self.body),
            status => {
                Err(format!("answer {status}: {}", String::from_utf8_lossy(self.body)).into())
            }
        }
    }
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Result<Wire> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Wire {
            stream,
            buffer: Vec::with_capacity(64 << 10),
        })
    }

    pub async fn send(&mut self, request: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(request).await?)
    }

    /// Sends bytes and waits for as many as `answer`.
    pub async fn ping(&mut self, request: &[u8], answer: usize) -> Result<()> {
        self.send(request).await?;
        self.buffer.clear();
        while self.buffer.len() < answer {
            self.more().await?;
        }
        Ok(())
    }

    /// Sends a request and waits for its answer.
    pub async fn ask(&mut self, request: &[u8]) -> Result<Reply<'_>> {
        self.send(request).await?;
        self.reply().await
    }

    /// Waits for an answer.
    pub async fn reply(&mut self) -> Result<Reply<'_>> {
        self.buffer.clear();
        let head = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        let status = text.get(9..12).ok_or("no status")?.parse()?;
        let length: usize = field(text, "content-length").ok_or("no length")?.parse()?;
        while self.buffer.len() < head + length {
            self.more().await?;
        }
        Ok(Reply {
            status,
            body: &self.buffer[head..],
            length: head + length,
        })
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err("the server closed the connection".into()),
            _ => Ok(()),
        }
    }
}

/// A POST of JSON as bytes.
pub fn post(path: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The values of a text field, in order of appearance, found without reading the rest.
pub fn values<'a>(body: &'a [u8], field: &'a str) -> impl Iterator<Item = &'a str> {
    let mark = format!("\"{field}\":\"").into_bytes();
    let mut rest = body;
    std::iter::from_fn(move || {
        let begin = find(rest, &mark)? + mark.len();
        let end = begin + rest[begin..].iter().position(|byte| *byte == b'"')?;
        let value = std::str::from_utf8(&rest[begin..end]).ok()?;
        rest = &rest[end..];
        Some(value)
    })
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == what[0]) {
        if bytes[from + at..].starts_with(what) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_their_order() {
        let body = br#"{"jobs":[{"token":"a-1","id":"7"},{"token":"b-2"}]}"#;
        assert_eq!(values(body, "token").collect::<Vec<_>>(), ["a-1", "b-2"]);
        assert_eq!(values(body, "id").collect::<Vec<_>>(), ["7"]);
        assert_eq!(values(b"{}", "id").count(), 0);
    }
}
