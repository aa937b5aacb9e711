//! The leases that a connection was given last, for a client that names a job by an id without one.

use auxo_core::{JobId, Token};

/// How many are remembered. Whoever holds more says which by the ids that it was given.
const KEPT: usize = 1000;

/// Leases, the oldest overwritten by the newest. One that has ended is still here: whoever uses it is told that it is lost.
#[derive(Default)]
pub struct Held {
    tokens: Vec<Token>,
    next: usize,
}

impl Held {
    /// Remembers a lease.
    pub fn insert(&mut self, token: Token) {
        match self.tokens.len() < KEPT {
            true => self.tokens.push(token),
            false => self.tokens[self.next] = token,
        }
        self.next = (self.next + 1) % KEPT;
    }

    /// The lease of a job, if this connection was given it.
    pub fn find(&self, job: JobId) -> Option<Token> {
        let (newer, older) = self.tokens.split_at(self.next.min(self.tokens.len()));
        let mut newest_first = newer.iter().rev().chain(older.iter().rev());
        newest_first.find(|token| token.job == job).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(job: u64, counter: u64) -> Token {
        Token {
            job: JobId(job),
            counter,
            nonce: 0,
        }
    }

    #[test]
    fn the_newest_lease_of_a_job_is_found_and_the_oldest_are_forgotten() {
        let mut held = Held::default();
        assert_eq!(held.find(JobId(1)), None);
        held.insert(token(1, 1));
        held.insert(token(2, 2));
        held.insert(token(1, 3));
        assert_eq!(held.find(JobId(1)), Some(token(1, 3)));
        assert_eq!(held.find(JobId(2)), Some(token(2, 2)));
        for counter in 4..=KEPT as u64 + 2 {
            held.insert(token(7, counter));
        }
        assert_eq!(held.find(JobId(2)), None);
        assert_eq!(held.find(JobId(1)), Some(token(1, 3)));
        assert_eq!(held.find(JobId(7)), Some(token(7, KEPT as u64 + 2)));
        held.insert(token(7, 0));
        assert_eq!(held.find(JobId(1)), None);
        assert_eq!(held.find(JobId(7)), Some(token(7, 0)));
        assert_eq!(held.tokens.len(), KEPT);
    }
}
