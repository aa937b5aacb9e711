//! A process that ends the commands of a worker that was killed.
//!
//! A worker that gets SIGKILL, or that the kernel kills for its memory, ends nothing behind itself: its commands would go on while
//! their jobs are lent to others. So the worker starts one more process of this program, whose stdin is a pipe from the worker.
//! On it the worker names each process group that it starts, and again when the group has ended. The system closes the pipe when
//! the worker is gone, however it went; the guard then kills the groups that are left, and ends.
//!
//! One guard for a worker, and two lines in a pipe for a job: the alternative, a supervisor around each command, costs the start of
//! this program every time. The guard is in a process group of its own and does not heed the signals that tell a worker to end,
//! for it has to outlive the worker.

use std::collections::HashSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

/// The argument that makes a guard of this program. It is not for people, so it is no verb.
pub const ARGUMENT: &str = "guard-commands-of-a-worker";

/// The guard of this process, from the side of the worker.
pub struct Guard {
    child: Child,
}

impl Guard {
    /// Starts a guard that knows of these groups.
    pub fn start(running: &HashSet<Pid>) -> io::Result<Guard> {
        let child = Command::new(program()?)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut guard = Guard { child };
        for leader in running {
            guard.begun(*leader)?;
        }
        Ok(guard)
    }

    /// A group has begun.
    pub fn begun(&mut self, leader: Pid) -> io::Result<()> {
        self.tell('+', leader)
    }

    /// A group has ended.
    pub fn ended(&mut self, leader: Pid) -> io::Result<()> {
        self.tell('-', leader)
    }

    fn tell(&mut self, what: char, leader: Pid) -> io::Result<()> {
        let pipe = self.child.stdin.as_mut();
        let line = format!("{what}{}\n", leader.as_raw_nonzero());
        pipe.map_or(Ok(()), |pipe| pipe.write_all(line.as_bytes()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The end of its input is the end of the guard.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// This program. On Linux also if its file was replaced since it was started.
fn program() -> io::Result<std::path::PathBuf> {
    let running = std::path::Path::new("/proc/self/exe");
    if running.exists() {
        return Ok(running.to_owned());
    }
    std::env::current_exe()
}

/// Is the guard: reads which groups run, and kills those that are left at the end.
pub fn main() -> ExitCode {
    match guard() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn guard() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _inside = runtime.enter();
    // They are heard and not heeded. `systemctl stop` sends them to all processes of a worker.
    let _heard = [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ]
    .map(signal);
    let mut running = HashSet::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        note(&mut running, &line);
    }
    for leader in running {
        let _ = kill_process_group(leader, Signal::KILL);
    }
    Ok(())
}

/// Takes in one line from the worker.
fn note(running: &mut HashSet<Pid>, line: &str) {
    let leader = |text: &str| text.parse().ok().and_then(Pid::from_raw);
    if let Some(leader) = line.strip_prefix('+').and_then(leader) {
        running.insert(leader);
    }
    if let Some(leader) = line.strip_prefix('-').and_then(leader) {
        running.remove(&leader);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_guarded_from_their_beginning_to_their_end() {
        let mut running = HashSet::new();
        for line in ["+7", "+8", "-7", "+", "+x", "+0", "9", ""] {
            note(&mut running, line);
        }
        assert_eq!(running, HashSet::from([Pid::from_raw(8).unwrap()]));
    }
}
