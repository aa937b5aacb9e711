//! What goes in must come out, once at a time and never too soon: a recorded run held against the promises.
//!
//! The checker trusts only what it can be sure of. A call without an answer may or may not have happened, so it explains
//! what follows from either; a lease call that died may have taken a job that nobody saw. Two orders are used: the order in
//! which events were recorded, and the engine's own times. Each job is judged alone, so the work is linear in the history.
//!
//! | rule | kind |
//! |---|---|
//! | H1 a push answered ok ends as acked, dead, cancelled or still there | [`Kind::Lost`] |
//! | H2 every delivery is of an attempted push, with its payload | [`Kind::Unexpected`] |
//! | H3 no delivery before the due time | [`Kind::Early`] |
//! | H4 one live lease | [`Kind::Overlap`] |
//! | H5 tokens rise; only the newest settles or extends; one ack | [`Kind::Tokens`], [`Kind::Stale`], [`Kind::DoubleAck`] |
//! | H6 nothing comes back after its ack | [`Kind::Resurrected`] |
//! | H7 attempts are 1, 2, 3… | [`Kind::Attempts`] |
//! | H8 dead letters are complete, the books agree | [`Kind::DeadLetter`], [`Kind::Books`] |
//! | H9 the most urgent first, then who came first | [`Kind::Order`] |
//! | H10 every further delivery has a reason | [`Kind::Unexplained`] |
//! | H11 one key, one job | [`Kind::KeyTwice`] |
//!
//! Not covered: jobs that are delivered at most once (`ttr` zero), deletes and reschedules, priorities that change, and queues
//! that are paused, fair or limited. A history must have none.

mod cases;
mod ending;
mod gather;
mod leases;
mod order;
mod report;

use std::collections::BTreeMap;

use auxo_core::engine::{Engine, Query};
use auxo_core::job::{DeadReason, Job};
use auxo_core::queue::Books;
use auxo_core::{JobId, Result, State};

use crate::history::{History, hash};

/// What a run breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An accepted job is nowhere, or done though nobody acked it.
    Lost,
    /// A job or a lease from nowhere, or with a payload that is not its own.
    Unexpected,
    /// Handed out before it was due.
    Early,
    /// Handed out while somebody surely held it.
    Overlap,
    /// The tokens of a job did not rise.
    Tokens,
    /// A settle or an extend with an old token was accepted.
    Stale,
    /// Acked twice.
    DoubleAck,
    /// Handed out, or still there, after its ack or its cancel was answered.
    Resurrected,
    /// The attempts have a gap or a repeat.
    Attempts,
    /// Dead without a reason, or not dead though it should be, or without its error.
    DeadLetter,
    /// The engine's books do not agree with the history.
    Books,
    /// Handed out again without expiry, failure, release, kick, fault or unknown answer.
    Unexplained,
    /// Handed out though another one of its queue was first.
    Order,
    /// One key made two jobs.
    KeyTwice,
}

/// What the history must be held against, and how much of it there must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Faults besides those that the history itself marks.
    pub restarts: Vec<Restart>,
    /// How much later than asked two readings of the engine's clocks may seem because of rounding, in milliseconds.
    pub slack: u64,
    /// How many leases may have gone unseen besides those of calls without an answer: an engine drops a lease that is over when its
    /// answer comes, and a store that is not in the same process has counted it by then.
    pub dropped: u64,
    /// With fewer accepted pushes the run proves nothing.
    pub min_accepted: u64,
    /// With fewer restarts the run proves nothing.
    pub min_restarts: u64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            restarts: Vec::new(),
            slack: 2,
            dropped: 0,
            min_accepted: 10_000,
            min_restarts: 0,
        }
    }
}

/// A moment at which the engine was open again after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Microseconds on the recorder's clock.
    pub at: u64,
    /// What had happened.
    pub fault: Fault,
}

/// How an engine went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its process was killed: everything answered was written, leases and attempts too.
    Killed,
    /// The machine lost power: the newest leases, releases, extensions and cancels may be lost, so attempts and token
    /// counters may repeat. What must be durable must still be there.
    PowerCut,
}

/// What was found in the engine at the end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FinalState {
    /// Every job that the engine still shows.
    pub jobs: Vec<Found>,
    /// The books of all queues together, if they are to be checked.
    pub books: Option<Books>,
}

/// A job that was found at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: JobId,
    /// The hash of its payload.
    pub hash: u64,
    /// Where in its life it is.
    pub state: State,
    /// How often it was leased, if that is to be checked.
    pub attempt: Option<u32>,
    /// Why it is dead, if the engine says so.
    pub dead: Option<DeadReason>,
    /// Whether it has the error of its last failure.
    pub error: bool,
}

impl From<&Job> for Found {
    fn from(job: &Job) -> Found {
        Found {
            id: job.id,
            hash: hash(&job.payload),
            state: job.state,
            attempt: Some(job.attempt),
            dead: job.dead,
            error: job.last_error.is_some(),
        }
    }
}

impl FinalState {
    /// Lists everything that an engine shows. Nobody else may use the engine meanwhile.
    pub async fn read(engine: &dyn Engine) -> Result<FinalState> {
        let mut query = Query {
            limit: 1000,
            ..Query::default()
        };
        let mut jobs = Vec::new();
        loop {
            let page = engine.list(query.clone()).await?;
            jobs.extend(page.jobs.iter().map(Found::from));
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
        let mut sum = Books::default();
        for books in engine.queues(None).await?.iter().map(|info| info.books) {
            sum.accepted += books.accepted;
            sum.live += books.live;
            sum.done += books.done;
            sum.dead += books.dead;
            sum.expired += books.expired;
            sum.cancelled += books.cancelled;
            sum.deleted += books.deleted;
        }
        Ok(FinalState {
            jobs,
            books: Some(sum),
        })
    }
}

/// What the checker says about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// In a word.
    pub outcome: Outcome,
    /// How much happened.
    pub counts: Counts,
    /// Every broken promise, at most one of a kind for each job.
    pub anomalies: Vec<Anomaly>,
    /// What happened to the first bad jobs, for reading.
    pub timelines: Vec<String>,
}

/// Whether a run kept the promises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did.
    Pass,
    /// It did not.
    Violated,
    /// Too little happened to tell; why.
    Inconclusive(String),
}

/// One broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Which one.
    pub kind: Kind,
    /// The job, unless it is about all of them.
    pub job: Option<JobId>,
    /// What was seen.
    pub what: String,
}

/// How much happened, in the words of Jepsen's total queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pushes tried.
    pub attempted: u64,
    /// Pushes answered with a new job.
    pub acked: u64,
    /// Jobs of attempted pushes that were delivered or found, and not lost.
    pub ok: u64,
    /// Accepted jobs that are nowhere.
    pub lost: u64,
    /// Jobs whose push was never answered, and that were seen later.
    pub recovered: u64,
    /// Jobs from nowhere.
    pub unexpected: u64,
    /// Deliveries beyond the first of a job.
    pub duplicated: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Faults that the engine came back from.
    pub restarts: u64,
}

impl Verdict {
    /// How many broken promises there are of each kind.
    pub fn tally(&self) -> BTreeMap<Kind, usize> {
        let mut tally = BTreeMap::new();
        for anomaly in &self.anomalies {
            *tally.entry(anomaly.kind).or_default() += 1;
        }
        tally
    }

    /// Whether a promise of this kind was broken.
    pub fn has(&self, kind: Kind) -> bool {
        self.anomalies.iter().any(|anomaly| anomaly.kind == kind)
    }
}

/// Holds a run and what was left at its end against the promises.
pub fn check(history: &History, end: &FinalState, rules: &Rules) -> Verdict {
    let mut cases = gather::gather(history, end, rules);
    let mut anomalies = std::mem::take(&mut cases.strange);
    for (id, case) in &cases.jobs {
        let mut judge = cases::Judge::new(*id, case, &cases, rules.slack);
        leases::check(&mut judge);
        ending::check(&mut judge);
        anomalies.append(&mut judge.anomalies);
    }
    anomalies.extend(order::check(&cases));
    anomalies.extend(ending::keys(&cases));
    anomalies.extend(ending::unseen_leases(&cases));
    if let Some(books) = end.books {
        anomalies.extend(ending::books(&cases, books));
    }
    report::verdict(history, &cases, anomalies, rules)
}
