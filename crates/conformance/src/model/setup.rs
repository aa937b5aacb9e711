//! What is set up besides jobs: queue settings, subscriptions, schedules; and the books.

use auxo_core::engine::{Audit, Catalog, Change, Message, Pushed};
use auxo_core::schedule::Schedule;
use auxo_core::time::Now;
use auxo_core::topic::Subscription;
use auxo_core::{Code, Error, NewJob, Result};

use super::{Mint, Model};

impl Model {
    /// Changes a queue's settings, a subscription or a schedule.
    pub fn change(&mut self, change: Change, now: Now, mint: &mut dyn Mint) -> Result<()> {
        self.advance(now, mint);
        let missing = || Error::new(Code::NotFound, "there is no such thing to remove");
        match change {
            Change::Queue(name, config) => {
                self.make_line(&name, now)?;
                let line = self.line(&name);
                line.used = now.steady;
                if line.config.rate != config.rate {
                    line.bucket = None;
                }
                line.config = config.kept_from(now.wall);
            }
            Change::Subscribe(subscription) => {
                let name = (subscription.topic.clone(), subscription.name.clone());
                self.subscriptions.insert(name, subscription);
            }
            Change::Unsubscribe(topic, name) => {
                let gone = self.subscriptions.remove(&(topic, name));
                return gone.map(drop).ok_or_else(missing);
            }
            Change::Schedule(schedule) => {
                let next = schedule.rearm(now);
                let before = self.schedules.get(&schedule.name);
                let last = before.and_then(|before| before.last);
                let kept = Schedule {
                    next,
                    last,
                    ..schedule
                };
                self.schedules.insert(kept.name.clone(), kept);
            }
            Change::Arm(schedule) => {
                self.schedules.insert(schedule.name.clone(), schedule);
            }
            Change::Unschedule(name) => {
                let gone = self.schedules.remove(&name);
                return gone.map(drop).ok_or_else(missing);
            }
            Change::Disarm(name, last) => match self.schedules.get(&name) {
                None => return Err(missing()),
                Some(schedule) if schedule.last != last => {
                    return Err(Error::new(Code::Conflict, "it has ticked"));
                }
                Some(_) => drop(self.schedules.remove(&name)),
            },
        }
        Ok(())
    }

    /// Everything that is set up besides queues.
    pub fn catalog(&mut self, now: Now, mint: &mut dyn Mint) -> Catalog {
        self.advance(now, mint);
        Catalog {
            subscriptions: self.subscriptions.values().cloned().collect(),
            schedules: self.schedules.values().cloned().collect(),
        }
    }

    /// Puts one job into the queue of each matching subscription, or changes nothing.
    pub fn publish(
        &mut self,
        message: &Message,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Result<Vec<Pushed>> {
        self.advance(now, mint);
        let wants = |subscription: &&Subscription| {
            subscription.topic == message.topic
                && subscription.wants(message.routing_key.as_deref())
        };
        let targets = self.subscriptions.values().filter(wants);
        let targets: Vec<_> = targets
            .map(|subscription| subscription.queue.clone())
            .collect();
        let before = self.clone();
        let copy = |queue| {
            let spec = message.spec.clone();
            self.push_one(NewJob { queue, spec }, now, mint)
        };
        let pushed: Result<Vec<Pushed>> = targets.into_iter().map(copy).collect();
        if pushed.is_err() {
            *self = before;
        }
        pushed
    }

    /// The books of all queues, and whether they balance.
    pub fn audit(&mut self, now: Now, mint: &mut dyn Mint) -> Audit {
        self.advance(now, mint);
        let queues: Vec<_> = self
            .lines
            .keys()
            .map(|name| (name.clone(), self.books(name)))
            .collect();
        let off = queues.iter().filter(|(_, books)| !books.balanced());
        let problems = off.map(|(name, books)| format!("queue {name}: {books:?}"));
        Audit {
            problems: problems.collect(),
            jobs: self.jobs.len() as u64,
            forgotten: self.forgotten,
            queues,
        }
    }
}
