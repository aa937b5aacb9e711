//! A Redis of its own for each test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_conformance::Bench;
use auxo_conformance::bench::Later;
use auxo_core::Engine;
use auxo_core::clock::ManualClock;
use auxo_redis::{Options, RedisEngine};

pub struct Server {
    child: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl Server {
    pub fn start() -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let child = Command::new("redis-server")
            .args([
                "--port",
                &port.to_string(),
                "--save",
                "",
                "--appendonly",
                "no",
            ])
            .args(["--dir", dir.path().to_str().unwrap()])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts: install the package redis-server");
        let begin = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(
                begin.elapsed() < Duration::from_secs(10),
                "redis-server does not answer"
            );
            std::thread::yield_now();
        }
        Server {
            child,
            port,
            _dir: dir,
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub async fn make() -> Bench {
    let server = Arc::new(Server::start());
    bench(server, ManualClock::at(1_700_000_000_000), 1).await
}

/// With so many shards that every queue of a case is likely to be elsewhere.
pub async fn make_sharded() -> Bench {
    let server = Arc::new(Server::start());
    bench(server, ManualClock::at(1_700_000_000_000), 7).await
}

fn bench(server: Arc<Server>, clock: Arc<ManualClock>, shards: u16) -> Later<Bench> {
    Box::pin(async move { open(server, clock, shards).await })
}

async fn open(server: Arc<Server>, clock: Arc<ManualClock>, shards: u16) -> Bench {
    let options = Options {
        clock: Some(clock.clone()),
        shards,
        ..Options::default()
    };
    let url = format!("redis://127.0.0.1:{}", server.port);
    let engine = Arc::new(RedisEngine::open(&url, options).await.expect("it opens"));
    let again = clock.clone();
    Bench {
        engine: engine.clone(),
        clock,
        steady: false,
        reopen: Some(Arc::new(move || {
            let (engine, server, clock) = (engine.clone(), server.clone(), again.clone());
            Box::pin(async move {
                engine.close().await.expect("it closes");
                bench(server, clock, shards).await
            })
        })),
    }
}
