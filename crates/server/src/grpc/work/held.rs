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
/// How long after its deadline a lease is forgotten: the clocks of engine and service may differ by a little.
const OVER: Duration = Duration::from_secs(2);

struct Lease {
    since: Instant,
    deadline: Timestamp,
    is_watched: bool,
}

/// The leases of one stream.
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

    pub fn insert(&mut self, token: Token, deadline: Timestamp) {
        let lease = Lease {
            since: Instant::now(),
            deadline,
            is_watched: false,
        };
        self.leases.insert(token, lease);
    }

    pub fn extended(&mut self, token: Token, deadline: Timestamp) {
        if let Some(lease) = self.leases.get_mut(&token) {
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
        let now = service.now();
        let over = |lease: &Lease| lease.deadline.plus(OVER) < now;
        let ended: Vec<Token> = self
            .leases
            .iter()
            .filter(|(_, lease)| over(lease))
            .map(|(token, _)| *token)
            .collect();
        ended.into_iter().for_each(|token| self.remove(token));
        for (token, lease) in &mut self.leases {
            if !lease.is_watched && lease.since.elapsed() >= YOUNG {
                lease.is_watched = true;
                self.cancels.watch(service, *token, self.tell.clone());
            }
        }
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
