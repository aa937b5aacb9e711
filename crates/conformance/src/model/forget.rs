//! Queues that have nothing and that nobody uses are forgotten; their books are not.

use std::collections::BTreeSet;

use auxo_core::queue::{Books, FORGET_AFTER};
use auxo_core::time::Now;
use auxo_core::{Code, Error, QueueName, Result};

use super::{Line, Mint, Model};

impl Model {
    /// There are so many queues at most.
    pub fn limit_queues(&mut self, most: usize) {
        self.max_queues = Some(most);
    }

    /// Lets no queue be forgotten for its age, or does so again.
    pub fn keep_queues(&mut self, keep: bool) {
        self.keeps_queues = keep;
    }

    /// Lease calls wait for these queues from now on, and for no others.
    pub fn set_awaited(&mut self, queues: BTreeSet<QueueName>, now: Now) {
        for queue in self.awaited.union(&queues) {
            if let Some(line) = self.lines.get_mut(queue) {
                line.used = now.steady;
            }
        }
        self.awaited = queues;
    }

    /// A store that was opened just now does not know when its queues were last used.
    pub fn use_all(&mut self, now: Now) {
        for line in self.lines.values_mut() {
            line.used = now.steady;
        }
    }

    /// The books of all forgotten queues together.
    pub fn forgotten(&mut self, now: Now, mint: &mut dyn Mint) -> Books {
        self.advance(now, mint);
        self.forgotten
    }

    /// A queue is in use while it has something. A pause that ends by itself keeps it, but is no use.
    pub(super) fn note_uses(&mut self, now: Now) {
        self.moment = now.steady;
        let used: Vec<QueueName> = self
            .lines
            .iter()
            .filter(|(name, line)| {
                let mut config = line.config.clone();
                config.paused_until = None;
                !config.is_unset(now.wall) || self.has_something(name)
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in used {
            self.line(&name).used = now.steady;
        }
    }

    /// Whether a queue has a job, a held key, a schedule, a subscription, a waiting lease call or a note of a move.
    fn has_something(&self, name: &QueueName) -> bool {
        self.jobs.values().any(|job| job.queue == *name)
            || self.schedules.values().any(|it| it.queue == *name)
            || self.subscriptions.values().any(|it| it.queue == *name)
            || self.notes.keys().any(|(queue, _)| queue == name)
            || self.leaving.contains_key(name)
            || self.awaited.contains(name)
    }

    fn may_be_forgotten(&self, name: &QueueName, line: &Line, now: Now) -> bool {
        line.config.is_unset(now.wall) && !self.has_something(name)
    }

    pub(super) fn forget_unused(&mut self, now: Now) {
        if self.keeps_queues {
            return;
        }
        let unused: Vec<QueueName> = self
            .lines
            .iter()
            .filter(|(name, line)| {
                line.used.plus(FORGET_AFTER) <= now.steady && self.may_be_forgotten(name, line, now)
            })
            .map(|(name, _)| name.clone())
            .collect();
        for name in unused {
            self.forget(&name);
        }
    }

    /// Makes a queue if there is none of this name, at the limit in the place of the one that went unused the longest.
    pub(super) fn make_line(&mut self, queue: &QueueName, now: Now) -> Result<()> {
        let full = |most: usize| self.lines.len() >= most;
        if !self.lines.contains_key(queue) && self.max_queues.is_some_and(full) {
            let idle = self
                .lines
                .iter()
                .filter(|(name, line)| self.may_be_forgotten(name, line, now));
            let longest = idle.min_by_key(|(_, line)| line.used);
            let Some(name) = longest.map(|(name, _)| name.clone()) else {
                return Err(Error::new(Code::TooLarge, "there are too many queues"));
            };
            self.forget(&name);
        }
        self.line(queue);
        Ok(())
    }

    fn forget(&mut self, name: &QueueName) {
        self.forgotten += self.books(name);
        self.lines.remove(name);
    }
}
