//! The jobs that a stream holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_core::engine::{Outcome, Settle};
use auxo_core::{JobId, Service, Timestamp, Token};
use tokio::sync::mpsc;

use crate::grpc::cancels::Cancels;

/// How old a lease is when it is worth watching whether somebody wants it cancelled.
const YOUNG: Duration = Duration::from_secs(1);
/// How long after its end a lease is forgotten: the engine began to count it a little earlier than we did.
const OVER: Duration = Duration::from_secs(2);

struct Lease {
    since: Instant,
    /// When it ends by the engine's clock.
    deadline: Timestamp,
    /// When it ends by ours.
    end: Instant,
    is_watched: bool,
}

/// The leases of one stream.
///
/// When they end is counted here, from when they came and by how much they were prolonged: the engine's clock may be that of another
/// machine.
pub struct Held {
    leases: HashMap<Token, Lease>,
    cancels: Arc<Cancels>,
    tell: mpsc::UnboundedSender<JobId>,
}

impl Held {
    /// None yet. Of those that somebody wants cancelled it tells by `tell`.
    pub fn new(cancels: Arc<Cancels>, tell: mpsc::UnboundedSender<JobId>) -> Held {
        Held {
            leases: HashMap::new(),
            cancels,
            tell,
        }
    }

    pub fn len(&self) -> usize {
        self.leases.len()
    }

    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub fn contains(&self, token: Token) -> bool {
        self.leases.contains_key(&token)
    }

    /// Takes in a lease that was given just now, for so long.
    pub fn insert(&mut self, token: Token, deadline: Timestamp, time: Duration) {
        let since = Instant::now();
        let lease = Lease {
            since,
            deadline,
            end: since + time,
            is_watched: false,
        };
        self.leases.insert(token, lease);
    }

    /// Notes that a lease has another deadline.
    pub fn extended(&mut self, token: Token, deadline: Timestamp) {
        if let Some(lease) = self.leases.get_mut(&token) {
            // It may also be sooner than it was.
            lease.end += deadline.since(lease.deadline);
            let earlier = lease.deadline.since(deadline);
            lease.end = lease.end.checked_sub(earlier).unwrap_or(lease.since);
            lease.deadline = deadline;
        }
    }

    pub fn remove(&mut self, token: Token) {
        let lease = self.leases.remove(&token);
        if lease.is_some_and(|lease| lease.is_watched) {
            self.cancels.forget(token);
        }
    }

    /// Watches what has become old, and forgets what has ended by itself.
    pub fn look(&mut self, service: &Arc<Service>) {
        self.forget_ended(Instant::now());
        for (token, lease) in &mut self.leases {
            if !lease.is_watched && lease.since.elapsed() >= YOUNG {
                lease.is_watched = true;
                self.cancels.watch(service, *token, self.tell.clone());
            }
        }
    }

    fn forget_ended(&mut self, now: Instant) {
        let ended = |lease: &Lease| lease.end + OVER < now;
        let leases = self.leases.iter();
        let ended: Vec<Token> = leases
            .filter(|(_, lease)| ended(lease))
            .map(|(token, _)| *token)
            .collect();
        ended.into_iter().for_each(|token| self.remove(token));
    }

    /// All of them, to be given back.
    pub fn take(&mut self) -> Vec<Settle> {
        let tokens: Vec<Token> = self.leases.keys().copied().collect();
        for token in &tokens {
            self.remove(*token);
        }
        let release = |token| Settle {
            token,
            outcome: Outcome::Release {
                priority: None,
                delay: None,
            },
        };
        tokens.into_iter().map(release).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_is_held_for_its_time_whatever_the_clock_of_the_engine_shows() {
        let (tell, _told) = mpsc::unbounded_channel();
        let mut held = Held::new(Arc::default(), tell);
        let tokens = [1, 2].map(|job| Token {
            job: JobId(job),
            counter: 1,
            nonce: 0,
        });
        // The clock of the engine is at the beginning of all times.
        let began = Instant::now();
        for token in tokens {
            held.insert(token, Timestamp(60_000), MINUTE);
        }
        held.extended(tokens[1], Timestamp(90_000));
        held.forget_ended(began + MINUTE);
        assert_eq!(held.len(), 2);
        held.forget_ended(began + MINUTE + 2 * OVER);
        assert!(!held.contains(tokens[0]) && held.contains(tokens[1]));
        held.extended(tokens[1], Timestamp(30_000));
        held.forget_ended(began + MINUTE / 2 + 2 * OVER);
        assert!(held.is_empty());
    }
}
