//! Names that an engine gives: the id of a job and the token of a lease.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Code, Error};
use crate::time::Timestamp;

/// 2025-01-01T00:00:00Z, from which ids count milliseconds.
const EPOCH: Timestamp = Timestamp(1_735_689_600_000);
/// How many ids there are for each millisecond.
const PER_MILLISECOND: u64 = 1 << 12;
/// How far ahead of the clock an id of another store may lie.
const AHEAD: Duration = Duration::from_secs(24 * 60 * 60);
/// Milliseconds since [`EPOCH`] that ids have room for: until 2094. The last three days are left to be counted through, should
/// a clock ever say that it is later than that.
const LAST_MILLISECOND: u64 = (1 << 41) - (1 << 28);

/// A job's id: a number below 2^53, so that a program that keeps it as a double (every number of JavaScript is one) keeps all
/// of it. Its upper 41 bits are milliseconds since 2025, the lower 12 count within them. The shard that holds the job is the id
/// modulo the number of shards of its store, so an id alone tells where its job is. Ids of one shard only rise: under
/// load they run ahead of the clock. An id is written as a decimal number, in JSON as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl JobId {
    /// The first id of a millisecond. A time before 2025 counts as the beginning of 2025.
    pub fn first_at(at: Timestamp) -> JobId {
        let since = at.0.saturating_sub(EPOCH.0).min(LAST_MILLISECOND);
        JobId(since * PER_MILLISECOND)
    }

    /// The id that a store of one shard gives after this one. When the ids of a millisecond are used up it is one of the next.
    pub fn after(self, now: Timestamp) -> JobId {
        self.next(1).max(JobId::first_at(now))
    }

    /// The next higher id on the same shard of so many.
    pub fn next(self, shards: u16) -> JobId {
        JobId(self.0.saturating_add(shards.into()))
    }

    /// The millisecond that the id belongs to.
    pub fn at(self) -> Timestamp {
        Timestamp(EPOCH.0 + self.0 / PER_MILLISECOND)
    }

    /// Which shard of so many holds the job.
    pub fn shard(self, shards: u16) -> u16 {
        (self.0 % u64::from(shards)) as u16
    }

    /// Whether a store of one shard may give a job that it adopts this id of another store: not one of 2^53 or above, nor one
    /// that lies further ahead than a day, for new ones have to lie behind it.
    pub fn may_keep(self, now: Timestamp) -> bool {
        let latest = now.max(EPOCH).plus(AHEAD);
        self.0 > 0 && self <= JobId::first_at(latest)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = Error;

    fn from_str(text: &str) -> Result<JobId, Error> {
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(id) if digits => Ok(JobId(id)),
            _ => Err(Error::new(
                Code::BadRequest,
                format!("job id {:?} is not a decimal number of 64 bits", clip(text)),
            )),
        }
    }
}

/// The right to a leased job. The counter rises with every lease of an engine; the nonce makes it impossible to guess and
/// tells two leases apart even where a store lost its newest counter. Engines compare the whole for equality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// The leased job.
    pub job: JobId,
    /// How many leases the engine had given, this one included.
    pub counter: u64,
    /// Random bits.
    pub nonce: u64,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{:016x}", self.job, self.counter, self.nonce)
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(text: &str) -> Result<Token, Error> {
        let parse = || {
            let mut parts = text.split('-');
            let (job, counter, nonce) = (parts.next()?, parts.next()?, parts.next()?);
            let token = Token {
                job: job.parse().ok()?,
                counter: counter.parse().ok()?,
                nonce: u64::from_str_radix(nonce, 16).ok()?,
            };
            // Only the exact spelling counts, so that one lease has one token.
            (token.to_string() == text).then_some(token)
        };
        parse().ok_or_else(|| {
            Error::new(
                Code::BadRequest,
                format!("token {:?} is not one that a lease gave out", clip(text)),
            )
        })
    }
}

/// The start of a text for an error message: input may be megabytes long.
pub(crate) fn clip(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_rise_when_a_millisecond_is_used_up() {
        let now = Timestamp(1_800_000_000_000);
        let mut id = JobId(0).after(now);
        for _ in 1..10_000 {
            let next = id.after(now);
            assert!(next > id);
            id = next;
        }
        assert_eq!(id.at(), Timestamp(1_800_000_000_002));
    }

    #[test]
    fn ids_never_go_back_and_fit_a_double_whatever_the_clock_says() {
        let year = 365 * 24 * 60 * 60 * 1000;
        let mut last = JobId(0);
        for now in [0, EPOCH.0, EPOCH.0 + 69 * year, EPOCH.0, u64::MAX] {
            for _ in 0..10_000 {
                let id = last.after(Timestamp(now));
                assert!(id > last && id.0 < 1 << 53, "{id} follows {last} at {now}");
                last = id;
            }
        }
        assert!(last.at() > Timestamp(EPOCH.0 + 69 * year), "decades fit in");
    }

    #[test]
    fn an_id_stays_on_its_shard() {
        for (shards, shard) in [(1, 0), (3, 2), (16, 15), (128, 77)] {
            let first = JobId(u64::from(shards) * 1_000_000_000 + u64::from(shard));
            assert_eq!(first.shard(shards), shard);
            assert_eq!(first.next(shards).shard(shards), shard);
        }
    }

    #[test]
    fn a_clock_before_2025_counts_as_2025() {
        assert_eq!(JobId::first_at(Timestamp(0)), JobId(0));
        assert_eq!(JobId::first_at(EPOCH), JobId(0));
        assert_eq!(JobId::first_at(Timestamp(EPOCH.0 + 3)), JobId(3 << 12));
        assert_eq!(JobId(3 << 12 | 5).at(), Timestamp(EPOCH.0 + 3));
        assert!(JobId(1).may_keep(Timestamp(0)));
    }

    #[test]
    fn an_id_of_another_store_is_kept_if_a_double_holds_it_and_it_is_not_far_ahead() {
        let now = Timestamp(1_800_000_000_000);
        let day = Duration::from_secs(24 * 60 * 60);
        for (id, kept) in [
            (JobId(0), false),
            (JobId(1), true),
            (JobId::first_at(now), true),
            (JobId::first_at(now.plus(day)), true),
            (JobId(JobId::first_at(now.plus(day)).0 + (1 << 12)), false),
            (JobId(u64::MAX), false),
        ] {
            assert_eq!(id.may_keep(now), kept, "{id}");
        }
        for wrong in [1 << 53, 7_130_316_800_000_000_000] {
            assert!(!JobId(wrong).may_keep(Timestamp(u64::MAX)), "{wrong}");
        }
    }

    #[test]
    fn a_token_survives_being_written_and_read() {
        let token = Token {
            job: JobId(7),
            counter: 9,
            nonce: 0xabc,
        };
        assert_eq!(token.to_string(), "7-9-0000000000000abc");
        assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        for wrong in [
            "",
            "7",
            "7-9",
            "7-9-abc",
            "7-9-0000000000000abc-",
            "+7-9-0000000000000abc",
            "x-9-0000000000000abc",
        ] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
    }
}
