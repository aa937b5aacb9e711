//! A server of a test's own.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

use crate::command::program;

/// The real binary, on a free port and in a directory of its own. It ends with the value.
pub struct Server {
    child: Child,
    url: String,
    says: BufReader<ChildStderr>,
    data: PathBuf,
    _dir: TempDir,
}

impl Server {
    /// On a directory of its own.
    pub fn start() -> Server {
        let dir = TempDir::new().unwrap();
        let data = dir.path().join("data");
        Server::start_on("--data".as_ref(), data.as_os_str(), dir)
    }

    /// On the store that a flag names.
    pub fn start_on(flag: &OsStr, place: &OsStr, dir: TempDir) -> Server {
        let mut child = Command::new(program())
            .args(["serve", "--http", "127.0.0.1:0"])
            .args([flag, place])
            .env_remove("AUXO_DATA")
            .env_remove("AUXO_SERVER")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut server = Server {
            says: BufReader::new(child.stderr.take().unwrap()),
            child,
            url: String::new(),
            data: place.into(),
            _dir: dir,
        };
        server.url = server.says_where();
        server
    }

    /// Reads where it listens; notes about the settings come first.
    fn says_where(&mut self) -> String {
        let mut said = String::new();
        loop {
            let begin = said.len();
            assert_ne!(self.says.read_line(&mut said).unwrap(), 0, "{said}");
            if let Some((_, url)) = said[begin..].trim().split_once("listens on ") {
                return url.to_owned();
            }
        }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its data directory, if it has one.
    pub fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already, and then the test has said so.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
