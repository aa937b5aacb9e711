//! For whom a desk asks at once, and what each of them gets.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use auxo_core::engine::Ask;
use auxo_core::{Error, QueueName};
use tokio::sync::oneshot;

use super::look::Look;
use super::{Desk, NAMES, Waiter};
use crate::confirm;
use crate::parts::BUDGET;
use crate::spread::Said;
use crate::store::Store;

/// How many of those who wait for the same queues are asked for at first.
pub(super) const FEW: usize = 4;
/// How many asks one script gets.
pub(super) const MANY: usize = 256;
/// How many jobs the asks of one script may want together, unless a single ask wants more: as many plain jobs as the script can lend with
/// its budget. If the script left some for a second one, the calls that it has served would wait for that one, too.
const JOBS: usize = BUDGET / 6;
/// The same when the desk looks for all calls that wait, and mostly finds nothing to lend.
const JOBS_OF_ALL: usize = 1000;

/// For whom is asked at once.
#[derive(Default)]
pub(super) struct Round {
    pub(super) tickets: Vec<u64>,
    /// Each with whether it waits if there is nothing.
    pub(super) asks: Vec<(Ask, bool)>,
    /// All want only what is at hand.
    pub(super) at_hand: bool,
    /// Anything may have happened, whether anybody asks or not.
    pub(super) all: bool,
    /// Told of, and how many other shards are to be told.
    told: BTreeMap<QueueName, u16>,
    /// Told of, but nobody waits for them.
    pub(super) idle: Vec<QueueName>,
    /// Dropped when the round is over, which calls wait for.
    _over: Vec<oneshot::Sender<()>>,
}

impl Desk {
    /// Chooses for whom to ask. `None` when there is nothing to look for.
    pub(super) fn round(&self, store: &Store, most: usize) -> Option<Round> {
        let mut inside = self.lock();
        if !inside.is_stirred() {
            return None;
        }
        let mut round = Round {
            at_hand: true,
            ..Round::default()
        };
        // Those who were left come first, so that their turn comes whatever happens meanwhile.
        let left = std::mem::take(&mut inside.rest);
        let mut new = BTreeSet::new();
        if left.is_empty() {
            new = std::mem::take(&mut inside.new);
            round.told = std::mem::take(&mut inside.told);
            round.all = std::mem::take(&mut inside.all);
            round._over = std::mem::take(&mut inside.over);
            let idle = |queue: &&QueueName| !inside.is_waited_for(queue);
            round.idle = round.told.keys().filter(idle).cloned().collect();
        } else {
            round.told = std::mem::take(&mut inside.rest_told);
        }
        let mut in_vain = std::mem::take(&mut inside.in_vain);
        in_vain.retain(|ticket| inside.waiters.contains_key(ticket));
        let known = in_vain.iter().map(|ticket| &inside.waiters[ticket].ask);
        let known: HashSet<&[QueueName]> = known.map(|ask| ask.queues.as_slice()).collect();
        let (mut behind, mut rest) = (Vec::new(), BTreeSet::new());
        let mut kinds: HashMap<&[QueueName], usize> = HashMap::new();
        let mut wanted = 0;
        let most_wanted = if round.all { JOBS_OF_ALL } else { JOBS };
        for (ticket, waiter) in &inside.waiters {
            let queues = waiter.ask.queues.as_slice();
            let was_left = left.contains(ticket);
            let is_new = new.contains(ticket);
            let told = || queues.iter().any(|q| round.told.contains_key(q));
            let stirred = was_left || left.is_empty() && (round.all || told());
            if !(stirred || is_new) {
                continue;
            }
            let patient = waiter.until > store.clock.now().steady;
            // Who stands behind those who found nothing finds nothing either; but who does not wait is answered now.
            if patient && !stirred && known.contains(queues) {
                behind.push(*ticket);
                continue;
            }
            let same = kinds.entry(queues).or_default();
            if patient && !was_left && *same >= most {
                continue;
            }
            *same += usize::from(patient);
            wanted += waiter.ask.max as usize;
            if !round.asks.is_empty() && (round.asks.len() >= MANY || wanted > most_wanted) {
                rest.insert(*ticket);
                continue;
            }
            round.at_hand &= waiter.at_hand;
            round.tickets.push(*ticket);
            round.asks.push((waiter.ask.clone(), patient));
        }
        if !rest.is_empty() {
            inside.rest_told = round.told.clone();
        }
        inside.rest = rest;
        in_vain.extend(behind);
        inside.in_vain = in_vain;
        Some(round)
    }

    /// Notes who was asked for in vain; answers with the queues of which there is nothing more for who waits.
    pub(super) fn note(&self, round: &Round, look: &Look) -> BTreeSet<QueueName> {
        let mut inside = self.lock();
        let mut empty = BTreeSet::new();
        for (at, (ticket, (ask, patient))) in round.tickets.iter().zip(&round.asks).enumerate() {
            if *patient && look.lent[at].is_empty() && !look.is_late(at) {
                inside.in_vain.insert(*ticket);
                if inside.entered.len() >= NAMES {
                    // What stays in Redis goes by itself within a minute.
                    inside.entered.clear();
                }
                inside.entered.extend(ask.queues.iter().cloned());
                empty.extend(ask.queues.iter().cloned());
            }
        }
        empty
    }

    /// Gives each what it got. What nobody takes goes back. A call for which Redis answered too late is asked for again while it
    /// waits.
    pub(super) async fn hand_out(&self, store: &Arc<Store>, round: &Round, mut look: Look) {
        let mut unwanted = Vec::new();
        {
            let mut inside = self.lock();
            for (at, ticket) in round.tickets.iter().enumerate() {
                let is_late = look.is_late(at);
                let lent = std::mem::take(&mut look.lent[at]);
                let patient = |waiter: &Waiter| waiter.until > store.clock.now().steady;
                if lent.is_empty() && inside.waiters.get(ticket).is_some_and(patient) {
                    if is_late {
                        inside.new.insert(*ticket);
                    }
                    continue;
                }
                match inside.waiters.remove(ticket) {
                    Some(waiter) if is_late => {
                        let _ = waiter.answer.send(Err(confirm::too_late()));
                    }
                    Some(waiter) => {
                        if let Err(Ok(back)) = waiter.answer.send(Ok(lent)) {
                            unwanted.extend(back);
                        }
                    }
                    None => unwanted.extend(lent),
                }
            }
        }
        confirm::give_back(store, &unwanted).await;
    }

    /// A lease of a queue that is spread ended, and nobody here has a use for the room that it left: its next shard may have.
    pub(super) fn tell_next(&self, store: &Store, round: &Round, said: &[Said]) {
        for said in said.iter().filter(|said| said.spare) {
            let shards = store.reach(&said.queue);
            let others = match round.told.get(&said.queue) {
                Some(others) => *others,
                // Nobody could be told while nobody waited here, and somebody of this process may have looked for it in vain.
                None if store.spreads.lacks_room(&said.queue) => shards.len() as u16 - 1,
                None => 0,
            };
            if others == 0 {
                continue;
            }
            let here = shards.iter().position(|shard| *shard == self.shard);
            let next = here.map(|here| shards[(here + 1) % shards.len()]);
            if let Some(desk) = next.and_then(|next| store.desk(next)) {
                desk.tell(said.queue.clone(), others - 1);
            }
        }
    }

    /// Tells those who do not wait that nobody could be asked; those who wait go on.
    pub(super) fn refuse(&self, round: &Round, error: &Error) {
        let mut inside = self.lock();
        for (ticket, (ask, _)) in round.tickets.iter().zip(&round.asks) {
            if ask.wait.is_zero()
                && let Some(waiter) = inside.waiters.remove(ticket)
            {
                let _ = waiter.answer.send(Err(error.clone()));
            }
        }
    }
}
