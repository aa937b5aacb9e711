//! The rules about where jobs ended up: nothing lost, nothing left over, dead letters complete, keys kept, books right.

use std::collections::HashMap;

use auxo_core::job::DeadReason;
use auxo_core::queue::Books;
use auxo_core::{JobId, State};

use super::cases::{Case, Cases, End, Judge, Push};
use super::{Anomaly, Found, Kind};
use crate::history::{Op, Phase};

pub(super) fn check(judge: &mut Judge<'_>) {
    let case = judge.case;
    match &case.found {
        None => absent(judge),
        Some(found) => present(judge, found),
    }
    if let Some(error) = wrong_answer(judge) {
        judge.broken(Kind::Unexpected, error);
    }
}

fn ends(case: &Case) -> impl Iterator<Item = &End> {
    case.leases.iter().flat_map(|lease| &lease.ends)
}

fn maybe_acked(case: &Case) -> bool {
    ends(case).any(|end| end.span.op == Op::Ack && end.span.possible())
}

fn absent(judge: &mut Judge<'_>) {
    let case = judge.case;
    let accepted = judge.pushes().any(Push::made_a_job) || !case.answered.is_empty();
    let cancelled = case.cancels.iter().any(|cancel| cancel.span.possible());
    if accepted && !cancelled && !maybe_acked(case) {
        judge.broken(Kind::Lost, "was accepted and is nowhere");
    }
}

fn present(judge: &mut Judge<'_>, found: &Found) {
    let case = judge.case;
    if found.state == State::Done {
        if !maybe_acked(case) {
            judge.broken(Kind::Lost, "is done, but nobody acked it");
        }
        return;
    }
    if ends(case).any(End::acked) {
        judge.broken(
            Kind::Resurrected,
            format!("was acked, and is {} at the end", found.state),
        );
    }
    let gone = |end: &End| end.span.ok() && end.state == Some(State::Cancelled);
    let called_off = case.cancels.iter().any(|cancel| {
        let now = cancel.state != Some(State::Leased);
        cancel.span.ok() && now && cancel.epoch == judge.cases.epochs
    });
    if called_off || ends(case).any(gone) {
        judge.broken(
            Kind::Resurrected,
            format!("was cancelled, and is {} at the end", found.state),
        );
    }
    last_attempt(judge, found);
    match found.state {
        State::Dead => dead(judge, found),
        _ => alive(judge, found),
    }
}

fn last_attempt(judge: &mut Judge<'_>, found: &Found) {
    let last = judge.case.leases.last();
    let (Some(attempt), seen) = (found.attempt, last.and_then(|lease| lease.attempt)) else {
        return;
    };
    let seen = seen.unwrap_or(0);
    let cut = last.is_some_and(|lease| lease.epoch < judge.cases.epochs);
    let skipped = u64::from(attempt.saturating_sub(seen));
    if (attempt < seen && !cut) || skipped > judge.cases.unseen.len() as u64 + judge.cases.dropped {
        judge.broken(
            Kind::Attempts,
            format!("ended with {attempt} attempts, but attempt {seen} was the last seen"),
        );
    }
}

/// A dead job has a reason and its error.
fn dead(judge: &mut Judge<'_>, found: &Found) {
    let case = judge.case;
    let failed = |end: &End| end.span.op == Op::Fail && end.span.ok();
    if ends(case).any(failed) && !found.error {
        judge.broken(Kind::DeadLetter, "is dead without its last error");
    }
    let told = |end: &End| match end.span.phase {
        Phase::Ok => end.state == Some(State::Dead),
        Phase::Unknown => matches!(end.span.op, Op::Fail | Op::Bury),
        _ => false,
    };
    let Some((fewest, _)) = judge.tries() else {
        return;
    };
    if found.dead == Some(DeadReason::Expired) || ends(case).any(told) {
        return;
    }
    let spent = |lease: &&super::cases::Lease| {
        let mut sure = lease.ends.iter().filter(|end| end.span.ok());
        sure.all(|end| end.span.op == Op::Fail)
    };
    let seen = case.leases.iter().filter(spent).count() as u64;
    let spent = seen + Cases::skipped(case).min(judge.cases.unseen_room);
    if spent < u64::from(fewest) {
        judge.broken(
            Kind::DeadLetter,
            format!("is dead, but at most {spent} of {fewest} tries failed or vanished"),
        );
    }
}

/// A job whose last lease made it dead, and that nobody kicked, is dead.
fn alive(judge: &mut Judge<'_>, found: &Found) {
    let Some(lease) = judge.case.leases.last() else {
        return;
    };
    let died = |end: &&End| end.span.ok() && end.state == Some(State::Dead);
    let Some(end) = lease.ends.iter().find(died) else {
        return;
    };
    if !judge.kicked_between(end.span.invoked, usize::MAX) {
        judge.broken(
            Kind::DeadLetter,
            format!("was dead after its last lease, and is {}", found.state),
        );
    }
}

/// A push answered with an existing job must mean one that has the key.
fn wrong_answer(judge: &Judge<'_>) -> Option<String> {
    let key = judge.pushes().next()?.key.as_ref();
    let answered = judge.case.answered.iter();
    let answered = answered.map(|index| &judge.cases.pushes[*index]);
    let odd = judge
        .pushes()
        .chain(answered)
        .find(|push| push.key.as_ref() != key)?;
    Some(format!(
        "has the key {key:?}, but answered a push with the key {:?}",
        odd.key
    ))
}

/// One key makes one job, until it is free again.
pub(super) fn keys(cases: &Cases) -> Vec<Anomaly> {
    let mut by_key: HashMap<&str, Vec<JobId>> = HashMap::new();
    for (id, case) in &cases.jobs {
        let made = |push: &&Push| push.made_a_job() || push.span.phase == Phase::Unknown;
        let mut pushes = case.pushes.iter().map(|index| &cases.pushes[*index]);
        if let Some(key) = pushes.find(made).and_then(|push| push.key.as_deref()) {
            by_key.entry(key).or_default().push(*id);
        }
    }
    let mut anomalies = Vec::new();
    for (key, ids) in by_key {
        // Ids rise, so these are in the order in which they were made.
        for pair in ids.windows(2) {
            if !freed(cases, pair[0], pair[1]) {
                anomalies.push(Anomaly {
                    kind: Kind::KeyTwice,
                    job: Some(pair[1]),
                    what: format!("has the key {key:?} of job {}", pair[0]),
                });
            }
        }
    }
    anomalies.sort_by_key(|anomaly| anomaly.job);
    anomalies
}

/// Whether the first job may have given its key up before the second was made.
fn freed(cases: &Cases, first: JobId, second: JobId) -> bool {
    let (first, second) = (&cases.jobs[&first], &cases.jobs[&second]);
    let made = second.pushes.iter().map(|index| cases.pushes[*index].span);
    let Some(latest) = made
        .clone()
        .map(|span| match span.phase {
            Phase::Unknown => u64::MAX,
            _ => span.at.1,
        })
        .max()
    else {
        return true;
    };
    let cancelled = first
        .cancels
        .iter()
        .any(|cancel| cancel.span.possible() && cancel.span.at.0 <= latest);
    let windows = first.pushes.iter().map(|index| cases.pushes[*index].window);
    let window = windows.flatten().min().unwrap_or(0).saturating_mul(1000);
    let mut acks = ends(first).filter(|end| end.span.op == Op::Ack && end.span.possible());
    cancelled || acks.any(|ack| ack.span.at.0.saturating_add(window) <= latest)
}

/// Together, the jobs may not have been leased unseen more often than lease calls went unanswered.
pub(super) fn unseen_leases(cases: &Cases) -> Option<Anomaly> {
    let skipped: u64 = cases.jobs.values().map(Cases::skipped).sum();
    (skipped > cases.unseen_room).then(|| Anomaly {
        kind: Kind::Attempts,
        job: None,
        what: format!(
            "{skipped} leases were counted that nobody saw, but only {} can have been",
            cases.unseen_room
        ),
    })
}

/// The engine's books against the history's.
pub(super) fn books(cases: &Cases, books: Books) -> Vec<Anomaly> {
    let pushes = cases.pushes.iter();
    let open = pushes.filter(|push| push.span.phase == Phase::Unknown);
    let accepted = cases.counts.acked;
    let acks = || {
        let ends = cases.jobs.values().flat_map(ends);
        ends.filter(|end| end.span.op == Op::Ack)
    };
    let done = acks().filter(|ack| ack.span.ok()).count() as u64;
    let maybe_done = acks().filter(|ack| ack.span.possible()).count() as u64;
    let mut wrong = Vec::new();
    if !books.balanced() {
        wrong.push(format!("the books do not balance: {books:?}"));
    }
    let most = accepted + open.count() as u64;
    if !(accepted..=most).contains(&books.accepted) {
        let seen = books.accepted;
        wrong.push(format!("{seen} jobs accepted, not {accepted} to {most}"));
    }
    if !(done..=maybe_done).contains(&books.done) {
        let seen = books.done;
        wrong.push(format!("{seen} jobs done, not {done} to {maybe_done}"));
    }
    let anomaly = |what| Anomaly {
        kind: Kind::Books,
        job: None,
        what,
    };
    wrong.into_iter().map(anomaly).collect()
}
