//! H9: the most urgent first, and of those who are equally urgent the first.
//!
//! Only what is sure counts. A job surely waits from the answer of its push until the call is made that leases it for the first
//! time. Whoever was lent another job of the same queue in between, by a call that ended before, and one that is less urgent,
//! or that was pushed later and is no more urgent, should have been lent this one.

use std::collections::{BTreeSet, HashMap};

use auxo_core::{JobId, State};

use super::cases::{Case, Cases, Lease, Place, Push};
use super::{Anomaly, Kind};

/// A queue, and a priority in it.
type Line<'a> = (&'a str, u32);

/// For how long a job surely waits.
struct Wait {
    job: JobId,
    from: Place,
    until: Place,
}

pub(super) fn check(cases: &Cases) -> Vec<Anomaly> {
    // A power cut takes leases back, and with them what is known about waits.
    if cases.epochs > 0 {
        return Vec::new();
    }
    // A job whose lease was dropped seems to wait meanwhile: of so many nothing is sure.
    let mut unsure = BTreeSet::new();
    loop {
        let (anomalies, waited) = overtakings(cases, &unsure);
        unsure.extend(waited);
        if anomalies.is_empty() || unsure.len() as u64 > cases.dropped {
            return anomalies;
        }
    }
}

/// What was lent out of order, and the jobs that waited meanwhile, as far as that is sure.
fn overtakings(cases: &Cases, unsure: &BTreeSet<JobId>) -> (Vec<Anomaly>, BTreeSet<JobId>) {
    let waits = waits(cases, unsure);
    let mut priorities: HashMap<&str, Vec<u32>> = HashMap::new();
    for (queue, priority) in waits.keys() {
        priorities.entry(queue).or_default().push(*priority);
    }
    let (mut anomalies, mut waited) = (Vec::new(), BTreeSet::new());
    for (id, case) in &cases.jobs {
        let Some(push) = plain_push(cases, case) else {
            continue;
        };
        let Some((queue, priority)) = line(push) else {
            continue;
        };
        let urgent = priorities.get(queue).into_iter().flatten();
        let urgent = || urgent.clone().filter(|other| **other < priority);
        let passed_over = case.leases.iter().find_map(|lease| {
            let mut more_urgent = urgent().filter_map(|other| {
                let waits = &waits[&(queue, *other)];
                longest(waits, lease.invoked).filter(|wait| wait.until > lease.received)
            });
            more_urgent.next()
        });
        let overtaken = first_lease(case).and_then(|lease| {
            let waits = waits.get(&(queue, priority))?;
            longest(waits, push.span.invoked).filter(|wait| wait.until > lease.received)
        });
        let (job, why) = match (passed_over, overtaken) {
            (Some(wait), _) => (wait.job, "more urgent"),
            (None, Some(wait)) => (wait.job, "pushed before it"),
            (None, None) => continue,
        };
        waited.insert(job);
        anomalies.push(Anomaly {
            kind: Kind::Order,
            job: Some(*id),
            what: format!("was lent while job {job}, {why}, waited"),
        });
    }
    (anomalies, waited)
}

/// All sure waits of each line, by their beginnings. Each entry is, of all that begin no later, the one that ends last.
fn waits<'a>(cases: &'a Cases, unsure: &BTreeSet<JobId>) -> HashMap<Line<'a>, Vec<Wait>> {
    let mut waits: HashMap<Line<'a>, Vec<Wait>> = HashMap::new();
    for (id, case) in cases.jobs.iter().filter(|(id, _)| !unsure.contains(id)) {
        let Some(push) = plain_push(cases, case) else {
            continue;
        };
        let (Some(line), Some(from)) = (line(push), push.span.answered) else {
            continue;
        };
        let until = match first_lease(case) {
            Some(lease) => lease.invoked,
            None if stays(case) => Place::MAX,
            None => continue,
        };
        waits.entry(line).or_default().push(Wait {
            job: *id,
            from,
            until,
        });
    }
    for line in waits.values_mut() {
        line.sort_by_key(|wait| wait.from);
        let mut last: Option<(JobId, Place)> = None;
        for wait in line {
            match last {
                Some((job, until)) if until > wait.until => (wait.job, wait.until) = (job, until),
                _ => last = Some((wait.job, wait.until)),
            }
        }
    }
    waits
}

/// Of those that began before this place, the one that ends last.
fn longest(waits: &[Wait], before: Place) -> Option<&Wait> {
    let began = waits.partition_point(|wait| wait.from < before);
    waits[..began].last()
}

/// The push of a job that was made by it alone, and could be lent at once.
fn plain_push<'a>(cases: &'a Cases, case: &Case) -> Option<&'a Push> {
    let [push] = case.pushes.as_slice() else {
        return None;
    };
    let push = &cases.pushes[*push];
    let steered = !case.kicks.is_empty() || !case.cancels.is_empty();
    let plain = push.made_a_job() && push.key.is_none() && push.state == Some(State::Ready);
    (plain && !steered).then_some(push)
}

fn line(push: &Push) -> Option<Line<'_>> {
    Some((push.queue.as_deref()?, push.priority?))
}

/// The lease before which there was no other.
fn first_lease(case: &Case) -> Option<&Lease> {
    case.leases.iter().find(|lease| lease.attempt == Some(1))
}

/// Whether the job was never lent, and is still there.
fn stays(case: &Case) -> bool {
    let found = case.found.as_ref();
    case.leases.is_empty() && found.is_some_and(|found| found.attempt == Some(0))
}
