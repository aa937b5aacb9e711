//! The ids of jobs, as Disque writes them.
//!
//! ```text
//! D-00000000-AADcM0hc0AAAAAAAAAAAAAAA-05a1
//!   │        │                        └ its life in minutes: odd if it is delivered at least once, even if at most once
//!   │        └ 144 bits in base64: the job's id (64), the nonce of the lease (64), the counter of the lease (its low 16)
//!   └ the next 32 bits of the counter
//! ```
//!
//! Whoever is handed a job gets an id that carries the lease, so that an `ACKJOB` is fenced whichever connection it comes from: the
//! clients of Disque use pools. An id without a lease has zeros in its place; the counter of a lease is never zero. Clients
//! that keep count of where jobs come from read the eight digits as the beginning of a node's name, so ours begins with zeros.

use std::time::Duration;

use auxo_core::{JobId, Token};

/// The length of an id.
const LENGTH: usize = 40;
/// Where the separators are.
const DASHES: [usize; 3] = [1, 10, 35];

const DIGITS: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// A job, whoever has it.
    Job(JobId),
    /// A job in the hands of one worker.
    Delivery(Token),
    /// Nothing that was ever handed out here, though it looks like it.
    Stranger,
}

/// The last part of an id: how long the job lives, and whether it is delivered at least or at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life(u16);

impl Life {
    /// The life of a job with this time to live and this time to run. Without end is as long as can be said.
    pub fn new(ttl: Option<Duration>, ttr: Duration) -> Life {
        let minutes = ttl.map_or(u64::MAX, |ttl| ttl.as_secs() / 60);
        let minutes = u16::try_from(minutes).unwrap_or(u16::MAX);
        Life(match ttr.is_zero() {
            true => minutes & !1,
            false => minutes | 1,
        })
    }
}

impl Id {
    /// Reads an id, in Disque's form or in ours, which is a decimal number. `None` is what Disque calls a bad id.
    ///
    /// ```
    /// use auxo_core::JobId;
    /// use auxo_wire::resp::Id;
    /// assert_eq!(Id::read(b"17"), Some(Id::Job(JobId(17))));
    /// assert_eq!(Id::read(b"D-00000000-AAAAAAAAABEAAAAAAAAAAAAA-05a1"), Some(Id::Job(JobId(17))));
    /// assert_eq!(Id::read(b"D-cafe"), None);
    /// ```
    pub fn read(text: &[u8]) -> Option<Id> {
        if text.len() != LENGTH {
            let digits = std::str::from_utf8(text).ok()?;
            return digits.parse().ok().map(Id::Job);
        }
        if text[0] != b'D' || DASHES.iter().any(|at| text[*at] != b'-') {
            return None;
        }
        Some(unpack(text).unwrap_or(Id::Stranger))
    }

    /// The job that is named, whatever else is said of it.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Id::Job(id) => Some(*id),
            Id::Delivery(token) => Some(token.job),
            Id::Stranger => None,
        }
    }

    /// The id of a job.
    pub fn of_job(id: JobId, life: Life) -> [u8; LENGTH] {
        let bare = Token {
            job: id,
            counter: 0,
            nonce: 0,
        };
        pack(bare, life)
    }

    /// The id of a job that is handed out with this lease. There is none for a lease past the 2^48th.
    pub fn of_delivery(token: Token, life: Life) -> Option<[u8; LENGTH]> {
        (token.counter < 1 << 48).then(|| pack(token, life))
    }
}

fn pack(token: Token, Life(minutes): Life) -> [u8; LENGTH] {
    let mut id = [b'-'; LENGTH];
    id[0] = b'D';
    hex(&mut id[2..10], token.counter >> 16);
    hex(&mut id[36..], minutes.into());
    let mut bits = [0; 18];
    bits[..8].copy_from_slice(&token.job.0.to_be_bytes());
    bits[8..16].copy_from_slice(&token.nonce.to_be_bytes());
    bits[16..].copy_from_slice(&(token.counter as u16).to_be_bytes());
    for (four, three) in id[11..35].chunks_exact_mut(4).zip(bits.chunks_exact(3)) {
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for (place, character) in four.iter_mut().enumerate() {
            *character = BASE64[(bits >> (18 - 6 * place) & 63) as usize];
        }
    }
    id
}

fn hex(digits: &mut [u8], mut value: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(value & 15) as usize];
        value >>= 4;
    }
}

fn unpack(text: &[u8]) -> Option<Id> {
    let high = unhex(&text[2..10])?;
    unhex(&text[36..])?;
    let mut bits = [0; 18];
    for (three, four) in bits.chunks_exact_mut(3).zip(text[11..35].chunks_exact(4)) {
        let mut sum = 0;
        for character in four {
            sum = sum << 6 | u32::from(sextet(*character)?);
        }
        three.copy_from_slice(&sum.to_be_bytes()[1..]);
    }
    let (job, rest) = bits.split_first_chunk()?;
    let (nonce, low) = rest.split_first_chunk()?;
    let token = Token {
        job: JobId(u64::from_be_bytes(*job)),
        counter: high << 16 | u64::from(low[0]) << 8 | u64::from(low[1]),
        nonce: u64::from_be_bytes(*nonce),
    };
    Some(match (token.counter, token.nonce) {
        (0, 0) => Id::Job(token.job),
        _ => Id::Delivery(token),
    })
}

fn unhex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

fn sextet(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn life() -> Life {
        Life::new(Some(Duration::from_secs(86_400)), Duration::from_secs(300))
    }

    fn text(id: [u8; LENGTH]) -> String {
        String::from_utf8(id.to_vec()).unwrap()
    }

    #[test]
    fn an_id_has_the_shape_of_disque() {
        let token = Token {
            job: JobId(1),
            counter: 0xabcd_1234_0001,
            nonce: u64::MAX,
        };
        assert_eq!(
            text(Id::of_job(JobId(1), life())),
            "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05a1"
        );
        assert_eq!(
            text(Id::of_delivery(token, life()).unwrap()),
            "D-abcd1234-AAAAAAAAAAH//////////wAB-05a1"
        );
    }

    #[test]
    fn the_last_part_tells_how_long_and_how_often() {
        let minutes = |ttl, ttr| text(Id::of_job(JobId(1), Life::new(ttl, ttr)))[36..].to_owned();
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        assert_eq!(minutes(Some(hour), second), "003d");
        assert_eq!(minutes(Some(hour), Duration::ZERO), "003c");
        assert_eq!(minutes(Some(second), second), "0001");
        assert_eq!(minutes(Some(second), Duration::ZERO), "0000");
        assert_eq!(minutes(Some(hour * 10_000), second), "ffff");
        assert_eq!(minutes(None, second), "ffff");
        assert_eq!(minutes(None, Duration::ZERO), "fffe");
    }

    #[test]
    fn a_lease_that_does_not_fit_has_no_id() {
        let token = |counter| Token {
            job: JobId(1),
            counter,
            nonce: 1,
        };
        assert!(Id::of_delivery(token((1 << 48) - 1), life()).is_some());
        assert!(Id::of_delivery(token(1 << 48), life()).is_none());
    }

    #[test]
    fn what_disque_calls_a_bad_id_is_one() {
        for bad in [
            "",
            "D",
            "-7",
            "+7",
            "7x",
            "18446744073709551616",
            "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05a",
            "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05a10",
            "E-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05a1",
            "D+00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05a1",
            "D-00000000+AAAAAAAAAAEAAAAAAAAAAAAA-05a1",
            "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA+05a1",
            "0000000000000000000000000000000000000007",
        ] {
            assert_eq!(Id::read(bad.as_bytes()), None, "{bad:?}");
        }
        for strange in [
            "D-0000000g-AAAAAAAAAAEAAAAAAAAAAAAA-05a1",
            "D-00000000-AAAAAAAAAAEAAAAAAAAAAAA=-05a1",
            "D-00000000-AAAAAAAAAAEAAAAAAAAAAAAA-05A1",
        ] {
            let id = Id::read(strange.as_bytes());
            assert_eq!(id, Some(Id::Stranger), "{strange:?}");
        }
    }

    proptest! {
        #[test]
        fn an_id_survives_being_written_and_read(job: u64, counter in 1u64..1 << 48, nonce: u64, ttl: u32) {
            let life = Life::new(Some(Duration::from_secs(ttl.into())), Duration::from_secs(1));
            let token = Token { job: JobId(job), counter, nonce };
            let delivery = Id::of_delivery(token, life).unwrap();
            prop_assert_eq!(Id::read(&delivery), Some(Id::Delivery(token)));
            prop_assert_eq!(Id::read(&Id::of_job(JobId(job), life)), Some(Id::Job(JobId(job))));
        }

        #[test]
        fn nothing_that_is_read_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..50)) {
            let _ = Id::read(&text);
        }
    }
}
