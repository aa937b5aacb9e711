//! Wrong tokens, counted by address.
//!
//! Nobody finds a token of 200 bits by trying, at whatever speed. What trying costs is our time and everybody's log, so after a
//! few wrong tokens within a minute an address is told to wait, and its answers are held back. A right token is let in even
//! then: otherwise one client with an old token would lock out all others behind the same address, and anybody could do that
//! to a neighbour on purpose.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use auxo_core::Timestamp;

/// Wrong tokens that an address may show in a [`WINDOW`].
pub const ALLOWED: u32 = 5;
/// The time after which they are forgotten.
const WINDOW: Duration = Duration::from_secs(60);
/// Addresses that are counted one by one. Those past it share one count.
const MOST: usize = 4096;
/// What stands for the addresses that are not counted one by one.
const OTHERS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The counts.
#[derive(Default)]
pub struct Failures(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    by_address: HashMap<IpAddr, Seen>,
    /// When the counts were last cleared of old ones: once in a [`WINDOW`] is enough, and a flood of addresses costs no more than that.
    cleared: Timestamp,
}

struct Seen {
    since: Timestamp,
    count: u32,
}

impl Failures {
    /// Counts a wrong token. True as long as the address has not shown too many.
    pub fn note(&self, address: IpAddr, now: Timestamp) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut key = network(address);
        if !counts.has_room_for(key, now) {
            key = OTHERS;
        }
        let seen = counts.by_address.entry(key).or_insert(Seen {
            since: now,
            count: 0,
        });
        if !seen.is_recent(now) {
            *seen = Seen {
                since: now,
                count: 0,
            };
        }
        seen.count = seen.count.saturating_add(1);
        seen.count <= ALLOWED
    }
}

impl Counts {
    /// Whether this address has a count of its own, or can have one.
    fn has_room_for(&mut self, key: IpAddr, now: Timestamp) -> bool {
        if self.by_address.len() < MOST || self.by_address.contains_key(&key) {
            return true;
        }
        if now.since(self.cleared) >= WINDOW {
            self.by_address.retain(|_, seen| seen.is_recent(now));
            self.cleared = now;
        }
        self.by_address.len() < MOST
    }
}

impl Seen {
    fn is_recent(&self, now: Timestamp) -> bool {
        now.since(self.since) < WINDOW
    }
}

/// Who is counted as one: whoever has an address of IPv6 has 2^64 of them.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + n).into()
    }

    #[test]
    fn five_a_minute_are_forgiven() {
        let failures = Failures::default();
        let at = |s: u64| Timestamp(1_000_000 + s * 1000);
        for _ in 0..5 {
            assert!(failures.note(address(1), at(0)));
        }
        assert!(!failures.note(address(1), at(1)));
        assert!(!failures.note(address(1), at(59)));
        assert!(failures.note(address(2), at(59)), "another is not meant");
        assert!(failures.note(address(1), at(60)), "a minute is over");
    }

    #[test]
    fn addresses_that_one_client_can_choose_among_count_as_one() {
        let failures = Failures::default();
        let now = Timestamp(0);
        for host in 0..5_u128 {
            let v6 = Ipv6Addr::from_bits(0x2001_0db8 << 96 | host);
            assert!(failures.note(v6.into(), now));
        }
        assert!(!failures.note("2001:db8::7:1".parse().unwrap(), now));
        assert!(failures.note("2001:db8:0:1::1".parse().unwrap(), now));
        // An address of IPv4 is the same however it is written.
        for _ in 0..5 {
            failures.note("::ffff:10.0.0.1".parse().unwrap(), now);
        }
        assert!(!failures.note("10.0.0.1".parse().unwrap(), now));
    }

    #[test]
    fn a_flood_of_addresses_takes_no_memory_and_is_still_slowed() {
        let failures = Failures::default();
        let now = Timestamp(0);
        let allowed = (0..100_000)
            .filter(|n| failures.note(address(*n), now))
            .count();
        assert_eq!(failures.0.lock().unwrap().by_address.len(), MOST + 1);
        assert_eq!(allowed, MOST + ALLOWED as usize);
        // After a minute there is room again.
        let later = Timestamp(60_000);
        assert!(failures.note(address(7_000_000), later));
        assert_eq!(failures.0.lock().unwrap().by_address.len(), 1);
    }
}
