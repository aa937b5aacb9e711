//! How soon to try again.
//!
//! Full jitter: each pause is anything from nothing to a limit that doubles. Whoever was cut off together does not come back
//! together, and nobody waits long for what was only a blink.

use std::time::Duration;

use tokio::time::Instant;

/// After this time without a failure, the next counts as the first.
const CALM: Duration = Duration::from_secs(10);

/// The longest pause before a server is dialed again, by the mean one second.
const DIAL_MS: u64 = 2000;
/// The longest pause before the servers that live are asked again which of them is the primary: all that wait depend on it.
const LOOK_MS: u64 = 500;

/// Tries after a failure: soon at first, then more rarely.
#[derive(Debug)]
pub(super) struct Pace {
    failures: u32,
    most_ms: u64,
    not_before: Instant,
}

impl Pace {
    /// Of tries to reach a server.
    pub(super) fn new() -> Pace {
        Pace::up_to(DIAL_MS)
    }

    /// Of questions which server has what.
    pub(super) fn of_looks() -> Pace {
        Pace::up_to(LOOK_MS)
    }

    fn up_to(most_ms: u64) -> Pace {
        Pace {
            failures: 0,
            most_ms,
            not_before: Instant::now(),
        }
    }

    /// When the next try may begin.
    pub(super) fn not_before(&self) -> Instant {
        self.not_before
    }

    pub(super) fn failed(&mut self) {
        // What failed long ago has nothing to do with this.
        if self.not_before.elapsed() > CALM {
            self.failures = 0;
        }
        // The mean of what is drawn is half of the limit.
        let limit = growing(self.failures, 50, self.most_ms);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Instant::now() + jitter(limit);
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// The pauses of one call that Redis answered with "not now".
#[derive(Debug, Default)]
pub(super) struct Pauses(u32);

impl Pauses {
    /// Waits a little longer each time, but not past the end. Whether there is time left.
    pub(super) async fn wait(&mut self, until: Instant) -> bool {
        let limit = growing(self.0, 10, 500);
        self.0 = self.0.saturating_add(1);
        let end = Instant::now() + jitter(limit);
        tokio::time::sleep_until(end.min(until)).await;
        Instant::now() < until
    }
}

fn growing(times: u32, base_ms: u64, most_ms: u64) -> Duration {
    let grown = base_ms.saturating_mul(1 << times.min(16));
    Duration::from_millis(grown.min(most_ms))
}

fn jitter(limit: Duration) -> Duration {
    let mut bytes = [0; 4];
    // Without randomness from the system the longest pause is the safe one.
    let share = match getrandom::fill(&mut bytes) {
        Ok(()) => u32::from_le_bytes(bytes),
        Err(_) => u32::MAX,
    };
    limit.mul_f64(f64::from(share) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_pause_doubles_up_to_the_most() {
        let limits: Vec<u64> = [0, 1, 2, 5, 6, 100]
            .map(|times| growing(times, 50, 2000).as_millis() as u64)
            .to_vec();
        assert_eq!(limits, [50, 100, 200, 1600, 2000, 2000]);
    }

    #[test]
    fn pauses_fill_the_whole_range() {
        let limit = Duration::from_millis(1000);
        let drawn: Vec<Duration> = (0..200).map(|_| jitter(limit)).collect();
        assert!(drawn.iter().all(|pause| *pause <= limit));
        assert!(drawn.iter().any(|pause| *pause < limit / 4), "{drawn:?}");
        assert!(
            drawn.iter().any(|pause| *pause > limit * 3 / 4),
            "{drawn:?}"
        );
    }
}
