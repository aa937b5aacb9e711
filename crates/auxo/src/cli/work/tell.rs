//! What a worker says while it works: a line that is kept up to date on a terminal, lines or objects elsewhere.

use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use auxo::core::text;
use indicatif::{ProgressBar, ProgressStyle};

use super::super::failure::Failure;
use super::super::output::Output;
use super::report::Report;

/// The words of a summary, in its order; the first one stands even if there was none.
const WORDS: [&str; 6] = ["done", "retried", "failed", "released", "cancelled", "lost"];

/// Counts what happened, and tells of it.
pub struct Tell {
    began: Instant,
    ends: BTreeMap<&'static str, u64>,
    pace: Pace,
    bar: Option<ProgressBar>,
    verbose: bool,
}

impl Tell {
    pub fn new(verbose: bool) -> Tell {
        let line = std::io::stderr().is_terminal() && !verbose;
        Tell {
            began: Instant::now(),
            ends: BTreeMap::new(),
            pace: Pace::default(),
            bar: line.then(bar),
            verbose,
        }
    }

    /// A sentence on stderr.
    pub fn say(&self, sentence: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{sentence}")),
            None => eprintln!("{sentence}"),
        }
    }

    /// How a job went.
    pub fn report(&mut self, report: &Report, output: &mut Output) -> Result<(), Failure> {
        *self.ends.entry(report.end.word()).or_default() += 1;
        self.pace.note(self.began.elapsed());
        if self.verbose {
            self.say(&report.line());
        }
        if output.is_json() {
            output.json(&report.json())?;
            output.flush()?;
        }
        Ok(())
    }

    /// How many jobs run now.
    pub fn running(&self, count: usize) {
        if let Some(bar) = &self.bar {
            let rate = self.pace.rate(self.began.elapsed());
            bar.set_message(format!("{count} running, {rate:.1}/s, {}", self.counts()));
        }
    }

    /// Comes once a second while there is a line to be kept up to date.
    pub async fn tick(&self) {
        match &self.bar {
            Some(_) => tokio::time::sleep(Duration::from_secs(1)).await,
            None => std::future::pending().await,
        }
    }

    /// The last word.
    pub fn finish(self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let took = text::duration(self.began.elapsed());
        eprintln!("{} in {took}", self.counts());
    }

    fn counts(&self) -> String {
        let count = |word: &&str| self.ends.get(*word).copied().unwrap_or_default();
        let shown = WORDS
            .iter()
            .filter(|word| **word == WORDS[0] || count(word) > 0);
        let parts: Vec<String> = shown
            .map(|word| format!("{} {word}", count(word)))
            .collect();
        parts.join(", ")
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

/// How many jobs ended of late, second by second.
#[derive(Default)]
struct Pace(VecDeque<(u64, u64)>);

impl Pace {
    const SECONDS: u64 = 5;

    fn note(&mut self, elapsed: Duration) {
        let second = elapsed.as_secs();
        match self.0.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => self.0.push_back((second, 1)),
        }
        while self.0.len() as u64 > Pace::SECONDS + 1 {
            self.0.pop_front();
        }
    }

    /// The rate of the last seconds.
    fn rate(&self, elapsed: Duration) -> f64 {
        let from = elapsed.as_secs().saturating_sub(Pace::SECONDS);
        let ended = self.0.iter().filter(|(second, _)| *second >= from);
        let count: u64 = ended.map(|(_, count)| count).sum();
        let span = (elapsed.as_secs_f64() - from as f64).max(0.1);
        count as f64 / span
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut pace = Pace::default();
        for second in 0..20 {
            for _ in 0..10 {
                pace.note(Duration::from_secs(second));
            }
        }
        assert_eq!(pace.rate(Duration::from_secs(20)), 10.0);
        assert_eq!(pace.rate(Duration::from_secs(22)), 6.0);
        assert_eq!(pace.rate(Duration::from_secs(60)), 0.0);
        assert_eq!(Pace::default().rate(Duration::ZERO), 0.0);
    }

    #[test]
    fn a_summary_names_what_happened_and_always_what_was_done() {
        let mut tell = Tell::new(true);
        assert_eq!(tell.counts(), "0 done");
        tell.ends.extend([("lost", 1), ("failed", 2)]);
        assert_eq!(tell.counts(), "0 done, 2 failed, 1 lost");
    }
}
