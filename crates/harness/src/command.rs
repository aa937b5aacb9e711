//! Runs the binary, with nothing set up for it, and keeps what it said.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What a command said.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The binary, with pipes, and with nothing set up for it.
pub fn auxo() -> Command {
    plain(Command::new(program()))
}

/// The binary: cargo puts it into the directory above the one with the tests.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let target = test
        .ancestors()
        .nth(2)
        .expect("a test lies in target/PROFILE/deps");
    let program = target.join("auxo");
    assert!(
        program.exists(),
        "{} is missing; `cargo build` makes it",
        program.display()
    );
    program
}

/// Pipes, and nothing of what the environment says about Auxo.
pub fn plain(mut command: Command) -> Command {
    for name in [
        "AUXO_DATA",
        "AUXO_SERVER",
        "AUXO_CONFIG",
        "AUXO_TOKEN",
        "AUXO_CA",
        "COLUMNS",
    ] {
        command.env_remove(name);
    }
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs a command to its end with something on stdin.
pub fn finish(mut command: Command, stdin: &[u8]) -> Ran {
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
