//! A connection for a test's own questions: no retries, nothing clever.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status or a string.
    Text(String),
    /// A number.
    Int(i64),
    /// Nothing.
    Nil,
    /// Several.
    Array(Vec<Reply>),
    /// A refusal.
    Error(String),
}

impl Client {
    /// Connects to a port of this machine.
    pub fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Client {
            stream: BufReader::new(stream),
        })
    }

    /// Asks, and expects an answer that is no error.
    #[track_caller]
    pub fn ask(&mut self, command: &[&str]) -> Reply {
        match self.try_ask(command).expect("an answer") {
            Reply::Error(error) => panic!("{command:?}: {error}"),
            reply => reply,
        }
    }

    /// Asks.
    pub fn try_ask(&mut self, command: &[&str]) -> io::Result<Reply> {
        self.send(command)?;
        self.read()
    }

    /// Asks without waiting for the answer.
    pub fn send(&mut self, command: &[&str]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            bytes.extend(format!("${}\r\n{part}\r\n", part.len()).into_bytes());
        }
        self.stream.get_mut().write_all(&bytes)
    }

    /// The next answer.
    pub fn read(&mut self) -> io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (sort, rest) = line.trim_end().split_at(1);
        let number = || rest.parse::<i64>().map_err(io::Error::other);
        Ok(match sort {
            "+" => Reply::Text(rest.to_owned()),
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Int(number()?),
            "$" | "*" if number()? < 0 => Reply::Nil,
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Text(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" => {
                let items = (0..number()?).map(|_| self.read());
                Reply::Array(items.collect::<io::Result<_>>()?)
            }
            _ => return Err(io::Error::other(format!("no RESP: {line}"))),
        })
    }
}

impl Reply {
    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            Reply::Text(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    /// Its number.
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(number) => *number,
            other => panic!("no number: {other:?}"),
        }
    }

    /// Its items.
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            other => panic!("no array: {other:?}"),
        }
    }
}
