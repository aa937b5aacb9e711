//! `auxo serve` as a process of its own, on a store that outlives it and a port that it comes back to.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use auxo::Remote;
use tempfile::TempDir;

use auxo_harness::command::{self, Ran};
use auxo_harness::started::Started;

/// Longer than anything takes; only a broken test waits for it.
pub const PATIENCE: Duration = Duration::from_secs(100);

/// A server that may be down.
pub struct Server {
    home: Home,
    flags: Vec<&'static str>,
    environment: Vec<(String, String)>,
    pub address: SocketAddr,
    running: Option<Started>,
}

/// Where its jobs are.
enum Home {
    Dir(TempDir),
    /// A disk of its own in memory, of so many megabytes, which only the process sees.
    Small(TempDir, u32),
    /// The URL of a store that others may use, too.
    Store(String),
}

impl Server {
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// With more flags.
    pub fn with(flags: &[&'static str]) -> Server {
        Server::new(Home::Dir(TempDir::new().unwrap()), flags, Vec::new())
    }

    /// On a disk of its own, of so many megabytes.
    pub fn on_small_disk(megabytes: u32) -> Server {
        let home = Home::Small(TempDir::new().unwrap(), megabytes);
        Server::new(home, &[], Vec::new())
    }

    /// Its directory, as others can reach it.
    pub fn directory(&self) -> PathBuf {
        match &self.home {
            Home::Dir(dir) => dir.path().to_owned(),
            Home::Small(dir, _) => {
                let root = PathBuf::from(format!("/proc/{}/root", self.id()));
                root.join(dir.path().strip_prefix("/").unwrap())
            }
            Home::Store(url) => panic!("{url} is no directory"),
        }
    }

    /// On the store at a URL.
    pub fn on(url: &str) -> Server {
        Server::new(Home::Store(url.to_owned()), &[], Vec::new())
    }

    /// On the store at a URL, with a clock on its wall that is wrong by so much, such as `+1h`.
    pub fn on_at(url: &str, by: &str) -> Server {
        Server::new(Home::Store(url.to_owned()), &[], wrong_clock(by))
    }

    fn new(home: Home, flags: &[&'static str], environment: Vec<(String, String)>) -> Server {
        let mut server = Server {
            home,
            flags: flags.to_vec(),
            environment,
            address: "127.0.0.1:0".parse().unwrap(),
            running: None,
        };
        server.again();
        server
    }

    /// Starts it, after the first time on the port that it had.
    pub fn again(&mut self) {
        let began = Instant::now();
        // Another program may have got the port for a moment.
        while !self.begin() {
            assert!(began.elapsed() < PATIENCE, "{} is taken", self.address);
        }
    }

    fn begin(&mut self) -> bool {
        // With the signal ignored, a limit on the size of files is an error of the disk and not the end of the process.
        let mut command = match &self.home {
            Home::Dir(_) | Home::Store(_) => Command::new("sh"),
            Home::Small(_, megabytes) => with_own_disk(*megabytes),
        };
        command.args(["-c", r#"trap '' XFSZ; exec "$0" "$@""#]);
        command.arg(env!("CARGO_BIN_EXE_auxo"));
        let mut command = command::plain(command);
        command
            .args(["serve", "--http", &self.address.to_string()])
            .args(&self.flags)
            .envs(self.environment.clone())
            .stdin(Stdio::null());
        match &self.home {
            Home::Dir(dir) | Home::Small(dir, _) => command.env("AUXO_DATA", dir.path()),
            Home::Store(url) => command.args(["--store", url]),
        };
        let mut started = Started::new(command);
        let Some(line) = started.may_say("listens on http://") else {
            let ran = started.finish();
            assert_eq!(ran.code, 1, "{ran:?}");
            return false;
        };
        self.address = line
            .rsplit("http://")
            .next()
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        self.running = Some(started);
        true
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn client(&self) -> Remote {
        Remote::new(&self.url()).unwrap()
    }

    /// What the system calls the process.
    pub fn id(&self) -> u32 {
        self.running().id()
    }

    fn running(&self) -> &Started {
        self.running.as_ref().expect("it runs")
    }

    pub fn signal(&self, name: &str) {
        self.running().signal(name);
    }

    /// Reads what it says until this is part of it.
    pub fn says(&mut self, text: &str) -> String {
        self.running.as_mut().expect("it runs").says(text)
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> Ran {
        self.running.take().expect("it runs").finish()
    }

    /// Ends it without a warning, and answers with what it said and nobody read.
    pub fn kill(&mut self) -> Ran {
        self.signal("KILL");
        self.ended()
    }

    /// Runs a command of the binary on it that must succeed, and answers with what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        let mut command = command::auxo();
        command.args(args).env("AUXO_SERVER", self.url());
        let ran = command::finish(command, b"");
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.out
    }

    /// Reads every job and holds the books against them, through the server or, when it is down, in its directory.
    pub fn audit(&self) {
        let (None, Home::Dir(dir)) = (&self.running, &self.home) else {
            self.ok(&["audit"]);
            return;
        };
        let mut command = command::auxo();
        command.arg("audit").env("AUXO_DATA", dir.path());
        let ran = command::finish(command, b"");
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A test that fails leaves no process behind.
        if self.running.is_some() {
            self.kill();
        }
    }
}

/// A shell in whose data directory a new file system of that size is mounted, for this process and its children alone. It takes
/// the arguments of `sh`.
fn with_own_disk(megabytes: u32) -> Command {
    let mount = format!(r#"mount -t tmpfs -o size={megabytes}m none "$AUXO_DATA" && exec sh "$@""#);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", &mount, "sh"]);
    command
}

/// What `faketime` sets for its command. The command itself is not used: it stays between a server and those who kill it.
fn wrong_clock(by: &str) -> Vec<(String, String)> {
    let mut command = Command::new("faketime");
    // Time that passes is right; only the clock on the wall is not.
    command.args(["--exclude-monotonic", "-f", by, "env"]);
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot start faketime: {error}. Install the package faketime, if it is that")
    });
    let text = String::from_utf8(output.stdout).unwrap();
    let set = text.lines().filter_map(|line| line.split_once('='));
    // What its own processes share is gone with them.
    set.filter(|(name, _)| {
        name.contains("FAKE") && *name != "FAKETIME_SHARED" || *name == "LD_PRELOAD"
    })
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}
