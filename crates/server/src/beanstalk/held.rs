//! The jobs that a connection has reserved.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use auxo_core::job::Leased;
use auxo_core::{QueueName, Token};
use tokio::time::Instant;

/// How long before the end of its time a worker is warned.
const MARGIN: Duration = Duration::from_secs(1);

/// How long it is remembered that a job was delivered that is delivered at most once: its worker will still delete it.
const MEMORY: Duration = Duration::from_secs(60);

/// How many jobs are remembered that were reserved and whose time is over: their worker may still be at them.
const LAPSED: usize = 1000;

/// A reserved job.
#[derive(Clone, Debug)]
pub struct Hold {
    /// The right to it. A job that is delivered at most once has none: it was gone when it was handed out.
    pub token: Option<Token>,
    /// Where it is from.
    pub queue: QueueName,
    /// How long it may be held.
    time: Duration,
    /// When that is over.
    deadline: Instant,
}

/// All of them, by id.
///
/// Their time is counted here, from when a job came and not by the deadline that came with it: the engine's clock may be that of
/// another machine.
#[derive(Default)]
pub struct Held {
    holds: HashMap<u64, Hold>,
    /// Whose time is over first.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Those that were not deleted, released or buried before their time was over.
    lapsed: VecDeque<u64>,
}

impl Held {
    /// Takes in a job that was leased just now.
    pub fn insert(&mut self, leased: &Leased) {
        let (job, id) = (&leased.job, leased.job.id.0);
        let (token, time) = match job.ttr.is_zero() {
            true => (None, MEMORY),
            false => (Some(leased.token), job.ttr),
        };
        self.remove(id);
        self.forget_lapsed(id);
        let deadline = Instant::now() + time;
        let queue = job.queue.clone();
        self.deadlines.insert((deadline, id));
        let hold = Hold {
            token,
            queue,
            time,
            deadline,
        };
        self.holds.insert(id, hold);
    }

    /// A job, if it is held.
    pub fn get(&self, id: u64) -> Option<&Hold> {
        self.holds.get(&id)
    }

    /// Lets go of a job.
    pub fn remove(&mut self, id: u64) -> Option<Hold> {
        let hold = self.holds.remove(&id)?;
        self.deadlines.remove(&(hold.deadline, id));
        Some(hold)
    }

    /// Lets go of a job whose time is over.
    pub fn lapse(&mut self, id: u64) {
        if self.remove(id).is_some_and(|hold| hold.token.is_some()) {
            if self.lapsed.len() == LAPSED {
                self.lapsed.pop_front();
            }
            self.lapsed.push_back(id);
        }
    }

    /// Whether a job was held until its time was over, and nothing was said of it since.
    pub fn has_lapsed(&self, id: u64) -> bool {
        self.lapsed.contains(&id)
    }

    /// Forgets that a job was held.
    pub fn forget_lapsed(&mut self, id: u64) {
        self.lapsed.retain(|lapsed| *lapsed != id);
    }

    /// Notes that a job has its time again.
    pub fn prolong(&mut self, id: u64) {
        if let Some(hold) = self.holds.get_mut(&id) {
            self.deadlines.remove(&(hold.deadline, id));
            hold.deadline = Instant::now() + hold.time;
            self.deadlines.insert((hold.deadline, id));
        }
    }

    /// Lets go of the jobs whose time is over, for the engine has given them back; answers how many of these there were.
    pub fn forget_overdue(&mut self) -> u64 {
        let (mut overdue, now) = (0, Instant::now());
        while let Some((deadline, id)) = self.deadlines.first().copied()
            && deadline <= now
        {
            let has_token = |hold: &Hold| hold.token.is_some();
            overdue += u64::from(self.get(id).is_some_and(has_token));
            self.lapse(id);
        }
        overdue
    }

    /// How long until the worker must be warned of the job whose time is over first.
    pub fn until_warning(&self) -> Option<Duration> {
        let has_token = |id: &u64| self.holds.get(id).is_some_and(|hold| hold.token.is_some());
        let (first, _) = self.deadlines.iter().find(|(_, id)| has_token(id))?;
        Some((*first - MARGIN).saturating_duration_since(Instant::now()))
    }

    /// Lets go of all.
    pub fn take_tokens(&mut self) -> Vec<Token> {
        self.deadlines.clear();
        let holds = self.holds.drain();
        holds.filter_map(|(_, hold)| hold.token).collect()
    }
}
