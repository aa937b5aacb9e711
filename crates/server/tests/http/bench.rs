//! A server on a port of its own, and a client that sends what it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::{Engine, ManualClock, Service};
use auxo_embedded::{Embedded, Options, Sync};
use auxo_server::{About, Listener, Server, Settings};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::shapes;

/// Longer than anything takes; only a broken test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// A running server.
pub struct Bench {
    pub address: SocketAddr,
    pub service: Arc<Service>,
    pub clock: Arc<ManualClock>,
    stop: Option<oneshot::Sender<()>>,
    server: JoinHandle<()>,
    _dir: TempDir,
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
        Bench::built(wrap, adjust, Listener::from).await
    }

    /// A server that listens as a test has it.
    pub async fn listening(listen: impl FnOnce(TcpListener) -> Listener) -> Bench {
        Bench::built(|engine| Arc::new(engine), |_| (), listen).await
    }

    pub async fn built(
        wrap: impl FnOnce(Embedded) -> Arc<dyn Engine>,
        adjust: impl FnOnce(&mut Settings),
        listen: impl FnOnce(TcpListener) -> Listener,
    ) -> Bench {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::at(1_700_000_000_000);
        let options = Options {
            sync: Sync::Os,
            clock: Some(clock.clone()),
            ..Options::default()
        };
        let engine = wrap(Embedded::open(dir.path(), options).unwrap());
        let service = Service::with_clock(engine, Default::default(), clock.clone());
        let service = Arc::new(service);
        let mut settings = Settings {
            about: About {
                name: "bench".into(),
                sync: "os".into(),
                data: "here".into(),
            },
            ..Settings::default()
        };
        adjust(&mut settings);
        let any = "127.0.0.1:0".parse().unwrap();
        let listener = listen(Server::listen(any).unwrap());
        let server = Server::new(listener, service.clone(), settings).unwrap();
        let address = server.address().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Bench {
            address,
            service,
            clock,
            stop: Some(stop),
            server,
            _dir: dir,
        }
    }

    /// Tells the server to stop.
    pub fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has.
    pub async fn stopped(self) {
        within(self.server).await.unwrap();
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends one request on a connection of its own, and holds the answer against the document.
    pub async fn call(&self, method: &str, path: &str, body: impl Into<Vec<u8>>) -> Reply {
        self.call_with(method, path, &["content-type: application/json"], body)
            .await
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call_with("GET", path, &[], "").await
    }

    pub async fn call_with(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: impl Into<Vec<u8>>,
    ) -> Reply {
        let mut stream = self.connect().await;
        let body = body.into();
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", self.address);
        for header in headers {
            head += &format!("{header}\r\n");
        }
        head += &format!(
            "connection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // A server that refuses may close before it has read everything.
        let _ = stream.write_all(&body).await;
        let reply = read_reply(&mut stream).await;
        shapes::check(method, path, &reply);
        reply
    }

    /// Pushes a job and answers its id.
    pub async fn push(&self, queue: &str, body: &str) -> String {
        let path = format!("/v1/queues/{queue}/jobs");
        let reply = self.call("POST", &path, body).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Leases one job and answers its token.
    pub async fn lease(&self, queue: &str) -> String {
        let body = format!(r#"{{"queues":["{queue}"]}}"#);
        let reply = self.call("POST", "/v1/lease", body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["jobs"][0]["token"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

/// Waits, but not for ever.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("took too long")
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub text: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks that this is a problem with this status and code, and answers its message.
    #[track_caller]
    pub fn problem(&self, status: u16, code: &str) -> String {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let body = self.json();
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status, "{body}");
        assert_eq!(body["type"], "about:blank", "{body}");
        assert_eq!(body["message"], body["detail"], "{body}");
        body["message"].as_str().unwrap().to_owned()
    }
}

/// Reads one answer that has a length.
pub async fn read_reply(stream: &mut TcpStream) -> Reply {
    within(async {
        let head = read_head(stream).await;
        let status = head.split(' ').nth(1).unwrap_or_default().parse();
        let mut reply = Reply {
            status: status.unwrap_or_else(|_| panic!("no status in {head:?}")),
            head,
            text: String::new(),
        };
        let length = reply.header("content-length").map(|n| n.parse().unwrap());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await.unwrap();
        reply.text = String::from_utf8(body).unwrap();
        reply
    })
    .await
}

/// Reads up to the empty line.
pub async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&head)),
        }
    }
    String::from_utf8(head).unwrap()
}
