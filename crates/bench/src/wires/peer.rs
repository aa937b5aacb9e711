//! The servers: processes of their own, each with its own files, on a free port.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::tongue::Tongue;
use crate::{Plan, Result, host};

/// Longer than a server takes to start.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Auxo,
    /// Another build of the same.
    Before,
    Beanstalkd,
    Redis,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Auxo => "auxo",
            Kind::Before => "auxo before",
            Kind::Beanstalkd => "beanstalkd",
            Kind::Redis => "redis",
        })
    }
}

/// When an answer is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// When the system has the bytes.
    Written,
    /// When the disk has them.
    Synced,
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sync::Written => "answered when written",
            Sync::Synced => "answered when synced",
        })
    }
}

/// A running server, until it is dropped.
pub struct Peer {
    child: Child,
    pub address: SocketAddr,
}

impl Peer {
    pub fn start(plan: &Plan, kind: Kind, tongue: Tongue, dir: &Path, sync: Sync) -> Result<Peer> {
        match kind {
            Kind::Auxo => Peer::auxo(&plan.auxo()?, tongue, dir, sync),
            Kind::Before => {
                let program = plan.before.as_ref().ok_or("there is no other build")?;
                Peer::auxo(program, tongue, dir, sync)
            }
            Kind::Beanstalkd => {
                let sync: &[&str] = match sync {
                    Sync::Written => &["-F"],
                    Sync::Synced => &["-f0"],
                };
                Peer::on_a_port("beanstalkd", |command, port| {
                    command.args(["-l", "127.0.0.1", "-p", &port.to_string()]);
                    command.arg("-b").arg(dir).args(sync);
                })
            }
            Kind::Redis => {
                let sync = match sync {
                    Sync::Written => "everysec",
                    Sync::Synced => "always",
                };
                Peer::on_a_port("redis-server", |command, port| {
                    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
                    command.args(["--save", "", "--appendonly", "yes", "--appendfsync", sync]);
                    command.args(["--auto-aof-rewrite-percentage", "0", "--dir"]);
                    command.arg(dir);
                })
            }
        }
    }

    fn auxo(program: &Path, tongue: Tongue, dir: &Path, sync: Sync) -> Result<Peer> {
        let sync = match sync {
            Sync::Written => "os",
            Sync::Synced => "always",
        };
        let (flag, other) = match tongue {
            Tongue::Beanstalk => ("beanstalk", "resp"),
            Tongue::Disque | Tongue::Lists => ("resp", "beanstalk"),
        };
        let mut child = Command::new(program)
            .args(["serve", "--http", "127.0.0.1:0", "--sync", sync])
            .args([&format!("--{flag}"), "127.0.0.1:0"])
            .args([&format!("--{other}"), "off"])
            .arg("--data")
            .arg(dir)
            .stderr(Stdio::piped())
            .spawn()?;
        let talk = child.stderr.take().ok_or("no stderr")?;
        let mut peer = Peer {
            child,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        };
        let mut lines = BufReader::new(talk).lines();
        let mut said = String::new();
        for line in lines.by_ref() {
            let line = line?;
            let mut words = line.split_whitespace();
            if words.next() == Some(flag) {
                peer.address = words.next().unwrap_or_default().parse()?;
                // A pipe that nobody empties would hold the server up in the end.
                std::thread::spawn(move || lines.for_each(drop));
                return Ok(peer);
            }
            said = said + &line + "\n";
        }
        Err(format!("the server did not start:\n{said}").into())
    }

    /// Starts a program that does not say where it listens.
    fn on_a_port(program: &str, args: impl Fn(&mut Command, u16)) -> Result<Peer> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = free.local_addr()?;
            drop(free);
            let mut command = Command::new(program);
            args(&mut command, address.port());
            let child = command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|error| format!("{program}: {error}; is it installed?"))?;
            let mut peer = Peer { child, address };
            // Somebody else may have taken the port.
            while peer.child.try_wait()?.is_none() && began.elapsed() < PATIENCE {
                if TcpStream::connect(address).is_ok() {
                    return Ok(peer);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        Err(format!("{program} does not start").into())
    }

    /// User and system time so far, in steps of a hundredth of a second.
    pub fn cpu(&self) -> Result<Duration> {
        Ok(host::cpu_of(&self.child.id().to_string())?.own)
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> Result<u64> {
        host::resident_of(&self.child.id().to_string()).map(|memory| memory.now)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It is only measured: nothing in it is worth a clean end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
