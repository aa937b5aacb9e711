//! How a command ends when it does not end well: the error, its code, and what to do next.

use std::io::{self, ErrorKind, IsTerminal};
use std::process::ExitCode;

use auxo::{Code, Error};

/// Why a command did not do what it was asked.
pub enum Failure {
    /// The queue refused or failed.
    Refused(Error),
    /// The arguments contradict each other in a way the parser cannot see.
    Usage(String),
    /// A file, a pipe or the terminal.
    Io(io::Error),
    /// Everything was said already.
    Said,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// Tells the user and chooses the exit code.
pub fn report(failure: &Failure) -> ExitCode {
    match failure {
        Failure::Refused(error) => say(error),
        Failure::Usage(message) => {
            eprintln!(
                "{} {message}\n\nFor more information, try '--help'.",
                label()
            );
            return ExitCode::from(2);
        }
        // The reader has seen enough, as in `auxo jobs | head`.
        Failure::Io(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Failure::Io(error) => eprintln!("{} {error}", label()),
        Failure::Said => {}
    }
    ExitCode::FAILURE
}

/// Prints an error on stderr.
pub fn say(error: &Error) {
    eprintln!("{} {}", label(), error.message());
    eprintln!("  code: {}", error.code());
    if let Some(id) = error.job() {
        eprintln!("  job: {id}");
    }
    eprintln!("  hint: {}", hint(error));
}

fn label() -> &'static str {
    if io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        "\x1b[1;31merror:\x1b[0m"
    } else {
        "error:"
    }
}

fn hint(error: &Error) -> String {
    let text = match error.code() {
        Code::BadRequest => "correct the value; `auxo VERB --help` shows examples",
        Code::NotFound => {
            "`auxo jobs` and `auxo queues` show what is there; a done job is kept only for its --retention"
        }
        Code::DuplicateKey => {
            let job = error.job().map_or("ID".into(), |id| id.to_string());
            return format!(
                "`auxo job {job}` shows the job that has the key; push with --on-duplicate return to accept it"
            );
        }
        Code::LeaseLost => {
            "the lease ended at its deadline or was settled; lease again for a new token"
        }
        Code::QueuePaused => "`auxo resume QUEUE --in` lets jobs in again",
        Code::QueueFull => {
            "let workers catch up, purge dead jobs, or raise the limit with `auxo queues set`"
        }
        Code::TooLarge => "keep large data elsewhere and push a reference to it",
        Code::RateLimited => "try again later",
        Code::Unauthorized | Code::Forbidden => "ask whoever runs this queue for the right",
        Code::Unavailable => {
            "one process can use a data directory at a time: stop the other one, then try again"
        }
        Code::UnknownOutcome => "look before you repeat it: the step may have happened",
        Code::Conflict => "`auxo explain ID` shows the state that the job is in",
        Code::Internal => {
            "stop and keep a copy of the data directory; `auxo audit` checks it, `auxo salvage` copies what is whole"
        }
    };
    text.to_owned()
}
