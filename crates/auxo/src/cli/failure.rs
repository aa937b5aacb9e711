//! How a command ends when it does not end well: the error, its code, and what to do next.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use auxo::core::json::show;
use auxo::{Code, Error};

/// Why a command did not do what it was asked.
pub enum Failure {
    /// The queue refused or failed.
    Refused(Error),
    /// The same, where the code alone does not say what to do next.
    Hinted(Error, &'static str),
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

/// Tells the user, and with `json` the program that reads stdout, and chooses the exit code.
pub fn report(failure: &Failure, json: bool) -> ExitCode {
    match failure {
        Failure::Refused(error) => answer(error, &hint(error), json),
        Failure::Hinted(error, hint) => answer(error, hint, json),
        Failure::Usage(message) => {
            eprintln!(
                "{} {message}\n\nFor more information, try '--help'.",
                label()
            );
            return ExitCode::from(2);
        }
        // The reader has seen enough, as in `auxo jobs | head`.
        Failure::Io(error) if error.kind() == ErrorKind::BrokenPipe => {}
        Failure::Io(error) => {
            eprintln!("{} input or output failed: {error}", label());
            eprintln!("  hint: look before you repeat it: the step itself may have been done");
        }
        Failure::Said => {}
    }
    ExitCode::FAILURE
}

fn answer(error: &Error, hint: &str, json: bool) {
    if json {
        // A reader that is gone needs no answer.
        let line = serde_json::json!({ "error": show::error(error) });
        let _ = writeln!(io::stdout(), "{line}");
    }
    say_with(error, hint);
}

/// Prints an error on stderr.
pub fn say(error: &Error) {
    say_with(error, &hint(error));
}

fn say_with(error: &Error, hint: &str) {
    eprintln!("{} {}", label(), error.message());
    eprintln!("  code: {}", error.code());
    if let Some(id) = error.job() {
        eprintln!("  job: {id}");
    }
    eprintln!("  hint: {hint}");
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
        Code::NotFound if error.message().contains("data directory") => {
            "--data DIR or AUXO_DATA names the directory; `auxo push` makes a new one in an empty place"
        }
        Code::NotFound if error.job().is_some() || error.message().contains(" job") => {
            "`auxo jobs` shows what is there; a done job is kept only for its --retention"
        }
        Code::NotFound if error.message().contains("no queue") => {
            "`auxo queues` shows what is there; a push makes a queue, and so does --create with `auxo pause` and `auxo queues set`"
        }
        Code::NotFound => "`auxo queues`, `auxo topics` and `auxo schedules` show what is there",
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
        Code::QueueFull if error.message().contains("maxmemory") => {
            "let workers catch up, purge or delete jobs, or raise maxmemory of that Redis"
        }
        Code::QueueFull if error.message().contains("disk is full") => {
            "make room on the disk; jobs that are settled, purged or deleted give theirs back"
        }
        Code::QueueFull => {
            "let workers catch up, purge dead jobs, or raise the limit with `auxo queues set`"
        }
        Code::TooLarge => "keep large data elsewhere and push a reference to it",
        Code::RateLimited => "try again later",
        Code::Unauthorized => {
            "AUXO_TOKEN or --token-file FILE shows a token to the server; on its machine `auxo token new` makes one"
        }
        Code::Forbidden => "ask whoever runs this queue for a token that allows it",
        Code::Unavailable if error.message().contains("another process") => {
            "one process can use a data directory at a time: stop the other one, then try again"
        }
        _ if error
            .message()
            .contains("did not answer like an Auxo server") =>
        {
            "--server URL or AUXO_SERVER names the server; `auxo serve` prints its URL when it begins"
        }
        Code::Unavailable
            if error.message().contains("cannot reach") && error.message().contains("TLS: ") =>
        {
            "--ca FILE or AUXO_CA names the authority to trust; the certificate must be for the host that the URL names, and https \
             is for servers with TLS only"
        }
        Code::Unavailable if error.message().contains("cannot reach") => {
            "--server URL or AUXO_SERVER names another server; --data DIR works on a directory without one"
        }
        Code::Unavailable if error.message().contains("No space left") => {
            "make room on the disk that the data directory is on, then try again"
        }
        Code::Unavailable if let Some(hint) = store_hint(error.message()) => hint,
        Code::Unavailable => "clear away what the message names, then try again",
        Code::UnknownOutcome if error.message().contains("replicas confirmed") => {
            "see with `INFO replication` which replicas follow; `replicas` in the store's URL must not ask for more than there are"
        }
        Code::UnknownOutcome => "look before you repeat it: the step may have happened",
        Code::Conflict if error.message().contains("rename-command") => {
            "take the rename-command lines out of the settings of that Redis and start it again; docs/REDIS.md lists the commands under \
             \"A user for Auxo\""
        }
        Code::Conflict if error.message().starts_with("the redis at ") => {
            "set that Redis up as docs/REDIS.md says under \"Set-up\"; durability=none in the store's URL is for jobs that may get lost"
        }
        Code::Conflict if error.job().is_none() => {
            "nothing was changed; choose another place or name, then try again"
        }
        Code::Conflict => "`auxo explain ID` shows the state that the job is in",
        Code::Internal if error.message().to_lowercase().contains("redis") => {
            "Redis' log may say more; `auxo audit` looks at all jobs there, and docs/REDIS.md says what mends them"
        }
        Code::Internal => {
            "stop and keep a copy of the data directory; `auxo salvage NEW_DIR` copies what is whole"
        }
    };
    text.to_owned()
}

/// What to do about a Redis that does not let us in, or is not there.
fn store_hint(message: &str) -> Option<&'static str> {
    let says = |part| message.contains(part);
    let denied = says("redis does not allow");
    Some(match () {
        () if denied && says("NOPERM") => {
            "give that user of Redis the rights that docs/REDIS.md lists under \"A user for Auxo\""
        }
        () if denied && says("without any password configured") => {
            "this Redis wants no password: leave user and password out of the store's URL"
        }
        () if denied && says("sentinel ") && (says("NOAUTH") || says("WRONGPASS")) => {
            "set sentinel_user and sentinel_password in the store's URL to those that the sentinels know"
        }
        () if denied && (says("NOAUTH") || says("WRONGPASS")) => {
            "set user and password in the store's URL, redis://USER:PASSWORD@HOST: --store, AUXO_STORE or `store` in the file of \
             settings of a server, --server or AUXO_SERVER for a verb without one"
        }
        () if says("the store's URL must begin with") => {
            "correct the store's URL: redis:// is for a plain port, rediss:// for one with TLS"
        }
        () if says("invalid peer certificate") => {
            "ca=FILE in the store's URL names the authority to trust; the certificate must be for the host that the URL names"
        }
        () if says("renamed or switched off") => {
            "give each command of Redis that docs/REDIS.md lists under \"A user for Auxo\" its own name: see rename-command in its \
             settings"
        }
        () if says("cannot do it now: NOREPLICAS") => {
            "that primary misses replicas (min-replicas-to-write): start them again, or ask for fewer"
        }
        () if says("replicas confirmed it") => {
            "see INFO replication on the primary, and the log of the replica that lags or is missing"
        }
        () if says("when the lease was over") => {
            "see why that Redis is slow, or lease for longer: --ttr"
        }
        () if says("cannot do it now: MISCONF") => {
            "that Redis cannot write to its disk: its log says why"
        }
        () if says("cannot do it now: READONLY") || says("is not a primary") => {
            "that server is a replica: the store's URL must name the primary, or the sentinels that know it"
        }
        () if says("cannot do it now: LOADING") => {
            "that Redis is still reading its data: try again when it has"
        }
        () if says("cannot do it now: BUSY") => {
            "another client's script keeps that Redis busy: wait, or end it with SCRIPT KILL"
        }
        () if says("was emptied or replaced") => {
            "bring the data of that Redis back if it should be there; then start this process again"
        }
        () if says("redis") && says("did not answer") => {
            "that Redis hangs, or the way to it does: see whether `redis-cli PING` is answered there"
        }
        () if says("redis at") && says("cannot be reached") => {
            "is Redis running there? the store's URL names the place; start it or correct the URL"
        }
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use auxo::JobId;

    use super::*;

    #[test]
    fn a_hint_fits_the_message_that_it_stands_below() {
        let table = [
            (
                Code::Unavailable,
                "DIR is in use: another process has it open",
                "stop the other one",
                true,
            ),
            (
                Code::Unavailable,
                "DIR cannot be used: no space left there",
                "stop the other one",
                false,
            ),
            (
                Code::Unavailable,
                "cannot reach Auxo at http://127.0.0.1:8000: refused",
                "--server URL",
                true,
            ),
            (
                Code::UnknownOutcome,
                "http://x did not answer like an Auxo server, but with status 501",
                "--server URL",
                true,
            ),
            (
                Code::Unavailable,
                "no job was leased: only 0 of 1 replicas confirmed it within 5s",
                "INFO replication",
                true,
            ),
            (
                Code::Unavailable,
                "redis answered only when the lease was over; no job was leased",
                "--ttr",
                true,
            ),
            (
                Code::QueueFull,
                "the disk is full: jobs can be leased and settled",
                "make room",
                true,
            ),
            (
                Code::Unavailable,
                "file 1.log: No space left on device (os error 28)",
                "make room",
                true,
            ),
            (
                Code::Internal,
                "file 1.log at byte 7: damaged",
                "auxo salvage",
                true,
            ),
            (
                Code::Internal,
                "file 1.log at byte 7: damaged",
                "auxo audit",
                false,
            ),
            (
                Code::Internal,
                "push failed in redis: WRONGTYPE Operation against a key",
                "auxo salvage",
                false,
            ),
            (
                Code::Conflict,
                "the redis at 127.0.0.1:6379 keeps nothing on the disk and has no replica",
                "Set-up",
                true,
            ),
            (
                Code::Conflict,
                "the redis lacks commands that Auxo needs: BLPOP; they were renamed or switched off (rename-command)",
                "rename-command",
                true,
            ),
            (
                Code::UnknownOutcome,
                "push was done, but only 1 of 5 replicas confirmed it in time",
                "INFO replication",
                true,
            ),
            (
                Code::QueueFull,
                "redis has no memory left for push (maxmemory): it takes no new jobs",
                "raise maxmemory",
                true,
            ),
            (
                Code::Unavailable,
                "redis at 127.0.0.1:6379 cannot do it now: MISCONF Redis is configured to save",
                "its log says why",
                true,
            ),
            (Code::NotFound, "there is no job 7", "--retention", true),
            (
                Code::NotFound,
                "there is no schedule nightly",
                "--retention",
                false,
            ),
            (
                Code::NotFound,
                "there is no schedule nightly",
                "auxo schedules",
                true,
            ),
            (
                Code::NotFound,
                "/x is not a data directory of auxo",
                "--data",
                true,
            ),
            (
                Code::NotFound,
                "/x is not a data directory of auxo",
                "--retention",
                false,
            ),
        ];
        for (code, message, part, says) in table {
            let hint = hint(&Error::new(code, message));
            assert_eq!(hint.contains(part), says, "{message}: {hint}");
        }
        let about = Error::new(Code::NotFound, "gone").about(JobId(7));
        assert!(hint(&about).contains("--retention"));
    }
}
