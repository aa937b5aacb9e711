//! A queue for a test, and commands that are run on it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use auxo_harness::command::{Ran, auxo, finish};
use auxo_harness::server::Server;
use auxo_harness::started::Started;

/// A queue, on a data directory or on a server of its own, and the commands that are run on it.
pub struct Shell {
    dir: TempDir,
    server: Option<Server>,
    columns: Option<&'static str>,
}

/// Tests that take a shell, each run on a data directory and on a server: a verb must not show where it works.
macro_rules! both {
    ($($name:ident),* $(,)?) => {
        mod on_a_directory {
            $(#[test] fn $name() { super::$name(&crate::shell::Shell::new()) })*
        }
        mod on_a_server {
            $(#[test] fn $name() { super::$name(&crate::shell::Shell::on_server()) })*
        }
    };
}

impl Shell {
    /// On a data directory, which is not made yet.
    pub fn new() -> Shell {
        Shell {
            dir: TempDir::new().unwrap(),
            server: None,
            columns: None,
        }
    }

    /// On a server that has no job yet.
    pub fn on_server() -> Shell {
        Shell {
            server: Some(Server::start()),
            ..Shell::new()
        }
    }

    /// With tables that are so wide.
    pub fn columns(self, columns: &'static str) -> Shell {
        Shell {
            columns: Some(columns),
            ..self
        }
    }

    pub fn data(&self) -> &Path {
        self.dir.path()
    }

    /// Where the server is.
    pub fn url(&self) -> &str {
        self.server.as_ref().expect("on a server").url()
    }

    /// The directory that the server has open.
    pub fn data_of_server(&self) -> &str {
        self.server.as_ref().expect("on a server").data()
    }

    /// Runs a command on the queue.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.feed(args, b"")
    }

    /// Runs a command with something on stdin.
    pub fn feed(&self, args: &[&str], stdin: &[u8]) -> Ran {
        finish(self.command(args), stdin)
    }

    /// Starts a command and does not wait for it.
    pub fn start(&self, args: &[&str]) -> Started {
        Started::new(self.command(args))
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = auxo();
        command.args(args);
        match &self.server {
            Some(server) => command.env("AUXO_SERVER", server.url()),
            None => command.env("AUXO_DATA", self.data()),
        };
        if let Some(columns) = self.columns {
            command.env("COLUMNS", columns);
        }
        command
    }

    /// Runs a command that must succeed, and answers with what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        ran.out
    }

    /// Runs a command that must succeed with `--json`, and answers with the objects it printed.
    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        let out = self.ok(&[args, &["--json"]].concat());
        out.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Pushes a job and answers with its id.
    pub fn push(&self, args: &[&str]) -> String {
        let out = self.ok(&[&["push"], args].concat());
        out.trim().to_owned()
    }

    /// Pushes many jobs at once, with empty payloads.
    pub fn fill(&self, queue: &str, count: usize) {
        let ran = self.feed(&["push", queue, "--lines"], "\n".repeat(count).as_bytes());
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    /// Leases one job and answers with its token.
    pub fn lease(&self, queue: &str) -> String {
        text(&self.json(&["lease", queue])[0]["token"])
    }

    /// The job as JSON.
    pub fn job(&self, id: &str) -> Value {
        self.json(&["job", id]).remove(0)
    }
}

/// Runs a command with nothing set up for it.
pub fn bare(args: &[&str]) -> Ran {
    let mut command = auxo();
    command.args(args);
    finish(command, b"")
}

pub fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no text"))
        .to_owned()
}
