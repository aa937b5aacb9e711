//! Room for a queue that is spread where it is needed: shares of its limits, and tokens of its rate.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::time::Timestamp;
use auxo_core::{QueueName, Result};
use tokio::time::Instant;

use super::change::{ask, begin, refresh};
use super::{Limit, MOST, Spread};
use crate::bytes::{Pack, Unpack};
use crate::link::Value;
use crate::record::garbled;
use crate::script;
use crate::settings::Settings;
use crate::store::{Store, items, number, time, tuple};

/// How long room that is on its way between two places is waited for. After a second it counts as lost, by Redis' clock.
const ARRIVAL: Duration = Duration::from_millis(1100);
/// How soon it is looked for again.
const PAUSE: Duration = Duration::from_millis(5);

/// What came of a look for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// The place has more now, or has enough already.
    Room,
    /// All that the limit allows is in use.
    Nothing,
    /// Nobody has any, but another call, or another process, is on its way with some.
    UnderWay,
}

/// Gets room for a limit to a place from the others; whether there is any. What others are on their way with is waited for: they may
/// bring it to this very place.
pub async fn gather(
    store: &Arc<Store>,
    queue: &QueueName,
    shard: u16,
    limit: Limit,
    need: u64,
) -> Result<bool> {
    let end = Instant::now() + ARRIVAL;
    loop {
        let found = gather_now(store, queue, shard, limit, need).await?;
        if found != Found::UnderWay || Instant::now() >= end {
            return Ok(found == Found::Room);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same without waiting.
async fn gather_now(
    store: &Arc<Store>,
    queue: &QueueName,
    shard: u16,
    limit: Limit,
    need: u64,
) -> Result<Found> {
    let spread = store.spreads.of(queue);
    let (mut got, mut dealt, mut used, mut most, mut free) = (0, 0, 0, 0, 0);
    let mut underway = false;
    // The place itself only says what it has.
    for place in 0..spread.extent {
        let from = store.place(queue, place);
        let give = if from == shard { 0 } else { need - got };
        let Some(room) = room(store, queue, from, &spread, limit, (give, 0)).await? else {
            // It was dealt anew, or is about to be.
            refresh(store, queue).await?;
            return Ok(Found::Room);
        };
        if from == shard {
            free = room.share.saturating_sub(room.used);
        }
        got += room.given;
        dealt += room.share;
        used += room.used;
        most = room.limit;
        underway |= room.underway;
        if got >= need {
            break;
        }
    }
    if got > 0 {
        room(store, queue, shard, &spread, limit, (0, got)).await?;
        return Ok(Found::Room);
    }
    if free >= need {
        return Ok(Found::Room);
    }
    // Nobody has any: then all must be in use. But a share may be lost with the process that carried it from one place to
    // another, and where too much was in use when it was dealt, nobody has any though there is some now.
    if dealt >= most || used >= most {
        return Ok(Found::Nothing);
    }
    if underway {
        return Ok(Found::UnderWay);
    }
    let next = Spread {
        epoch: spread.epoch + 1,
        ..spread
    };
    let config = ask(store, queue, 0).await?.settings.config;
    begin(store, queue, spread.epoch, next, &config).await?;
    Ok(Found::Room)
}

/// What a place has of a limit.
struct Room {
    given: u64,
    share: u64,
    used: u64,
    limit: u64,
    /// Something it gave may not have come to its place yet.
    underway: bool,
}

/// Gives some of a place's share away, or adds to it. Nothing if the shares were dealt anew.
async fn room(
    store: &Store,
    queue: &QueueName,
    shard: u16,
    spread: &Spread,
    limit: Limit,
    (give, take): (u64, u64),
) -> Result<Option<Room>> {
    let mut call = store.call(&script::ROOM, shard);
    call.arg(queue.as_str())
        .arg(spread.epoch.to_string())
        .arg(limit.name())
        .arg(give.min(MOST).to_string())
        .arg(take.to_string());
    let answer = items(store.run(call).await?)?;
    if answer.is_empty() {
        return Ok(None);
    }
    let [given, share, used, limit, underway] = tuple(Value::Array(answer))?;
    Ok(Some(Room {
        given: number(given)?,
        share: number(share)?,
        used: number(used)?,
        limit: number(limit)?.min(MOST),
        underway: number(underway)? == 1,
    }))
}

/// What a place said of a queue when it was asked for jobs.
pub struct Said {
    pub queue: QueueName,
    spread: Spread,
    rated: bool,
    want_room: u32,
    want_tokens: u32,
    /// Paid for at home, and not used.
    left: u32,
    /// Whether it could lend more than is due.
    pub spare: bool,
}

impl Said {
    /// The tokens that were paid for and not used.
    pub fn left(&self) -> u32 {
        self.left
    }

    pub fn read(name: &str, said: &[u8]) -> Result<Said> {
        let parse = || {
            let split = said.len().checked_sub(13)?;
            let Settings { config, spread, .. } = Settings::unpack(&said[..split])?;
            let mut rest = Unpack(&said[split..]);
            Some(Said {
                queue: QueueName::new(name).ok()?,
                spread,
                rated: config.rate.is_some() && spread.reach > 1,
                want_room: rest.u32()?,
                want_tokens: rest.u32()?,
                left: rest.u32()?,
                spare: rest.u8()? == 1,
            })
        };
        parse().ok_or_else(|| garbled("how a queue is spread"))
    }
}

/// What was done about it.
#[derive(Default)]
pub struct Help {
    /// Whether it is worth to ask again.
    pub better: bool,
    /// What homes allow.
    pub tokens: Vec<(QueueName, u32)>,
    /// When a home allows more.
    pub again: Option<Timestamp>,
}

/// Gets room for leases to a place. Who asked before another one of this process looked in vain need not look again.
async fn make_room(store: &Arc<Store>, shard: u16, said: &Said, asked: Instant) -> Result<bool> {
    let vain = store.spreads.in_vain(&said.queue);
    let mut vain = vain.lock().await;
    if vain.is_some_and(|began| began > asked) {
        return Ok(false);
    }
    let began = Instant::now();
    let need = said.want_room.into();
    // Others who ask are not to wait for what may have been lost: who brings it tells those who wait here.
    let found = gather_now(store, &said.queue, shard, Limit::Leased, need).await?;
    let any = found == Found::Room;
    *vain = (!any).then_some(began);
    Ok(any)
}

/// Learns what a place said of its queues when it was asked at some time, and gets it what it lacks, if that is still `wanted`.
pub async fn help(
    store: &Arc<Store>,
    shard: u16,
    said: &[Said],
    asked: Instant,
    wanted: bool,
) -> Result<Help> {
    let mut help = Help::default();
    for said in said {
        let queue = &said.queue;
        if said.spread.changing {
            refresh(store, queue).await?;
            help.better = true;
            continue;
        }
        store.spreads.learn(queue, said.spread);
        let mut tokens = if wanted { said.want_tokens } else { 0 };
        if wanted && said.want_room > 0 {
            help.better |= make_room(store, shard, said, asked).await?;
            // Tokens without room would only have to be given back.
            tokens = 0;
        }
        if said.rated && (tokens > 0 || said.left > 0) {
            let mut call = store.call(&script::TOKENS, store.shard_of(queue));
            call.arg(queue.as_str())
                .arg(tokens.to_string())
                .arg(said.left.to_string());
            let [got, next] = tuple(store.run(call).await?)?;
            let (got, next) = (number(got)? as u32, time(next)?);
            if got > 0 {
                help.better = true;
                help.tokens.push((queue.clone(), got));
            } else if tokens > 0 {
                help.again = help.again.into_iter().chain([next]).min();
            }
        }
    }
    Ok(help)
}

/// What the homes of queues allow, as `lease.lua` takes it.
pub fn pack_tokens(tokens: &[(QueueName, u32)]) -> Vec<u8> {
    let mut pack = Pack::default();
    for (queue, count) in tokens {
        pack.u32(*count).short(queue.as_str());
    }
    pack.0
}

#[cfg(test)]
#[path = "../../tests/room/mod.rs"]
mod tests;
