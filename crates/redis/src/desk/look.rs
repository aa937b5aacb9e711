//! One look at a shard: what the script is asked, and what it answers.

use std::sync::Arc;
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
    /// Of the queues that are or were spread.
    pub(super) said: Vec<Said>,
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
            tick(store, self.shard, &all).await;
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
            let help = match spread::help(store, self.shard, &all.said, asked).await {
                Ok(help) => help,
                Err(error) => return all.in_spite_of(error),
            };
            let open = |at: &usize| all.lent[*at].is_empty();
            let open: Vec<usize> = (0..asks.len()).filter(open).collect();
            if !help.better || open.is_empty() {
                all.again = sooner(all.again, help.again);
                break;
            }
            let rest: Vec<_> = open.iter().map(|at| asks[*at].clone()).collect();
            let more = match look(store, self.shard, &rest, true, &help.tokens).await {
                Ok(more) => more,
                Err(error) => return all.in_spite_of(error),
            };
            for (at, lent) in open.into_iter().zip(more.lent) {
                all.lent[at] = lent;
            }
            (all.now, all.then, all.said) = (more.now, more.then, more.said);
            all.again = sooner(more.again, help.again);
        }
        Ok(all)
    }
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
    let sent = Instant::now();
    let answer = store.run(call).await?;
    read(answer, sent + (sent.elapsed() / 2).min(TRIP))
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

/// What the script answered, which ran at about that instant.
fn read(answer: Value, ran: Instant) -> Result<Look> {
    let [now, again, ticks, lent, said] = tuple(answer)?;
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
    Ok(Look {
        now,
        then: ran - Duration::from_micros(micros % 1000),
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
