//! A queue that gives no answer: how long it is waited for, and what the user is told meanwhile.

use std::cell::Cell;
use std::time::{Duration, Instant};

use auxo::core::text;
use auxo::{Code, Error};
use indicatif::ProgressBar;

use super::super::output::clean;

/// What all batches on their way know together, so that the user is told once.
pub struct Away {
    /// How long a queue may give no answer.
    pub patience: Duration,
    since: Cell<Option<Instant>>,
    bar: ProgressBar,
}

impl Away {
    /// With the bar that words must not run into.
    pub fn new(patience: Duration, bar: ProgressBar) -> Away {
        Away {
            patience,
            since: Cell::new(None),
            bar,
        }
    }

    /// There was no answer: whether to try again.
    pub fn may_come_back(&self, error: &Error) -> bool {
        if self.patience.is_zero() {
            return false;
        }
        if let Some(since) = self.since.get() {
            return since.elapsed() < self.patience;
        }
        self.since.set(Some(Instant::now()));
        let what = match error.code() {
            Code::RateLimited => "the server takes no more for now",
            _ => "the server is away",
        };
        let (why, time) = (clean(error.message(), 300), text::duration(self.patience));
        self.say(&format!("{what}; trying again for {time} ({why})"));
        true
    }

    /// There was an answer.
    pub fn is_back(&self) {
        if let Some(since) = self.since.take() {
            let time = text::duration(Duration::from_millis(since.elapsed().as_millis() as u64));
            self.say(&format!("the server is back after {time}; going on"));
        }
    }

    /// Tells the user something.
    pub fn say(&self, words: &str) {
        self.bar.suspend(|| eprintln!("{words}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_patience_tries_nothing_again() {
        let gone = Error::new(Code::Unavailable, "gone");
        let may = |patience| Away::new(patience, ProgressBar::hidden()).may_come_back(&gone);
        assert!(!may(Duration::ZERO));
        assert!(may(Duration::from_secs(1)));
    }
}
