//! What a service has done, for metrics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::engine::{Accepted, Pushed};
use crate::error::Code;

/// The outcomes in the order they are counted in.
const OUTCOMES: [&str; 5] = ["ack", "fail", "release", "bury", "snooze"];

/// Numbers that only rise, each for itself: nothing is read that depends on two of them, so relaxed order is enough.
#[derive(Default)]
pub(super) struct Counters {
    pushed: AtomicU64,
    leased: AtomicU64,
    settled: [AtomicU64; OUTCOMES.len()],
    refused: [AtomicU64; Code::ALL.len()],
}

/// The counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// New jobs, pushed or published.
    pub pushed: u64,
    /// Jobs lent.
    pub leased: u64,
    /// Leases ended, by outcome.
    pub settled: [(&'static str, u64); OUTCOMES.len()],
    /// Calls and items of batches answered with an error, by code.
    pub refused: [(Code, u64); Code::ALL.len()],
}

impl Counters {
    pub fn pushed<'a>(&self, pushed: impl IntoIterator<Item = &'a Pushed>) {
        let new = pushed.into_iter().filter(|p| p.how == Accepted::New);
        self.pushed.fetch_add(new.count() as u64, Relaxed);
    }

    pub fn leased(&self, jobs: usize) {
        self.leased.fetch_add(jobs as u64, Relaxed);
    }

    pub fn settled(&self, outcome: &str) {
        if let Some(place) = OUTCOMES.iter().position(|name| *name == outcome) {
            self.settled[place].fetch_add(1, Relaxed);
        }
    }

    pub fn refused(&self, code: Code) {
        self.refused[code as usize].fetch_add(1, Relaxed);
    }

    pub fn tally(&self) -> Tally {
        Tally {
            pushed: self.pushed.load(Relaxed),
            leased: self.leased.load(Relaxed),
            settled: std::array::from_fn(|i| (OUTCOMES[i], self.settled[i].load(Relaxed))),
            refused: Code::ALL.map(|code| (code, self.refused[code as usize].load(Relaxed))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_is_counted_in_its_own_place() {
        let counters = Counters::default();
        for (i, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, i, "{code}");
            (0..=i).for_each(|_| counters.refused(code));
        }
        for (i, (code, count)) in counters.tally().refused.into_iter().enumerate() {
            assert_eq!((code, count), (Code::ALL[i], i as u64 + 1));
        }
    }
}
