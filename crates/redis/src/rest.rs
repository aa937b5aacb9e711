//! How often a process asks though nothing happens: the more shards, the more rarely each, so that all of them together ask less
//! than once a second.
//!
//! Nothing depends on it in the ordinary course: who waits is told, and sets an alarm for what falls due. It is for what was
//! lost: a signal with the process that was to pass it on, leases that another process took after our last look and never
//! settled, the store itself.

use std::time::Duration;

/// How often a shard is looked at: on one shard often enough that what is lost is found within five seconds. Longer than this a
/// store of many shards does not wait either, for who waits must say so again within a minute.
pub fn look(shards: u16) -> Duration {
    (Duration::from_millis(2_500) * u32::from(shards))
        .clamp(Duration::from_secs(4), Duration::from_secs(40))
}

/// How long to the first look at a shard: the looks at all of them are spread, so that a store that was emptied is noticed as
/// soon as on one shard.
pub fn first_look(shard: u16, shards: u16) -> Duration {
    look(shards) * (u32::from(shard) + 1) / u32::from(shards)
}

/// How long one wait for a signal lasts before the next.
pub fn listen(shards: u16) -> Duration {
    (Duration::from_secs(5) * u32::from(shards))
        .clamp(Duration::from_secs(10), Duration::from_secs(80))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auditor;

    #[test]
    fn a_process_asks_less_than_once_a_second_on_a_store_of_up_to_sixteen_shards() {
        for shards in 1..=16 {
            // The auditor asks each once in a beat, as its own tests show.
            let rests = [look(shards), listen(shards), auditor::BEAT];
            let rate: f64 = rests.iter().map(|rest| 1.0 / rest.as_secs_f64()).sum();
            let all = rate * f64::from(shards);
            assert!(all < 1.0, "{all} commands a second on {shards} shards");
        }
    }

    #[test]
    fn one_shard_is_looked_at_within_five_seconds_and_each_within_a_minute() {
        assert!(look(1) < Duration::from_secs(5));
        assert!(look(1024) < Duration::from_secs(60));
    }

    #[test]
    fn first_looks_are_spread() {
        let first: Vec<_> = (0..16).map(|shard| first_look(shard, 16)).collect();
        assert!(first.windows(2).all(|two| two[1] - two[0] == look(16) / 16));
        assert_eq!(first[15], look(16));
        assert_eq!(first_look(0, 1), look(1));
    }
}
