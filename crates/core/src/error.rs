//! What can go wrong, in words a caller can act on.

use std::fmt;

use crate::id::JobId;

/// The result of a call into Auxo.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The few stable reasons for an error, the same on every interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The request itself is wrong; sending it again will not help.
    BadRequest,
    /// There is no such job, queue, subscription or schedule.
    NotFound,
    /// A job with this key lives in the queue; the error carries its id.
    DuplicateKey,
    /// The token is not the one of a running lease: it expired, was settled, or never was.
    LeaseLost,
    /// The queue does not take jobs now.
    QueuePaused,
    /// The queue, or the disk, has no room now.
    QueueFull,
    /// A part of the request is over its limit.
    TooLarge,
    /// Too many requests.
    RateLimited,
    /// Who is asking is not known.
    Unauthorized,
    /// Who is asking may not do this.
    Forbidden,
    /// The store cannot be reached or has stopped; nothing was changed.
    Unavailable,
    /// No answer from the store: the step may or may not have happened.
    UnknownOutcome,
    /// The move is not legal in the state the job is in.
    Conflict,
    /// The store contradicts itself. Stop and look.
    Internal,
}

impl Code {
    /// Every code, in the order of the enum.
    pub const ALL: [Code; 14] = [
        Code::BadRequest,
        Code::NotFound,
        Code::DuplicateKey,
        Code::LeaseLost,
        Code::QueuePaused,
        Code::QueueFull,
        Code::TooLarge,
        Code::RateLimited,
        Code::Unauthorized,
        Code::Forbidden,
        Code::Unavailable,
        Code::UnknownOutcome,
        Code::Conflict,
        Code::Internal,
    ];

    /// The code as it is spelled in JSON and on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::BadRequest => "bad_request",
            Code::NotFound => "not_found",
            Code::DuplicateKey => "duplicate_key",
            Code::LeaseLost => "lease_lost",
            Code::QueuePaused => "queue_paused",
            Code::QueueFull => "queue_full",
            Code::TooLarge => "too_large",
            Code::RateLimited => "rate_limited",
            Code::Unauthorized => "unauthorized",
            Code::Forbidden => "forbidden",
            Code::Unavailable => "unavailable",
            Code::UnknownOutcome => "unknown_outcome",
            Code::Conflict => "conflict",
            Code::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal or a failure: a stable [`Code`], a sentence for people, and the id of the job it is about, if any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    message: String,
    job: Option<JobId>,
}

impl Error {
    /// An error with its sentence: lower case, no full stop, naming what is wrong.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error {
            code,
            message: message.into(),
            job: None,
        }
    }

    /// The same error about this job.
    pub fn about(self, job: JobId) -> Error {
        Error {
            job: Some(job),
            ..self
        }
    }

    /// A request that is wrong in itself.
    pub fn bad_request(message: impl Into<String>) -> Error {
        Error::new(Code::BadRequest, message)
    }

    /// The stable reason.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The sentence for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The job the error is about; for a duplicate key the one that holds the key.
    pub fn job(&self) -> Option<JobId> {
        self.job
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Error {}
