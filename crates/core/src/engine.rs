//! What a store must do, never how.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::broadcast;

use crate::error::{Code, Error, Result};
use crate::event::Notice;
use crate::explain::Explanation;
use crate::id::{JobId, Token};
use crate::job::{Headers, Job, JobSpec, Leased, NewJob, QueueName};
use crate::life::{Event, State};
use crate::passage::{Adopted, Adoption, Departure, Leaving, Passages};
use crate::queue::{Books, QueueConfig, QueueInfo};
use crate::schedule::Schedule;
use crate::text::word;
use crate::time::{Timestamp, When};
use crate::topic::Subscription;

/// The contract between the queue's rules and a store.
///
/// 1. Each call is one atomic step, a batch call per job: there is no moment in which a job is in no state or in two.
/// 2. A push, ack, fail, bury or publish answered with success is durable at the level the engine was opened with.
/// 3. `lease` takes from one of its queues, which [`Pick`] chooses, and waits on a signal. A job pushed or falling due wakes who waits for it.
/// 4. A token is compared for equality; an old one changes nothing and is answered `lease_lost`. The attempt counter goes
///    up at lease time.
/// 5. No job is handed out before it is due. The engine's clocks decide, never a client's.
/// 6. A lease that nobody settles ends at its deadline; the job is then at the front of its priority, or dead if it
///    vanished or failed `max_attempts` times.
/// 7. Due moves and expiry have no ceiling per tick.
/// 8. The books of each queue balance. A queue that has no job, held key, setting, schedule, subscription or waiting lease call, and
///    that no call used for [`FORGET_AFTER`](crate::queue::FORGET_AFTER), is forgotten; where there are as many queues as there may
///    be, the one that went unused the longest goes at once to make room for a new name. Its books are added to those of all
///    forgotten queues, so no total ever falls. A forgotten name that is used again is a new queue.
/// 9. Idle means idle.
///
/// Values are already checked by the service; an engine may rely on the limits.
/// An outer `Err` means that the whole call failed; inner results stand in the order of the items asked.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Keeps the jobs. A key that is taken is answered by the policy of the push.
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>>;

    /// Lends the first due jobs, up to `max`, from the first of the queues that has any. With nothing due it waits for up
    /// to `wait` and then answers with none. A job that is named is lent at once or not at all. Dropping the future gives back what it was about to return.
    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>>;

    /// Ends leases.
    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>>;

    /// Prolongs leases, notes progress, and reports a wish to cancel.
    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>>;

    /// Shows one job, or `None`. A done job is shown while it is retained, and without its payload while only its key is
    /// still held.
    async fn find(&self, which: Which) -> Result<Option<Job>>;

    /// Shows a page of jobs. Each call does a bounded amount of work: a page may be short, even empty, and still have a
    /// `next` cursor. Only a page without one is the last.
    async fn list(&self, query: Query) -> Result<Page>;

    /// An operator's move on named jobs, or on those that match a filter. With a filter each call does a bounded amount of
    /// work and answers where to go on.
    async fn steer(&self, order: Order) -> Result<Steered>;

    /// Shows the named queues, or all, in the order of their names. A queue that never was, or was forgotten, is left out.
    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>>;

    /// Shows all queues that can be reached, and which parts of the store cannot. [`Engine::queues`] without names fails where a part
    /// is missing; this fails only where nothing can be reached. Of a store that works as a whole or not at all there is nothing
    /// to add.
    async fn reachable_queues(&self) -> Result<QueueList> {
        self.queues(None).await.map(QueueList::whole)
    }

    /// The books of all forgotten queues together. An engine that forgets none has none.
    async fn forgotten(&self) -> Result<Books> {
        Ok(Books::default())
    }

    /// Changes a queue's settings, a subscription or a schedule. Durable when answered.
    async fn change(&self, change: Change) -> Result<()>;

    /// Shows all subscriptions and schedules, in the order of their names.
    async fn catalog(&self) -> Result<Catalog>;

    /// Puts one job into the queue of each matching subscription: into all of them or, on error, into none.
    async fn publish(&self, message: Message) -> Result<Vec<Pushed>>;

    /// Says why a job is not running, if the engine stands for a server that can: who has asked for a queue is known only
    /// there. `None` leaves it to the service.
    async fn explain(&self, _which: &Which) -> Result<Option<Explanation>> {
        Ok(None)
    }

    /// Shows jobs with their whole life, to be moved to another store; see [`crate::passage`]. Each call does a bounded amount
    /// of work.
    async fn passages(&self, _departure: Departure) -> Result<Passages> {
        Err(immovable())
    }

    /// Removes jobs that are at another store now, as if they had never been here. One that is leased, or not in the version
    /// that was named, is a conflict and stays.
    async fn depart(&self, _queue: QueueName, _jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        Err(immovable())
    }

    /// Takes jobs of another store in, each in one step with the note that it is here. A job keeps its id if that is free, and
    /// everything else in any case; one whose key is taken is refused. Another run than the one that began last is a conflict.
    async fn adopt(&self, _adoption: Adoption) -> Result<Adopted> {
        Err(immovable())
    }

    /// Recomputes the books from the stored jobs and names every difference.
    async fn audit(&self) -> Result<Audit>;

    /// Tells of every transition from now on. A watcher that falls behind is told how many notices it missed.
    fn watch(&self) -> broadcast::Receiver<Notice>;

    /// Whether the engine works at all; the error says why not. While a part of it works this is no error: see
    /// [`Engine::outages`].
    fn health(&self) -> Result<()>;

    /// What the engine refuses now, while it does the rest: it is degraded. None when all is well, and when nothing works.
    fn outages(&self) -> Vec<Outage> {
        Vec::new()
    }

    /// How much the engine has found wrong in its store and put right by itself since it was opened. One that alone writes to
    /// its store has nothing to find.
    fn repaired(&self) -> u64 {
        0
    }

    /// Makes everything durable and stops. Later calls are answered `unavailable`.
    async fn close(&self) -> Result<()>;
}

/// Something that an engine refuses for now, while it does the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What is refused, in a word or two: `pushes`, `shard 3`. It names nothing that a stranger must not know.
    pub part: String,
    /// Why, as a sentence for whoever runs the store.
    pub why: String,
}

/// The queues that can be reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueList {
    /// The queues, in the order of their names. One that is also in a missing part is shown with what the others have of it.
    pub queues: Vec<QueueInfo>,
    /// The parts of the store that could not be asked.
    pub unavailable: Vec<Outage>,
}

impl QueueList {
    /// All queues of a store of which nothing is missing.
    pub fn whole(queues: Vec<QueueInfo>) -> QueueList {
        QueueList {
            queues,
            unavailable: Vec::new(),
        }
    }

    /// The queues if they are all, or an error that names what is missing.
    pub fn into_all(self) -> Result<Vec<QueueInfo>> {
        match self.unavailable.first() {
            None => Ok(self.queues),
            Some(outage) => {
                let message = format!("{} is away: {}", outage.part, outage.why);
                Err(Error::new(Code::Unavailable, message))
            }
        }
    }
}

/// The answer of an engine that has nothing to move.
fn immovable() -> Error {
    Error::bad_request("this store does not move jobs")
}

/// A push that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The job: a new one, or the one that has the key.
    pub id: JobId,
    /// Its state.
    pub state: State,
    /// When it may run, as the wall clock will show it.
    pub run_at: Timestamp,
    /// What the push did.
    pub how: Accepted,
}

/// What an accepted push did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It made a new job.
    New,
    /// A job with the key lives already; nothing was changed.
    Existing,
    /// A waiting job with the key got the new payload and due time.
    Replaced,
}

impl Accepted {
    /// The word for it in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Accepted::New => "new",
            Accepted::Existing => "existing",
            Accepted::Replaced => "replaced",
        }
    }
}

/// A request for jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Where to look; at least one, unless a job is named.
    pub queues: Vec<QueueName>,
    /// This very job instead of the next, wherever it stands in its line. It is not waited for. A job that is leased, done or expired is
    /// not handed out.
    pub job: Option<NamedJob>,
    /// Which of the queues gives.
    pub pick: Pick,
    /// How many jobs at most; at least 1.
    pub max: u32,
    /// How long to wait when there are none.
    pub wait: Duration,
    /// The length of the leases, instead of each job's own. Does not make a job at most once, nor stop it from being so.
    pub ttr: Option<Duration>,
    /// The worker's name for itself.
    pub worker: Arc<str>,
}

/// A job that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedJob {
    /// The job.
    pub id: JobId,
    /// What is done if something holds it back.
    pub holds: Holds,
}

/// Whether a lease of a named job heeds what would keep its queue from handing it out: that it is not due, or dead, a pause of the
/// queue, its most leases or its rate. A request that is sent to a server does not say so: the server decides by what the caller may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holds {
    /// The lease is refused with [`refusal::held_back`](crate::refusal::held_back).
    #[default]
    Respect,
    /// The job is lent all the same; one that is not due, or dead, is kicked first.
    Bypass,
}

/// Which of several queues gives. All jobs of an answer are of that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// The first, in the order named, that has a due job.
    #[default]
    First,
    /// The one whose next job is the most urgent: by priority, then due time, then age, as if the next jobs of all of them stood
    /// in one line; one whose worker vanished is at the front of its priority there, too. More jobs of that queue follow as long
    /// as none of another queue comes before them, so there may be fewer than asked for though more are due: ask again.
    MostUrgent,
}

impl Pick {
    /// Every one.
    pub const ALL: [Pick; 2] = [Pick::First, Pick::MostUrgent];

    /// The word for it, in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Pick::First => "first",
            Pick::MostUrgent => "most_urgent",
        }
    }
}

impl FromStr for Pick {
    type Err = Error;

    fn from_str(text: &str) -> Result<Pick> {
        word(text, &Pick::ALL, Pick::as_str)
    }
}

/// The end of one lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    /// Which lease.
    pub token: Token,
    /// How it ends.
    pub outcome: Outcome,
}

/// How a lease ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Done.
    Ack {
        /// Kept with the job for its `retention`.
        result: Option<Bytes>,
    },
    /// A failure: another try by the job's policy, or dead.
    Fail {
        /// What went wrong.
        error: String,
        /// The wait before the next try, instead of the policy's.
        delay: Option<Duration>,
        /// Whether another try makes sense.
        retry: Retry,
    },
    /// Given back; no failure is counted.
    Release {
        /// A new priority.
        priority: Option<u32>,
        /// A wait before it is due again; without one it goes back to its old place.
        delay: Option<Duration>,
    },
    /// Dead at once.
    Bury {
        /// Why.
        error: Option<String>,
        /// A new priority, for when it is kicked.
        priority: Option<u32>,
    },
    /// Again later; no failure is counted.
    Snooze {
        /// How much later.
        delay: Duration,
    },
}

impl Outcome {
    /// The outcome as it is spelled in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Ack { .. } => "ack",
            Outcome::Fail { .. } => "fail",
            Outcome::Release { .. } => "release",
            Outcome::Bury { .. } => "bury",
            Outcome::Snooze { .. } => "snooze",
        }
    }
}

/// Whether a failed job may be tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// As its policy says.
    #[default]
    Policy,
    /// Never.
    Never,
}

/// A lease that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The job.
    pub id: JobId,
    /// Its state now.
    pub state: State,
    /// When it is due again, if it is.
    pub run_at: Option<Timestamp>,
}

/// A sign of life from a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Extend {
    /// Which lease.
    pub token: Token,
    /// The new length from now on; without one the length that the lease was given.
    pub ttr: Option<Duration>,
    /// How far the work is.
    pub progress: Option<Bytes>,
}

/// A lease that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The job.
    pub id: JobId,
    /// The new deadline, as the wall clock will show it.
    pub deadline: Timestamp,
    /// Somebody wants the job cancelled: stop and settle.
    pub cancel: bool,
}

/// How to name one job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// By its id.
    Id(JobId),
    /// By the client's key.
    Key(QueueName, String),
}

/// What a job must have to be listed. An empty filter matches every job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In this queue.
    pub queue: Option<QueueName>,
    /// In one of these states; empty means any.
    pub states: Vec<State>,
    /// Of this kind.
    pub kind: Option<String>,
    /// With this key.
    pub key: Option<String>,
    /// In this group.
    pub group: Option<String>,
    /// With all of these headers.
    pub headers: Headers,
    /// With this text in the last error.
    pub error: Option<String>,
    /// With this text in kind, key, group, a header, the last error, or a payload that is text.
    pub search: Option<String>,
    /// Pushed at or after.
    pub created_from: Option<Timestamp>,
    /// Pushed before.
    pub created_before: Option<Timestamp>,
    /// Due at or after.
    pub due_from: Option<Timestamp>,
    /// Due before.
    pub due_before: Option<Timestamp>,
}

impl Filter {
    /// Whether the job has everything asked for.
    pub fn matches(&self, job: &Job) -> bool {
        let same =
            |wish: &Option<String>, value: Option<&str>| wish.is_none() || wish.as_deref() == value;
        let error = job.last_error.as_deref().unwrap_or_default();
        self.queue.as_ref().is_none_or(|queue| *queue == job.queue)
            && (self.states.is_empty() || self.states.contains(&job.state))
            && same(&self.kind, Some(&job.kind))
            && same(&self.key, job.key.as_deref())
            && same(&self.group, job.group.as_deref())
            && self
                .headers
                .iter()
                .all(|(name, value)| job.headers.get(name) == Some(value))
            && self
                .error
                .as_ref()
                .is_none_or(|text| error.contains(text.as_str()))
            && self.search.as_ref().is_none_or(|text| mentions(job, text))
            && self.created_from.is_none_or(|from| job.created_at >= from)
            && self
                .created_before
                .is_none_or(|before| job.created_at < before)
            && self.due_from.is_none_or(|from| job.run_at >= from)
            && self.due_before.is_none_or(|before| job.run_at < before)
    }
}

fn mentions(job: &Job, text: &str) -> bool {
    let mut fields = [
        Some(&*job.kind),
        job.key.as_deref(),
        job.group.as_deref(),
        job.last_error.as_deref(),
    ]
    .into_iter();
    fields.any(|field| field.is_some_and(|field| field.contains(text)))
        || job
            .headers
            .iter()
            .any(|(name, value)| name.contains(text) || value.contains(text))
        || std::str::from_utf8(&job.payload).is_ok_and(|payload| payload.contains(text))
}

/// A request for a page of jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Which jobs.
    pub filter: Filter,
    /// Where to go on; `None` starts at the beginning.
    pub cursor: Option<Cursor>,
    /// How many jobs at most; at least 1.
    pub limit: u32,
}

/// Where a listing goes on. Only the engine that made it can read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// A page of jobs: queue by queue, and within a queue in the order in which they would be handed out, then the dead, then
/// the done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The jobs.
    pub jobs: Vec<Job>,
    /// Where to go on; `None` at the end.
    pub next: Option<Cursor>,
}

/// An operator's move.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// On which jobs.
    pub target: Target,
    /// What to do.
    pub action: Action,
    /// Whether to do it.
    pub mode: Mode,
}

/// The jobs an operator means.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "made once per call of an operator, never kept in bulk"
)]
pub enum Target {
    /// These.
    Jobs(Vec<JobId>),
    /// Those a query shows.
    Matching(Query),
}

/// What an operator can do to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Makes a dead or scheduled job ready, due now. A dead one may fail as often as a new one, and if it had expired it
    /// has no time to live any more.
    Kick,
    /// Calls a job off. A leased one is flagged: its worker learns of it at the next extend, may still ack, and any other
    /// end of the lease cancels the job.
    Cancel,
    /// Gives a waiting or dead job another due time.
    Reschedule(When),
    /// Removes a job that is not leased, the done ones too.
    Delete,
}

impl Action {
    /// What happens to a job by it.
    pub fn event(&self) -> Event {
        match self {
            Action::Kick => Event::Kick,
            Action::Cancel => Event::Cancel,
            Action::Reschedule(_) => Event::Reschedule,
            Action::Delete => Event::Delete,
        }
    }
}

/// Whether a move is made or only counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Make it.
    Act,
    /// Only say what would be moved.
    DryRun,
}

/// What an operator's move did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steered {
    /// How many jobs the move was legal for, and was made unless it was a dry run.
    pub moved: u64,
    /// For each named job its state afterwards, or why it could not be moved. Empty when a filter was given.
    pub results: Vec<Result<State>>,
    /// Where to go on, when a filter was given and there may be more.
    pub next: Option<Cursor>,
}

/// A change that is not about one job.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Sets a queue's settings, and makes the queue if need be.
    Queue(QueueName, QueueConfig),
    /// Adds or replaces a subscription.
    Subscribe(Subscription),
    /// Removes the subscription with this topic and name. Its queue and jobs stay.
    Unsubscribe(String, String),
    /// Adds or replaces a schedule. Its next tick is computed from now.
    Schedule(Schedule),
    /// Adds or replaces a schedule with the ticks that it names, its next and its last: one of another store goes on as it was.
    Arm(Schedule),
    /// Removes the schedule with this name. Its jobs stay.
    Unschedule(String),
    /// The same, but only if its last tick is this one: whoever takes it to another store knows of every job that it made.
    Disarm(String, Option<Timestamp>),
}

/// Everything that is set up besides queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// All subscriptions.
    pub subscriptions: Vec<Subscription>,
    /// All schedules, with their next tick.
    pub schedules: Vec<Schedule>,
}

/// A message for a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The topic.
    pub topic: String,
    /// What patterns are matched against; without one only subscriptions without a pattern, or with `#`, match.
    pub routing_key: Option<String>,
    /// The job that each subscription gets.
    pub spec: JobSpec,
}

/// The result of an audit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Audit {
    /// The books of each queue as recomputed from the stored jobs.
    pub queues: Vec<(QueueName, Books)>,
    /// The books of all forgotten queues together.
    pub forgotten: Books,
    /// How many stored jobs were read.
    pub jobs: u64,
    /// Every difference found, as a sentence that names the queue or job.
    pub problems: Vec<String>,
}

impl Audit {
    /// The audit as an error, if it found anything.
    pub fn into_result(self) -> Result<Audit> {
        match self.problems.first() {
            None => Ok(self),
            Some(first) => Err(Error::new(
                crate::Code::Internal,
                format!("{} problems, first: {first}", self.problems.len()),
            )),
        }
    }
}
