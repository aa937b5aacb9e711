//! Commands out of arguments.

mod auxo;
mod jobs;
mod queues;
mod server;

use auxo_core::{Error, QueueName, text};

use super::args::Args;
use super::{Command, Id, Reply};

/// Everything that is understood.
pub const COMMANDS: &[Spec] = &[
    // The first three come by the thousand.
    spec("addjob", -4, "write", "Adds a job to a queue", jobs::addjob),
    spec(
        "getjob",
        -2,
        "write",
        "Hands out jobs, or waits for some",
        jobs::getjob,
    ),
    spec("ackjob", -1, "write", "Jobs are done", jobs::ackjob),
    spec("fastack", -1, "write", "Jobs are done", jobs::fastack),
    spec("nack", -1, "write", "Jobs failed and go back", jobs::nack),
    spec(
        "working",
        2,
        "write",
        "The worker needs more time",
        jobs::working,
    ),
    spec(
        "enqueue",
        -1,
        "write",
        "Jobs are to be handed out now",
        jobs::enqueue,
    ),
    spec(
        "dequeue",
        -1,
        "write",
        "Jobs are not to be handed out for a while",
        jobs::dequeue,
    ),
    spec("deljob", -1, "write", "Forgets jobs", jobs::deljob),
    spec("show", 2, "readonly", "Shows a job", jobs::show),
    spec(
        "qlen",
        2,
        "readonly",
        "How many jobs can be handed out",
        queues::qlen,
    ),
    spec(
        "qpeek",
        3,
        "readonly",
        "Shows the next jobs of a queue",
        queues::qpeek,
    ),
    spec("qstat", 2, "readonly", "Tells about a queue", queues::qstat),
    spec("qscan", -1, "readonly", "Names queues", queues::qscan),
    spec(
        "jscan",
        -1,
        "readonly",
        "Names or shows jobs",
        queues::jscan,
    ),
    spec(
        "pause",
        -3,
        "write",
        "Stops or resumes a queue",
        queues::pause,
    ),
    spec(
        "hello",
        -1,
        "fast",
        "Asks who is there, or how to speak",
        server::hello,
    ),
    spec(
        "info",
        -1,
        "readonly",
        "Tells about the server",
        server::info,
    ),
    spec("auth", -2, "fast", "Says who is asking", server::auth),
    spec("ping", -1, "fast", "Asks for a sign of life", server::ping),
    spec("echo", 2, "fast", "Says the same again", server::echo),
    spec("time", 1, "fast", "Tells the time", server::time),
    spec(
        "command",
        -1,
        "readonly",
        "Tells about commands",
        server::command,
    ),
    spec(
        "client",
        -2,
        "fast",
        "Says or asks something about the connection",
        server::client,
    ),
    spec("config", -2, "readonly", "Tells settings", server::config),
    spec(
        "select",
        2,
        "fast",
        "Chooses the only database",
        server::select,
    ),
    spec("quit", -1, "fast", "Ends the connection", server::quit),
    spec(
        "reset",
        1,
        "fast",
        "Makes the connection as new",
        server::reset,
    ),
    spec(
        "auxo.push",
        -3,
        "write",
        "Adds a job, with all of its fields",
        auxo::push,
    ),
    spec(
        "auxo.lease",
        -3,
        "write",
        "Hands out jobs with their tokens",
        auxo::lease,
    ),
    spec("auxo.settle", -3, "write", "Ends a lease", auxo::settle),
    spec("auxo.extend", -2, "write", "Prolongs a lease", auxo::extend),
    spec(
        "auxo.explain",
        -2,
        "readonly",
        "Says why a job is not running",
        auxo::explain,
    ),
    spec(
        "auxo.job",
        -2,
        "readonly",
        "Shows a job with its timeline",
        auxo::job,
    ),
    spec("auxo.queues", -1, "readonly", "Shows queues", auxo::queues),
    spec(
        "auxo.kick",
        2,
        "write",
        "Makes a dead or scheduled job ready",
        auxo::kick,
    ),
    spec("auxo.cancel", 2, "write", "Calls a job off", auxo::cancel),
];

/// What is known of a command.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// Its name, in small letters.
    pub name: &'static str,
    /// How many arguments it has, the name included; below zero at least so many.
    pub arity: i64,
    /// What kind it is, as Redis says it.
    pub flag: &'static str,
    /// What it does.
    pub summary: &'static str,
    read: Read,
}

type Read = fn(&mut Reader, Args<'_>) -> Result<Command, Reply>;

const fn spec(
    name: &'static str,
    arity: i64,
    flag: &'static str,
    summary: &'static str,
    read: Read,
) -> Spec {
    Spec {
        name,
        arity,
        flag,
        summary,
        read,
    }
}

impl Spec {
    fn takes(&self, count: usize) -> bool {
        let count = count as i64;
        match self.arity < 0 {
            true => count >= -self.arity,
            false => count == self.arity,
        }
    }
}

/// What is known while the arguments of a command are read.
#[derive(Debug)]
pub struct Reader {
    /// How many copies of a job there are.
    copies: u16,
    /// The queue that was named last. Whoever names one often names it again.
    last: Option<QueueName>,
}

impl Reader {
    pub fn new(copies: u16) -> Reader {
        Reader { copies, last: None }
    }

    fn queue(&mut self, name: &[u8]) -> Result<QueueName, Error> {
        match &self.last {
            Some(last) if last.as_str().as_bytes() == name => Ok(last.clone()),
            _ => {
                let queue = QueueName::new(&String::from_utf8_lossy(name))?;
                Ok(self.last.insert(queue).clone())
            }
        }
    }
}

/// Reads the arguments of a command.
pub fn parse(reader: &mut Reader, args: Args<'_>) -> Result<Command, Reply> {
    let Some(spec) = COMMANDS.iter().find(|spec| args.is(0, spec.name)) else {
        return Err(Reply::wrong(format_args!(
            "unknown command '{}'",
            shown(args.get(0))
        )));
    };
    match spec.takes(args.len()) {
        true => (spec.read)(reader, args),
        false => Err(wrong_number(spec.name)),
    }
}

fn wrong_number(command: &str) -> Reply {
    Reply::wrong(format_args!(
        "wrong number of arguments for '{command}' command"
    ))
}

/// The beginning of an argument, for a message.
fn shown(argument: &[u8]) -> String {
    let start = &argument[..argument.len().min(60)];
    text::one_line(&String::from_utf8_lossy(start))
}

/// An error of ours in a command of Disque.
fn refused(error: Error) -> Reply {
    Reply::wrong(error.message())
}

/// An error of ours in a command of ours.
fn ours(error: Error) -> Reply {
    Reply::from(&error)
}

fn integer(argument: &[u8]) -> Option<i64> {
    std::str::from_utf8(argument).ok()?.parse().ok()
}

fn whole(argument: &[u8]) -> Result<i64, Reply> {
    integer(argument).ok_or_else(|| Reply::wrong("value is not an integer or out of range"))
}

/// A number for a list of at most so many.
fn small(count: i64) -> u32 {
    u32::try_from(count.max(1)).unwrap_or(u32::MAX)
}

fn id(argument: &[u8]) -> Result<Id, Reply> {
    Id::read(argument).ok_or(Reply::BAD_ID)
}
