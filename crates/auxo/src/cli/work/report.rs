//! How one job went, for people and programs.

use std::time::Duration;

use auxo::core::json::show;
use auxo::core::text;
use auxo::{Error, Job, JobId, Outcome, QueueName, Settled, State};
use serde_json::{Value, json};

use super::super::output::clean;

/// One job, tried once.
pub struct Report {
    pub id: JobId,
    pub queue: QueueName,
    pub attempt: u32,
    pub took: Duration,
    pub end: End,
}

/// How it ended.
pub enum End {
    Done,
    /// Not now, for this reason; again at the time that `settled` says.
    Retried(String, Settled),
    /// With this error; `settled` says whether it is dead or tried again.
    Failed(String, Settled),
    /// Given back because the worker ends.
    Released,
    Cancelled,
    /// A job that is delivered at most once went wrong: it is gone.
    Gone(String),
    /// The end could not be told to the queue, mostly because the lease was lost: the job comes back.
    Lost(String),
}

impl Report {
    pub fn new(job: &Job, took: Duration, end: End) -> Report {
        Report {
            id: job.id,
            queue: job.queue.clone(),
            attempt: job.attempt,
            took,
            end,
        }
    }

    /// One line without control characters.
    pub fn line(&self) -> String {
        let due = |settled: &Settled| match settled.run_at {
            Some(at) => format!("again at {at}"),
            None => settled.state.to_string(),
        };
        let what = match &self.end {
            End::Done => String::new(),
            End::Retried(why, settled) | End::Failed(why, settled) => {
                format!(", {}: {}", due(settled), clean(why, 300))
            }
            End::Gone(error) => {
                format!(", and it is delivered at most once: {}", clean(error, 300))
            }
            End::Lost(why) => format!(": {}", clean(why, 300)),
            End::Released | End::Cancelled => String::new(),
        };
        let took = text::duration(self.took);
        let (id, queue, word) = (self.id, &self.queue, self.end.word());
        format!("{id} {queue} {word} in {took}{what}")
    }

    pub fn json(&self) -> Value {
        let mut out = json!({
            "id": self.id.to_string(),
            "queue": self.queue.as_str(),
            "attempt": self.attempt,
            "outcome": self.end.word(),
            "seconds": self.took.as_secs_f64(),
        });
        match &self.end {
            End::Done | End::Released | End::Cancelled => {}
            End::Gone(error) | End::Lost(error) => out["error"] = error.as_str().into(),
            End::Retried(error, settled) | End::Failed(error, settled) => {
                out["error"] = error.as_str().into();
                let settled = json!(show::settled(settled));
                for field in ["state", "run_at"] {
                    if let Some(value) = settled.get(field) {
                        out[field] = value.clone();
                    }
                }
            }
        }
        out
    }
}

impl End {
    /// What an outcome that the queue took, or did not take, means. `why` is the reason for another try.
    pub fn of(outcome: Outcome, why: String, settled: Result<Settled, Error>) -> End {
        let settled = match settled {
            Ok(settled) => settled,
            Err(error) => return End::Lost(error.message().to_owned()),
        };
        match outcome {
            Outcome::Ack { .. } => End::Done,
            _ if settled.state == State::Cancelled => End::Cancelled,
            Outcome::Snooze { .. } => End::Retried(why, settled),
            Outcome::Fail { error, .. } => End::Failed(error, settled),
            Outcome::Release { .. } | Outcome::Bury { .. } => End::Released,
        }
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            End::Done => "done",
            End::Retried(..) => "retried",
            End::Failed(..) | End::Gone(_) => "failed",
            End::Released => "released",
            End::Cancelled => "cancelled",
            End::Lost(_) => "lost",
        }
    }
}
