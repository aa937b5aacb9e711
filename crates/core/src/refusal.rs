//! Why an engine refuses, in the words that all engines share.

use crate::error::{Code, Error};
use crate::id::JobId;
use crate::job::QueueName;
use crate::life::{Event, State};

/// A job has the key already.
pub fn duplicate_key(key: &str, queue: &QueueName, holder: JobId, state: State) -> Error {
    let text = format!("key {key:?} in queue {queue} is held by job {holder}, which is {state}");
    Error::new(Code::DuplicateKey, text).about(holder)
}

/// The queue takes no jobs now.
pub fn paused(queue: &QueueName) -> Error {
    let text = format!("queue {queue} is paused for pushes");
    Error::new(Code::QueuePaused, text)
}

/// The queue has as many jobs as it may.
pub fn too_many_jobs(queue: &QueueName, jobs: u64, limit: u64) -> Error {
    let text = format!("queue {queue} has {jobs} jobs, its limit is {limit}");
    Error::new(Code::QueueFull, text)
}

/// The queue has as many bytes as it may, or nearly so.
pub fn too_many_bytes(queue: &QueueName, bytes: u64, limit: u64) -> Error {
    let text = format!("queue {queue} has {bytes} payload bytes, its limit is {limit}");
    Error::new(Code::QueueFull, text)
}

/// The store has fewer shards than the queue is to be spread over.
pub fn too_few_shards(queue: &QueueName, wanted: u16, shards: u16) -> Error {
    let has = match shards {
        1 => "one shard".to_owned(),
        more => format!("{more} shards"),
    };
    let text = format!(
        "queue {queue} cannot be spread over {wanted} shards: its store has {has}. A store on Redis is given its number of \
         shards when it is made"
    );
    Error::new(Code::Conflict, text)
}

/// The token is not the one of a running lease.
pub fn lease_lost(job: JobId) -> Error {
    let text = format!(
        "the lease of job {job} has ended: it expired, was settled before, or the token is not its own"
    );
    Error::new(Code::LeaseLost, text).about(job)
}

/// What keeps a queue from handing out a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The job is scheduled.
    NotDue,
    /// The job is dead, but not because its life is over.
    Dead,
    /// The queue hands out nothing.
    Paused,
    /// The queue has as many leases as it may.
    MaxLeased,
    /// The queue has handed out as many jobs as its rate allows.
    Rate,
}

/// The job was named, and something holds it back.
pub fn held_back(job: JobId, hold: Hold) -> Error {
    let text = match hold {
        Hold::NotDue => format!("job {job} is not due yet"),
        Hold::Dead => format!("job {job} is dead"),
        Hold::Paused => format!("the queue of job {job} is paused"),
        Hold::MaxLeased => format!("the queue of job {job} has as many leases as it may"),
        Hold::Rate => {
            format!("the queue of job {job} has handed out as many jobs as its rate allows")
        }
    };
    Error::new(Code::Conflict, text).about(job)
}

/// There is no such job.
pub fn no_job(job: JobId) -> Error {
    Error::new(Code::NotFound, format!("there is no job {job}")).about(job)
}

/// The job cannot make this move.
pub fn no_arrow(job: JobId, state: State, event: Event) -> Error {
    let text = format!("job {job} is {state}, which does not allow {event}");
    Error::new(Code::Conflict, text).about(job)
}

/// The job is not what it was when somebody decided to move it.
pub fn not_as_it_was(job: JobId) -> Error {
    let text = format!("job {job} has changed since it was read");
    Error::new(Code::Conflict, text).about(job)
}

/// A leased job is with its worker and goes nowhere else.
pub fn leased(job: JobId) -> Error {
    Error::new(Code::Conflict, format!("job {job} is leased")).about(job)
}

/// Jobs are moved into the queue by somebody else.
pub fn another_run(queue: &QueueName) -> Error {
    let text = format!("jobs are moved into queue {queue} by another run, which began later");
    Error::new(Code::Conflict, text)
}

/// Which shard a key chooses may change while its jobs come.
pub fn spread(queue: &QueueName) -> Error {
    let text = format!(
        "queue {queue} is spread over several shards, and jobs of another store can only come to a queue in one: set its shards to \
         1, wait until its jobs are in one, and spread it when they are here"
    );
    Error::new(Code::Conflict, text)
}

/// Jobs of the queue are on their way to another store.
pub fn leaving(queue: &QueueName, store: &str) -> Error {
    let text = format!(
        "a move of queue {queue} to the store known as {store} is not finished: repeat the command that began it, or give it up \
         with auxo migrate --abandon"
    );
    Error::new(Code::Conflict, text)
}

/// There is no such subscription.
pub fn no_subscription(topic: &str, name: &str) -> Error {
    missing(format!("topic {topic:?} has no subscription {name:?}"))
}

/// The schedule has made a job that whoever wants to take it away does not know of.
pub fn ticked(name: &str) -> Error {
    let text = format!("schedule {name:?} has ticked since it was read");
    Error::new(Code::Conflict, text)
}

/// There is no such schedule.
pub fn no_schedule(name: &str) -> Error {
    missing(format!("there is no schedule {name:?}"))
}

fn missing(what: String) -> Error {
    Error::new(Code::NotFound, what)
}
