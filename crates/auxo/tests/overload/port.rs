//! The ports of a server, and the least that one can say on each.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::Server;

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(100);

/// Where clients come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Http,
    Resp,
    Beanstalk,
}

pub const PORTS: [Port; 3] = [Port::Http, Port::Resp, Port::Beanstalk];

impl Port {
    /// The least that one can ask, and how the answer ends.
    pub fn greeting(self) -> (&'static str, &'static str) {
        match self {
            Port::Http => ("GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", "}"),
            Port::Resp => ("PING\r\n", "+PONG\r\n"),
            Port::Beanstalk => ("list-tube-used\r\n", "USING default\r\n"),
        }
    }

    /// What makes the server say a lot.
    pub fn talkative(self) -> &'static str {
        match self {
            Port::Http => "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n",
            Port::Resp => "COMMAND\r\n",
            Port::Beanstalk => "stats\r\n",
        }
    }
}

/// A connection, without a buffer: some tests have ten thousand of them.
pub struct Guest {
    port: Port,
    stream: TcpStream,
}

impl Guest {
    pub fn new(server: &Server, port: Port) -> Guest {
        Guest::over(TcpStream::connect(server.at(port)).unwrap(), port)
    }

    pub fn over(stream: TcpStream, port: Port) -> Guest {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Guest { port, stream }
    }

    /// Asks for the least; says whether there was an answer.
    pub fn is_greeted(&mut self) -> bool {
        let (question, end) = self.port.greeting();
        if self.stream.write_all(question.as_bytes()).is_err() {
            return false;
        }
        self.hears(end)
    }

    /// Reads up to this, which must be the end of what there is; says whether it came.
    pub fn hears(&mut self, end: &str) -> bool {
        self.hears_all(end).ends_with(end)
    }

    /// The same, and answers with all that came.
    pub fn hears_all(&mut self, end: &str) -> String {
        let mut heard = Vec::new();
        let mut bytes = [0; 4096];
        while !heard.ends_with(end.as_bytes()) {
            match self.stream.read(&mut bytes) {
                Ok(n) if n > 0 => heard.extend_from_slice(&bytes[..n]),
                _ => break,
            }
        }
        String::from_utf8(heard).unwrap()
    }

    #[track_caller]
    pub fn greet(&mut self) {
        assert!(self.is_greeted(), "{:?} does not answer", self.port);
    }

    /// Asks for something, and answers with the first line that comes. Nothing may be on its way besides.
    #[track_caller]
    pub fn ask(&mut self, request: &str) -> String {
        self.stream.write_all(request.as_bytes()).unwrap();
        self.stream.write_all(b"\r\n").unwrap();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            line.extend(byte);
        }
        String::from_utf8(line).unwrap().trim_end().to_owned()
    }

    /// The socket itself.
    pub fn socket(&mut self) -> &mut TcpStream {
        &mut self.stream
    }
}
