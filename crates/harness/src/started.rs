//! A command that runs while the test goes on, and the pipes by which the two wait for each other.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command};

use crate::command::Ran;

/// A running command.
pub struct Started {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Started {
    /// Starts a command whose outputs are pipes.
    pub fn new(mut command: Command) -> Started {
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        Started { child, out, err }
    }

    /// The next line on stdout.
    pub fn line(&mut self) -> String {
        next(&mut self.out)
    }

    /// Reads stderr until a line has this text in it.
    pub fn says(&mut self, text: &str) -> String {
        let line = self.may_say(text);
        line.unwrap_or_else(|| panic!("it never said {text:?}"))
    }

    /// As [`Started::says`], of a command that may end without a word of it.
    pub fn may_say(&mut self, text: &str) -> Option<String> {
        loop {
            let line = next(&mut self.err);
            if line.is_empty() || line.contains(text) {
                return Some(line).filter(|line| !line.is_empty());
            }
        }
    }

    /// What the system calls it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, name: &str) {
        let (signal, id) = (format!("-{name}"), self.id().to_string());
        let sent = Command::new("kill").args([signal, id]).status().unwrap();
        assert!(sent.success());
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Closes the reading end of stdout, as `head` does when it has seen enough.
    pub fn close_out(self) -> Closed {
        Closed {
            child: self.child,
            err: self.err,
        }
    }

    /// Waits for the end and answers with what was not read yet.
    pub fn finish(mut self) -> Ran {
        // Short outputs: neither pipe can fill up while the other one is read.
        let out = rest(&mut self.out);
        let err = rest(&mut self.err);
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Ran { code, out, err }
    }
}

/// A running command whose stdout nobody reads.
pub struct Closed {
    child: Child,
    err: BufReader<ChildStderr>,
}

impl Closed {
    pub fn finish(mut self) -> Ran {
        let err = rest(&mut self.err);
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        let out = String::new();
        Ran { code, out, err }
    }
}

fn next(pipe: &mut impl BufRead) -> String {
    let mut line = String::new();
    pipe.read_line(&mut line).unwrap();
    line
}

fn rest(pipe: &mut impl Read) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    text
}

/// A named pipe: opening one end waits for the other, and its end comes when the last process that holds it is gone.
pub struct Fifo(PathBuf);

impl Fifo {
    pub fn new(dir: &Path, name: &str) -> Fifo {
        let path = dir.join(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        Fifo(path)
    }

    pub fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Waits for writers, and reads until the last of them is gone.
    pub fn read(&self) -> String {
        rest(&mut File::open(&self.0).unwrap())
    }

    /// Waits for a writer, and reads one line.
    pub fn read_line(&self) -> String {
        next(&mut BufReader::new(File::open(&self.0).unwrap()))
    }

    /// Waits for a reader, and lets it go on.
    pub fn release(&self) {
        drop(File::options().write(true).open(&self.0).unwrap());
    }
}
