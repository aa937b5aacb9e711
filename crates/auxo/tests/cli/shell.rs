//! Runs the binary and keeps what it said.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::started::Started;

/// A data directory, and the commands that are run on it.
pub struct Shell {
    dir: TempDir,
}

/// What a command said.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Shell {
    pub fn new() -> Shell {
        Shell {
            dir: TempDir::new().unwrap(),
        }
    }

    pub fn data(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a command on the data directory.
    pub fn run(&self, args: &[&str]) -> Ran {
        self.feed(args, b"")
    }

    /// Runs a command with something on stdin.
    pub fn feed(&self, args: &[&str], stdin: &[u8]) -> Ran {
        let mut command = auxo();
        command.args(args).env("AUXO_DATA", self.data());
        finish(command, stdin)
    }

    /// Starts a command and does not wait for it.
    pub fn start(&self, args: &[&str]) -> Started {
        let mut command = auxo();
        command.args(args).env("AUXO_DATA", self.data());
        Started::new(command)
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

pub fn auxo() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_auxo"));
    command.env_remove("AUXO_DATA").env_remove("AUXO_SERVER");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn finish(mut command: Command, stdin: &[u8]) -> Ran {
    let mut child = command.spawn().unwrap();
    // A command that does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
