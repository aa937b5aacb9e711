//! A recorded run as data: who did what, when, and what came of it.
//!
//! Each call leaves one `invoke` before it is made and an answer after it: `ok`, `fail` (surely without effect) or
//! `unknown`. A lease that returned several jobs has one `ok` for each. A broken connection or a killed process leaves an
//! invoke without an answer, which means the same as `unknown`.
//!
//! On disk an event is one line, written with one call, so that a killed process leaves whole lines:
//!
//! ```text
//! 1718000000123456 3 17 push invoke hash=9f1c5a0e77aa1234 queue=q priority=1024 key=q/k7 window=60000 limit=5
//! 1718000000123789 3 17 push ok id=42 due=1718000000200 state=scheduled how=new
//! ```
//!
//! The first five words are the time in microseconds, the process, the number of the call, the operation and the phase.

mod recorder;
mod text;

use std::io;
use std::path::Path;

use auxo_core::engine::{Accepted, Outcome};
use auxo_core::{Code, JobId, State, Token};

pub use recorder::Recorder;

/// What a process asked for, or what happened to the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Handed in one job; a batch has one event for each.
    #[default]
    Push,
    /// Asked for jobs.
    Lease,
    /// Ended a lease: done.
    Ack,
    /// Ended a lease: a failure.
    Fail,
    /// Ended a lease: given back.
    Release,
    /// Ended a lease: dead.
    Bury,
    /// Ended a lease: again later.
    Snooze,
    /// Prolonged a lease.
    Extend,
    /// Called a job off.
    Cancel,
    /// Brought a dead or scheduled job back.
    Kick,
    /// The engine is open again after its process was killed. What was answered before is in the history before it.
    Killed,
    /// The engine is open again after everything that was not yet synced was lost.
    PowerCut,
}

impl Op {
    /// Every operation.
    pub const ALL: [Op; 12] = [
        Op::Push,
        Op::Lease,
        Op::Ack,
        Op::Fail,
        Op::Release,
        Op::Bury,
        Op::Snooze,
        Op::Extend,
        Op::Cancel,
        Op::Kick,
        Op::Killed,
        Op::PowerCut,
    ];

    /// The operation as it is spelled in a history.
    pub fn as_str(self) -> &'static str {
        match self {
            Op::Push => "push",
            Op::Lease => "lease",
            Op::Ack => "ack",
            Op::Fail => "fail",
            Op::Release => "release",
            Op::Bury => "bury",
            Op::Snooze => "snooze",
            Op::Extend => "extend",
            Op::Cancel => "cancel",
            Op::Kick => "kick",
            Op::Killed => "killed",
            Op::PowerCut => "power-cut",
        }
    }

    /// The operation that ends a lease so.
    pub fn of(outcome: &Outcome) -> Op {
        match outcome {
            Outcome::Ack { .. } => Op::Ack,
            Outcome::Fail { .. } => Op::Fail,
            Outcome::Release { .. } => Op::Release,
            Outcome::Bury { .. } => Op::Bury,
            Outcome::Snooze { .. } => Op::Snooze,
        }
    }
}

/// How far a call got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// About to be made.
    Invoke,
    /// Answered with success.
    #[default]
    Ok,
    /// Refused: surely without effect.
    Fail,
    /// No answer, or one that leaves the effect open.
    Unknown,
}

impl Phase {
    /// Every phase.
    pub const ALL: [Phase; 4] = [Phase::Invoke, Phase::Ok, Phase::Fail, Phase::Unknown];

    /// The phase as it is spelled in a history.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Invoke => "invoke",
            Phase::Ok => "ok",
            Phase::Fail => "fail",
            Phase::Unknown => "unknown",
        }
    }

    /// What an error says about the effect of the call.
    pub fn after(code: Code) -> Phase {
        match code {
            Code::UnknownOutcome | Code::Internal => Phase::Unknown,
            _ => Phase::Fail,
        }
    }
}

/// One event. Fields that an operation has no use for are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Microseconds on the recorder's clock, which never goes back.
    pub at: u64,
    /// Who: a number for each producer or worker; 0 is the harness itself.
    pub process: u32,
    /// Ties an answer to its invoke; no two calls of a history share one.
    pub call: u64,
    /// What was asked.
    pub op: Op,
    /// How far it got.
    pub phase: Phase,
    /// When the engine did it, in milliseconds of its clock.
    pub engine: Option<u64>,
    /// The job.
    pub id: Option<JobId>,
    /// The lease.
    pub token: Option<Token>,
    /// The attempt that a lease began.
    pub attempt: Option<u32>,
    /// When the lease ends, in milliseconds of the engine's clock.
    pub deadline: Option<u64>,
    /// When the job may run, in milliseconds of the engine's clock.
    pub due: Option<u64>,
    /// The [`hash`] of the payload.
    pub hash: Option<u64>,
    /// The queue that a job is pushed into.
    pub queue: Option<String>,
    /// How urgent it is there.
    pub priority: Option<u32>,
    /// The queue and the key in it, as one name.
    pub key: Option<String>,
    /// How long the key stays taken after the job was done, in milliseconds.
    pub window: Option<u64>,
    /// Of a push: how many failed or vanished leases make the job dead. Of a lease: how many jobs were asked for.
    pub limit: Option<u32>,
    /// The job's state afterwards.
    pub state: Option<State>,
    /// What an accepted push did.
    pub how: Option<Accepted>,
    /// Why it was refused.
    pub code: Option<Code>,
}

impl Event {
    /// The job that the event is about, if it says so.
    pub fn job(&self) -> Option<JobId> {
        self.id.or(self.token.map(|token| token.job))
    }
}

/// A run, in the order in which it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// What happened.
    pub events: Vec<Event>,
}

impl History {
    /// Reads what a [`Recorder`] wrote. A last line without its end is ignored; any other that cannot be read is an error
    /// that names it.
    pub fn read(path: &Path) -> io::Result<History> {
        History::parse(&std::fs::read(path)?)
    }

    /// As [`History::read`], from bytes.
    pub fn parse(bytes: &[u8]) -> io::Result<History> {
        let whole = whole_lines(bytes);
        let text = std::str::from_utf8(&bytes[..whole]).map_err(malformed)?;
        let mut events = Vec::new();
        for (index, line) in text.split_terminator('\n').enumerate() {
            let event = line
                .parse()
                .map_err(|why| malformed(format!("line {}: {why}", index + 1)))?;
            events.push(event);
        }
        Ok(History { events })
    }
}

/// How many of the bytes belong to lines that have their end.
fn whole_lines(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte == b'\n');
    last.map_or(0, |last| last + 1)
}

fn malformed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A short name for a payload: FNV-1a of 64 bits.
pub fn hash(payload: &[u8]) -> u64 {
    payload.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
