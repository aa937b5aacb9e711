//! The history sorted by job: what the rules look at.

use std::collections::{BTreeMap, HashMap};

use auxo_core::engine::Accepted;
use auxo_core::{JobId, State, Token};

use super::{Anomaly, Counts, Found, Kind};
use crate::history::{Op, Phase};

/// A place in the recorded order. What is recorded later did not happen before.
pub(super) type Place = usize;

/// From when to when a call ran, and what was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub op: Op,
    pub invoked: Place,
    /// `None` when there was no answer.
    pub answered: Option<Place>,
    /// Never [`Phase::Invoke`].
    pub phase: Phase,
    /// Recorder's time of the invoke and of the answer; without one, of the invoke.
    pub at: (u64, u64),
}

impl Span {
    pub fn ok(&self) -> bool {
        self.phase == Phase::Ok
    }

    /// Whether it had an effect or may have had one.
    pub fn possible(&self) -> bool {
        self.phase != Phase::Fail
    }

    /// Whether its effect may have come after this place.
    pub fn may_follow(&self, place: Place) -> bool {
        self.possible() && self.answered.is_none_or(|answered| answered > place)
    }
}

/// One job handed in.
#[derive(Clone, Debug)]
pub(super) struct Push {
    pub span: Span,
    /// The process and the number of the call.
    pub call: (u32, u64),
    pub hash: Option<u64>,
    pub queue: Option<String>,
    pub priority: Option<u32>,
    /// The state of the job that it made.
    pub state: Option<State>,
    pub key: Option<String>,
    pub window: Option<u64>,
    pub max_attempts: Option<u32>,
    pub due: Option<u64>,
    pub id: Option<JobId>,
    pub how: Option<Accepted>,
}

impl Push {
    pub fn made_a_job(&self) -> bool {
        self.span.ok() && matches!(self.how, None | Some(Accepted::New))
    }
}

/// One job handed out, and everything that was done with the token.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub invoked: Place,
    pub received: Place,
    /// How many power cuts there had been.
    pub epoch: usize,
    pub token: Token,
    pub attempt: Option<u32>,
    pub granted: Option<u64>,
    pub deadline: Option<u64>,
    pub hash: Option<u64>,
    /// Settles, in the order in which they were invoked.
    pub ends: Vec<End>,
    pub extends: Vec<End>,
}

/// A settle or an extend.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub span: Span,
    pub token: Token,
    pub epoch: usize,
    pub state: Option<State>,
    pub due: Option<u64>,
    pub deadline: Option<u64>,
}

impl End {
    pub fn acked(&self) -> bool {
        self.span.op == Op::Ack && self.span.ok()
    }

    /// Whether it survives a power cut.
    pub fn durable(&self) -> bool {
        matches!(self.span.op, Op::Ack | Op::Fail | Op::Bury)
    }
}

/// A kick or a cancel.
#[derive(Clone, Debug)]
pub(super) struct Steer {
    pub span: Span,
    pub epoch: usize,
    pub state: Option<State>,
}

/// Everything about one job.
#[derive(Clone, Debug, Default)]
pub(super) struct Case {
    /// The pushes that made it or replaced it, as places in [`Cases::pushes`].
    pub pushes: Vec<usize>,
    /// The pushes that were answered with it because it has their key.
    pub answered: Vec<usize>,
    /// In the order in which they were granted, as far as epochs and tokens tell.
    pub leases: Vec<Lease>,
    /// Settles and extends with tokens that nobody was seen to get.
    pub strays: Vec<End>,
    pub kicks: Vec<Steer>,
    pub cancels: Vec<Steer>,
    pub found: Option<Found>,
}

/// The whole history, sorted.
#[derive(Debug, Default)]
pub(super) struct Cases {
    pub pushes: Vec<Push>,
    pub by_hash: HashMap<u64, Vec<usize>>,
    pub jobs: BTreeMap<JobId, Case>,
    /// Where lease calls without a known answer were invoked, in order: each may have taken a job unseen.
    pub unseen: Vec<Place>,
    /// How many leases may have gone unseen besides, see [`super::Rules`].
    pub dropped: u64,
    /// How many jobs these calls had asked for, and those leases.
    pub unseen_room: u64,
    /// The pushes without a known answer, by their keys.
    pub open_keys: HashMap<String, Vec<usize>>,
    /// How many power cuts there were.
    pub epochs: usize,
    pub counts: Counts,
    /// What was odd already while sorting.
    pub strange: Vec<Anomaly>,
}

impl Cases {
    /// How many leases of one job that nobody saw there can have been before this place.
    pub fn unseen_before(&self, place: Place) -> u64 {
        self.unseen.partition_point(|invoked| *invoked < place) as u64 + self.dropped
    }

    /// How many leases of a job nobody saw, by its attempts.
    pub fn skipped(case: &Case) -> u64 {
        let attempts = case.leases.iter().filter_map(|lease| lease.attempt);
        let found = case.found.as_ref().and_then(|found| found.attempt);
        let highest = attempts.chain(found).max().unwrap_or(0);
        u64::from(highest).saturating_sub(case.leases.len() as u64)
    }
}

/// Judges one job: the job, where to look things up, and what was found wrong.
pub(super) struct Judge<'a> {
    pub id: JobId,
    pub case: &'a Case,
    pub cases: &'a Cases,
    pub slack: u64,
    pub anomalies: Vec<Anomaly>,
}

impl<'a> Judge<'a> {
    pub fn new(id: JobId, case: &'a Case, cases: &'a Cases, slack: u64) -> Judge<'a> {
        Judge {
            id,
            case,
            cases,
            slack,
            anomalies: Vec::new(),
        }
    }

    /// Notes a broken promise, the first of each kind.
    pub fn broken(&mut self, kind: Kind, what: impl Into<String>) {
        if self.anomalies.iter().all(|known| known.kind != kind) {
            self.anomalies.push(Anomaly {
                kind,
                job: Some(self.id),
                what: what.into(),
            });
        }
    }

    pub fn pushes(&self) -> impl Iterator<Item = &'a Push> {
        let pushes = &self.cases.pushes;
        self.case.pushes.iter().map(move |index| &pushes[*index])
    }

    /// The fewest and the most tries that the job may have; `None` when a push did not say.
    pub fn tries(&self) -> Option<(u32, u32)> {
        let tries: Option<Vec<u32>> = self.pushes().map(|push| push.max_attempts).collect();
        let tries = tries?;
        Some((*tries.iter().min()?, *tries.iter().max()?))
    }

    /// Whether another push with its key may have given the job a new payload and due time.
    pub fn maybe_replaced(&self) -> bool {
        let open = &self.cases.open_keys;
        let mut keys = self.pushes().filter_map(|push| push.key.as_ref());
        self.case.pushes.len() > 1 || keys.any(|key| open.contains_key(key))
    }

    /// Whether the job may have been kicked after one place and before another.
    pub fn kicked_between(&self, after: Place, before: Place) -> bool {
        self.case
            .kicks
            .iter()
            .any(|kick| kick.span.invoked < before && kick.span.may_follow(after))
    }
}
