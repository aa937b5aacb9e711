//! What one try at a job can come to, and what can cut it short.

use std::time::Duration;

use auxo::core::text;
use auxo::{Outcome, Retry};
use bytes::Bytes;
use tokio::sync::watch;

/// How a try ended that was not cut short.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// It went well, and left this behind.
    Done(Option<Bytes>),
    /// Not now: whatever it needs is not there. No failure of the job.
    Again {
        why: String,
        /// The wait that was asked for, if one was.
        after: Option<Duration>,
    },
    /// It went wrong.
    Failed(String),
}

/// A verdict, and the last words that came with it, for people who look for the reason.
#[derive(Debug, PartialEq)]
pub struct Attempt {
    pub verdict: Verdict,
    pub words: String,
}

/// Why a try is cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Somebody cancelled the job.
    Cancelled,
    /// The lease is not ours any more: somebody else may have the job.
    Lost,
    /// It took longer than it may.
    TimedOut,
    /// The worker itself ends.
    Leaving,
}

/// Cuts a try short. The first reason counts.
#[derive(Clone)]
pub struct Stopper(watch::Sender<Option<Stop>>);

impl Stopper {
    pub fn new() -> Stopper {
        Stopper(watch::Sender::new(None))
    }

    pub fn stop(&self, why: Stop) {
        self.0.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(why);
            first
        });
    }

    /// The reason, if there is one.
    pub fn reason(&self) -> Option<Stop> {
        *self.0.borrow()
    }

    /// Waits for a reason.
    pub async fn stopped(&self) {
        let mut stop = self.0.subscribe();
        // The sender is `self`, so it cannot be gone.
        let _ = stop.wait_for(Option::is_some).await;
    }
}

/// The rules by which a try ends a lease.
#[derive(Clone, Copy)]
pub struct Terms {
    pub timeout: Option<Duration>,
    /// The wait before a job that could not run now is tried again.
    pub retry_delay: Duration,
    /// The longest wait that the queue takes.
    pub longest_delay: Duration,
}

impl Terms {
    /// How the lease ends; `None` when it is not ours to end.
    pub fn outcome(&self, attempt: Attempt, stop: Option<Stop>) -> Option<Outcome> {
        let words = attempt.words;
        let release = Outcome::Release {
            priority: None,
            delay: None,
        };
        match (stop, attempt.verdict) {
            (Some(Stop::Lost), _) => None,
            // The end of a lease other than by ack is what makes the cancelling come true.
            (Some(Stop::Cancelled | Stop::Leaving), _) => Some(release),
            (Some(Stop::TimedOut), _) => {
                let timeout = text::duration(self.timeout.unwrap_or_default());
                Some(failure(&format!("timed out after {timeout}"), &words))
            }
            (None, Verdict::Done(result)) => Some(Outcome::Ack { result }),
            (None, Verdict::Again { after, .. }) => Some(Outcome::Snooze {
                delay: after.unwrap_or(self.retry_delay).min(self.longest_delay),
            }),
            (None, Verdict::Failed(what)) => Some(failure(&what, &words)),
        }
    }
}

fn failure(what: &str, words: &str) -> Outcome {
    let error = match words {
        "" => what.to_owned(),
        words => format!("{what}: {words}"),
    };
    Outcome::Fail {
        error,
        delay: None,
        retry: Retry::Policy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms = Terms {
        timeout: Some(Duration::from_secs(3)),
        retry_delay: Duration::from_secs(10),
        longest_delay: Duration::from_secs(100),
    };

    fn attempt(verdict: Verdict) -> Attempt {
        Attempt {
            verdict,
            words: "no luck".into(),
        }
    }

    fn fails(error: &str) -> Option<Outcome> {
        Some(failure(error, ""))
    }

    #[test]
    fn a_verdict_decides_unless_the_try_was_cut_short() {
        let again = |after| Verdict::Again {
            why: "busy".into(),
            after,
        };
        let snooze = |seconds| {
            let delay = Duration::from_secs(seconds);
            Some(Outcome::Snooze { delay })
        };
        let release = || {
            Some(Outcome::Release {
                priority: None,
                delay: None,
            })
        };
        let done = || Verdict::Done(Some("r".into()));
        let ack = Some(Outcome::Ack {
            result: Some("r".into()),
        });
        let long = Some(Duration::from_secs(1000));
        let table = [
            (done(), None, ack),
            (
                Verdict::Failed("exit code 1".into()),
                None,
                fails("exit code 1: no luck"),
            ),
            (again(None), None, snooze(10)),
            (again(Some(Duration::from_secs(7))), None, snooze(7)),
            (again(long), None, snooze(100)),
            // A program that ends well because it was told to end has not done its work.
            (done(), Some(Stop::Leaving), release()),
            (done(), Some(Stop::Cancelled), release()),
            (
                done(),
                Some(Stop::TimedOut),
                fails("timed out after 3s: no luck"),
            ),
            (done(), Some(Stop::Lost), None),
        ];
        for (verdict, stop, expected) in table {
            let case = format!("{verdict:?}, {stop:?}");
            assert_eq!(TERMS.outcome(attempt(verdict), stop), expected, "{case}");
        }
    }

    #[test]
    fn the_first_reason_to_stop_counts() {
        let stopper = Stopper::new();
        assert_eq!(stopper.reason(), None);
        stopper.stop(Stop::TimedOut);
        stopper.stop(Stop::Leaving);
        assert_eq!(stopper.reason(), Some(Stop::TimedOut));
    }
}
