//! The verdict, and how it reads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use auxo_core::JobId;

use super::cases::Cases;
use super::{Anomaly, Kind, Outcome, Rules, Verdict};
use crate::history::History;

/// How many bad jobs are shown in full.
const SHOWN_JOBS: usize = 10;
/// How many events of each.
const SHOWN_EVENTS: usize = 100;

pub(super) fn verdict(
    history: &History,
    cases: &Cases,
    anomalies: Vec<Anomaly>,
    rules: &Rules,
) -> Verdict {
    let mut counts = cases.counts;
    let of = |kind| {
        let all = anomalies.iter();
        all.filter(move |anomaly: &&Anomaly| anomaly.kind == kind)
    };
    counts.lost = of(Kind::Lost).count() as u64;
    let lost: HashSet<JobId> = of(Kind::Lost).filter_map(|anomaly| anomaly.job).collect();
    let seen = cases.jobs.iter().filter(|(id, case)| {
        let seen = !case.leases.is_empty() || case.found.is_some();
        seen && !case.pushes.is_empty() && !lost.contains(id)
    });
    counts.ok = seen.count() as u64;
    let outcome = if !anomalies.is_empty() {
        Outcome::Violated
    } else if counts.acked < rules.min_accepted {
        let least = rules.min_accepted;
        Outcome::Inconclusive(format!("{} pushes accepted, not {least}", counts.acked))
    } else if counts.restarts < rules.min_restarts {
        let least = rules.min_restarts;
        Outcome::Inconclusive(format!("{} restarts, not {least}", counts.restarts))
    } else {
        Outcome::Pass
    };
    let timelines = timelines(history, cases, &anomalies);
    Verdict {
        outcome,
        counts,
        anomalies,
        timelines,
    }
}

fn timelines(history: &History, cases: &Cases, anomalies: &[Anomaly]) -> Vec<String> {
    let mut texts: BTreeMap<JobId, Vec<String>> = BTreeMap::new();
    for anomaly in anomalies {
        let Some(id) = anomaly.job else { continue };
        if texts.contains_key(&id) || texts.len() < SHOWN_JOBS {
            let line = format!("job {id} {}: {}", anomaly.kind, anomaly.what);
            texts.entry(id).or_default().push(line);
        }
    }
    let mut by_call: HashMap<(u32, u64), JobId> = HashMap::new();
    for id in texts.keys() {
        let pushes = cases.jobs.get(id).map(|case| case.pushes.as_slice());
        for push in pushes.unwrap_or_default() {
            by_call.insert(cases.pushes[*push].call, *id);
        }
    }
    let start = history.events.first().map_or(0, |event| event.at);
    for event in &history.events {
        let call = by_call.get(&(event.process, event.call)).copied();
        if let Some(id) = event.job().or(call)
            && let Some(lines) = texts.get_mut(&id)
            && lines.len() < SHOWN_EVENTS
        {
            let seconds = event.at.saturating_sub(start) as f64 / 1e6;
            lines.push(format!("  {seconds:>12.6} {event}"));
        }
    }
    for (id, lines) in &mut texts {
        let found = cases.jobs.get(id).and_then(|case| case.found.as_ref());
        lines.push(match found {
            Some(found) => format!("  at the end: {found:?}"),
            None => "  at the end: not there".to_owned(),
        });
    }
    texts.into_values().map(|lines| lines.join("\n")).collect()
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Lost => "lost",
            Kind::Unexpected => "unexpected",
            Kind::Early => "early",
            Kind::Overlap => "overlap",
            Kind::Tokens => "tokens",
            Kind::Stale => "stale",
            Kind::DoubleAck => "double ack",
            Kind::Resurrected => "resurrected",
            Kind::Attempts => "attempts",
            Kind::DeadLetter => "dead letter",
            Kind::Books => "books",
            Kind::Unexplained => "unexplained",
            Kind::Order => "order",
            Kind::KeyTwice => "key twice",
        })
    }
}

impl fmt::Display for Verdict {
    /// The outcome, the counts, how many anomalies of each kind, and the timelines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Pass => writeln!(f, "PASS")?,
            Outcome::Violated => writeln!(f, "VIOLATED")?,
            Outcome::Inconclusive(why) => writeln!(f, "INCONCLUSIVE: {why}")?,
        }
        writeln!(f, "{:?}", self.counts)?;
        for (kind, count) in self.tally() {
            writeln!(f, "{kind}: {count}")?;
        }
        let general = self.anomalies.iter().filter(|it| it.job.is_none());
        for anomaly in general {
            writeln!(f, "{}: {}", anomaly.kind, anomaly.what)?;
        }
        for timeline in &self.timelines {
            writeln!(f, "{timeline}")?;
        }
        Ok(())
    }
}
