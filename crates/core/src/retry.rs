//! What a failure leads to. Pure functions: the dice are an argument.

use std::time::Duration;

use crate::job::{Backoff, Jitter};

/// What follows a failed or vanished lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Another try after this wait.
    Retry(Duration),
    /// No further try.
    Dead,
}

/// Decides after a failure. `spent` counts the failed and the vanished leases of the job, this one included; `failures` only
/// the failed ones, which the wait grows with. `dice` is a random number that spreads the wait.
pub fn after_failure(
    spent: u32,
    failures: u32,
    max_attempts: u32,
    backoff: &Backoff,
    dice: u64,
) -> Verdict {
    if exhausted(spent, max_attempts) {
        Verdict::Dead
    } else {
        Verdict::Retry(wait(failures, backoff, dice))
    }
}

/// Whether a job has used up its tries.
pub fn exhausted(spent: u32, max_attempts: u32) -> bool {
    spent >= max_attempts
}

/// The wait after the `failures`-th failure.
pub fn wait(failures: u32, backoff: &Backoff, dice: u64) -> Duration {
    let earlier = failures.saturating_sub(1);
    match backoff {
        Backoff::Fixed { delay } => *delay,
        Backoff::List { delays } => delays
            .get(usize::try_from(earlier).unwrap_or(usize::MAX))
            .or(delays.last())
            .copied()
            .unwrap_or(Duration::ZERO),
        Backoff::Exponential {
            base,
            factor,
            cap,
            jitter,
        } => {
            let full = base.as_secs_f64() * factor.powi(i32::try_from(earlier).unwrap_or(i32::MAX));
            let full = if full < cap.as_secs_f64() {
                Duration::from_secs_f64(full)
            } else {
                *cap
            };
            match jitter {
                Jitter::None => full,
                Jitter::Full => full.mul_f64((dice >> 11) as f64 / (1u64 << 53) as f64),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exponential(jitter: Jitter) -> Backoff {
        Backoff::Exponential {
            base: Duration::from_secs(1),
            factor: 2.0,
            cap: Duration::from_secs(3600),
            jitter,
        }
    }

    #[test]
    fn waits_grow_to_the_cap() {
        let table = [
            (1, 1),
            (2, 2),
            (3, 4),
            (10, 512),
            (12, 2048),
            (13, 3600),
            (u32::MAX, 3600),
        ];
        for (failures, seconds) in table {
            assert_eq!(
                wait(failures, &exponential(Jitter::None), 0),
                Duration::from_secs(seconds),
                "{failures}"
            );
        }
    }

    #[test]
    fn full_jitter_spreads_from_nothing_to_the_whole_wait() {
        assert_eq!(wait(3, &exponential(Jitter::Full), 0), Duration::ZERO);
        assert_eq!(
            wait(3, &exponential(Jitter::Full), u64::MAX / 2 + 1),
            Duration::from_secs(2)
        );
        assert!(wait(3, &exponential(Jitter::Full), u64::MAX) <= Duration::from_secs(4));
    }

    #[test]
    fn the_last_wait_of_a_list_repeats() {
        let list = Backoff::List {
            delays: vec![Duration::from_secs(5), Duration::from_secs(60)],
        };
        assert_eq!([1, 2, 3].map(|n| wait(n, &list, 0).as_secs()), [5, 60, 60]);
    }

    #[test]
    fn the_last_try_leads_to_dead() {
        let fixed = Backoff::Fixed {
            delay: Duration::from_secs(1),
        };
        assert_eq!(
            after_failure(2, 2, 3, &fixed, 0),
            Verdict::Retry(Duration::from_secs(1))
        );
        assert_eq!(after_failure(3, 2, 3, &fixed, 0), Verdict::Dead);
    }
}
