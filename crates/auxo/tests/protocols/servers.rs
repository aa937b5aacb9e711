//! The servers that are talked to, each with its own files and on ports of its own.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use auxo_harness::http::Client;

/// Longer than anything takes; only a broken test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The real binary. It ends with the value.
pub struct Auxo {
    child: Child,
    http: SocketAddr,
    beanstalk: SocketAddr,
    resp: SocketAddr,
    _dir: Option<TempDir>,
}

impl Auxo {
    pub fn on_a_directory() -> Auxo {
        let dir = TempDir::new().unwrap();
        let place = dir.path().to_str().unwrap().to_owned();
        Auxo::start(&["--data", &place], Some(dir))
    }

    pub fn on_redis(url: &str) -> Auxo {
        Auxo::start(&["--store", url], None)
    }

    fn start(place: &[&str], dir: Option<TempDir>) -> Auxo {
        let mut child = Command::new(env!("CARGO_BIN_EXE_auxo"))
            .args([
                "serve",
                "--http",
                "127.0.0.1:0",
                "--beanstalk",
                "127.0.0.1:0",
                "--resp",
                "127.0.0.1:0",
            ])
            .args(place)
            .env_remove("AUXO_DATA")
            .env_remove("AUXO_SERVER")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut says = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        // It says where it listens, and then what to try.
        while !said.contains("try: ") {
            let line = says
                .next()
                .unwrap_or_else(|| panic!("it only said:\n{said}"));
            said = said + line.unwrap().trim() + "\n";
        }
        let address = |protocol| {
            let address = said.lines().find_map(|line| line.strip_prefix(protocol));
            address.unwrap().trim().parse().unwrap()
        };
        let (beanstalk, resp) = (address("beanstalk "), address("resp "));
        let (_, http) = said.split_once(" listens on http://").unwrap();
        let http = http.lines().next().unwrap().parse().unwrap();
        // What it logs must not fill the pipe.
        std::thread::spawn(move || says.for_each(drop));
        Auxo {
            child,
            http,
            beanstalk,
            resp,
            _dir: dir,
        }
    }

    pub fn http(&self) -> SocketAddr {
        self.http
    }

    pub fn beanstalk(&self) -> SocketAddr {
        self.beanstalk
    }

    pub fn resp(&self) -> SocketAddr {
        self.resp
    }

    /// Checks that its books are right.
    #[track_caller]
    pub fn assert_well(&self) {
        let audit = Client::connect(self.http).post("/v1/audit", "");
        assert_eq!(audit.json()["ok"], true, "{audit:?}");
    }

    /// The most memory it ever had, in bytes.
    pub fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let words: Vec<&str> = line.unwrap().split_whitespace().collect();
        words[1].parse::<u64>().unwrap() * 1024
    }
}

impl Drop for Auxo {
    fn drop(&mut self) {
        // It may be gone already, and then the test has said so.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The original. It ends with the value.
pub struct Beanstalkd {
    child: Child,
    address: SocketAddr,
}

impl Beanstalkd {
    pub fn start() -> Beanstalkd {
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "beanstalkd does not start");
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = free.local_addr().unwrap();
            drop(free);
            let child = Command::new("beanstalkd")
                .args(["-l", "127.0.0.1", "-p", &address.port().to_string()])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let child = child.unwrap_or_else(|error| {
                panic!("cannot start beanstalkd: {error}. Install the package beanstalkd")
            });
            let mut server = Beanstalkd { child, address };
            if server.answers() {
                return server;
            }
        }
    }

    /// Waits until it listens; another program may have got the port.
    fn answers(&mut self) -> bool {
        while self.child.try_wait().unwrap().is_none() {
            if TcpStream::connect(self.address).is_ok() {
                return true;
            }
            std::thread::yield_now();
        }
        false
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Beanstalkd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
