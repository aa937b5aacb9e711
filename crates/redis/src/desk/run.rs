//! The task of a desk: it waits until there is something to look for, and looks.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use auxo_core::{Code, Error, QueueName};
use tokio::time::Instant;

use super::round::{FEW, MANY, Round};
use super::{Desk, Waiter};
use crate::rest;
use crate::store::Store;

/// How soon to look again after a look that failed. How often Redis is tried is the link's business.
pub(super) const AFTER_A_FAILURE: Duration = Duration::from_millis(300);

/// How a desk goes on when nobody rings.
struct Course {
    /// For how many who wait for the same queues is asked next.
    most: usize,
    /// When the next thing is known to happen.
    alarm: Option<Instant>,
    /// When to look for everybody, to be sure. Whoever rings does not put it off.
    sure: Instant,
}

impl Course {
    fn rings(&self, now: Instant) -> bool {
        self.sure <= now || self.alarm.is_some_and(|alarm| alarm <= now)
    }

    /// Rings then, or before.
    fn set(&mut self, alarm: Option<Instant>) {
        self.alarm = [self.alarm, alarm].into_iter().flatten().min();
    }
}

impl Desk {
    /// Runs until the engine is closed or gone.
    pub async fn run(self: Arc<Self>, store: Weak<Store>) {
        let mut course = match store.upgrade() {
            Some(store) => Course {
                most: FEW,
                alarm: None,
                sure: Instant::now() + rest::first_look(self.shard, store.shards),
            },
            None => return,
        };
        loop {
            let Some(strong) = store.upgrade() else {
                return;
            };
            if self.lock().closed {
                return;
            }
            if !self.lock().is_stirred() {
                course.most = FEW;
                let wait = self.wait(&strong, &course);
                drop(strong);
                let bell = self.bell.notified();
                match wait {
                    // Whichever it was: what is to be done is known without.
                    Some(wait) => _ = tokio::time::timeout(wait, bell).await,
                    None => bell.await,
                }
            }
            let Some(store) = store.upgrade() else { return };
            let now = Instant::now();
            if course.rings(now) {
                self.lock().all = true;
                course.alarm = course.alarm.filter(|alarm| *alarm > now);
            }
            if let Some(round) = self.round(&store, course.most) {
                self.turn(&store, &round, &mut course).await;
            }
            self.time_out(&store);
        }
    }

    /// How long until something must be done though nobody rings.
    fn wait(&self, store: &Store, course: &Course) -> Option<Duration> {
        // A clock that is turned by hand rings by itself.
        let now = store.clock.now().steady;
        store.clock.real_wait(Duration::ZERO)?;
        let inside = self.lock();
        let patience = inside
            .waiters
            .values()
            .map(|waiter| waiter.until.since(now))
            .min();
        let patience = patience.and_then(|wait| store.clock.real_wait(wait));
        let first = course.alarm.map_or(course.sure, |at| at.min(course.sure));
        let first = first.saturating_duration_since(Instant::now());
        [patience, Some(first)].into_iter().flatten().min()
    }

    /// Looks for those of a round, gives them what there is, and sees when to look again.
    async fn turn(&self, store: &Arc<Store>, round: &Round, course: &mut Course) {
        if !round.idle.is_empty() {
            self.pass_on(store, &round.idle).await;
        }
        if round.asks.is_empty() && !round.all {
            return;
        }
        let mut look = match self.ask(store, round).await {
            Ok(look) => look,
            Err(error) => {
                self.refuse(round, &error);
                self.fail(error);
                // Then for everybody.
                course.sure = Instant::now() + AFTER_A_FAILURE;
                return;
            }
        };
        self.lock().trouble = None;
        look.drop_late(store);
        if round.all {
            course.sure = Instant::now() + rest::look(store.shards);
        }
        course.set(look.alarm().filter(|_| !store.told));
        self.tell_next(store, round, &look.said);
        let served = look.lent.iter().filter(|lent| !lent.is_empty()).count();
        let empty = self.note(round, &look);
        self.hand_out(store, round, look).await;
        // Where all were served there may be more for the others who wait for the same.
        course.most = match served > 0 && served == round.tickets.len() {
            true => MANY,
            false => FEW,
        };
        if served > 0 {
            self.ask_more(round, &empty);
        }
    }

    /// Who waits for the same as those who were served is asked for, too, if there may be more.
    fn ask_more(&self, round: &Round, empty: &BTreeSet<QueueName>) {
        let mut inside = self.lock();
        for queue in round.asks.iter().flat_map(|(ask, _)| &ask.queues) {
            if inside.is_waited_for(queue) && !empty.contains(queue) {
                inside.told.entry(queue.clone()).or_default();
            }
        }
    }

    /// A look failed: whether Redis knows who waits is not known any more, and all are looked for soon.
    fn fail(&self, error: Error) {
        let mut inside = self.lock();
        inside.in_vain.clear();
        inside.rest.clear();
        // The look that follows the pause is for everybody in any case.
        inside.all = false;
        if error.code() == Code::Internal {
            for (_, waiter) in std::mem::take(&mut inside.waiters) {
                let _ = waiter.answer.send(Err(error.clone()));
            }
        }
        inside.trouble = Some(error);
    }

    /// Answers those who waited in vain: with nothing, or why nobody knows whether there was something.
    fn time_out(&self, store: &Store) {
        let mut inside = self.lock();
        let trouble = inside.trouble.clone();
        let now = store.clock.now().steady;
        let over = |(ticket, waiter): (&u64, &Waiter)| {
            let asked = !inside.new.contains(ticket) && !inside.rest.contains(ticket);
            (waiter.until <= now && asked).then_some(*ticket)
        };
        let over: Vec<u64> = inside.waiters.iter().filter_map(over).collect();
        for ticket in over {
            if let Some(waiter) = inside.waiters.remove(&ticket) {
                let nothing = trouble.clone().map_or_else(|| Ok(Vec::new()), Err);
                let _ = waiter.answer.send(nothing);
            }
        }
    }
}
