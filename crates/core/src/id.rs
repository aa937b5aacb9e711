//! Names that an engine gives: the id of a job and the token of a lease.

use std::fmt;
use std::str::FromStr;

use crate::error::{Code, Error};
use crate::time::Timestamp;

const SEQUENCE_BITS: u32 = 12;
const SHARD_BITS: u32 = 10;

/// A job's id: 42 bits of milliseconds, 10 bits of shard, 12 bits of sequence. Ids of one engine rise with time, and an id
/// alone tells which shard holds the job. It is written as a decimal number, in JSON as a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl JobId {
    /// The first id of a millisecond on a shard.
    pub fn first_at(at: Timestamp, shard: u16) -> JobId {
        JobId(at.0 << (SHARD_BITS + SEQUENCE_BITS) | u64::from(shard) << SEQUENCE_BITS)
    }

    /// The id that follows on the same shard. When a millisecond's sequence is used up it borrows from the next one, so
    /// ids keep rising however fast jobs arrive.
    pub fn next(self) -> JobId {
        let sequence = self.0 & ((1 << SEQUENCE_BITS) - 1);
        if sequence + 1 < 1 << SEQUENCE_BITS {
            JobId(self.0 + 1)
        } else {
            JobId::first_at(Timestamp(self.at().0 + 1), self.shard())
        }
    }

    /// The same moment and sequence on another shard.
    pub fn on_shard(self, shard: u16) -> JobId {
        let bits = ((1 << SHARD_BITS) - 1) << SEQUENCE_BITS;
        JobId(self.0 & !bits | u64::from(shard) << SEQUENCE_BITS)
    }

    /// The millisecond in which the id was given.
    pub fn at(self) -> Timestamp {
        Timestamp(self.0 >> (SHARD_BITS + SEQUENCE_BITS))
    }

    /// The shard that holds the job.
    pub fn shard(self) -> u16 {
        (self.0 >> SEQUENCE_BITS) as u16 & ((1 << SHARD_BITS) - 1)
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
    fn ids_rise_even_when_a_millisecond_is_used_up() {
        let mut id = JobId::first_at(Timestamp(1_700_000_000_000), 3);
        for _ in 0..10_000 {
            let next = id.next();
            assert!(next > id);
            assert_eq!(next.shard(), 3);
            id = next;
        }
        assert_eq!(id.at(), Timestamp(1_700_000_000_002));
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
