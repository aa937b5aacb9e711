//! Holds a lease while the job runs: signs of life well before the deadline, and the end of it all.

use std::time::Duration;

use auxo::core::engine::{Extend, Settle};
use auxo::core::service::Service;
use auxo::{Code, Error, Outcome, Result, Settled, Token};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::attempt::{Stop, Stopper};

/// A sign of life is given this often at least, so that the wish to cancel a job with a long lease is heard soon.
const LONGEST_SILENCE: Duration = Duration::from_secs(5);
/// The least time between two tries to reach a queue that does not answer.
const SHORTEST_WAIT: Duration = Duration::from_millis(20);

/// A lease and its length.
pub struct Hold<'s> {
    pub service: &'s Service,
    pub token: Token,
    pub length: Duration,
    /// How long before the lease's end the job is told to end, if the queue has not answered by then. At most a quarter of the lease.
    pub notice: Duration,
}

impl Hold<'_> {
    /// Extends the lease while the job runs, and returns when the lease is over: then the job may be another worker's, and nothing
    /// may go on with it here. By this process' own clock, whether the queue answers or not. Asks to stop when somebody wants the
    /// job cancelled, and shortly before the end of a lease that could not be extended.
    pub async fn keep(&self, stopper: &Stopper) {
        let calm = (self.length / 3).min(LONGEST_SILENCE);
        let hasty = (calm / 4).max(SHORTEST_WAIT);
        let notice = self.notice.min(self.length / 4);
        let mut until = Instant::now() + self.length;
        let mut pause = calm;
        loop {
            let extend = async {
                sleep(pause).await;
                (Instant::now(), self.extend().await)
            };
            match timeout_at(until - notice, extend).await {
                Ok((asked, Ok(cancel))) => {
                    until = asked + self.length;
                    pause = calm;
                    if cancel {
                        stopper.stop(Stop::Cancelled);
                    }
                }
                Ok((_, Err(error))) if passing(&error) => pause = hasty,
                Ok((_, Err(_))) => return,
                Err(_) => break,
            }
        }
        stopper.stop(Stop::Lost);
        sleep_until(until).await;
    }

    async fn extend(&self) -> Result<bool> {
        let item = Extend {
            token: self.token,
            ttr: None,
            progress: None,
        };
        let answers = self.service.extend(vec![item]).await?;
        Ok(only(answers)?.cancel)
    }

    /// Ends the lease. A queue that does not answer is asked again for as long as the lease can last.
    pub async fn settle(&self, outcome: Outcome) -> Result<Settled> {
        let until = Instant::now() + self.length;
        let mut pause = SHORTEST_WAIT;
        loop {
            let item = Settle {
                token: self.token,
                outcome: outcome.clone(),
            };
            let settled = match self.service.settle(vec![item]).await {
                Ok(answers) => only(answers),
                Err(error) => Err(error),
            };
            match settled {
                Err(error) if passing(&error) && Instant::now() < until => sleep(pause).await,
                settled => return settled,
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// Whether the same call may have another answer a little later.
pub fn passing(error: &Error) -> bool {
    matches!(
        error.code(),
        Code::Unavailable | Code::UnknownOutcome | Code::RateLimited
    )
}

/// The answer to a batch of one.
fn only<T>(answers: Vec<Result<T>>) -> Result<T> {
    let none = || Error::new(Code::Internal, "a call was left without an answer");
    answers.into_iter().next().unwrap_or_else(|| Err(none()))
}
