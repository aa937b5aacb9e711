//! The server's side: processes of their own, so that each side's work can be told apart.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::{Plan, Result};

/// A process that listens, until it is dropped.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
}

impl Served {
    /// The real server on a new store.
    pub fn auxo(plan: &Plan, dir: &Path, sync: &str) -> Result<Served> {
        let mut command = Command::new(plan.auxo()?);
        command
            .args(["serve", "--http", "127.0.0.1:0", "--sync", sync, "--data"])
            .arg(dir)
            .stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let talk = child.stderr.take().ok_or("no stderr")?;
        Served::listening(child, talk)
    }

    /// A server that answers each message with as many bytes as it is told.
    pub fn echo(plan: &Plan) -> Result<Served> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(plan.child("echo", &plan.dir))
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let talk = child.stdout.take().ok_or("no stdout")?;
        Served::listening(child, talk)
    }

    /// Waits until the process says where it listens, and lets it talk on.
    fn listening(child: Child, talk: impl std::io::Read + Send + 'static) -> Result<Served> {
        let mut served = Served {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
        };
        let mut lines = BufReader::new(talk).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if let Some((_, address)) = line.split_once("http://") {
                served.address = address.trim().parse()?;
                // A pipe that nobody empties would hold the server up in the end.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(served);
            }
            said.push_str(&line);
            said.push('\n');
        }
        Err(format!("the server did not start:\n{said}").into())
    }

    /// User and system time so far, in steps of a hundredth of a second.
    pub fn cpu(&self) -> Result<Duration> {
        Ok(crate::host::cpu_of(&self.child.id().to_string())?.own)
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> Result<u64> {
        crate::host::resident_of(&self.child.id().to_string()).map(|memory| memory.now)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It is only measured: nothing in it is worth a clean end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
