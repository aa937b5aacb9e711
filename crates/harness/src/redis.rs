//! Real Redis servers for tests: started on free ports, with their files in a temporary directory, and ended with the value
//! that stands for them.
//!
//! `AUXO_REDIS_SERVER` names another program than `redis-server`, such as `valkey-server`.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod cluster;
mod resp;
mod sentinel;
pub mod tls;
pub mod user;

pub use cluster::ClusterSet;
pub use resp::{Client, Reply};
pub use sentinel::SentinelSet;

/// One process.
pub struct Server {
    child: Option<Child>,
    args: Vec<String>,
    env: Vec<(&'static str, PathBuf)>,
    port: u16,
    // Last, so that the process is gone before its directory.
    dir: tempfile::TempDir,
}

/// One server that keeps nothing on the disk.
pub type Single = Server;

impl Server {
    /// Starts `redis-server` and waits until it answers. The arguments follow ours, and win.
    pub fn start(args: &[&str]) -> Server {
        let mut server = Server::new(args);
        server.spawn();
        server.wait_until_ready();
        server
    }

    /// The same, with syncs that can be held up.
    pub fn start_with_syncs_to_hold(args: &[&str]) -> Server {
        let mut server = Server::new(args);
        let library = server.file("held_sync.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/redis/held_sync.c");
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .args([source, "-ldl"])
            .status();
        assert!(made.expect("a C compiler, as Rust needs one").success());
        server.env = vec![
            ("LD_PRELOAD", library),
            ("AUXO_HOLD", server.file("hold")),
            ("AUXO_HELD", server.file("held")),
        ];
        server.spawn();
        server.wait_until_ready();
        server
    }

    /// From now on no sync comes to its end. Writes until one begins: that is once a second, if there is something to sync.
    pub fn hold_syncs(&self) {
        std::fs::write(self.file("hold"), "").expect("a file");
        let mut client = self.client();
        wait("a sync is held up", || {
            client.ask(&["SET", "something", "to sync"]);
            self.file("held").exists()
        });
    }

    /// Syncs go on.
    pub fn release_syncs(&self) {
        for name in ["hold", "held"] {
            let _ = std::fs::remove_file(self.file(name));
        }
    }

    /// One that is not yet started.
    fn new(args: &[&str]) -> Server {
        Server {
            child: None,
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: Vec::new(),
            port: free_port(),
            dir: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    fn spawn(&mut self) {
        let log = std::fs::File::create(self.dir.path().join("output")).expect("a log file");
        let mut command = Command::new(program());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        // A sentinel's file of settings must come first; it has the port in it.
        if self.args.iter().any(|arg| arg == "--sentinel") {
            command.args(&self.args);
        } else {
            let port = self.port.to_string();
            let dir = self.dir.path().to_str().expect("a path of plain text");
            command.args(["--port", &port, "--dir", dir, "--bind", "127.0.0.1"]);
            command
                .args(["--save", "", "--appendonly", "no"])
                .args(&self.args);
        }
        let spawned = command
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a log file"))
            .stdout(log)
            .spawn();
        self.child = Some(spawned.unwrap_or_else(|error| {
            panic!(
                "cannot start {}: {error}. Install the package redis-server (or valkey), or let AUXO_REDIS_SERVER name one",
                program()
            )
        }));
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its store's URL, with options such as `?timeout=1s`.
    pub fn url(&self, options: &str) -> String {
        format!("redis://{}{options}", self.address())
    }

    /// Where it keeps its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file in its directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A connection for the test's own questions.
    pub fn client(&self) -> Client {
        Client::connect(self.port).unwrap_or_else(|error| panic!("{error}\n{}", self.output()))
    }

    /// Asks, and expects an answer that is no error.
    pub fn ask(&self, command: &[&str]) -> Reply {
        self.client().ask(command)
    }

    /// Kills it, as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts it again on the same port, in the same directory.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
        self.wait_until_ready();
    }

    /// The same with more arguments, which stay. It may be loading still.
    pub fn restart_with(&mut self, args: &[&str]) {
        self.args.extend(args.iter().map(|arg| (*arg).to_owned()));
        self.restart();
    }

    /// Stops it without ending it: connections stay open, nothing answers.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("a running server").id();
        let sent = Command::new("kill")
            .args([signal, &id.to_string()])
            .status();
        assert!(sent.expect("kill").success());
    }

    /// Waits until it has so many replicas, and each follows. One that is only just connected does not for a second more.
    pub fn wait_for_replicas(&self, replicas: usize) {
        wait("the replicas are there", || {
            self.ask(&["ROLE"]).items()[2].items().len() == replicas
        });
        // A message is a change that every server takes, also one that has no slot for a key.
        let mut client = self.client();
        client.ask(&["PUBLISH", "a change", "for all"]);
        let confirmed = client.ask(&["WAIT", &replicas.to_string(), "10000"]);
        assert_eq!(confirmed.int(), replicas as i64, "replicas that follow");
    }

    /// What it printed.
    pub fn output(&self) -> String {
        std::fs::read_to_string(self.file("output")).unwrap_or_default()
    }

    fn wait_until_ready(&mut self) {
        let port = self.port;
        wait("the server answers", || {
            let child = self.child.as_mut().expect("a running server");
            if let Some(status) = child.try_wait().expect("a child") {
                panic!("the server ended with {status}:\n{}", self.output());
            }
            // One that wants a password, or is loading, answers, too.
            Client::connect(port).is_ok_and(|mut client| client.try_ask(&["PING"]).is_ok())
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn program() -> String {
    std::env::var("AUXO_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// A port that nobody listens on, below those that the system gives out by itself, so that nobody gets it before we do. The
/// bus of a cluster is 10000 above.
pub fn free_port() -> u16 {
    use std::hash::{BuildHasher, RandomState};
    loop {
        let random = RandomState::new().hash_one(0);
        let port = 10_000 + (random % 12_000) as u16;
        let free = |port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

/// Waits for something outside of this process, at most two minutes: sentinels that got no time to run do nothing for half of
/// one.
#[track_caller]
pub fn wait(what: &str, mut there: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !there() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
