//! The token bucket behind a queue's [`Rate`], in whole numbers only.
//!
//! A token is worth `per` units, in milliseconds, and each millisecond adds `count` units: no rate is rounded, however odd,
//! and a bucket that was saved and loaded goes on exactly where it stood. A level only makes sense together with the rate it
//! was kept under; when a queue gets another rate, start again with [`Bucket::full`].
//!
//! The bucket's time never goes back, so a clock that does fills it once for each millisecond and not again. A clock that was
//! set far back must not stall the queue either: the bucket stays at most [`AHEAD`] before the clock.

use std::time::Duration;

use crate::queue::Rate;
use crate::time::{Timestamp, millis};

/// How far the bucket's time may be before the clock's. A clock that is set back stops the queue for no longer than this.
pub const AHEAD: Duration = Duration::from_secs(1);

/// How much of a rate is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    level: u128,
    at: Timestamp,
}

impl Bucket {
    /// A bucket after a quiet time.
    pub fn full(rate: Rate, at: Timestamp) -> Bucket {
        Bucket {
            level: cap(rate),
            at,
        }
    }

    /// A bucket as it was saved.
    pub fn from_raw(level: u128, at: Timestamp) -> Bucket {
        Bucket { level, at }
    }

    /// What to save: the level in units, and the moment it was true.
    pub fn raw(&self) -> (u128, Timestamp) {
        (self.level, self.at)
    }

    /// How many tokens there are now.
    pub fn available(&mut self, rate: Rate, now: Timestamp) -> u32 {
        *self = self.refilled(rate, now);
        u32::try_from(self.level / token(rate)).unwrap_or(u32::MAX)
    }

    /// Takes `n` tokens, or all if there are fewer.
    pub fn take(&mut self, rate: Rate, now: Timestamp, n: u32) {
        *self = self.refilled(rate, now);
        self.level = self
            .level
            .saturating_sub(token(rate).saturating_mul(n.into()));
    }

    /// The first millisecond from `now` on with at least one token.
    pub fn next_at(&self, rate: Rate, now: Timestamp) -> Timestamp {
        let bucket = self.refilled(rate, now);
        let missing = token(rate).saturating_sub(bucket.level);
        if missing == 0 {
            return now;
        }
        let wait = missing.div_ceil(rate.count.max(1).into());
        Timestamp(
            bucket
                .at
                .0
                .saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)),
        )
    }

    /// The bucket as it is when the clock shows `now`. A clock that went back adds nothing until it is where it was.
    fn refilled(&self, rate: Rate, now: Timestamp) -> Bucket {
        let at = self.at.min(now.plus(AHEAD));
        let passed = u128::from(now.0.saturating_sub(at.0));
        let gained = passed.saturating_mul(rate.count.max(1).into());
        Bucket {
            level: self.level.saturating_add(gained).min(cap(rate)),
            at: at.max(now),
        }
    }
}

fn token(rate: Rate) -> u128 {
    millis(rate.per).max(1).into()
}

fn cap(rate: Rate) -> u128 {
    token(rate).saturating_mul(rate.burst.max(1).into())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn rate(count: u32, per_ms: u64, burst: u32) -> Rate {
        Rate {
            count,
            per: Duration::from_millis(per_ms),
            burst,
        }
    }

    fn empty(rate: Rate, at: u64) -> Bucket {
        let mut bucket = Bucket::full(rate, Timestamp(at));
        bucket.take(rate, Timestamp(at), u32::MAX);
        bucket
    }

    #[test]
    fn an_empty_bucket_fills_by_the_rate_up_to_the_burst() {
        #[rustfmt::skip]
        let table = [
            // count, per, burst, milliseconds later, tokens
            (1, 1000, 1, 999, 0),
            (1, 1000, 1, 1000, 1),
            (1, 1000, 1, 60_000, 1),
            (1, 1000, 5, 60_000, 5),
            (10, 1000, 10, 100, 1),
            (10, 1000, 10, 950, 9),
            (3, 1000, 3, 333, 0),
            (3, 1000, 3, 334, 1),
            (3, 1000, 3, 1000, 3),
            (5000, 1000, 10_000, 1, 5),
            (1, 86_400_000, 2, 86_399_999, 0),
            (u32::MAX, 1, u32::MAX, 1, u32::MAX),
            (u32::MAX, u64::MAX, u32::MAX, u64::MAX, u32::MAX),
        ];
        for (count, per, burst, later, tokens) in table {
            let rate = rate(count, per, burst);
            assert_eq!(
                empty(rate, 0).available(rate, Timestamp(later)),
                tokens,
                "{rate:?} after {later} ms"
            );
        }
    }

    #[test]
    fn the_next_token_comes_at_the_first_millisecond_that_has_one() {
        #[rustfmt::skip]
        let table = [
            (1, 1000, 1000),
            (10, 1000, 100),
            (3, 1000, 334),
            (7, 60_000, 8572),
            (5000, 1000, 1),
        ];
        for (count, per, first) in table {
            let rate = rate(count, per, 1);
            let mut bucket = empty(rate, 500);
            let next = bucket.next_at(rate, Timestamp(500));
            assert_eq!(next, Timestamp(500 + first), "{rate:?}");
            assert_eq!(bucket.available(rate, Timestamp(next.0 - 1)), 0);
            assert_eq!(bucket.available(rate, next), 1);
            assert_eq!(bucket.next_at(rate, next), next);
        }
    }

    #[test]
    fn a_full_bucket_gives_the_burst_and_then_the_rate() {
        let rate = rate(2, 1000, 5);
        let mut bucket = Bucket::full(rate, Timestamp(0));
        assert_eq!(bucket.available(rate, Timestamp(0)), 5);
        bucket.take(rate, Timestamp(0), 4);
        assert_eq!(bucket.available(rate, Timestamp(0)), 1);
        bucket.take(rate, Timestamp(0), 1);
        assert_eq!(bucket.next_at(rate, Timestamp(0)), Timestamp(500));
    }

    #[test]
    fn a_clock_set_back_fills_nothing_and_stalls_the_bucket_for_a_second_at_most() {
        let rate = rate(1, 1000, 3);
        let mut bucket = empty(rate, 10_000_000);
        assert_eq!(bucket.available(rate, Timestamp(5_000)), 0);
        assert_eq!(bucket.next_at(rate, Timestamp(5_000)), Timestamp(7_000));
        assert_eq!(bucket.available(rate, Timestamp(6_999)), 0);
        assert_eq!(bucket.available(rate, Timestamp(7_000)), 1);
    }

    #[test]
    fn a_clock_that_swings_by_a_millisecond_fills_the_bucket_once() {
        let rate = rate(1000, 1000, 10);
        let mut bucket = empty(rate, 1_000);
        for _ in 0..100 {
            bucket.take(rate, Timestamp(1_001), 0);
            bucket.take(rate, Timestamp(1_000), 0);
        }
        assert_eq!(bucket.available(rate, Timestamp(1_001)), 1);
    }

    #[test]
    fn a_bucket_goes_on_where_it_was_saved() {
        let rate = rate(3, 1000, 3);
        let mut bucket = empty(rate, 0);
        bucket.available(rate, Timestamp(333));
        let (level, at) = bucket.raw();
        let mut loaded = Bucket::from_raw(level, at);
        assert_eq!(loaded, bucket);
        assert_eq!(loaded.available(rate, Timestamp(334)), 1);
    }

    proptest! {
        /// In every window, by the latest time that the clock has shown.
        #[test]
        fn no_more_is_lent_than_the_burst_and_the_rate_allow(
            count in 1u32..50,
            per in 1u64..5000,
            burst in 1u32..20,
            steps in prop::collection::vec((-1000i64..2000, 0u32..8), 1..60),
        ) {
            let rate = rate(count, per, burst);
            let mut bucket = Bucket::full(rate, Timestamp(1_000_000));
            let (mut now, mut latest) = (1_000_000u64, 1_000_000u64);
            let mut lent: Vec<(u64, u64)> = Vec::new();
            for (later, want) in steps {
                // Back by no more than the bucket waits for.
                now = now.saturating_add_signed(later).max(latest - 1_000);
                latest = latest.max(now);
                let give = want.min(bucket.available(rate, Timestamp(now)));
                bucket.take(rate, Timestamp(now), give);
                lent.push((latest, u64::from(give)));
                let mut sum = 0;
                for (since, gave) in lent.iter().rev() {
                    sum += gave;
                    let allowed = u64::from(burst) + (latest - since) * u64::from(count) / per;
                    prop_assert!(sum <= allowed, "{sum} since {since}, {allowed} allowed");
                }
            }
        }

        #[test]
        fn no_value_makes_it_panic(
            level: u128,
            at: u64,
            now: u64,
            count: u32,
            per: u64,
            burst: u32,
            n: u32,
        ) {
            let rate = rate(count, per, burst);
            let mut bucket = Bucket::from_raw(level, Timestamp(at));
            prop_assert!(bucket.next_at(rate, Timestamp(now)) >= Timestamp(now));
            bucket.take(rate, Timestamp(now), n);
            prop_assert!(bucket.available(rate, Timestamp(now)) <= burst.max(1));
        }
    }
}
