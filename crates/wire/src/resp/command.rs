//! What can be asked for.

use std::time::Duration;

use auxo_core::engine::{Ask, Extend, Settle, Which};
use auxo_core::{JobId, NewJob, QueueName, State};
use bytes::Bytes;

use super::{Id, Version};

/// What a client asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A new job.
    AddJob(AddJob),
    /// Jobs to work on.
    GetJob(GetJob),
    /// These are done.
    AckJob(Vec<Id>),
    /// These are done, and no care needs to be taken.
    FastAck(Vec<Id>),
    /// These failed and go back.
    Nack(Vec<Id>),
    /// The worker needs more time for this one.
    Working(Id),
    /// These are to be handed out, at once.
    Enqueue(Vec<Id>),
    /// These are not to be handed out for a while.
    Dequeue(Vec<Id>),
    /// These are to be forgotten.
    DelJob(Vec<Id>),
    /// Shows a job.
    Show(Id),
    /// How many jobs can be handed out.
    QLen(QueueName),
    /// Shows the next jobs, or with a count below zero the last ones.
    QPeek(QueueName, i64),
    /// Tells about a queue.
    QStat(QueueName),
    /// Names queues.
    QScan(QScan),
    /// Names or shows jobs.
    JScan(JScan),
    /// Stops or resumes a queue.
    Pause(Pause),
    /// Asks who is there, or how to speak.
    Hello(Hello),
    /// Tells about the server, or a part of it.
    Info(Option<String>),
    /// Says who is asking.
    Auth {
        /// Who; without a name anybody who knows the password.
        user: Option<Bytes>,
        /// How the server can know.
        password: Bytes,
    },
    /// Asks for a sign of life.
    Ping(Option<Bytes>),
    /// Asks for the same again.
    Echo(Bytes),
    /// Asks for the time.
    Time,
    /// Asks about commands.
    Command(CommandQuestion),
    /// Says or asks something about the connection.
    Client(ClientCommand),
    /// Asks for settings whose names match.
    ConfigGet(Vec<String>),
    /// Chooses the only database there is.
    Select,
    /// Ends the connection.
    Quit,
    /// Makes the connection as new.
    Reset,
    /// `AUXO.PUSH`: a new job, with everything that can be said about one.
    Push(Box<NewJob>),
    /// `AUXO.LEASE`: jobs to work on. A worker without a name is the connection.
    Lease(Box<Ask>),
    /// `AUXO.SETTLE`: how a lease ends.
    Settle(Box<Settle>),
    /// `AUXO.EXTEND`: the worker is alive.
    Extend(Box<Extend>),
    /// `AUXO.EXPLAIN`: why a job is not running.
    Explain(Which),
    /// `AUXO.JOB`: shows a job with its timeline.
    Job(Which),
    /// `AUXO.QUEUES`: shows queues; all, if none is named.
    Queues(Vec<QueueName>),
    /// `AUXO.KICK`: makes a dead or scheduled job ready.
    Kick(JobId),
    /// `AUXO.CANCEL`: calls a job off.
    Cancel(JobId),
}

/// A new job. What Disque has defaults for is filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddJob {
    /// Where it goes.
    pub queue: QueueName,
    /// What it is.
    pub body: Bytes,
    /// How long until it may be handed out.
    pub delay: Duration,
    /// How long a worker may take before it is handed out again; zero is never.
    pub retry: Duration,
    /// How long it lives.
    pub ttl: Duration,
    /// The job is refused if the queue has so many.
    pub maxlen: Option<u64>,
}

/// Jobs to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetJob {
    /// From where, in this order.
    pub queues: Vec<QueueName>,
    /// How many at most.
    pub count: u32,
    /// How long to wait for some; `None` is as long as it takes.
    pub wait: Option<Duration>,
    /// Whether to tell how often it was handed out before.
    pub counters: bool,
}

/// A walk over all queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QScan {
    /// Where to go on.
    pub cursor: u64,
    /// How many at once.
    pub count: u32,
    /// All at once.
    pub all: bool,
    /// At least so many jobs.
    pub minlen: Option<i64>,
    /// At most so many jobs.
    pub maxlen: Option<i64>,
    /// At least so many jobs per second from other nodes.
    pub importrate: Option<i64>,
}

/// A walk over all jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JScan {
    /// Where to go on.
    pub cursor: u64,
    /// How many at once.
    pub count: u32,
    /// All at once.
    pub all: bool,
    /// In this queue.
    pub queue: Option<QueueName>,
    /// In one of these states; `None` is any.
    pub states: Option<Vec<State>>,
    /// Shows the whole jobs, not only their ids.
    pub whole: bool,
}

/// What a queue is to do from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Which.
    pub queue: QueueName,
    /// Whether it takes no jobs, and whether it hands out none. `None` only asks.
    pub set: Option<(bool, bool)>,
}

/// A greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Disque's: which nodes are there?
    Nodes,
    /// That of Redis: this is how I speak, and who I am.
    Speak {
        /// How.
        version: Version,
        /// Name and password.
        auth: Option<(Bytes, Bytes)>,
        /// What the connection is called.
        name: Option<String>,
    },
}

/// A question about commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandQuestion {
    /// What is known of these; of all, if none is named.
    Info(Option<Vec<String>>),
    /// How many there are.
    Count,
    /// What they are called.
    List,
    /// What these do; all, if none is named.
    Docs(Vec<String>),
}

/// Something about the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCommand {
    /// It is called so; an empty name is none.
    SetName(String),
    /// What is it called?
    GetName,
    /// Its number.
    Id,
    /// All that is known of it.
    Info,
    /// The same of every connection that may be told of, which is this one.
    List,
    /// Whether it is answered.
    Reply(Muting),
    /// Something that means nothing here, and is no reason to refuse a client.
    Ignored,
}

/// Whether commands are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Muting {
    /// They are.
    #[default]
    On,
    /// They are not.
    Off,
    /// The next one is not.
    Skip,
}
