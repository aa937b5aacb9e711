//! A stream of notices that ends when nobody wants it any more: at a signal, or when the reader of stdout is gone.

use std::io::{self, ErrorKind};

use auxo::core::event::Notice;
use auxo::{Auxo, Code, Error};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::oneshot;

use super::context::Context;
use super::failure::Failure;
use super::output::Output;
use super::signals::Signals;

/// The notices from its making on.
pub struct Follow {
    notices: broadcast::Receiver<Notice>,
    signals: Signals,
    reader_gone: oneshot::Receiver<()>,
}

impl Follow {
    pub fn new(auxo: &Auxo) -> io::Result<Follow> {
        let (tell, reader_gone) = oneshot::channel();
        // A thread of its own: it waits in a call that only the reader can end, and ends with the process.
        std::thread::spawn(move || {
            until_reader_is_gone();
            let _ = tell.send(());
        });
        Ok(Follow {
            notices: auxo.service().watch(),
            signals: Signals::new()?,
            reader_gone,
        })
    }

    /// The next notice; `None` when it is time to end. Nothing is left unwritten while it waits.
    pub async fn next(&mut self, output: &mut Output) -> Result<Option<Notice>, Failure> {
        loop {
            if self.notices.is_empty() {
                output.flush()?;
            }
            tokio::select! {
                () = self.signals.next() => return Ok(None),
                _ = &mut self.reader_gone => return Ok(None),
                notice = self.notices.recv() => match notice {
                    Ok(notice) => return Ok(Some(notice)),
                    Err(RecvError::Lagged(missed)) => {
                        eprintln!("{missed} events came too fast and are missing here");
                    }
                    Err(RecvError::Closed) => {
                        let message = "the stream of events has ended";
                        return Err(Error::new(Code::Unavailable, message).into());
                    }
                },
            }
        }
    }
}

/// Without this, a reader that left is only noticed at the next event, which may never come.
fn until_reader_is_gone() {
    let stdout = io::stdout();
    loop {
        // That the other end was closed is told without being asked for.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
    }
}

/// A reader who has seen enough of a stream is its normal end, unlike that of a list.
pub fn ended(result: Result<(), Failure>, context: &mut Context) -> Result<(), Failure> {
    match result {
        Err(Failure::Io(error)) if error.kind() == ErrorKind::BrokenPipe => {
            // What nobody read is forgotten, or writing it out would fail once more.
            context.output = Output::new(context.output.is_json());
            Ok(())
        }
        other => other,
    }
}
