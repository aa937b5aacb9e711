//! One look at a shard: what the script is asked, and what it answers.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use auxo_core::engine::{Ask, Pick};
use auxo_core::job::Leased;
use auxo_core::time::Timestamp;
use auxo_core::{Error, QueueName, Result};
use bytes::Bytes;
use tokio::time::Instant;

use super::Desk;
use super::round::Round;
use super::run::AFTER_A_FAILURE;
use crate::bytes::Pack;
use crate::confirm;
use crate::link::Value;
use crate::record::{Shown, garbled};
use crate::schedules::{self, Ticks};
use crate::script;
use crate::spread::{self, Said};
use crate::store::{Store, bytes, items, number, time, tuple};

/// How often a queue that is spread is helped out before others have their turn.
const TURNS: usize = 8;
/// How long a look takes at most to come to Redis, as far as is known when it is back. Longer, and it would rather have been the
/// way back; an alarm had better ring early.
const TRIP: Duration = Duration::from_millis(1);
/// How often schedules that stay due are tried before what is read is read without them.
const TICKS: usize = 3;

/// What a look brought.
pub(super) struct Look {
    now: Timestamp,
    /// When it became `now`, by the clock of this process: as well as it can be known.
    then: Instant,
    /// When to look again; zero is never.
    again: Timestamp,
    ticks: Ticks,
    pub(super) lent: Vec<Vec<Leased>>,
    /// For each ask, whether the script lent something, though it may have been over when that was known.
    granted: Vec<bool>,
    /// Of the queues that are or were spread.
    pub(super) said: Vec<Said>,
    /// How many of the asks, from the first on, have all that there is for them: the script may have spent its budget before it was
    /// through.
    through: usize,
}

/// The earlier of two times, of which zero is never.
fn sooner(a: Timestamp, b: Option<Timestamp>) -> Timestamp {
    let times = [Some(a), b].into_iter().flatten();
    times.filter(|time| time.0 > 0).min().unwrap_or_default()
}

impl Look {
    /// When to look again.
    pub(super) fn alarm(&self) -> Option<Instant> {
        (self.again.0 > 0).then(|| self.then + self.again.since(self.now))
    }

    /// Drops the leases that are over before anybody has them: another may have the job by now.
    pub(super) fn drop_late(&mut self, store: &Arc<Store>) {
        // A clock that is turned by hand stands still meanwhile.
        if store.told {
            return;
        }
        let now = self.now.plus(self.then.elapsed());
        let mut late = Vec::new();
        for lent in &mut self.lent {
            let over = |one: &mut Leased| !confirm::is_done(one) && one.deadline <= now;
            late.extend(lent.extract_if(.., over));
        }
        if !late.is_empty() {
            let (count, took) = (late.len(), self.then.elapsed());
            store.late.fetch_add(count as u64, Ordering::Relaxed);
            tracing::warn!(
                "redis: {count} leases were over when their answer came after {took:.0?}; their jobs are taken back"
            );
        }
        confirm::take_back(store, late);
    }

    /// Whether all that was lent for an ask was over before anybody had it. Redis took it for served.
    pub(super) fn is_late(&self, ask: usize) -> bool {
        self.granted[ask] && self.lent[ask].is_empty()
    }

    /// What was lent is lent, whatever came of the rest.
    fn in_spite_of(mut self, error: Error) -> Result<Look> {
        if self.lent.iter().all(Vec::is_empty) {
            return Err(error);
        }
        self.again = sooner(self.again, Some(self.now.plus(AFTER_A_FAILURE)));
        Ok(self)
    }
}

impl Desk {
    /// Asks for jobs, after the schedules that are due.
    pub(super) async fn ask(&self, store: &Arc<Store>, round: &Round) -> Result<Look> {
        let (asks, at_hand) = (&round.asks, round.at_hand);
        let mut all = look(store, self.shard, asks, false, &[]).await?;
        if all.ticks != Ticks::None {
            tick(store, self.shard, all.now, all.ticks).await;
            all = look(store, self.shard, asks, true, &[]).await?;
            if all.ticks != Ticks::None {
                // One that cannot tick stays due.
                all.again = all.now.plus(AFTER_A_FAILURE);
            }
        }
        let asked = Instant::now();
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
            let open = |at: &usize| all.lent[*at].is_empty();
            let open: Vec<usize> = (0..asks.len()).filter(open).collect();
            let help = spread::help(store, self.shard, &all.said, asked, !open.is_empty());
            let help = match help.await {
                Ok(help) => help,
                Err(error) => return all.in_spite_of(error),
            };
            if !help.better || open.is_empty() {
                all.again = sooner(all.again, help.again);
                break;
            }
            let rest: Vec<_> = open.iter().map(|at| asks[*at].clone()).collect();
            let more = match look(store, self.shard, &rest, true, &help.tokens).await {
                Ok(more) => more,
                Err(error) => return all.in_spite_of(error),
            };
            for ((at, lent), granted) in open.into_iter().zip(more.lent).zip(more.granted) {
                all.lent[at] = lent;
                all.granted[at] |= granted;
            }
            (all.now, all.then, all.said) = (more.now, more.then, more.said);
            all.again = sooner(more.again, help.again);
        }
        Ok(all)
    }
}

/// Lets happen whose time has come, until nothing is left, so that what is read next is true.
pub async fn catch_up(store: &Arc<Store>, shard: u16) -> Result<Timestamp> {
    let mut tried = 0;
    loop {
        let call = store.call(&script::UPKEEP, shard);
        let [now, again, ticks] = tuple(store.run(call).await?)?;
        let (now, again, ticks) = (time(now)?, time(again)?, ticks_of(ticks)?);
        let over = match ticks {
            Ticks::None => again.0 == 0 || again > now,
            // One that cannot tick stays due.
            _ => tried == TICKS,
        };
        if over {
            return Ok(now);
        }
        if ticks != Ticks::None {
            tried += 1;
            tick(store, shard, now, ticks).await;
        }
    }
}

/// Sees to the schedules that are due. One that cannot tick must not keep jobs from those who ask.
async fn tick(store: &Arc<Store>, shard: u16, now: Timestamp, ticks: Ticks) {
    if let Err(error) = schedules::tick(store, shard, now, ticks).await {
        tracing::warn!("schedules that are due could not tick: {error}");
    }
}

fn ticks_of(value: Value) -> Result<Ticks> {
    Ok(match number(value)? {
        0 => Ticks::None,
        1 => Ticks::Due,
        _ => Ticks::Arm,
    })
}

/// Asks a shard, as often as it takes until each has what there is. Where schedules are due nothing is lent, unless `anyway`.
async fn look(
    store: &Arc<Store>,
    shard: u16,
    asks: &[(Ask, bool)],
    anyway: bool,
    tokens: &[(QueueName, u32)],
) -> Result<Look> {
    let mut all = look_once(store, shard, asks, anyway, tokens).await?;
    all.lent.resize_with(asks.len(), Vec::new);
    all.granted.resize(asks.len(), false);
    while all.through < asks.len() {
        let open = |at: &usize| {
            let (ask, lent) = (&asks[*at].0, &all.lent[*at]);
            // Who has some of the most urgent would get those of another queue now.
            let done = ask.pick == Pick::MostUrgent && !lent.is_empty();
            !done && (lent.len() as u32) < ask.max
        };
        let open: Vec<usize> = (all.through..asks.len()).filter(open).collect();
        if open.is_empty() {
            break;
        }
        let rest: Vec<_> = open
            .iter()
            .map(|at| rest(&asks[*at], &all.lent[*at]))
            .collect();
        // What was paid for the queues that are asked again is still to be used.
        let is_asked = |said: &&Said| rest.iter().any(|(ask, _)| ask.queues.contains(&said.queue));
        let paid = all.said.iter().filter(is_asked);
        let paid: Vec<_> = paid.map(|said| (said.queue.clone(), said.left())).collect();
        let more = match look_once(store, shard, &rest, true, &paid).await {
            Ok(more) => more,
            Err(error) => return all.in_spite_of(error),
        };
        all.through = open.get(more.through).copied().unwrap_or(asks.len());
        for ((at, lent), granted) in open.into_iter().zip(more.lent).zip(more.granted) {
            all.lent[at].extend(lent);
            all.granted[at] |= granted;
        }
        let is_newer = |old: &Said| more.said.iter().any(|new| new.queue == old.queue);
        all.said.retain(|old| !is_newer(old));
        all.said.extend(more.said);
        (all.now, all.then) = (more.now, more.then);
        all.again = sooner(more.again, Some(all.again));
    }
    Ok(all)
}

/// What is left to ask for: once a queue has given some, more of that one only, and without waiting for it.
fn rest((ask, patient): &(Ask, bool), lent: &[Leased]) -> (Ask, bool) {
    let mut rest = ask.clone();
    rest.max -= lent.len() as u32;
    if let Some(first) = lent.first() {
        rest.queues = vec![first.job.queue.clone()];
    }
    (rest, *patient && lent.is_empty())
}

/// Asks a shard with one script.
async fn look_once(
    store: &Arc<Store>,
    shard: u16,
    asks: &[(Ask, bool)],
    anyway: bool,
    tokens: &[(QueueName, u32)],
) -> Result<Look> {
    let flags = u8::from(anyway) + if confirm::pending(store) { 2 } else { 0 };
    let mut call = store.call(&script::LEASE, shard);
    call.arg(store.process.as_str())
        .arg(flags.to_string())
        .arg(spread::pack_tokens(tokens));
    for group in groups(asks) {
        let (first, patient) = &group[0];
        let mut pack = Pack::default();
        pack.u8(how(first))
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
    if asks.is_empty() {
        // Nobody is promised anything.
        call.on_primary();
    }
    let sent = Instant::now();
    let done = store.run_at_all(call).await?;
    let sizes: Vec<usize> = groups(asks).map(<[_]>::len).collect();
    let mut look = read(done.answer, sent + (sent.elapsed() / 2).min(TRIP), &sizes)?;
    confirm::confirm(store, &mut look.lent, done.unconfirmed).await?;
    Ok(look)
}

/// The flags of an ask, see the script.
fn how(ask: &Ask) -> u8 {
    let pick = match ask.pick {
        Pick::First => 0,
        Pick::MostUrgent => 2,
    };
    u8::from(ask.ttr.is_some()) + pick
}

/// Those who ask for the same, one after the other: they are served in one go.
fn groups(asks: &[(Ask, bool)]) -> impl Iterator<Item = &[(Ask, bool)]> {
    asks.chunk_by(|(a, a_waits), (b, b_waits)| {
        a.queues == b.queues && a.pick == b.pick && a.ttr == b.ttr && a_waits == b_waits
    })
}

/// What the script answered, which ran at about that instant, to those who asked in groups of these sizes.
fn read(answer: Value, ran: Instant, sizes: &[usize]) -> Result<Look> {
    let [now, again, ticks, lent, said, cut] = tuple(answer)?;
    let micros: u64 = number(now)?;
    let now = Timestamp(micros / 1000);
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
    let lent: Vec<Vec<Vec<Leased>>> = items(lent)?
        .into_iter()
        .map(leased)
        .collect::<Result<_>>()?;
    let answered = match number(cut)? {
        1 => lent.len().saturating_sub(1),
        2 => lent.len(),
        _ => sizes.len(),
    };
    let through = sizes.iter().take(answered).sum();
    let lent = lent.concat();
    Ok(Look {
        now,
        then: ran - Duration::from_micros(micros % 1000),
        again: time(again)?,
        ticks: ticks_of(ticks)?,
        granted: lent.iter().map(|lent| !lent.is_empty()).collect(),
        lent,
        said: said.collect::<Result<_>>()?,
        through,
    })
}
