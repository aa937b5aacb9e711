//! Lease calls: each comes to the desk of a shard, and waits there if it may.
//!
//! One task per shard speaks for all lease calls of this process. It asks for those who have just come; when Redis tells it of
//! a queue, for the first who wait for that one; and when the next job falls due, or every few seconds to be sure, for the
//! first of each kind. What it got is handed out in the order in which the calls came. While nobody asks, the same task lets
//! happen whose time has come: vanished workers, ended lives, ticks of schedules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use auxo_core::engine::{Ask, Outcome, Settle};
use auxo_core::job::Leased;
use auxo_core::time::Timestamp;
use auxo_core::{Code, Error, QueueName, Result};
use bytes::Bytes;
use tokio::sync::{Notify, oneshot};

use crate::bytes::Pack;
use crate::link::Value;
use crate::record::{Shown, garbled};
use crate::rest;
use crate::schedules::{self, Ticks};
use crate::script;
use crate::settle;
use crate::spread::{self, Said};
use crate::store::{Store, bytes, items, number, time, tuple};

/// How soon to look again after a look that failed. How often Redis is tried is the link's business.
const AFTER_A_FAILURE: Duration = Duration::from_millis(300);
/// How long a process that ends tries to tell so.
const FAREWELL: Duration = Duration::from_secs(1);
/// How many of those who wait for the same queues are asked for at first.
const FIRST: usize = 16;
/// How many asks one script gets, and how many jobs they may want together.
const ASKS: usize = 256;
const JOBS: usize = 1000;
/// Of how many queues is remembered when they were last asked for.
const NAMES: usize = 10_000;
/// How often a queue that is spread is helped out before others have their turn.
const TURNS: usize = 8;
/// How often schedules that stay due are tried before what is read is read without them.
const TICKS: usize = 3;

/// Who waits for jobs of one shard.
pub struct Desk {
    shard: u16,
    inside: Mutex<Inside>,
    /// Rings when there is something to look for.
    bell: Notify,
}

#[derive(Default)]
struct Inside {
    tickets: u64,
    /// By ticket, so in the order of arrival.
    waiters: BTreeMap<u64, Waiter>,
    /// Has not been asked for yet.
    new: BTreeSet<u64>,
    /// Redis told of these queues; or, of a queue that is spread, the desk of another of its shards, for which so many more are
    /// to be told.
    told: BTreeMap<QueueName, u16>,
    /// Look for everybody.
    all: bool,
    /// When a call last named a queue.
    asked: HashMap<QueueName, Timestamp>,
    /// Why the last look failed, if it did.
    trouble: Option<Error>,
    closed: bool,
}

struct Waiter {
    ask: Ask,
    /// By the clock of this process.
    until: Timestamp,
    /// Wants only what is there without further ado.
    at_hand: bool,
    answer: oneshot::Sender<Result<Vec<Leased>>>,
}

impl Inside {
    fn is_waited_for(&self, queue: &QueueName) -> bool {
        let waits = |waiter: &Waiter| waiter.ask.queues.contains(queue);
        self.waiters.values().any(waits)
    }
}

/// What a look brought.
struct Look {
    now: Timestamp,
    /// When to look again; zero is never.
    again: Timestamp,
    ticks: Ticks,
    lent: Vec<Vec<Leased>>,
    /// Of the queues that are or were spread.
    said: Vec<Said>,
}

/// The earlier of two times, of which zero is never.
fn sooner(a: Timestamp, b: Option<Timestamp>) -> Timestamp {
    let times = [Some(a), b].into_iter().flatten();
    times.filter(|time| time.0 > 0).min().unwrap_or_default()
}

impl Desk {
    pub fn new(shard: u16) -> Desk {
        Desk {
            shard,
            inside: Mutex::default(),
            bell: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("desk")
    }

    /// Redis told of a queue. If nothing comes of it here, so many other shards of the queue may have a use for it.
    pub fn tell(&self, queue: QueueName, others: u16) {
        let mut inside = self.lock();
        let known = inside.told.entry(queue).or_default();
        *known = others.max(*known);
        drop(inside);
        self.bell.notify_one();
    }

    /// Anything may have changed.
    pub fn look(&self) {
        self.lock().all = true;
        self.bell.notify_one();
    }

    /// Ends every wait.
    pub fn close(&self) {
        let mut inside = self.lock();
        inside.closed = true;
        for (_, waiter) in std::mem::take(&mut inside.waiters) {
            let _ = waiter.answer.send(Err(closed()));
        }
        self.bell.notify_one();
    }

    /// Ends every wait, and lets others be told of what this process would have been.
    pub async fn leave(&self, store: &Store) {
        self.close();
        let queues: Vec<QueueName> = self.lock().asked.keys().cloned().collect();
        let passing = async {
            for some in queues.chunks(JOBS) {
                self.pass_on(store, some).await;
            }
        };
        // Without it others find out by themselves.
        let _ = tokio::time::timeout(FAREWELL, passing).await;
    }

    /// Fails while Redis cannot be asked.
    pub fn health(&self) -> Result<()> {
        self.lock().trouble.clone().map_or(Ok(()), Err)
    }

    /// How many calls of this process wait for a queue.
    pub fn waiting(&self, queue: &QueueName) -> u64 {
        let inside = self.lock();
        let waits = |waiter: &&Waiter| waiter.ask.queues.contains(queue);
        inside.waiters.values().filter(waits).count() as u64
    }

    /// A call names a queue.
    pub fn name(&self, queue: &QueueName, now: Timestamp) {
        let mut inside = self.lock();
        if let Some(asked) = inside.asked.get_mut(queue) {
            *asked = now;
            return;
        }
        if inside.asked.len() >= NAMES {
            // Anybody can name queues that there never were.
            inside.asked.clear();
        }
        inside.asked.insert(queue.clone(), now);
    }

    /// When a call of this process last named a queue.
    pub fn asked(&self, queue: &QueueName) -> Option<Timestamp> {
        self.lock().asked.get(queue).copied()
    }

    /// Asks for jobs, and waits for them as long as the ask says. Who wants only what is at hand asks elsewhere before a queue that
    /// is spread is made to give more here.
    pub async fn lease(&self, store: &Arc<Store>, ask: Ask, at_hand: bool) -> Result<Vec<Leased>> {
        let mut place = {
            let mut inside = self.lock();
            if inside.closed {
                return Err(closed());
            }
            let (answer, answered) = oneshot::channel();
            inside.tickets += 1;
            let ticket = inside.tickets;
            let until = store.clock.now().steady.plus(ask.wait);
            let waiter = Waiter {
                ask,
                until,
                at_hand,
                answer,
            };
            inside.waiters.insert(ticket, waiter);
            inside.new.insert(ticket);
            Place {
                desk: self,
                store,
                ticket,
                answered,
            }
        };
        self.bell.notify_one();
        (&mut place.answered)
            .await
            .unwrap_or_else(|_| Err(closed()))
    }

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
            if !rung {
                self.lock().all = true;
            }
            let began = tokio::time::Instant::now();
            // What was to come before is looked for by now, or still to come.
            alarm = alarm.filter(|alarm| *alarm > began);
            let next = match self.serve(&store).await {
                Ok(Some(look)) => {
                    self.lock().trouble = None;
                    let wanted = look.again.0 > 0 && !store.told;
                    wanted.then(|| began + look.again.since(look.now))
                }
                Ok(None) => None,
                Err(error) => {
                    self.fail(&error);
                    self.lock().trouble = Some(error);
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
        let mut most = FIRST;
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
            self.hand_out(store, &round, lent).await;
            // Where all were served there may be more for the others who wait for the same.
            most = match full > 0 && served == full {
                true => ASKS,
                false => FIRST,
            };
            if served == 0 {
                // Whoever has come or was told of meanwhile has rung.
                return Ok(Some(look));
            }
            self.ask_more(&round);
            last = Some(look);
        }
    }

    /// Who waits for the same as those who were served is asked for, too.
    fn ask_more(&self, round: &Round) {
        let mut inside = self.lock();
        for queue in round.asks.iter().flat_map(|(ask, _)| &ask.queues) {
            if inside.is_waited_for(queue) {
                inside.told.entry(queue.clone()).or_default();
            }
        }
    }

    /// A lease of a queue that is spread ended, and nobody here has a use for the room that it left: its next shard may have.
    fn tell_next(&self, store: &Store, round: &Round, said: &[Said]) {
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

    /// Chooses for whom to ask. `None` when there is nothing to look for.
    fn round(&self, store: &Store, most: usize) -> Option<Round> {
        let mut inside = self.lock();
        let (new, told) = (
            std::mem::take(&mut inside.new),
            std::mem::take(&mut inside.told),
        );
        let all = std::mem::take(&mut inside.all);
        if new.is_empty() && told.is_empty() && !all {
            return None;
        }
        let mut round = Round {
            all,
            at_hand: true,
            ..Round::default()
        };
        let mut kinds: HashMap<&[QueueName], usize> = HashMap::new();
        let mut wanted = 0;
        for (ticket, waiter) in &inside.waiters {
            let queues = waiter.ask.queues.as_slice();
            let touched =
                all || new.contains(ticket) || queues.iter().any(|q| told.contains_key(q));
            let same = kinds.entry(queues).or_default();
            let patient = waiter.until > store.clock.now().steady;
            // Who stands behind so many who found nothing finds nothing either; but who does not wait is answered now.
            if !touched || *same >= most && patient {
                continue;
            }
            *same += 1;
            wanted += waiter.ask.max as usize;
            if !round.asks.is_empty() && (round.asks.len() >= ASKS || wanted > JOBS) {
                // The rest has its turn in the next round.
                round.rest.insert(*ticket);
                continue;
            }
            round.at_hand &= waiter.at_hand;
            round.tickets.push(*ticket);
            round.asks.push((waiter.ask.clone(), patient));
        }
        let idle = told.keys().filter(|queue| !inside.is_waited_for(queue));
        round.idle = idle.cloned().collect();
        round.told = told;
        let rest = std::mem::take(&mut round.rest);
        inside.new.extend(rest);
        Some(round)
    }

    /// Asks for jobs, after the schedules that are due.
    async fn ask(&self, store: &Arc<Store>, round: &Round) -> Result<Look> {
        let (asks, at_hand) = (&round.asks, round.at_hand);
        let mut all = look(store, self.shard, asks, false, &[]).await?;
        if all.ticks != Ticks::None {
            tick(store, self.shard, &all).await;
            all = look(store, self.shard, asks, true, &[]).await?;
        }
        let asked = tokio::time::Instant::now();
        // A queue that is spread may lack here what it has elsewhere. Who only looks whether there is something at hand has others
        // to ask first.
        for turn in 0.. {
            if all.said.is_empty() || at_hand {
                break;
            }
            if turn == TURNS {
                // Others are always quicker; let them.
                all.again = sooner(all.again, Some(all.now.plus(AFTER_A_FAILURE)));
                break;
            }
            let help = spread::help(store, self.shard, &all.said, asked).await?;
            let open = |at: &usize| all.lent[*at].is_empty();
            let open: Vec<usize> = (0..asks.len()).filter(open).collect();
            if !help.better || open.is_empty() {
                all.again = sooner(all.again, help.again);
                break;
            }
            let rest: Vec<_> = open.iter().map(|at| asks[*at].clone()).collect();
            let more = look(store, self.shard, &rest, true, &help.tokens).await?;
            for (at, lent) in open.into_iter().zip(more.lent) {
                all.lent[at] = lent;
            }
            (all.now, all.said) = (more.now, more.said);
            all.again = sooner(more.again, help.again);
        }
        Ok(all)
    }

    /// Gives each what it got. What nobody takes goes back.
    async fn hand_out(&self, store: &Arc<Store>, round: &Round, lent: Vec<Vec<Leased>>) {
        let mut unwanted = Vec::new();
        {
            let mut inside = self.lock();
            for (ticket, lent) in round.tickets.iter().zip(lent) {
                let patient = |waiter: &Waiter| waiter.until > store.clock.now().steady;
                if lent.is_empty() && inside.waiters.get(ticket).is_some_and(patient) {
                    continue;
                }
                match inside.waiters.remove(ticket) {
                    Some(waiter) => {
                        if let Err(Ok(back)) = waiter.answer.send(Ok(lent)) {
                            unwanted.extend(back);
                        }
                    }
                    None => unwanted.extend(lent),
                }
            }
        }
        give_back(store, unwanted).await;
    }

    /// Nobody here waits for these queues any more: what this process was told of is for others.
    async fn pass_on(&self, store: &Store, queues: &[QueueName]) {
        let mut call = store.call(&script::WAIT, self.shard);
        call.arg(store.process.as_str());
        for queue in queues {
            call.arg(queue.as_str());
        }
        // Others look every few seconds in any case.
        let _ = store.run(call).await;
    }

    /// Tells those who do not wait that nobody could be asked; those who wait go on.
    fn refuse(&self, round: &Round, error: &Error) {
        let mut inside = self.lock();
        for (ticket, (ask, _)) in round.tickets.iter().zip(&round.asks) {
            if ask.wait.is_zero()
                && let Some(waiter) = inside.waiters.remove(ticket)
            {
                let _ = waiter.answer.send(Err(error.clone()));
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

/// For whom is asked at once.
#[derive(Default)]
struct Round {
    tickets: Vec<u64>,
    /// Each with whether it waits if there is nothing.
    asks: Vec<(Ask, bool)>,
    rest: BTreeSet<u64>,
    /// All want only what is at hand.
    at_hand: bool,
    /// Anything may have happened, whether anybody asks or not.
    all: bool,
    /// Told of, and how many other shards are to be told.
    told: BTreeMap<QueueName, u16>,
    /// Told of, but nobody waits for them.
    idle: Vec<QueueName>,
}

/// Lets happen whose time has come, until nothing is left, so that what is read next is true.
pub async fn catch_up(store: &Arc<Store>, shard: u16) -> Result<Timestamp> {
    let mut ticks = 0;
    loop {
        let look = look(store, shard, &[], false, &[]).await?;
        let over = match look.ticks {
            Ticks::None => look.again.0 == 0 || look.again > look.now,
            // One that cannot tick stays due.
            _ => ticks == TICKS,
        };
        if over {
            return Ok(look.now);
        }
        if look.ticks != Ticks::None {
            ticks += 1;
            tick(store, shard, &look).await;
        }
    }
}

/// Sees to the schedules that are due. One that cannot tick must not keep jobs from those who ask.
async fn tick(store: &Arc<Store>, shard: u16, look: &Look) {
    if let Err(error) = schedules::tick(store, shard, look.now, look.ticks).await {
        tracing::warn!("schedules that are due could not tick: {error}");
    }
}

/// Asks a shard. Where schedules are due nothing is lent, unless `anyway`.
async fn look(
    store: &Store,
    shard: u16,
    asks: &[(Ask, bool)],
    anyway: bool,
    tokens: &[(QueueName, u32)],
) -> Result<Look> {
    let mut call = store.call(&script::LEASE, shard);
    call.arg(store.process.as_str())
        .arg(if anyway { "1" } else { "" })
        .arg(spread::pack_tokens(tokens));
    for group in groups(asks) {
        let (first, patient) = &group[0];
        let mut pack = Pack::default();
        pack.flag(first.ttr.is_some())
            .span(first.ttr.unwrap_or_default())
            .flag(*patient)
            .u16(first.queues.len())
            .u16(group.len());
        call.arg(pack.0);
        for queue in &first.queues {
            call.arg(queue.as_str());
        }
        for (ask, _) in group {
            let mut pack = Pack::default();
            pack.u32(ask.max).raw(ask.worker.as_bytes());
            call.arg(pack.0).arg(store.random(8 * ask.max as usize)?);
        }
    }
    read(store.run(call).await?)
}

/// Those who ask for the same, one after the other: they are served in one go.
fn groups(asks: &[(Ask, bool)]) -> impl Iterator<Item = &[(Ask, bool)]> {
    asks.chunk_by(|(a, a_waits), (b, b_waits)| {
        a.queues == b.queues && a.ttr == b.ttr && a_waits == b_waits
    })
}

fn read(answer: Value) -> Result<Look> {
    let [now, again, ticks, lent, said] = tuple(answer)?;
    let now = time(now)?;
    let said: Vec<Bytes> = items(said)?.into_iter().map(bytes).collect::<Result<_>>()?;
    let said = said.chunks_exact(2).map(|said| {
        let name = std::str::from_utf8(&said[0]).map_err(|_| garbled("a name"))?;
        Said::read(name, &said[1])
    });
    let leased = |group: Value| {
        let [got, lent] = tuple(group)?;
        let parts: Vec<Bytes> = items(lent)?.into_iter().map(bytes).collect::<Result<_>>()?;
        let mut jobs = parts.chunks_exact(3).map(|part| {
            let shown = Shown {
                id: &part[0],
                record: &part[1],
                life: &part[2],
                score: None,
            };
            shown.leased(now)
        });
        let each = |got: Value| {
            let got = number(got)? as usize;
            jobs.by_ref().take(got).collect::<Result<Vec<Leased>>>()
        };
        items(got)?
            .into_iter()
            .map(each)
            .collect::<Result<Vec<_>>>()
    };
    Ok(Look {
        now,
        again: time(again)?,
        ticks: match number(ticks)? {
            0 => Ticks::None,
            1 => Ticks::Due,
            _ => Ticks::Arm,
        },
        lent: items(lent)?
            .into_iter()
            .map(leased)
            .collect::<Result<Vec<_>>>()?
            .concat(),
        said: said.collect::<Result<_>>()?,
    })
}

async fn give_back(store: &Arc<Store>, leased: Vec<Leased>) {
    if leased.is_empty() {
        return;
    }
    let release = |leased: Leased| Settle {
        token: leased.token,
        outcome: Outcome::Release {
            priority: None,
            delay: None,
        },
    };
    // If it cannot be said now, the leases end by themselves.
    let _ = settle::settle(store, leased.into_iter().map(release).collect()).await;
}

/// A place in line. Dropped, it is given up, and what was lent but never picked up goes back.
struct Place<'a> {
    desk: &'a Desk,
    store: &'a Arc<Store>,
    ticket: u64,
    answered: oneshot::Receiver<Result<Vec<Leased>>>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut inside = self.desk.lock();
        if let Some(waiter) = inside.waiters.remove(&self.ticket) {
            inside.new.remove(&self.ticket);
            // If nobody else here waits for these, whoever is told next must not be us.
            let queues = waiter.ask.queues.into_iter();
            let idle: Vec<_> = queues.filter(|q| !inside.is_waited_for(q)).collect();
            inside.told.extend(idle.into_iter().map(|queue| (queue, 0)));
            self.desk.bell.notify_one();
        }
        drop(inside);
        if let Ok(Ok(unread)) = self.answered.try_recv()
            && !unread.is_empty()
        {
            let store = self.store.clone();
            tokio::spawn(async move { give_back(&store, unread).await });
        }
    }
}

fn closed() -> Error {
    Error::new(Code::Unavailable, "the engine is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_queues_that_never_were_do_not_pile_up() {
        let desk = Desk::new(0);
        for number in 0..3 * NAMES {
            let queue = QueueName::new(&format!("q{number}")).unwrap();
            desk.name(&queue, Timestamp(7));
            assert_eq!(desk.asked(&queue), Some(Timestamp(7)));
        }
        assert!(desk.lock().asked.len() <= NAMES);
    }
}
