//! A running `auxo serve`, and what the system says of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::port::Port;
use auxo_harness::command::auxo;
use auxo_harness::http::Client;

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(100);

pub const KB: u64 = 1 << 10;
pub const MB: u64 = 1 << 20;

/// The other ports. Those that it has unless told otherwise belong to whoever comes first.
pub const OTHERS: [&str; 4] = ["--resp", "127.0.0.1:0", "--beanstalk", "127.0.0.1:0"];

/// The process. It is killed when this is dropped.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    resp: Option<SocketAddr>,
    beanstalk: Option<SocketAddr>,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    dir: TempDir,
}

impl Server {
    /// A server with these flags on a data directory and ports of its own. Unless said otherwise it leaves syncing to the
    /// system, since these tests are not about the disk.
    pub fn start(flags: &[&str]) -> Server {
        Server::on(TempDir::new().unwrap(), flags)
    }

    /// The same, on a directory in which `data` may be there already.
    pub fn on(dir: TempDir, flags: &[&str]) -> Server {
        let mut command = auxo();
        command.args(["serve", "--http", "127.0.0.1:0"]);
        command.args(OTHERS);
        if !flags.contains(&"--sync") {
            command.args(["--sync", "os"]);
        }
        command.args(flags);
        Server::spawn(command, dir)
    }

    /// The same, from a command that ends up as a server on any ports.
    pub fn spawn(mut command: Command, dir: TempDir) -> Server {
        command
            .env("AUXO_DATA", dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(String::new()));
        let (tell, told) = mpsc::channel();
        let kept = log.clone();
        // Read all the time: a server whose log nobody takes would stand still.
        let reader = std::thread::spawn(move || {
            for line in errors.split(b'\n') {
                let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
                let mut log = kept.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
                // It says last what to try.
                if line.starts_with("try: ") {
                    let _ = tell.send(log.clone());
                }
            }
        });
        let Ok(said) = told.recv_timeout(PATIENCE) else {
            panic!("it did not begin: {}", log.lock().unwrap());
        };
        let address = |begin: &str| {
            let (_, rest) = said.split_once(begin)?;
            rest.lines().next()?.trim().parse().ok()
        };
        Server {
            child,
            address: address(" listens on http://").unwrap(),
            resp: address("  resp "),
            beanstalk: address("  beanstalk "),
            log,
            reader: Some(reader),
            dir,
        }
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// How many segments its log has.
    pub fn segments(&self) -> usize {
        let files = fs::read_dir(self.data()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.ends_with(".log")).count()
    }

    /// Where it listens.
    pub fn at(&self, port: Port) -> SocketAddr {
        match port {
            Port::Http => self.address,
            Port::Resp => self.resp.expect("a port for RESP"),
            Port::Beanstalk => self.beanstalk.expect("a port for beanstalkd's protocol"),
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Stops it as a service manager does, and answers with all it wrote.
    pub fn stop(mut self) -> String {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        let status = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        self.log()
    }

    /// The memory it has, in bytes.
    pub fn memory(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory it ever had.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with(name));
        let words = line.unwrap().split_whitespace();
        words.rev().nth(1).unwrap().parse::<u64>().unwrap() * KB
    }

    /// The processor time it has used.
    pub fn processor(&self) -> Duration {
        let stat = self.proc("stat");
        // The name in brackets may hold spaces; after it the fields are counted from the third.
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ticks: u64 = fields[11..=12]
            .iter()
            .map(|n| n.parse::<u64>().unwrap())
            .sum();
        let per_second = rustix::param::clock_ticks_per_second();
        Duration::from_millis(ticks * 1000 / per_second)
    }

    /// How many files and sockets it has open.
    pub fn descriptors(&self) -> usize {
        let open = fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        open.unwrap().count()
    }

    fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap()
    }

    /// Checks that it answers and that its books are right.
    #[track_caller]
    pub fn assert_well(&self) {
        assert_eq!(self.client().get("/healthz").status, 200);
        let audit = self.client().post("/v1/audit", "");
        assert_eq!(
            (audit.status, &audit.json()["ok"]),
            (200, &true.into()),
            "{audit:?}"
        );
        assert!(!self.log().contains("panicked"), "{}", self.log());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until something outside of the test has become true, but not for ever.
#[track_caller]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "it never came to this: {what}");
        std::thread::yield_now();
    }
}
