//! The job: payload bytes and what the queue must know about them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::error::{Code, Error, Result};
use crate::id::{JobId, Token, clip};
use crate::life::{Event, State};
use crate::text::word;
use crate::time::{Timestamp, When};

/// The priority of a job that names none. Zero is the most urgent.
pub const DEFAULT_PRIORITY: u32 = 1024;
/// The lease length of a job that names none.
pub const DEFAULT_TTR: Duration = Duration::from_secs(60);
/// How often a job that does not say may fail or vanish before it is dead.
pub const DEFAULT_MAX_ATTEMPTS: u32 = 10;
/// How long a key is held after its job was done, unless the push says otherwise.
pub const DEFAULT_KEY_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// How many entries a job's timeline keeps: the first one and the newest.
pub const TIMELINE_LENGTH: usize = 50;

/// Flat text pairs that travel with a job, in the order of their names.
pub type Headers = BTreeMap<String, String>;

/// The checked name of a queue: 1 to 200 of `A-Z a-z 0-9 _ . : ; $ ( ) + / -`, not starting with `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(Arc<str>);

impl QueueName {
    /// Checks a name.
    ///
    /// ```
    /// use auxo_core::QueueName;
    /// assert_eq!(QueueName::new("mail.high").unwrap().as_str(), "mail.high");
    /// assert!(QueueName::new("-mail").is_err());
    /// assert_eq!("mail".parse(), QueueName::new("mail"));
    /// ```
    pub fn new(name: &str) -> Result<QueueName> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.:;$()+/-".contains(&b);
        let problem = if name.is_empty() {
            "is empty"
        } else if name.len() > 200 {
            "is longer than 200 characters"
        } else if name.starts_with('-') {
            "starts with '-'"
        } else if !name.bytes().all(allowed) {
            "has a character outside A-Z a-z 0-9 _ . : ; $ ( ) + / -"
        } else {
            return Ok(QueueName(name.into()));
        };
        Err(Error::new(
            Code::BadRequest,
            format!("queue name {:?} {problem}", clip(name)),
        ))
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for QueueName {
    type Err = Error;

    fn from_str(name: &str) -> Result<QueueName> {
        QueueName::new(name)
    }
}

impl fmt::Debug for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How long to wait before the next try, as data that is stored with the job.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// `base`, then `factor` times as long after each failure, at most `cap`.
    Exponential {
        /// The wait after the first failure.
        base: Duration,
        /// What each further failure multiplies it with, at least 1.
        factor: f64,
        /// The longest wait.
        cap: Duration,
        /// How the wait is spread.
        jitter: Jitter,
    },
    /// The same wait after each failure.
    Fixed {
        /// The wait.
        delay: Duration,
    },
    /// One wait per failure; the last one repeats.
    List {
        /// The waits, at least one.
        delays: Vec<Duration>,
    },
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::Exponential {
            base: Duration::from_secs(1),
            factor: 2.0,
            cap: Duration::from_secs(60 * 60),
            jitter: Jitter::Full,
        }
    }
}

/// How a wait is spread, so that jobs that failed together do not come back together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Exactly the computed wait.
    None,
    /// Anything from zero to the computed wait.
    Full,
}

impl Jitter {
    /// Every one.
    pub const ALL: [Jitter; 2] = [Jitter::Full, Jitter::None];

    /// The word for it, in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Jitter::Full => "full",
            Jitter::None => "none",
        }
    }
}

impl FromStr for Jitter {
    type Err = Error;

    fn from_str(text: &str) -> Result<Jitter> {
        word(text, &Jitter::ALL, Jitter::as_str)
    }
}

/// What a second push with the key of a living job is answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// An error that carries the existing id.
    #[default]
    Reject,
    /// The existing id, as success.
    Return,
    /// The waiting job gets the new payload, priority and due time; a job that is no longer waiting is a rejection.
    Replace,
}

impl OnDuplicate {
    /// Every one.
    pub const ALL: [OnDuplicate; 3] = [
        OnDuplicate::Reject,
        OnDuplicate::Return,
        OnDuplicate::Replace,
    ];

    /// The word for it, in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            OnDuplicate::Reject => "reject",
            OnDuplicate::Return => "return",
            OnDuplicate::Replace => "replace",
        }
    }
}

impl FromStr for OnDuplicate {
    type Err = Error;

    fn from_str(text: &str) -> Result<OnDuplicate> {
        word(text, &OnDuplicate::ALL, OnDuplicate::as_str)
    }
}

/// A client's name for a job: a unique job and an idempotent push in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name, unique within the queue.
    pub name: String,
    /// What to do about a job that has it already.
    pub on_duplicate: OnDuplicate,
    /// How long the name stays taken after the job was done.
    pub window: Duration,
}

/// When a job's life ends whether it ran or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// Never.
    #[default]
    None,
    /// This long after the push, by the steady clock.
    After(Duration),
    /// At this instant, by the wall clock.
    At(Timestamp),
}

/// Everything a client may say about a job, except the queue. [`JobSpec::default`] is a job with an empty payload that runs
/// at once.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Selects the handler; may be empty.
    pub kind: String,
    /// Opaque bytes.
    pub payload: Bytes,
    /// Text pairs, among them `traceparent`.
    pub headers: Headers,
    /// Zero is most urgent.
    pub priority: u32,
    /// When it may run.
    pub when: When,
    /// The length of a lease. Zero means delivered at most once: gone when leased.
    pub ttr: Duration,
    /// Total life.
    pub ttl: Ttl,
    /// How many failed or vanished leases make it dead.
    pub max_attempts: u32,
    /// The wait between tries.
    pub backoff: Backoff,
    /// The client's name for it.
    pub key: Option<Key>,
    /// Fairness key: groups of a fair queue take turns.
    pub group: Option<String>,
    /// How long it is kept after it was done.
    pub retention: Duration,
}

impl Default for JobSpec {
    fn default() -> JobSpec {
        JobSpec {
            kind: String::new(),
            payload: Bytes::new(),
            headers: Headers::new(),
            priority: DEFAULT_PRIORITY,
            when: When::Now,
            ttr: DEFAULT_TTR,
            ttl: Ttl::None,
            max_attempts: DEFAULT_MAX_ATTEMPTS,
            backoff: Backoff::default(),
            key: None,
            group: None,
            retention: Duration::ZERO,
        }
    }
}

/// A job on its way into a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct NewJob {
    /// Where it goes.
    pub queue: QueueName,
    /// What it is.
    pub spec: JobSpec,
}

/// Why a job is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadReason {
    /// It failed as often as it may.
    Failed,
    /// Its workers vanished as often as they may.
    Vanished,
    /// A worker said that trying again is of no use.
    Buried,
    /// Its time to live ran out.
    Expired,
}

impl DeadReason {
    /// The reason as it is spelled in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            DeadReason::Failed => "failed",
            DeadReason::Vanished => "vanished",
            DeadReason::Buried => "buried",
            DeadReason::Expired => "expired",
        }
    }
}

/// Who has a leased job, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The worker's own name for itself.
    pub worker: Arc<str>,
    /// When the lease ends unless it is extended, as the wall clock will show it.
    pub deadline: Timestamp,
    /// Somebody asked for the job to be cancelled; the worker learns it from its next extend.
    pub cancel: bool,
}

/// One entry of a job's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
    /// The worker or node that made it happen; may be empty.
    pub by: String,
    /// The reason, such as the error of a failure; may be empty.
    pub note: String,
}

/// A job as an engine shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Given by the engine.
    pub id: JobId,
    /// Where it lives.
    pub queue: QueueName,
    /// Selects the handler.
    pub kind: Arc<str>,
    /// Opaque bytes.
    pub payload: Bytes,
    /// Text pairs.
    pub headers: Headers,
    /// Zero is most urgent.
    pub priority: u32,
    /// Where in its life it is.
    pub state: State,
    /// When it may run, or might.
    pub run_at: Timestamp,
    /// When it was pushed.
    pub created_at: Timestamp,
    /// The length of a lease.
    pub ttr: Duration,
    /// When its life ends.
    pub expires_at: Option<Timestamp>,
    /// How many failed or vanished leases make it dead.
    pub max_attempts: u32,
    /// The wait between tries.
    pub backoff: Backoff,
    /// The client's name for it.
    pub key: Option<String>,
    /// How long the name stays taken after the job was done.
    pub key_window: Duration,
    /// Fairness key.
    pub group: Option<String>,
    /// How long it is kept after it was done.
    pub retention: Duration,
    /// How often it was leased.
    pub attempt: u32,
    /// How many of these leases ended in `fail`.
    pub failures: u32,
    /// How many of these leases ended because nobody settled them in time.
    pub vanished: u32,
    /// What the last failure said.
    pub last_error: Option<String>,
    /// Why it is dead, if it is.
    pub dead: Option<DeadReason>,
    /// When it was done or died.
    pub ended_at: Option<Timestamp>,
    /// What the worker last said about how far it is: JSON or any bytes.
    pub progress: Option<Bytes>,
    /// What the worker left behind when it was done: JSON or any bytes.
    pub result: Option<Bytes>,
    /// Who has it now.
    pub holder: Option<Holder>,
    /// What happened to it, oldest first.
    pub timeline: Vec<Moment>,
}

/// A job that was just leased: the job, and the right to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    /// The job, in state `leased`, with its attempt already counted.
    pub job: Job,
    /// Needed to settle or extend.
    pub token: Token,
    /// When the lease ends unless it is extended, as the wall clock will show it.
    pub deadline: Timestamp,
}
