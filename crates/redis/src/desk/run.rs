//! The task of a desk: it waits until there is something to look for, and looks.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use auxo_core::{Code, Error, QueueName, Result};

use super::look::Look;
use super::round::{FEW, MANY, Round};
use super::{Desk, Waiter};
use crate::rest;
use crate::store::Store;

/// How soon to look again after a look that failed. How often Redis is tried is the link's business.
pub(super) const AFTER_A_FAILURE: Duration = Duration::from_millis(300);

impl Desk {
    /// Runs until the engine is closed or gone.
    pub async fn run(self: Arc<Self>, store: Weak<Store>) {
        let mut alarm: Option<tokio::time::Instant> = None;
        let mut first = true;
        loop {
            let Some(strong) = store.upgrade() else {
                return;
            };
            if std::mem::take(&mut first) {
                let wait = rest::first_look(self.shard, strong.shards);
                alarm = Some(tokio::time::Instant::now() + wait);
            }
            if self.lock().closed {
                return;
            }
            let wait = self.wait(&strong, alarm);
            drop(strong);
            let rung = match wait {
                Some(wait) => tokio::time::timeout(wait, self.bell.notified())
                    .await
                    .is_ok(),
                None => {
                    self.bell.notified().await;
                    true
                }
            };
            let Some(store) = store.upgrade() else { return };
            let now = tokio::time::Instant::now();
            // Who rings may want no look at all.
            if !rung || alarm.is_some_and(|alarm| alarm <= now) {
                self.lock().all = true;
            }
            alarm = alarm.filter(|alarm| *alarm > now);
            let next = match self.serve(&store).await {
                Ok(Some(look)) => {
                    self.lock().trouble = None;
                    look.alarm().filter(|_| !store.told)
                }
                Ok(None) => None,
                Err(error) => {
                    self.fail(&error);
                    let mut inside = self.lock();
                    // Whether Redis knows that they wait is not known any more.
                    inside.in_vain.clear();
                    inside.trouble = Some(error);
                    Some(tokio::time::Instant::now() + AFTER_A_FAILURE)
                }
            };
            alarm = [alarm, next].into_iter().flatten().min();
            self.time_out(&store);
        }
    }

    /// How long until something must be done though nobody rings.
    fn wait(&self, store: &Store, alarm: Option<tokio::time::Instant>) -> Option<Duration> {
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
        let alarm = alarm.map(|at| at.saturating_duration_since(tokio::time::Instant::now()));
        let sure = rest::look(store.shards);
        [patience, alarm, Some(sure)].into_iter().flatten().min()
    }

    /// Looks until there is nothing more for those who wait. Answers with the last look.
    async fn serve(&self, store: &Arc<Store>) -> Result<Option<Look>> {
        let mut most = FEW;
        let mut last: Option<Look> = None;
        loop {
            let Some(round) = self.round(store, most) else {
                return Ok(last);
            };
            if !round.idle.is_empty() {
                self.pass_on(store, &round.idle).await;
            }
            if round.asks.is_empty() && !round.all {
                continue;
            }
            let full = round.tickets.len();
            let mut look = match self.ask(store, &round).await {
                Ok(look) => look,
                Err(error) => {
                    self.refuse(&round, &error);
                    return Err(error);
                }
            };
            self.tell_next(store, &round, &look.said);
            let lent = std::mem::take(&mut look.lent);
            let served = lent.iter().filter(|lent| !lent.is_empty()).count();
            let empty = self.note(&round, &lent);
            self.hand_out(store, &round, lent).await;
            // Where all were served there may be more for the others who wait for the same.
            most = match full > 0 && served == full {
                true => MANY,
                false => FEW,
            };
            if served == 0 {
                // Whoever has come or was told of meanwhile has rung.
                return Ok(Some(look));
            }
            self.ask_more(&round, &empty);
            last = Some(look);
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

    fn fail(&self, error: &Error) {
        if error.code() == Code::Internal {
            let mut inside = self.lock();
            for (_, waiter) in std::mem::take(&mut inside.waiters) {
                let _ = waiter.answer.send(Err(error.clone()));
            }
        }
    }

    /// Answers those who waited in vain: with nothing, or why nobody knows whether there was something.
    fn time_out(&self, store: &Store) {
        let mut inside = self.lock();
        let trouble = inside.trouble.clone();
        let now = store.clock.now().steady;
        let new = inside.new.clone();
        let over = |(ticket, waiter): (&u64, &Waiter)| {
            (waiter.until <= now && !new.contains(ticket)).then_some(*ticket)
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
