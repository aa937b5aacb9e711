//! Sorts a history by job: ties answers to calls, settles to leases, and pushes to the jobs they made.

use std::collections::HashMap;

use auxo_core::JobId;
use auxo_core::engine::Accepted;

use super::cases::{Case, Cases, End, Lease, Place, Push, Span, Steer};
use super::{Anomaly, Fault, FinalState, Kind, Rules};
use crate::history::{Event, History, Op, Phase};

/// A call: its invoke and its answers.
struct Call<'a> {
    invoke: &'a Event,
    invoked: Place,
    answers: Vec<(Place, &'a Event)>,
}

pub(super) fn gather(history: &History, end: &FinalState, rules: &Rules) -> Cases {
    let mut cases = Cases {
        dropped: rules.dropped,
        unseen_room: rules.dropped,
        ..Cases::default()
    };
    let cuts = power_cuts(history, rules, &mut cases);
    let epoch = |place: Place| cuts.partition_point(|cut| *cut <= place);
    let mut ends = Vec::new();
    for call in calls(history) {
        let span = call.span();
        match span.op {
            Op::Push => cases.pushes.push(call.push()),
            Op::Lease => lease(&mut cases, &call, epoch),
            Op::Cancel | Op::Kick => steer(&mut cases, &call, epoch),
            Op::Killed | Op::PowerCut => {}
            _ => ends.extend(call.end(epoch)),
        }
    }
    for case in cases.jobs.values_mut() {
        let order = |lease: &Lease| (lease.epoch, lease.token.counter, lease.received);
        case.leases.sort_by_key(order);
    }
    for end in ends {
        attach(&mut cases, end);
    }
    for found in &end.jobs {
        cases.jobs.entry(found.id).or_default().found = Some(found.clone());
    }
    link_pushes(&mut cases);
    recover(&mut cases);
    count(&mut cases);
    cases
}

/// The places of the power cuts, in order; counts all faults on the way.
fn power_cuts(history: &History, rules: &Rules, cases: &mut Cases) -> Vec<Place> {
    let marked = history.events.iter().enumerate();
    let mut cuts: Vec<Place> = marked
        .clone()
        .filter(|(_, event)| event.op == Op::PowerCut)
        .map(|(place, _)| place)
        .collect();
    for restart in &rules.restarts {
        if restart.fault == Fault::PowerCut {
            cuts.push(
                history
                    .events
                    .partition_point(|event| event.at < restart.at),
            );
        }
    }
    cuts.sort_unstable();
    cases.epochs = cuts.len();
    let faults = marked.filter(|(_, event)| matches!(event.op, Op::Killed | Op::PowerCut));
    cases.counts.restarts = (faults.count() + rules.restarts.len()) as u64;
    cuts
}

fn calls(history: &History) -> Vec<Call<'_>> {
    let mut calls: Vec<Call<'_>> = Vec::new();
    let mut by_number: HashMap<(u32, u64), usize> = HashMap::new();
    for (place, event) in history.events.iter().enumerate() {
        let name = (event.process, event.call);
        let index = *by_number.entry(name).or_insert_with(|| {
            calls.push(Call {
                invoke: event,
                invoked: place,
                answers: Vec::new(),
            });
            calls.len() - 1
        });
        if event.phase != Phase::Invoke {
            calls[index].answers.push((place, event));
        }
    }
    calls
}

impl<'a> Call<'a> {
    fn answer(&self) -> Option<&'a Event> {
        self.answers.first().map(|(_, event)| *event)
    }

    fn span(&self) -> Span {
        self.span_of(self.answers.first().copied())
    }

    fn span_of(&self, answer: Option<(Place, &Event)>) -> Span {
        Span {
            op: self.invoke.op,
            invoked: self.invoked,
            answered: answer.map(|(place, _)| place),
            phase: answer.map_or(Phase::Unknown, |(_, event)| event.phase),
            at: (
                self.invoke.at,
                answer.map_or(self.invoke.at, |(_, event)| event.at),
            ),
        }
    }

    fn push(&self) -> Push {
        let answer = self.answer();
        Push {
            span: self.span(),
            call: (self.invoke.process, self.invoke.call),
            hash: self.invoke.hash,
            queue: self.invoke.queue.clone(),
            priority: self.invoke.priority,
            state: answer.and_then(|event| event.state),
            key: self.invoke.key.clone(),
            window: self.invoke.window,
            max_attempts: self.invoke.limit,
            due: answer.and_then(|event| event.due),
            id: answer.and_then(|event| event.id),
            how: answer.and_then(|event| event.how),
        }
    }

    fn end(&self, epoch: impl Fn(Place) -> usize) -> Option<End> {
        let span = self.span();
        let answer = self.answer();
        Some(End {
            span,
            token: self.invoke.token?,
            epoch: epoch(span.answered.unwrap_or(span.invoked)),
            state: answer.and_then(|event| event.state),
            due: answer.and_then(|event| event.due),
            deadline: answer.and_then(|event| event.deadline),
        })
    }
}

fn lease(cases: &mut Cases, call: &Call<'_>, epoch: impl Fn(Place) -> usize) {
    let mut seen = 0;
    for &(received, event) in &call.answers {
        let (Phase::Ok, Some(token)) = (event.phase, event.token) else {
            continue;
        };
        seen += 1;
        cases.jobs.entry(token.job).or_default().leases.push(Lease {
            invoked: call.invoked,
            received,
            epoch: epoch(received),
            token,
            attempt: event.attempt,
            granted: event.engine,
            deadline: event.deadline,
            hash: event.hash,
            ends: Vec::new(),
            extends: Vec::new(),
        });
    }
    // An answer says how many jobs it had: who died while writing them down leaves the others unseen.
    let promised = match call.span().phase {
        Phase::Unknown => call.invoke.limit.unwrap_or(1),
        _ => call.answer().and_then(|event| event.limit).unwrap_or(0),
    };
    if promised > seen {
        cases.unseen.push(call.invoked);
        cases.unseen_room += u64::from(promised - seen);
    }
}

fn steer(cases: &mut Cases, call: &Call<'_>, epoch: impl Fn(Place) -> usize) {
    let (Some(id), span) = (call.invoke.id, call.span()) else {
        return;
    };
    let steer = Steer {
        span,
        epoch: epoch(span.answered.unwrap_or(span.invoked)),
        state: call.answer().and_then(|event| event.state),
    };
    let case = cases.jobs.entry(id).or_default();
    match span.op {
        Op::Kick => case.kicks.push(steer),
        _ => case.cancels.push(steer),
    }
}

fn attach(cases: &mut Cases, end: End) {
    let case = cases.jobs.entry(end.token.job).or_default();
    let lease = case
        .leases
        .iter_mut()
        .find(|lease| lease.token == end.token);
    match (lease, end.span.op) {
        (Some(lease), Op::Extend) => lease.extends.push(end),
        (Some(lease), _) => lease.ends.push(end),
        (None, _) => case.strays.push(end),
    }
}

fn strange(cases: &mut Cases, kind: Kind, job: JobId, what: String) {
    cases.strange.push(Anomaly {
        kind,
        job: Some(job),
        what,
    });
}

fn link_pushes(cases: &mut Cases) {
    let mut doubled = Vec::new();
    for (index, push) in cases.pushes.iter().enumerate() {
        if let Some(hash) = push.hash {
            cases.by_hash.entry(hash).or_default().push(index);
        }
        if push.span.phase == Phase::Unknown
            && let Some(key) = &push.key
        {
            cases.open_keys.entry(key.clone()).or_default().push(index);
        }
        let Some(id) = push.id.filter(|_| push.span.ok()) else {
            continue;
        };
        let case = cases.jobs.entry(id).or_default();
        let made = |other: &usize| cases.pushes[*other].made_a_job();
        if push.made_a_job() && case.pushes.iter().any(made) {
            doubled.push(id);
        }
        match push.how {
            Some(Accepted::Existing) => case.answered.push(index),
            _ => case.pushes.push(index),
        }
    }
    for id in doubled {
        let what = "two pushes were answered with the same new job".to_owned();
        strange(cases, Kind::Lost, id, what);
    }
}

/// Finds the push of every job that was seen though no push was answered with it.
fn recover(cases: &mut Cases) {
    let made = |case: &Case| {
        let mut pushes = case.pushes.iter();
        pushes.any(|push| cases.pushes[*push].made_a_job())
    };
    let orphans: Vec<(JobId, Option<u64>)> = cases
        .jobs
        .iter()
        .filter(|(_, case)| !made(case))
        .filter(|(_, case)| !case.leases.is_empty() || case.found.is_some())
        .map(|(id, case)| (*id, first_sight(case)))
        .collect();
    let mut claimed: HashMap<usize, JobId> = HashMap::new();
    for (id, hash) in orphans {
        let candidates = hash.and_then(|hash| cases.by_hash.get(&hash)).cloned();
        let candidates = candidates.unwrap_or_default();
        let open = |index: &&usize| {
            cases.pushes[**index].span.phase == Phase::Unknown && !claimed.contains_key(index)
        };
        // Another push with the same key may have replaced the payload since.
        let replaced = cases.jobs[&id].pushes.iter().chain(&candidates);
        let keys = replaced.filter_map(|index| cases.pushes[*index].key.as_ref());
        let same_key = keys.filter_map(|key| cases.open_keys.get(key)).flatten();
        if let Some(index) = candidates.iter().chain(same_key).find(open).copied() {
            claimed.insert(index, id);
            cases.jobs.entry(id).or_default().pushes.push(index);
            cases.counts.recovered += 1;
            continue;
        }
        let what = match candidates.first() {
            None => "came from nowhere: nobody pushed its payload".to_owned(),
            Some(index) => match claimed.get(index).copied().or(cases.pushes[*index].id) {
                Some(other) => format!("has the payload of the push that made job {other}"),
                None => "came from a push that was refused".to_owned(),
            },
        };
        cases.counts.unexpected += 1;
        strange(cases, Kind::Unexpected, id, what);
    }
}

fn first_sight(case: &Case) -> Option<u64> {
    let leases = case.leases.iter().map(|lease| lease.hash);
    let found = case.found.iter().map(|found| Some(found.hash));
    leases.chain(found).next().flatten()
}

fn count(cases: &mut Cases) {
    let counts = &mut cases.counts;
    counts.attempted = cases.pushes.len() as u64;
    counts.acked = cases.pushes.iter().filter(|push| push.made_a_job()).count() as u64;
    for case in cases.jobs.values() {
        let deliveries = case.leases.len() as u64;
        counts.delivered += deliveries;
        counts.duplicated += deliveries.saturating_sub(1);
    }
}
