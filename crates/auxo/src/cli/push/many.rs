//! Pushes batch after batch, a few at a time, and counts what became of the lines.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use auxo::core::engine::Accepted;
use auxo::core::json::show;
use auxo::core::text;
use auxo::{Auxo, Code, Error, OnDuplicate, Pushed, Result};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::super::failure::Failure;
use super::super::output::{Output, clean};
use super::lines::Batch;

/// How many batches are on their way at once: while one is made durable, the next ones are read, sent and sorted in.
const IN_FLIGHT: usize = 4;
/// How long a queue may give no answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many refusals are shown.
const SHOWN: usize = 5;

/// The answers to a batch, by line; or none of them.
struct Answered {
    lines: Vec<u64>,
    bytes: u64,
    answers: Result<Vec<Result<Pushed>>>,
}

/// Pushes everything that comes. The first batch that is not answered at all ends it; those on their way are waited for.
pub async fn push(auxo: &Auxo, mut batches: mpsc::Receiver<Batch>, tally: &mut Tally) {
    // Begun in the order of the lines, so that the jobs have their order too.
    let mut flying = FuturesOrdered::new();
    let mut open = true;
    loop {
        tokio::select! {
            batch = batches.recv(), if open && flying.len() < IN_FLIGHT => match batch {
                Some(batch) => flying.push_back(push_batch(auxo, batch)),
                None => open = false,
            },
            Some(answered) = flying.next() => {
                tally.count(answered);
                open &= tally.trouble.is_none();
            }
            else => return,
        }
    }
}

async fn push_batch(auxo: &Auxo, batch: Batch) -> Answered {
    let safe = repeatable(&batch);
    let began = Instant::now();
    let mut pause = Duration::from_millis(50);
    let answers = loop {
        // A clone is cheap: payloads are shared.
        let answer = auxo.service().push_each(batch.jobs.clone()).await;
        let again = match &answer {
            Err(error) => match error.code() {
                Code::Unavailable | Code::RateLimited => true,
                Code::UnknownOutcome => safe,
                _ => false,
            },
            Ok(_) => false,
        };
        if !again || began.elapsed() >= PATIENCE {
            break answer;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(2));
    };
    Answered {
        lines: batch.lines,
        bytes: batch.bytes,
        answers,
    }
}

/// Whether a second push of the batch can make no job twice.
fn repeatable(batch: &Batch) -> bool {
    let returns = |key: &auxo::core::job::Key| key.on_duplicate == OnDuplicate::Return;
    let jobs = batch.jobs.iter().flatten();
    jobs.map(|job| job.spec.key.as_ref())
        .all(|key| key.is_some_and(returns))
}

/// What became of the lines.
pub struct Tally {
    began: Instant,
    pushed: u64,
    existing: u64,
    refused: u64,
    first: Vec<(u64, Error)>,
    /// The lines of batches that were not answered.
    unanswered: u64,
    trouble: Option<Error>,
    bar: ProgressBar,
}

impl Tally {
    /// With the size of the input, if it is known.
    pub fn new(size: Option<u64>) -> Tally {
        Tally {
            began: Instant::now(),
            pushed: 0,
            existing: 0,
            refused: 0,
            first: Vec::new(),
            unanswered: 0,
            trouble: None,
            bar: bar(size),
        }
    }

    fn count(&mut self, answered: Answered) {
        match answered.answers {
            Ok(answers) => {
                for (line, answer) in answered.lines.into_iter().zip(answers) {
                    self.count_line(line, answer);
                }
            }
            Err(error) => {
                self.unanswered += answered.lines.len() as u64;
                let (first, last) = (answered.lines.first(), answered.lines.last());
                if let (None, Some(first), Some(last)) = (&self.trouble, first, last) {
                    let message = format!("lines {first} to {last}: {}", error.message());
                    self.trouble = Some(Error::new(error.code(), message));
                }
            }
        }
        self.bar.inc(answered.bytes);
        self.bar.set_message(self.words());
    }

    fn count_line(&mut self, line: u64, answer: Result<Pushed>) {
        match answer {
            Ok(pushed) if pushed.how == Accepted::Existing => self.existing += 1,
            Ok(_) => self.pushed += 1,
            Err(error) => {
                self.refused += 1;
                if self.first.len() < SHOWN {
                    self.first.push((line, error));
                }
            }
        }
    }

    fn rate(&self) -> f64 {
        (self.pushed + self.existing) as f64 / self.began.elapsed().as_secs_f64().max(0.001)
    }

    fn words(&self) -> String {
        let rest = [
            (self.existing, "there already"),
            (self.refused, "refused"),
            (self.unanswered, "unanswered"),
        ];
        let mut words = format!("{} pushed", self.pushed);
        for (count, word) in rest.into_iter().filter(|(count, _)| *count > 0) {
            words += &format!(", {count} {word}");
        }
        format!("{words}, {:.0}/s", self.rate())
    }

    /// Tells what became of the lines. An error if not every line is a job now.
    pub fn finish(self, output: &mut Output) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        for (line, error) in &self.first {
            eprintln!(
                "line {line}: {}: {}",
                error.code(),
                clean(error.message(), 300)
            );
        }
        match self.refused.saturating_sub(self.first.len() as u64) {
            0 => {}
            more => eprintln!("and {more} more refused lines"),
        }
        if output.is_json() {
            output.json(&self.json())?;
        } else {
            let took = text::duration(self.began.elapsed());
            output.line(format!("{} in {took}", self.words()))?;
        }
        match (self.trouble, self.refused) {
            (Some(error), _) => Err(error.into()),
            (None, 0) => Ok(()),
            (None, _) => Err(Failure::Said),
        }
    }

    fn json(&self) -> Value {
        let error = |(line, error): &(u64, Error)| {
            let mut out = json!(show::error(error));
            out["line"] = (*line).into();
            out
        };
        json!({
            "pushed": self.pushed,
            "existing": self.existing,
            "refused": self.refused,
            "unanswered": self.unanswered,
            "errors": self.first.iter().map(error).collect::<Vec<_>>(),
            "seconds": self.began.elapsed().as_secs_f64(),
            "jobs_per_second": self.rate(),
        })
    }
}

/// A bar of the input's bytes, or without a known end a sign of life. Nothing where stderr is no terminal.
fn bar(size: Option<u64>) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{bar:30} {percent:>3}% {wide_msg} {eta}",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {elapsed} {wide_msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}
