//! Whether a sync waits for more who want one.
//!
//! Callers that were answered together come back together, but one after the other. The first who is back would get a sync of its
//! own, and the others would all wait for the one behind it: two syncs for as many answers as one could give. If they are back
//! soon, compared with what a sync takes, it is better to wait for them. If they are not, or not at all, it is not: then it is
//! also better that some are served while the disk is busy for the others. Which of the two it is depends on the disk, on
//! how many there are and on what they do in between, so it is found out by trying, and while it fails ever more rarely.

use std::time::Duration;

/// The longest that anybody waits for others.
const LONGEST: Duration = Duration::from_millis(5);
/// After so many failures in a row the distance between two tries grows no more.
const MISSES: u32 = 8;

/// What is known of those who come for syncs.
#[derive(Default)]
pub struct Company {
    /// How many are expected: those whom the last sync answered, and those who came while it was made.
    expected: usize,
    /// How long a sync takes, over the last few.
    takes: Duration,
    /// How often in a row waiting was in vain.
    misses: u32,
    /// For so many syncs it is not tried.
    pass: u32,
}

impl Company {
    /// A sync took so long; it was for so many, and so many others came meanwhile.
    pub fn synced(&mut self, took: Duration, answered: usize, others: usize) {
        self.takes = match self.takes {
            Duration::ZERO => took,
            takes => (takes * 7 + took) / 8,
        };
        self.expected = answered + others;
    }

    /// For how many the next sync should wait, and for how long at most; so many are there, and the last sync was so long ago.
    pub fn wanted(&mut self, there: usize, since: Duration) -> Option<(usize, Duration)> {
        if there >= self.expected || since > self.takes {
            return None;
        }
        if self.pass > 0 {
            self.pass -= 1;
            return None;
        }
        Some((self.expected, (self.takes / 2).min(LONGEST)))
    }

    /// Whether those came who were waited for.
    pub fn waited(&mut self, came: bool) {
        self.misses = match came {
            true => 0,
            false => (self.misses + 1).min(MISSES),
        };
        self.pass = match self.misses {
            0 => 0,
            misses => 1 << misses,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_millis(1);
    const SOON: Duration = Duration::from_micros(10);

    fn after_a_sync(answered: usize, others: usize) -> Company {
        let mut company = Company::default();
        company.synced(SYNC, answered, others);
        company
    }

    #[test]
    fn a_sync_waits_for_those_who_were_answered_and_those_who_came_meanwhile() {
        let half = SYNC / 2;
        assert_eq!(after_a_sync(15, 0).wanted(1, SOON), Some((15, half)));
        assert_eq!(after_a_sync(10, 6).wanted(6, SOON), Some((16, half)));
    }

    #[test]
    fn nobody_waits_for_company_who_is_alone_or_has_all_of_it() {
        assert_eq!(after_a_sync(0, 0).wanted(1, SOON), None);
        assert_eq!(after_a_sync(1, 0).wanted(1, SOON), None);
        assert_eq!(after_a_sync(8, 8).wanted(16, SOON), None);
    }

    #[test]
    fn those_who_were_there_long_ago_are_not_waited_for() {
        assert_eq!(after_a_sync(16, 0).wanted(1, SYNC * 2), None);
    }

    #[test]
    fn a_slow_disk_does_not_make_anybody_wait_for_long() {
        let mut company = Company::default();
        company.synced(Duration::from_secs(1), 16, 0);
        assert_eq!(company.wanted(1, SOON), Some((16, LONGEST)));
    }

    #[test]
    fn waiting_in_vain_is_tried_ever_more_rarely_until_it_is_worth_it() {
        let mut company = after_a_sync(16, 0);
        let mut tries_until_next = |came| {
            company.waited(came);
            let mut tries = 1;
            while company.wanted(1, SOON).is_none() {
                tries += 1;
            }
            tries
        };
        assert_eq!(tries_until_next(true), 1);
        assert_eq!(tries_until_next(false), 3);
        assert_eq!(tries_until_next(false), 5);
        for _ in 0..20 {
            tries_until_next(false);
        }
        assert_eq!(tries_until_next(false), 257);
        assert_eq!(tries_until_next(true), 1);
    }
}
