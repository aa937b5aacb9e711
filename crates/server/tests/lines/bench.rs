//! A server on ports of its own, and a client that sends what it is told to.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::{Engine, Service};
use auxo_embedded::{Embedded, Options, Sync};
use auxo_server::{Server, Settings};
use tempfile::TempDir;

use auxo_harness::reply;

/// Longer than anything takes; only a broken test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// Where clients come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Resp,
    Beanstalk,
}

pub const PORTS: [Port; 2] = [Port::Resp, Port::Beanstalk];

impl Port {
    /// The least that one can ask there, and the answer.
    pub fn greeting(self) -> (&'static str, &'static str) {
        match self {
            Port::Resp => ("PING\r\n", "+PONG"),
            Port::Beanstalk => ("list-tube-used\r\n", "USING default"),
        }
    }
}

/// A running server. It ends with the runtime of the test.
pub struct Bench {
    pub service: Arc<Service>,
    resp: SocketAddr,
    beanstalk: SocketAddr,
    dir: TempDir,
}

impl Bench {
    pub async fn start() -> Bench {
        Bench::with(|_| ()).await
    }

    pub async fn with(adjust: impl FnOnce(&mut Settings)) -> Bench {
        Bench::around(|engine| Arc::new(engine), adjust).await
    }

    /// A server whose engine is what a test makes of the real one.
    pub async fn around(
        wrap: impl FnOnce(Embedded) -> Arc<dyn Engine>,
        adjust: impl FnOnce(&mut Settings),
    ) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            sync: Sync::Os,
            ..Options::default()
        };
        let engine = wrap(Embedded::open(&dir.path().join("data"), options).unwrap());
        let service = Arc::new(Service::new(engine, Default::default()));
        let mut settings = Settings::default();
        adjust(&mut settings);
        let listen = || Server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (http, resp, beanstalk) = (listen(), listen(), listen());
        let addresses = (resp.local_addr().unwrap(), beanstalk.local_addr().unwrap());
        let server = Server::new(http, service.clone(), settings).unwrap();
        let server = server.with_resp(resp, 1).with_beanstalk(beanstalk);
        tokio::spawn(server.run(std::future::pending()));
        Bench {
            service,
            resp: addresses.0,
            beanstalk: addresses.1,
            dir,
        }
    }

    /// What the server has on the disk is in `data` in here.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn connect(&self, port: Port) -> Caller {
        let address = match port {
            Port::Resp => self.resp,
            Port::Beanstalk => self.beanstalk,
        };
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Caller {
            port,
            stream: BufReader::new(stream),
        }
    }
}

/// A connection.
pub struct Caller {
    port: Port,
    stream: BufReader<TcpStream>,
}

impl Caller {
    /// Sends bytes as they are. A server that has closed is not surprising here: what it said before tells.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.get_mut().write_all(bytes.as_ref());
    }

    /// Sends a request, and reads the reply as a line of text: over RESP as `reply` has it, else the first line.
    #[track_caller]
    pub fn ask(&mut self, request: impl AsRef<[u8]>) -> String {
        self.send([request.as_ref(), b"\r\n"].concat());
        self.reply()
    }

    #[track_caller]
    pub fn reply(&mut self) -> String {
        match self.port {
            Port::Resp => reply::read(&mut self.stream, "a reply"),
            Port::Beanstalk => self.line(),
        }
    }

    /// The next line, whatever it is a part of.
    #[track_caller]
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "{line:?} is not a whole line");
        line.trim_end().to_owned()
    }

    /// A command of RESP whose words may have any bytes in them.
    #[track_caller]
    pub fn words(&mut self, words: &[&[u8]]) -> String {
        self.send(framed(words));
        self.reply()
    }

    /// Asks for the least.
    #[track_caller]
    pub fn greet(&mut self) {
        let (question, answer) = self.port.greeting();
        self.send(question);
        assert_eq!(self.reply(), answer, "{:?}", self.port);
    }

    /// All that comes until the server closes.
    pub fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            // It closed before it had read everything.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            read => drop(read.unwrap()),
        }
        rest
    }

    /// Whether nothing comes for so long, not even the end.
    pub fn is_quiet_for(&mut self, time: Duration) -> bool {
        let socket = self.stream.get_mut();
        socket.set_read_timeout(Some(time)).unwrap();
        let read = socket.read(&mut [0]);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// The socket itself.
    pub fn socket(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }
}

/// A command of RESP as programs send it.
pub fn framed(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}
