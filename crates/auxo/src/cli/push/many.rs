//! Pushes batch after batch, a few at a time, and counts what became of the lines.

use std::time::{Duration, Instant};

use auxo::core::engine::Accepted;
use auxo::core::job::NewJob;
use auxo::core::json::show;
use auxo::core::text;
use auxo::{Auxo, Code, Error, Pushed, Result};
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use indicatif::ProgressBar;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep_until, timeout};

use super::super::bar::bar;
use super::super::failure::Failure;
use super::super::output::{Output, clean};
use super::super::signals::Signals;
use super::away::Away;
use super::lines::{Batch, Keys};

/// How many batches are on their way into a directory at once: while one is made durable, the next ones are sorted in. They
/// are taken in the order in which they begin, which is not so for requests to a server.
pub const IN_A_DIRECTORY: usize = 4;
/// More than a call takes that is neither answered nor refused.
const ON_ITS_WAY: Duration = Duration::from_secs(60);
/// How long the batches on their way are waited for after a signal.
const MOMENT: Duration = Duration::from_secs(5);
/// How many refusals are shown.
const SHOWN: usize = 5;

/// How batches are pushed.
pub struct Way {
    /// How long a queue may give no answer.
    pub patience: Duration,
    /// How many batches are on their way at once.
    pub at_once: usize,
}

/// The answers to a batch, by line.
struct Answered {
    lines: Vec<u64>,
    bytes: u64,
    /// `None` for a line of which it is not known what became of it.
    answers: Vec<Option<Result<Pushed>>>,
    /// Why there are such lines.
    trouble: Option<Error>,
}

/// Pushes everything that comes. The first batch that is not wholly answered ends it, and so does a signal; those on their
/// way are waited for, after a signal for a moment and until the next one.
pub async fn push(
    auxo: &Auxo,
    keys: &Keys,
    way: Way,
    mut batches: mpsc::Receiver<Batch>,
    signals: &mut Signals,
    tally: &mut Tally,
) {
    let away = Away::new(way.patience, tally.bar.clone());
    let (end, ended) = watch::channel(false);
    // Begun in the order of the lines, so that the jobs have their order too.
    let mut flying = FuturesOrdered::new();
    let mut open = true;
    let mut until: Option<Instant> = None;
    loop {
        let late = sleep_until(until.unwrap_or_else(Instant::now).into());
        tokio::select! {
            batch = batches.recv(), if open && flying.len() < way.at_once => match batch {
                Some(batch) => flying.push_back(push_batch(auxo, keys, &away, batch, ended.clone())),
                None => open = false,
            },
            Some(answered) = flying.next() => {
                tally.count(answered);
                open &= tally.trouble.is_none();
            }
            () = signals.next(), if open || !flying.is_empty() => {
                // Who has read everything, and then gets every answer, is not interrupted.
                tally.interrupted |= open;
                open = false;
                match until {
                    Some(_) => _ = end.send(true),
                    None => {
                        until = Some(Instant::now() + MOMENT);
                        away.say("ending, with what is on its way; a second signal ends at once");
                    }
                }
            }
            () = late, if until.is_some() && !*ended.borrow() && !flying.is_empty() => {
                away.say("what is on its way took too long");
                _ = end.send(true);
            }
            else => return,
        }
    }
}

async fn push_batch(
    auxo: &Auxo,
    keys: &Keys,
    away: &Away,
    batch: Batch,
    mut ended: watch::Receiver<bool>,
) -> Answered {
    let mut answers: Vec<Option<Result<Pushed>>> = batch.jobs.iter().map(|_| None).collect();
    let mut lost = vec![false; batch.jobs.len()];
    // The places that have no answer yet. The client cuts a large batch, so that some may be answered before others.
    let mut open: Vec<usize> = (0..batch.jobs.len()).collect();
    let mut pause = Duration::from_millis(50);
    let trouble = loop {
        // A clone is cheap: payloads are shared.
        let jobs = open.iter().map(|place| batch.jobs[*place].clone());
        let pushed = tokio::select! {
            pushed = auxo.service().push_each(jobs.collect()) => pushed,
            _ = ended.wait_for(|ended| *ended) => break Some(interrupted()),
        };
        let results = match pushed {
            Ok(results) => results.into_iter().map(heard).collect(),
            Err(error) => vec![Err(error); open.len()],
        };
        let (mut missed, mut met) = (Vec::new(), false);
        for (place, result) in std::mem::take(&mut open).into_iter().zip(results) {
            match result {
                Ok(answer) => {
                    met |= is_from_the_queue(&answer);
                    answers[place] = Some(answer);
                }
                Err(error) => {
                    lost[place] |= error.code() == Code::UnknownOutcome;
                    open.push(place);
                    missed.push(error);
                }
            }
        }
        let mut tries = open.iter().zip(&missed);
        let safe = tries.all(|(place, error)| may_try_again(error, &batch.jobs[*place], away));
        match missed.into_iter().next() {
            None => {
                if met {
                    away.is_back();
                }
                break None;
            }
            Some(error) if safe && away.may_come_back(&error) => {
                // The next try sees by itself whether there is to be one.
                let _ = timeout(pause, ended.wait_for(|ended| *ended)).await;
                pause = (pause * 2).min(Duration::from_secs(1));
            }
            Some(error) => break Some(error),
        }
    };
    for ((job, answer), lost) in batch.jobs.iter().zip(&mut answers).zip(lost) {
        match (job, answer) {
            // Nobody else has the key: an earlier try made the job.
            (Ok(job), Some(Ok(pushed))) if keys.is_own(job) => pushed.how = Accepted::New,
            (_, Some(Err(error))) if lost && error.code() == Code::DuplicateKey => {
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
        trouble,
    }
}

fn interrupted() -> Error {
    Error::new(
        Code::UnknownOutcome,
        "interrupted before there was an answer",
    )
}

/// The answer to a job; an error if it is none, because the queue was not reached or not understood.
fn heard(result: Result<Pushed>) -> Result<Result<Pushed>> {
    match result {
        Err(error) if is_no_answer(&error) => Err(error),
        answer => Ok(answer),
    }
}

fn is_no_answer(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Unavailable | Code::UnknownOutcome | Code::RateLimited
    )
}

/// Whether the queue itself said this. A line that can be no job is refused without asking it.
fn is_from_the_queue(answer: &Result<Pushed>) -> bool {
    let code = answer.as_ref().err().map(Error::code);
    !matches!(code, Some(Code::BadRequest | Code::TooLarge))
}

fn may_try_again(error: &Error, job: &Result<NewJob>, away: &Away) -> bool {
    match error.code() {
        Code::UnknownOutcome => job.iter().all(|job| is_held(job, away.patience)),
        _ => is_no_answer(error),
    }
}

/// Whether a second push of the job cannot make it twice: it has a key that is held for as long as it is tried.
fn is_held(job: &NewJob, patience: Duration) -> bool {
    let key = job.spec.key.as_ref();
    key.is_some_and(|key| key.window >= patience + ON_ITS_WAY)
}

/// What became of the lines.
pub struct Tally {
    began: Instant,
    pushed: u64,
    existing: u64,
    refused: u64,
    first: Vec<(u64, Error)>,
    /// The lines that were not answered.
    unanswered: u64,
    trouble: Option<Error>,
    /// Up to this line all are answered.
    done: u64,
    /// A signal came while there may have been more to read.
    interrupted: bool,
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
            done: 0,
            interrupted: false,
            bar: bar(size),
        }
    }

    fn count(&mut self, answered: Answered) {
        let mut missed = Vec::new();
        let last = answered.lines.last().copied().unwrap_or(self.done);
        for (line, answer) in answered.lines.into_iter().zip(answered.answers) {
            match answer {
                Some(answer) => self.count_line(line, answer),
                None => missed.push(line),
            }
        }
        self.unanswered += missed.len() as u64;
        if self.unanswered == 0 {
            self.done = last;
        }
        let ends = missed.first().zip(missed.last());
        if let (None, Some(error), Some((first, last))) = (&self.trouble, answered.trouble, ends) {
            let message = format!("lines {first} to {last}: {}", error.message());
            self.trouble = Some(Error::new(error.code(), message));
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
        if self.interrupted || self.trouble.is_some() {
            self.say_how_to_go_on(keys);
        }
        match (self.trouble, self.refused) {
            (Some(error), _) => Err(error.into()),
            (None, 0) if !self.interrupted => Ok(()),
            (None, _) => Err(Failure::Said),
        }
    }

    fn say_how_to_go_on(&self, keys: &Keys) {
        if self.interrupted {
            match self.done {
                0 => eprintln!("interrupted: no batch of lines is wholly answered"),
                done => eprintln!("interrupted: lines 1 to {done} are answered"),
            }
        }
        match keys {
            Keys::Own(prefix) => eprintln!(
                "to go on, repeat the command with the same input and --keys {prefix}, within an hour: \
                 lines that are jobs already make no second one"
            ),
            Keys::Named(_) if self.interrupted => eprintln!(
                "to go on, repeat the command with the same input and the same --keys: \
                 lines that are jobs already make no second one"
            ),
            Keys::Without if self.interrupted => match self.unanswered {
                0 => eprintln!("to go on, push the lines after line {}", self.done),
                _ => eprintln!(
                    "to go on, push the lines after line {}; look first which of the unanswered ones are jobs",
                    self.done
                ),
            },
            Keys::Named(_) | Keys::Without => {}
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
            "interrupted": self.interrupted,
            "errors": self.first.iter().map(error).collect::<Vec<_>>(),
            "seconds": self.began.elapsed().as_secs_f64(),
            "jobs_per_second": self.rate(),
        })
    }
}
