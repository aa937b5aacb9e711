//! The wish of whoever started a command that it ends: SIGINT or SIGTERM.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A file that would grow past a limit of the process (`ulimit -f`) is from now on an error of that write: it does not end the
/// process without a word.
pub fn survive_file_limit() -> io::Result<()> {
    // Nobody waits for the signal. That it is caught is enough, and it stays so when this value is dropped.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}

/// From its making on, neither signal ends the process by itself.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

/// The wish that files are read again: SIGHUP. From its making on the signal does not end the process.
pub struct Hangups(Signal);

impl Hangups {
    pub fn new() -> io::Result<Hangups> {
        signal(SignalKind::hangup()).map(Hangups)
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
