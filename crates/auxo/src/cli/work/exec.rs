//! Runs a job as a command.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use auxo::Job;
use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};

use super::attempt::{Attempt, Stopper, Verdict};
use super::capture::{Head, Tail, drain};
use super::group::{Group, Groups};

/// The exit code that means "not now" (EX_TEMPFAIL of sysexits.h).
const TRY_AGAIN: i32 = 75;
/// How much of stderr is kept for the job's error.
const WORDS: usize = 4 << 10;
/// How long to read on after the end of a command whose output is held open by a process that left its group.
const LINGER: Duration = Duration::from_millis(500);
/// Holds the command back until its process group is guarded: it begins when a first line has come on stdin, in front of the
/// payload, and never if the worker is gone by then. A shell reads a line byte by byte, so the payload is left to the command.
const GATE: &str = r#"read -r go && exec sh -c "$0""#;
/// What of Auxo's own variables a command gets, unless there is a password in it: where the queue is, and who is trusted.
const PASSED_ON: [&str; 3] = ["AUXO_SERVER", "AUXO_DATA", "AUXO_CA"];
/// What the options of a URL have before a password, in small letters.
const PASSWORD: &[u8] = b"password=";

/// A command for `sh`.
pub struct Exec {
    pub command: String,
    /// How long a command that was told to end may take for it.
    pub kill_after: Duration,
    /// How much of stdout is kept for the job's result.
    pub most_output: usize,
    pub groups: Groups,
}

impl Exec {
    pub async fn run(&self, job: &Job, stopper: &Stopper) -> Attempt {
        match self.start(job) {
            Ok((child, group)) => self.follow(job, child, group, stopper).await,
            // The job has no part in it, so it is no failure of the job.
            Err(error) => Attempt {
                verdict: Verdict::Again {
                    why: format!("the command could not be started: {error}"),
                    after: None,
                },
                words: String::new(),
            },
        }
    }

    fn start(&self, job: &Job) -> io::Result<(Child, Group)> {
        let mut command = Command::new("sh");
        // Named one by one: where all are cleared, the system can no longer start a process without copying this one's memory map.
        for (name, _) in std::env::vars_os().filter(|variable| !is_for_commands(variable)) {
            command.env_remove(name);
        }
        let child = command
            .args(["-c", GATE, &self.command])
            .envs(environment(job))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let group = self.groups.enter(&child)?;
        Ok((child, group))
    }

    async fn follow(&self, job: &Job, mut child: Child, group: Group, stop: &Stopper) -> Attempt {
        let (mut head, mut tail) = (Head::new(self.most_output), Tail::new(WORDS));
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let status = {
            let pipes = async {
                tokio::join!(
                    feed(stdin, job.payload.clone()),
                    drain(stdout, |bytes| head.take(bytes)),
                    drain(stderr, |bytes| tail.take(bytes)),
                )
            };
            let end = self.end(&mut child, group, stop);
            tokio::pin!(pipes, end);
            tokio::select! {
                status = &mut end => {
                    let _ = tokio::time::timeout(LINGER, pipes).await;
                    status
                }
                _ = &mut pipes => end.await,
            }
        };
        Attempt {
            verdict: verdict(status, head),
            words: tail.into_words(),
        }
    }

    /// Waits for the command's end, or brings it about. Afterwards nobody is left in its group.
    async fn end(
        &self,
        child: &mut Child,
        group: Group,
        stopper: &Stopper,
    ) -> io::Result<ExitStatus> {
        tokio::select! {
            status = child.wait() => return status,
            () = stopper.stopped() => group.terminate(),
        }
        // A shell often ends before the program it runs has cleaned up behind itself: wait for all of them.
        let all = async {
            let status = child.wait().await;
            group.emptied().await;
            status
        };
        if let Ok(status) = tokio::time::timeout(self.kill_after, all).await {
            return status;
        }
        drop(group);
        child.wait().await
    }
}

/// Opens the gate and writes the payload. A command that does not read all of it is free to do so.
async fn feed(stdin: Option<ChildStdin>, payload: Bytes) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(b"\n").await;
        let _ = stdin.write_all(&payload).await;
    }
}

fn verdict(status: io::Result<ExitStatus>, stdout: Head) -> Verdict {
    let status = match status {
        Ok(status) => status,
        Err(error) => return Verdict::Failed(format!("its end could not be seen: {error}")),
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => Verdict::Done(stdout.into_result()),
        (Some(TRY_AGAIN), _) => Verdict::Again {
            why: format!("exit code {TRY_AGAIN}"),
            after: None,
        },
        (Some(code @ 129..=159), _) => {
            // So a shell tells that what it ran was killed.
            Verdict::Failed(format!("exit code {code} ({})", signal_name(code - 128)))
        }
        (Some(code), _) => Verdict::Failed(format!("exit code {code}")),
        (None, Some(signal)) => Verdict::Failed(format!("killed by {}", signal_name(signal))),
        (None, None) => Verdict::Failed(status.to_string()),
    }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// Whether a variable of the worker is passed on to its commands. Those of others are. Of Auxo's own most are not: they hold the
/// worker's token, or say where it is, or are those of a job for which the worker itself runs.
fn is_for_commands((name, value): &(OsString, OsString)) -> bool {
    let own = name.as_encoded_bytes().starts_with(b"AUXO_");
    let secret = || {
        let value = value.as_encoded_bytes().to_ascii_lowercase();
        value.contains(&b'@') || value.windows(PASSWORD.len()).any(|part| part == PASSWORD)
    };
    !own || (PASSED_ON.iter().any(|passed| name == passed) && !secret())
}

/// What the command learns about its job. A value that the environment cannot carry was refused when the job was pushed.
fn environment(job: &Job) -> Vec<(OsString, OsString)> {
    let fields = [
        ("AUXO_JOB_ID", job.id.to_string()),
        ("AUXO_QUEUE", job.queue.to_string()),
        ("AUXO_KIND", job.kind.to_string()),
        ("AUXO_ATTEMPT", job.attempt.to_string()),
        ("AUXO_KEY", job.key.clone().unwrap_or_default()),
    ];
    let fields = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let headers = job
        .headers
        .iter()
        .map(|(name, value)| (variable(name), value.clone()));
    fields
        .chain(headers)
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

/// The name of a header as the name of a variable.
fn variable(header: &str) -> String {
    let fit = |char: char| match char.is_ascii_alphanumeric() {
        true => char.to_ascii_uppercase(),
        false => '_',
    };
    let name: String = header.chars().map(fit).collect();
    format!("AUXO_HEADER_{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_becomes_a_variable_that_a_shell_can_name() {
        assert_eq!(variable("x-trace.id"), "AUXO_HEADER_X_TRACE_ID");
        assert_eq!(variable("ü"), "AUXO_HEADER__");
    }

    #[test]
    fn commands_get_the_environment_without_the_secrets_of_the_worker() {
        let is_passed = |name: &str, value: &str| is_for_commands(&(name.into(), value.into()));
        for (name, value) in [
            ("PATH", "/bin"),
            ("DATABASE_URL", "postgres://u:p@h"),
            ("AUXO_SERVER", "http://127.0.0.1:8000"),
            ("AUXO_DATA", "data"),
            ("AUXO_CA", "ca.pem"),
        ] {
            assert!(is_passed(name, value), "{name}");
        }
        for (name, value) in [
            ("AUXO_TOKEN", "auxo_a_b"),
            ("AUXO_TOKEN_FILE", "token"),
            ("AUXO_CLIENT_CERT", "c.pem"),
            ("AUXO_CLIENT_KEY", "c.key"),
            ("AUXO_STORE", "redis://h"),
            ("AUXO_SERVER", "redis://:secret@h"),
            (
                "AUXO_SERVER",
                "redis+sentinel://h1,h2/main?sentinel_password=S3cret",
            ),
            ("AUXO_SERVER", "redis+sentinel://h/main?Password=S3cret"),
            ("AUXO_HEADER_OLD", "x"),
        ] {
            assert!(!is_passed(name, value), "{name}");
        }
    }

    #[test]
    fn each_end_of_a_command_has_its_verdict() {
        let ended = |raw| verdict(Ok(ExitStatus::from_raw(raw)), Head::new(8));
        let failed = |what: &str| Verdict::Failed(what.into());
        assert_eq!(ended(0), Verdict::Done(None));
        assert_eq!(ended(3 << 8), failed("exit code 3"));
        assert_eq!(ended(137 << 8), failed("exit code 137 (SIGKILL)"));
        assert_eq!(ended(11), failed("killed by SIGSEGV"));
        assert_eq!(ended(35), failed("killed by signal 35"));
        assert!(matches!(ended(75 << 8), Verdict::Again { .. }));
    }
}
