//! What a recorded run amounts to: the checker's verdict, and the same counted once more in the plainest way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use auxo::{JobId, Remote};
use auxo_conformance::checker::{FinalState, Outcome, Rules, check};
use auxo_conformance::history::{Event, History, Op, Phase, Recorder};

/// How much of a run there must be for it to prove anything.
pub struct Least {
    pub accepted: u64,
    pub restarts: u64,
}

/// Holds a drained run against the promises, and prints what there was of it.
pub async fn judge(recorder: &Recorder, server: &Remote, least: Least) {
    let history = recorder.history().unwrap();
    let end = FinalState::read(server).await.unwrap();
    let rules = Rules {
        min_accepted: least.accepted,
        min_restarts: least.restarts,
        ..Rules::default()
    };
    let verdict = check(&history, &end, &rules);
    let plain = Plain::count(&history, &end);
    println!("{plain}\n{verdict}");
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!((plain.lost, plain.doubled, plain.resurrected), (0, 0, 0));
}

/// Counted without a thought for what may excuse it: after a drain, nothing does.
struct Plain {
    /// Keys that were pushed.
    attempted: usize,
    /// Keys whose push was answered.
    answered: usize,
    /// Pushes without an answer.
    unanswered: usize,
    /// Keys with an answer whose job nobody ever got, and which is not there either.
    lost: usize,
    /// Keys that stand for more than one job.
    doubled: usize,
    /// Deliveries that were asked for after an ack of the job was answered.
    resurrected: usize,
    kills: usize,
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} keys attempted, {} answered, {} pushes unanswered; {} lost, {} doubled, {} resurrected; {} kills",
            self.attempted,
            self.answered,
            self.unanswered,
            self.lost,
            self.doubled,
            self.resurrected,
            self.kills
        )
    }
}

impl Plain {
    fn count(history: &History, end: &FinalState) -> Plain {
        let all = || history.events.iter();
        let told = |op| all().filter(move |it| it.op == op && it.phase == Phase::Ok);
        let invoked: BTreeMap<u64, (usize, &Event)> = all()
            .enumerate()
            .filter(|(_, it)| it.phase == Phase::Invoke)
            .map(|(place, it)| (it.call, (place, it)))
            .collect();
        let pushes = || invoked.values().filter(|(_, it)| it.op == Op::Push);
        let mut jobs: BTreeMap<&str, BTreeSet<JobId>> = BTreeMap::new();
        for answer in told(Op::Push) {
            let key = invoked[&answer.call].1.key.as_deref().unwrap();
            jobs.entry(key).or_default().insert(answer.id.unwrap());
        }
        let answered = jobs.len();
        // A job of a push that was never answered shows by its payload whose it is.
        let keys: BTreeMap<u64, &str> = pushes()
            .map(|(_, it)| (it.hash.unwrap(), it.key.as_deref().unwrap()))
            .collect();
        let mut seen: BTreeSet<JobId> = end.jobs.iter().map(|job| job.id).collect();
        for lease in told(Op::Lease).filter(|it| it.id.is_some()) {
            seen.insert(lease.id.unwrap());
            let key = keys[&lease.hash.unwrap()];
            jobs.entry(key).or_default().insert(lease.id.unwrap());
        }
        let acked: BTreeMap<JobId, usize> = all()
            .enumerate()
            .filter(|(_, it)| it.op == Op::Ack && it.phase == Phase::Ok)
            .map(|(place, it)| (it.id.unwrap(), place))
            .collect();
        let again = |lease: &&Event| {
            let acked = lease.id.and_then(|id| acked.get(&id));
            acked.is_some_and(|acked| *acked < invoked[&lease.call].0)
        };
        Plain {
            attempted: pushes()
                .map(|(_, it)| &it.key)
                .collect::<BTreeSet<_>>()
                .len(),
            answered,
            unanswered: pushes().count() - told(Op::Push).count(),
            lost: jobs.values().filter(|ids| ids.is_disjoint(&seen)).count(),
            doubled: jobs.values().filter(|ids| ids.len() > 1).count(),
            resurrected: told(Op::Lease).filter(again).count(),
            kills: all().filter(|it| it.op == Op::Killed).count(),
        }
    }
}
