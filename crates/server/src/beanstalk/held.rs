//! The jobs that a connection has reserved.

use std::collections::HashMap;
use std::time::Duration;

use auxo_core::job::Leased;
use auxo_core::{QueueName, Timestamp, Token};
use tokio::time::Instant;

/// How long before the end of its time a worker is warned.
const MARGIN: Duration = Duration::from_secs(1);

/// How long it is remembered that a job was delivered that is delivered at most once: its worker will still delete it.
const MEMORY: Duration = Duration::from_secs(60);

/// A reserved job.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The right to it. A job that is delivered at most once has none: it was gone when it was handed out.
    pub token: Option<Token>,
    /// Where it is from.
    pub queue: QueueName,
    /// When the time is over.
    deadline: Instant,
}

/// All of them, by id.
#[derive(Default)]
pub struct Held(HashMap<u64, Hold>);

impl Held {
    /// Takes in a job that was leased just now.
    pub fn insert(&mut self, leased: &Leased, now: Timestamp) {
        let job = &leased.job;
        let (token, time) = match job.ttr.is_zero() {
            true => (None, MEMORY),
            false => (Some(leased.token), leased.deadline.since(now)),
        };
        let hold = Hold {
            token,
            queue: job.queue.clone(),
            deadline: Instant::now() + time,
        };
        self.0.insert(job.id.0, hold);
    }

    /// A job, if it is held.
    pub fn get(&self, id: u64) -> Option<&Hold> {
        self.0.get(&id)
    }

    /// Lets go of a job.
    pub fn remove(&mut self, id: u64) -> Option<Hold> {
        self.0.remove(&id)
    }

    /// Notes that a job has its time again.
    pub fn prolong(&mut self, id: u64, time: Duration) {
        if let Some(hold) = self.0.get_mut(&id) {
            hold.deadline = Instant::now() + time;
        }
    }

    /// Forgets the jobs whose time is over, for the engine has given them back; answers how many of these there were.
    pub fn forget_overdue(&mut self) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        let (mut overdue, now) = (0, Instant::now());
        self.0.retain(|_, hold| {
            let is_over = hold.deadline <= now;
            overdue += u64::from(is_over && hold.token.is_some());
            !is_over
        });
        overdue
    }

    /// How long until the worker must be warned of the job whose time is over first.
    pub fn until_warning(&self) -> Option<Duration> {
        let deadlines = self.0.values().filter(|hold| hold.token.is_some());
        let first = deadlines.map(|hold| hold.deadline).min()?;
        Some((first - MARGIN).saturating_duration_since(Instant::now()))
    }

    /// Lets go of all.
    pub fn take_tokens(&mut self) -> Vec<Token> {
        self.0.drain().filter_map(|(_, hold)| hold.token).collect()
    }
}
