//! What has moved, and what is said about it.

use std::time::Instant;

use auxo::core::passage::Passage;
use auxo::core::text;
use auxo::{Error, JobId, QueueInfo, QueueName, State};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::super::bar::bar;
use super::super::failure::Failure;
use super::super::output::{Output, clean};

/// A job that had to stay.
#[derive(Clone)]
pub struct Left {
    pub id: JobId,
    pub key: Option<String>,
    pub why: Error,
}

/// How a job that moved is counted.
#[derive(Clone, Copy)]
pub enum Column {
    Ready,
    Scheduled,
    Dead,
    Done,
    /// Of which nothing but the key was left.
    Key,
}

impl Column {
    pub fn of(passage: &Passage) -> Column {
        match passage.job.state {
            State::Scheduled => Column::Scheduled,
            State::Dead => Column::Dead,
            State::Done if passage.job.retention.is_zero() => Column::Key,
            State::Done => Column::Done,
            State::Ready | State::Leased | State::Cancelled => Column::Ready,
        }
    }
}

const NAMES: [&str; 5] = ["ready", "scheduled", "dead", "done", "keys"];

/// What has moved of one queue.
#[derive(Clone)]
pub struct Moved {
    queue: QueueName,
    counts: [u64; 5],
    /// Jobs that an earlier run had brought to the target, and that left the source only now.
    pub caught_up: u64,
    pub left: Vec<Left>,
    /// Schedules that stay.
    pub schedules: Vec<String>,
    /// Why the queue is not spread as it was.
    pub unspread: Option<String>,
    pub verified: bool,
}

impl Moved {
    pub fn new(queue: QueueName) -> Moved {
        Moved {
            queue,
            counts: [0; 5],
            caught_up: 0,
            left: Vec::new(),
            schedules: Vec::new(),
            unspread: None,
            verified: false,
        }
    }

    pub fn count(&mut self, column: Column) {
        self.counts[column as usize] += 1;
    }

    /// How many jobs this run has moved, those included of which only the key was left.
    pub fn jobs(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn words(&self) -> String {
        let parts = self
            .counts
            .iter()
            .zip(NAMES)
            .filter(|(count, _)| **count > 0);
        let parts: Vec<String> = parts
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        let mut words = match self.jobs() {
            0 => "nothing to move".to_owned(),
            jobs => format!("{jobs} moved ({})", parts.join(", ")),
        };
        if self.caught_up > 0 {
            words += &format!(", {} were there already", self.caught_up);
        }
        if !self.left.is_empty() {
            words += &format!(", {} left", self.left.len());
        }
        if self.verified {
            words += match self.left.is_empty() {
                true => "; verified: the source is empty, the target has them",
                false => "; verified: the source has no others, the target has them",
            };
        }
        words
    }

    fn json(&self) -> Value {
        let counts = self.counts.iter().zip(NAMES);
        let counts: serde_json::Map<String, Value> = counts
            .map(|(count, name)| (name.to_owned(), (*count).into()))
            .collect();
        let left = |left: &Left| {
            json!({
                "id": left.id.to_string(),
                "key": left.key,
                "code": left.why.code().as_str(),
                "message": left.why.message(),
                "holder": left.why.job().map(|id| id.to_string()),
            })
        };
        json!({
            "queue": self.queue.as_str(),
            "moved": self.jobs(),
            "counts": counts,
            "there_already": self.caught_up,
            "left": self.left.iter().map(left).collect::<Vec<_>>(),
            "schedules_left": self.schedules,
            "unspread": self.unspread,
            "verified": self.verified,
        })
    }
}

/// What has moved of all queues.
pub struct Tally {
    began: Instant,
    queues: u64,
    jobs: u64,
    left: u64,
    schedules: u64,
    bar: ProgressBar,
    /// What was said last where there is no bar.
    said: String,
}

impl Tally {
    pub fn new(queues: &[QueueInfo]) -> Tally {
        let jobs = queues.iter().map(|info| {
            let counts = info.counts;
            counts.scheduled + counts.ready + counts.leased + counts.dead + counts.done
        });
        Tally {
            began: Instant::now(),
            queues: 0,
            jobs: 0,
            left: 0,
            schedules: 0,
            bar: bar(Some(jobs.sum())),
            said: String::new(),
        }
    }

    fn rate(&self, jobs: u64) -> f64 {
        jobs as f64 / self.began.elapsed().as_secs_f64().max(0.001)
    }

    pub fn progress(&self, moved: &Moved) {
        let jobs = self.jobs + moved.jobs();
        // More may come than there were.
        self.bar
            .set_length(self.bar.length().unwrap_or(0).max(jobs));
        self.bar.set_position(jobs);
        let rate = self.rate(jobs);
        self.bar
            .set_message(format!("{}: {jobs} moved, {rate:.0}/s", moved.queue));
    }

    pub fn wait_for(&mut self, queue: &QueueName, leased: u64) {
        self.say(queue, &waiting(leased));
    }

    /// Says something that will not last: in the bar, or in a line of its own if it is news.
    pub fn say(&mut self, queue: &QueueName, text: &str) {
        let text = format!("{queue}: {}", clean(text, 200));
        if self.bar.is_hidden() && self.said != text {
            eprintln!("{text}");
        }
        self.bar.set_message(text.clone());
        self.said = text;
    }

    /// A queue is done with.
    pub fn finish(&mut self, moved: Moved, output: &mut Output) -> Result<(), Failure> {
        self.queues += 1;
        self.jobs += moved.jobs();
        self.left += moved.left.len() as u64;
        self.schedules += moved.schedules.len() as u64;
        self.bar.suspend(|| {
            if output.is_json() {
                output.json(&moved.json())?;
            } else {
                output.line(format!("{}: {}", moved.queue, moved.words()))?;
            }
            output.flush()?;
            for left in &moved.left {
                let key = left.key.as_ref().map(|key| format!(" with key {key:?}"));
                eprintln!(
                    "left: job {}{}: {}",
                    left.id,
                    key.unwrap_or_default(),
                    clean(left.why.message(), 300)
                );
            }
            for name in &moved.schedules {
                eprintln!("left: schedule {name}: the target has another one by this name");
            }
            if let Some(why) = &moved.unspread {
                eprintln!("note: {}", clean(why, 300));
            }
            Ok(())
        })
    }

    /// All queues are done with. An error if anything had to stay.
    pub fn end(self, output: &mut Output) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        if !output.is_json() {
            let took = text::duration(self.began.elapsed());
            let rate = self.rate(self.jobs);
            let queues = counted(self.queues, "queue");
            let jobs = counted(self.jobs, "job");
            eprintln!("{queues}, {jobs} moved in {took}, {rate:.0}/s");
        }
        if self.left + self.schedules == 0 {
            return Ok(());
        }
        if self.left > 0 {
            eprintln!(
                "{} had to stay at the source, where the queue is paused: see to what is named above, for example delete one of \
                 two jobs with the same key, and repeat the command",
                counted(self.left, "job")
            );
        }
        if self.schedules > 0 {
            eprintln!(
                "{} had to stay at the source: remove it there or at the target, and repeat the command",
                counted(self.schedules, "schedule")
            );
        }
        Err(Failure::Said)
    }
}

fn waiting(leased: u64) -> String {
    match leased {
        1 => "waiting for the end of 1 lease at the source".to_owned(),
        leased => format!("waiting for the end of {leased} leases at the source"),
    }
}

fn counted(count: u64, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    }
}
