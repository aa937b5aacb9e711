//! Queues that have nothing and that no call uses are forgotten, and their books kept together.
//!
//! [`Machine::unused`] holds a time for each queue that may have nothing: when it is to be looked at, an hour after it was used.
//! A use only notes the time in the queue; a look that finds a later use moves the queue back in the set. So a queue that is busy
//! costs one look an hour, one that has something is taken out of the set until the last of it is gone, and a store that is left
//! alone has no timer at all after an hour. When a queue was last used is not stored: the hour begins anew when a store is opened.

use std::ops::Bound;

use auxo_core::queue::{Books, FORGET_AFTER};
use auxo_core::schedule::Schedule;
use auxo_core::time::{Base, Due, Now};
use auxo_core::topic::Subscription;
use auxo_core::{Code, Error, QueueName, Result};

use super::{Machine, Step};
use crate::record::{Record, Way};

/// How many queues are looked at before others get their turn.
const BITE: usize = 4096;

/// What keeps a queue.
enum Standing {
    /// It has something, and will be looked at again when the last of it goes.
    Kept,
    /// Nothing but a pause that ends by itself, on the steady clock.
    Paused(u64),
    /// It has nothing. It is forgotten at this time unless it is used before.
    Idle(u64),
}

impl Machine {
    /// Something used a queue, or took something from it. What recovery does is no use: the hour begins with the first look at
    /// the clock.
    pub(super) fn touch(&mut self, number: u32) {
        if self.lead.is_none() {
            return;
        }
        let used = self.moment.steady;
        let queue = &mut self.queues[number as usize];
        queue.used = used;
        let due = used.plus(FORGET_AFTER).0;
        // A pause that was to end later may be over now.
        if queue.look_at.is_none_or(|at| at > due) {
            self.look_later(number, due);
        }
    }

    fn touch_named(&mut self, name: &QueueName) {
        if let Some(number) = self.by_name.get(name).copied() {
            self.touch(number);
        }
    }

    /// The first look at the clock: for all that is known, every queue was used just now.
    pub(super) fn touch_all(&mut self) {
        let numbers: Vec<u32> = self.queues.numbers().collect();
        numbers.into_iter().for_each(|number| self.touch(number));
    }

    fn look_later(&mut self, number: u32, at: u64) {
        self.unlist(number);
        self.queues[number as usize].look_at = Some(at);
        self.unused.insert((at, number));
    }

    fn unlist(&mut self, number: u32) {
        if let Some(old) = self.queues[number as usize].look_at.take() {
            self.unused.remove(&(old, number));
        }
    }

    /// The wall clock was stepped: a pause may be over sooner.
    pub(super) fn look_at_pause(&mut self, number: u32) {
        let queue = &self.queues[number as usize];
        if queue.config.paused_until.is_some() && queue.look_at.is_some() {
            self.look_later(number, self.moment.steady.0);
        }
    }

    fn standing(&self, number: u32) -> Standing {
        let queue = &self.queues[number as usize];
        let now = self.moment;
        let mut config = queue.config.clone();
        config.paused_until = None;
        if !config.is_unset(now.wall) || queue.has_something() || self.is_bound(number) {
            return Standing::Kept;
        }
        let due = queue.used.plus(FORGET_AFTER).0;
        match queue.config.pause_ends(now.wall) {
            None => Standing::Idle(due),
            Some(at) => {
                let base = Base::Wall;
                Standing::Paused(now.on_steady(Due { at, base }).0.max(due))
            }
        }
    }

    /// Whether a schedule, a subscription or a note of a move names the queue.
    fn is_bound(&self, number: u32) -> bool {
        let from = (number, Way::From(String::new()));
        let note = self.notes.range(from..).next();
        note.is_some_and(|((queue, _), _)| *queue == number)
            || self.bound.contains_key(&self.queues[number as usize].name)
    }

    /// Forgets the queues whose time has come. Answers whether there is more to do right away.
    pub(super) fn forget_unused(&mut self, now: Now) -> Step<bool> {
        for _ in 0..BITE {
            let Some((at, number)) = self.unused.first().copied() else {
                return Ok(false);
            };
            if at > now.steady.0 {
                return Ok(false);
            }
            match self.standing(number) {
                Standing::Kept => self.unlist(number),
                Standing::Paused(until) => self.look_later(number, until),
                Standing::Idle(due) if due > now.steady.0 => self.look_later(number, due),
                Standing::Idle(_) => {
                    self.make_room(now)?;
                    self.forget_queue(number);
                }
            }
        }
        Ok(true)
    }

    /// The same, all at once: whoever asks what there is sees no queue whose time has come.
    pub(super) fn forget_all_unused(&mut self, now: Now) -> Step<()> {
        while self.no_room(0).is_none() && self.forget_unused(now)? {}
        Ok(())
    }

    /// Makes room for so many new queues, by forgetting those that went unused the longest.
    pub(super) fn make_room_for_queues(&mut self, new: usize) -> Result<()> {
        let limit = self.settings.max_queues;
        while self.queues.len() + new > limit as usize {
            let Some(number) = self.longest_unused() else {
                return Err(Error::new(
                    Code::TooLarge,
                    format!(
                        "there are {limit} queues already, the most there may be, and all of them are in use; \
                         a queue is forgotten when it has no job, held key, setting, schedule, subscription or waiting call"
                    ),
                ));
            };
            self.forget_queue(number);
        }
        Ok(())
    }

    /// The queue that has nothing and went unused the longest.
    fn longest_unused(&mut self) -> Option<u32> {
        let mut after = Bound::Unbounded;
        loop {
            let (at, number) = self
                .unused
                .range((after, Bound::Unbounded))
                .next()
                .copied()?;
            after = Bound::Excluded((at, number));
            match self.standing(number) {
                Standing::Kept => self.unlist(number),
                Standing::Paused(_) => {}
                Standing::Idle(due) if due > at => self.look_later(number, due),
                Standing::Idle(_) => return Some(number),
            }
        }
    }

    fn forget_queue(&mut self, number: u32) {
        self.log.append(&Record::Forget(number));
        self.absorb_forget(number);
    }

    /// Takes in that a queue was forgotten. `None` if it has something.
    pub(super) fn absorb_forget(&mut self, number: u32) -> Option<()> {
        let queue = self.queues.get(number)?;
        if queue.has_something() {
            return None;
        }
        self.unlist(number);
        let queue = self.queues.remove(number)?;
        self.by_name.remove(&queue.name);
        if let Some(alarm) = queue.alarm {
            self.alarms.remove(&(alarm, number));
        }
        if queue.dirty {
            self.dirty.retain(|other| *other != number);
        }
        self.forgotten += queue.books;
        Some(())
    }

    /// The books of all forgotten queues.
    pub(super) fn show_forgotten(&mut self, now: Now) -> Step<Books> {
        self.forget_all_unused(now)?;
        Ok(self.forgotten)
    }

    pub(super) fn absorb_subscribe(&mut self, subscription: Subscription) {
        self.bind(&subscription.queue);
        let key = (subscription.topic.clone(), subscription.name.clone());
        if let Some(old) = self.subscriptions.insert(key, subscription) {
            self.unbind(&old.queue);
        }
    }

    /// Answers whether there was such a subscription.
    pub(super) fn absorb_unsubscribe(&mut self, topic: String, name: String) -> bool {
        let old = self.subscriptions.remove(&(topic, name));
        if let Some(old) = &old {
            self.unbind(&old.queue);
        }
        old.is_some()
    }

    pub(super) fn absorb_schedule(&mut self, schedule: Schedule) {
        self.bind(&schedule.queue);
        if let Some(old) = self.schedules.insert(schedule.name.clone(), schedule) {
            self.unbind(&old.queue);
        }
    }

    /// Answers whether there was such a schedule.
    pub(super) fn absorb_unschedule(&mut self, name: &str) -> bool {
        let old = self.schedules.remove(name);
        if let Some(old) = &old {
            self.unbind(&old.queue);
        }
        old.is_some()
    }

    fn bind(&mut self, queue: &QueueName) {
        *self.bound.entry(queue.clone()).or_default() += 1;
    }

    fn unbind(&mut self, queue: &QueueName) {
        if let Some(count) = self.bound.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                self.bound.remove(queue);
            }
        }
        self.touch_named(queue);
    }
}
