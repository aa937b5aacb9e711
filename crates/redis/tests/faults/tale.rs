//! What a recorded run amounts to: the checker's verdict, and the same counted once more in the plainest way.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use auxo_conformance::checker::{FinalState, Outcome, Rules, Verdict, check};
use auxo_conformance::history::{Event, History, Op, Phase};
use auxo_core::{Engine, JobId};

use crate::load::Load;

/// Holds a drained run against all promises, and prints what there was of it.
pub async fn judge(load: &Load, least: u64) -> Verdict {
    let (history, end) = ending(load).await;
    let rules = Rules {
        min_accepted: least,
        ..Rules::default()
    };
    let verdict = check(&history, &end, &rules);
    let plain = Plain::count(&history, &end);
    println!("{plain}\n{verdict}");
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!(plain.lost.len(), 0, "lost");
    assert_eq!(plain.doubled, 0, "doubled");
    assert_eq!(plain.resurrected.len(), 0, "resurrected");
    verdict
}

/// Counts a drained run in which something may have been lost, and prints that.
pub async fn count(load: &Load) -> Plain {
    let (history, end) = ending(load).await;
    let plain = Plain::count(&history, &end);
    println!("{plain}");
    plain
}

async fn ending(load: &Load) -> (History, FinalState) {
    let engine = load.engines[0].as_ref();
    let audit = engine.audit().await.expect("an audit");
    assert_eq!(audit.problems, Vec::<String>::new());
    let end = FinalState::read(engine).await.expect("what is left");
    (load.recorder.history().expect("a history"), end)
}

/// Counted without a thought for what may excuse it. Times are the recorder's.
pub struct Plain {
    /// Keys whose push was answered.
    pub answered: usize,
    /// Pushes without an answer.
    unanswered: usize,
    /// When the pushes were answered whose job nobody ever got, and which is not there either.
    pub lost: Vec<u64>,
    /// Keys that stand for more than one job.
    doubled: usize,
    /// Those of them of which every push was answered. Without confirmation by replicas a failover can take a job, its key and that
    /// it ran; a push of it that had no answer is then made again, and makes another job.
    pub doubled_in_spite_of_answers: usize,
    /// When the acks were answered of jobs that were delivered, by a call that came after.
    pub resurrected: Vec<u64>,
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} keys answered, {} pushes unanswered; {} lost, {} doubled, {} resurrected",
            self.answered,
            self.unanswered,
            self.lost.len(),
            self.doubled,
            self.resurrected.len()
        )
    }
}

impl Plain {
    fn count(history: &History, end: &FinalState) -> Plain {
        let all = || history.events.iter();
        let told = |op| all().filter(move |it| it.op == op && it.phase == Phase::Ok);
        let invoked: BTreeMap<u64, &Event> = all()
            .filter(|it| it.phase == Phase::Invoke)
            .map(|it| (it.call, it))
            .collect();
        let pushes = || invoked.values().filter(|it| it.op == Op::Push);
        let mut jobs: BTreeMap<&str, BTreeSet<JobId>> = BTreeMap::new();
        let mut answers: BTreeMap<&str, u64> = BTreeMap::new();
        for answer in told(Op::Push) {
            let key = invoked[&answer.call].key.as_deref().expect("a key");
            jobs.entry(key).or_default().extend(answer.id);
            answers.insert(key, answer.at);
        }
        // A job of a push that was never answered shows by its payload whose it is.
        let keys: BTreeMap<u64, &str> = pushes()
            .map(|it| (it.hash.expect("a hash"), it.key.as_deref().expect("a key")))
            .collect();
        let mut seen: BTreeSet<JobId> = end.jobs.iter().map(|job| job.id).collect();
        for lease in told(Op::Lease) {
            if let (Some(id), Some(hash)) = (lease.id, lease.hash) {
                seen.insert(id);
                jobs.entry(keys[&hash]).or_default().insert(id);
            }
        }
        let acked: BTreeMap<JobId, u64> = told(Op::Ack)
            .filter_map(|it| Some((it.id?, it.at)))
            .collect();
        let again = |lease: &Event| {
            let acked = *acked.get(&lease.id?)?;
            (acked < invoked[&lease.call].at).then_some(acked)
        };
        let answered: BTreeSet<u64> = told(Op::Push).map(|it| it.call).collect();
        let unsure: BTreeSet<&str> = pushes()
            .filter(|it| !answered.contains(&it.call))
            .filter_map(|it| it.key.as_deref())
            .collect();
        let doubled = || jobs.iter().filter(|(_, ids)| ids.len() > 1);
        let lost =
            |(key, ids): (&&str, &BTreeSet<JobId>)| ids.is_disjoint(&seen).then(|| answers[key]);
        Plain {
            answered: answers.len(),
            unanswered: pushes().count() - told(Op::Push).count(),
            lost: jobs.iter().filter_map(lost).collect(),
            doubled: doubled().count(),
            doubled_in_spite_of_answers: doubled()
                .filter(|(key, _)| !unsure.contains(*key))
                .count(),
            resurrected: told(Op::Lease).filter_map(again).collect(),
        }
    }
}
