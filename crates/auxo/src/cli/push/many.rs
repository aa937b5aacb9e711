//! Pushes batch after batch, a few at a time, and counts what became of the lines.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use auxo::core::engine::Accepted;
use auxo::core::job::NewJob;
use auxo::core::json::show;
use auxo::core::text;
use auxo::{Auxo, Code, Error, Pushed, Result};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::super::failure::Failure;
use super::super::output::{Output, clean};
use super::away::Away;
use super::lines::{Batch, Keys};

/// How many batches are on their way at once: while one is made durable, the next ones are read, sent and sorted in.
const IN_FLIGHT: usize = 4;
/// More than a call takes that is neither answered nor refused.
const ON_ITS_WAY: Duration = Duration::from_secs(60);
/// How many refusals are shown.
const SHOWN: usize = 5;

/// The answers to a batch, by line; or none of them.
struct Answered {
    lines: Vec<u64>,
    bytes: u64,
    answers: Result<Vec<Result<Pushed>>>,
}

/// Pushes everything that comes. The first batch that is not answered at all ends it; those on their way are waited for.
pub async fn push(
    auxo: &Auxo,
    keys: &Keys,
    patience: Duration,
    mut batches: mpsc::Receiver<Batch>,
    tally: &mut Tally,
) {
    let away = Away::new(patience, tally.bar.clone());
    // Begun in the order of the lines, so that the jobs have their order too.
    let mut flying = FuturesOrdered::new();
    let mut open = true;
    loop {
        tokio::select! {
            batch = batches.recv(), if open && flying.len() < IN_FLIGHT => match batch {
                Some(batch) => flying.push_back(push_batch(auxo, keys, &away, batch)),
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

async fn push_batch(auxo: &Auxo, keys: &Keys, away: &Away, batch: Batch) -> Answered {
    let safe = repeatable(&batch, away.patience);
    let (mut lost, mut pause) = (false, Duration::from_millis(50));
    let mut answers = loop {
        // A clone is cheap: payloads are shared.
        let answer = auxo.service().push_each(batch.jobs.clone()).await;
        match &answer {
            Ok(_) => away.is_back(),
            Err(error) if may_try_again(error, safe) && away.may_come_back(error) => {
                lost |= error.code() == Code::UnknownOutcome;
                sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
                continue;
            }
            Err(_) => {}
        }
        break answer;
    };
    for (job, answer) in batch.jobs.iter().zip(answers.iter_mut().flatten()) {
        match (job, answer) {
            // Nobody else has the key: an earlier try made the job.
            (Ok(job), Ok(pushed)) if keys.is_own(job) => pushed.how = Accepted::New,
            (_, Err(error)) if lost && error.code() == Code::DuplicateKey => {
                let message = format!("{}, perhaps by this line itself", error.message());
                *error = Error::new(error.code(), message);
            }
            _ => {}
        }
    }
    Answered {
        lines: batch.lines,
        bytes: batch.bytes,
        answers,
    }
}

fn may_try_again(error: &Error, safe: bool) -> bool {
    match error.code() {
        Code::Unavailable | Code::RateLimited => true,
        Code::UnknownOutcome => safe,
        _ => false,
    }
}

/// Whether a second push of the batch can make no job twice: every job has a key that is held for as long as it is tried.
fn repeatable(batch: &Batch, patience: Duration) -> bool {
    let held = |job: &NewJob| {
        let key = job.spec.key.as_ref();
        key.is_some_and(|key| key.window >= patience + ON_ITS_WAY)
    };
    batch.jobs.iter().flatten().all(held)
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
    pub fn finish(self, keys: &Keys, output: &mut Output) -> Result<(), Failure> {
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
        if let (Keys::Own(prefix), Some(_)) = (keys, &self.trouble) {
            eprintln!(
                "to go on, repeat the command with the same input and --keys {prefix}, within an hour: \
                 lines that are jobs already make no second one"
            );
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
