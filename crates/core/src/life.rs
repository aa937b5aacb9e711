//! The life of a job: its states and the moves between them, as data.
//!
//! ```text
//! push(delay) ──> scheduled ──due──> ready ──lease──> leased ──ack──> done (kept for `retention`, default 0)
//!                    ^                 ^  ^               │ │ │ │
//!                    ├── fail (retry) ─┼──┼───────────────┘ │ │ └─ bury / last failure / expired ──> dead
//!                    └── snooze ───────┼──┴── release ──────┘ │                                      │
//!                                      └───── lease expired ──┘ <───────────── kick ─────────────────┘
//!
//! take:       ready ──> done                        instead of a lease when `ttr` is zero
//! expire:     scheduled, ready ──> dead
//! kick:       scheduled ──> ready                   besides dead, as drawn
//! reschedule: scheduled, ready, dead ──> scheduled
//! replace:    scheduled, ready ──> scheduled        by a push with the same key
//! cancel:     scheduled, ready, dead ──> cancelled  at once
//! cancel:     leased ──> cancelled                  once the worker lets go without an ack
//! delete:     scheduled, ready, dead, done ──> cancelled
//! ```
//!
//! An engine asks [`next`] for the state after an event and refuses a move that has no arrow. Nobody else assigns a state.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::text::word;

/// Where in its life a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Waits for its time.
    Scheduled,
    /// Waits for a worker.
    Ready,
    /// A worker has it.
    Leased,
    /// Finished well; shown only while it is retained.
    Done,
    /// Parked with its last error until somebody kicks or deletes it.
    Dead,
    /// Taken out by an operator; no longer stored.
    Cancelled,
}

/// What can happen to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// A client handed it in.
    Push,
    /// Its time came.
    Due,
    /// A worker took it.
    Lease,
    /// A worker took it for good: `ttr` is zero, it is delivered at most once.
    Take,
    /// The worker finished it.
    Ack,
    /// The worker failed, and the policy allows another try.
    Retry,
    /// The worker failed for the last time.
    Fail,
    /// The worker gave it back.
    Release,
    /// The worker wants it again later.
    Snooze,
    /// The worker said that it can never succeed.
    Bury,
    /// The worker did not settle in time.
    Vanish,
    /// No worker settled in time, for the last time.
    Exhaust,
    /// Its total life ran out.
    Expire,
    /// An operator brought a dead job back, or made a scheduled one due.
    Kick,
    /// An operator gave it another due time.
    Reschedule,
    /// A push with its key replaced payload and due time.
    Replace,
    /// An operator called it off.
    Cancel,
    /// An operator removed it and what is stored of it.
    Delete,
}

use Event::*;
use State::*;

/// Every legal move. `None` as the start is a job that does not exist yet. Where the target is `Scheduled` and the due time
/// has already come, the job is `Ready` in the same moment: the `Due` arrow takes no step of its own.
pub const ARROWS: &[(Option<State>, Event, State)] = &[
    (None, Push, Scheduled),
    (Some(Scheduled), Due, Ready),
    (Some(Ready), Lease, Leased),
    (Some(Ready), Take, Done),
    (Some(Leased), Ack, Done),
    (Some(Leased), Retry, Scheduled),
    (Some(Leased), Fail, Dead),
    (Some(Leased), Release, Scheduled),
    (Some(Leased), Snooze, Scheduled),
    (Some(Leased), Bury, Dead),
    (Some(Leased), Vanish, Ready),
    (Some(Leased), Exhaust, Dead),
    (Some(Leased), Expire, Dead),
    (Some(Leased), Cancel, Cancelled),
    (Some(Scheduled), Expire, Dead),
    (Some(Ready), Expire, Dead),
    (Some(Dead), Kick, Ready),
    (Some(Scheduled), Kick, Ready),
    (Some(Scheduled), Reschedule, Scheduled),
    (Some(Ready), Reschedule, Scheduled),
    (Some(Dead), Reschedule, Scheduled),
    (Some(Scheduled), Replace, Scheduled),
    (Some(Ready), Replace, Scheduled),
    (Some(Scheduled), Cancel, Cancelled),
    (Some(Ready), Cancel, Cancelled),
    (Some(Dead), Cancel, Cancelled),
    (Some(Scheduled), Delete, Cancelled),
    (Some(Ready), Delete, Cancelled),
    (Some(Dead), Delete, Cancelled),
    (Some(Done), Delete, Cancelled),
];

/// The state after `event`, or `None` when a job in `from` cannot make that move.
pub fn next(from: Option<State>, event: Event) -> Option<State> {
    ARROWS
        .iter()
        .find(|(start, what, _)| *start == from && *what == event)
        .map(|(_, _, to)| *to)
}

impl State {
    /// Every state, in the order of a job's life.
    pub const ALL: [State; 6] = [Scheduled, Ready, Leased, Done, Dead, Cancelled];

    /// The state as it is spelled in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheduled => "scheduled",
            Ready => "ready",
            Leased => "leased",
            Done => "done",
            Dead => "dead",
            Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for State {
    type Err = Error;

    fn from_str(text: &str) -> Result<State> {
        word(text, &State::ALL, State::as_str)
    }
}

impl Event {
    /// Every event.
    pub const ALL: [Event; 18] = [
        Push, Due, Lease, Take, Ack, Retry, Fail, Release, Snooze, Bury, Vanish, Exhaust, Expire,
        Kick, Reschedule, Replace, Cancel, Delete,
    ];

    /// The event as it is spelled in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Push => "push",
            Due => "due",
            Lease => "lease",
            Take => "take",
            Ack => "ack",
            Retry => "retry",
            Fail => "fail",
            Release => "release",
            Snooze => "snooze",
            Bury => "bury",
            Vanish => "vanish",
            Exhaust => "exhaust",
            Expire => "expire",
            Kick => "kick",
            Reschedule => "reschedule",
            Replace => "replace",
            Cancel => "cancel",
            Delete => "delete",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests;
