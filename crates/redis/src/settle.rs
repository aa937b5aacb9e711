//! Ends and prolongations of leases.

use std::sync::Arc;

use auxo_core::engine::{Extend, Extended, Outcome, Retry, Settle, Settled};
use auxo_core::{JobId, Result, Token, refusal};

use crate::bytes::{Pack, Unpack};
use crate::parts::{self, Taken, in_parts};
use crate::push::by_shard;
use crate::record::{garbled, state};
use crate::script;
use crate::store::{Store, bytes};

/// The bytes of the answer about one end of a lease.
const SETTLED: usize = 9;

/// Ends leases.
pub async fn settle(store: &Arc<Store>, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
    let shard_of = |item: &Settle| shard(store, item.token.job);
    by_shard(items, shard_of, |shard, items| {
        in_parts(store.link.timeout(), items, cost, move |part| {
            settle_part(store, shard, part)
        })
    })
    .await
}

/// What a script does for an end of a lease, as far as that can be seen from here. Measured.
fn cost(_: Option<&Settle>, item: &Settle) -> usize {
    match &item.outcome {
        Outcome::Ack { result: None } => 3,
        Outcome::Ack {
            result: Some(result),
        } => 30 + parts::bytes(result.len()),
        Outcome::Fail { error, .. } => 30 + parts::bytes(error.len()),
        Outcome::Release { .. } | Outcome::Bury { .. } | Outcome::Snooze { .. } => 30,
    }
}

/// The shard that an id names.
pub fn shard(store: &Store, id: JobId) -> u16 {
    id.shard(store.shards)
}

async fn settle_part(
    store: &Store,
    shard: u16,
    mut items: Vec<Settle>,
) -> Result<Taken<Settle, Settled>> {
    let mut call = store.call(&script::SETTLE, shard);
    for item in &items {
        call.arg(item.token.job.0.to_be_bytes());
    }
    for item in &items {
        call.arg(pack(store, item)?);
    }
    let answer = bytes(store.run(call).await?)?;
    let taken = answer.len() / SETTLED;
    if taken == 0 || taken > items.len() {
        return Err(garbled("answers to another number of leases"));
    }
    let left = items.split_off(taken);
    let read = |(answer, item): (&[u8], &Settle)| {
        let mut unpack = Unpack(answer);
        let mut parts = || {
            Some((
                unpack.u8()? == 1,
                state(unpack.u8()?)?,
                unpack.u8()? == 1,
                unpack.time()?,
            ))
        };
        let (held, state, has_due, due) = parts().ok_or_else(|| garbled("an end of a lease"))?;
        Ok(match held {
            false => Err(refusal::lease_lost(item.token.job)),
            true => Ok(Settled {
                id: item.token.job,
                state,
                run_at: has_due.then_some(due),
            }),
        })
    };
    let answers = answer.chunks_exact(SETTLED).zip(&items).map(read);
    Ok(Taken {
        answers: answers.collect::<Result<_>>()?,
        left,
    })
}

fn pack(store: &Store, item: &Settle) -> Result<Vec<u8>> {
    let mut pack = Pack::default();
    token_of(&mut pack, item.token);
    match &item.outcome {
        // The most frequent end is the shortest.
        Outcome::Ack { result: None } => {}
        Outcome::Ack {
            result: Some(result),
        } => {
            pack.u8(1).flag(true).raw(result);
        }
        Outcome::Fail {
            error,
            delay,
            retry,
        } => {
            let dice: [u8; 8] = store.random(8)?.try_into().expect("eight bytes");
            let dice = (u64::from_be_bytes(dice) >> 11) as f64 / (1u64 << 53) as f64;
            pack.u8(2)
                .flag(delay.is_some())
                .span(delay.unwrap_or_default())
                .flag(*retry == Retry::Never)
                .raw(&dice.to_be_bytes())
                .raw(error.as_bytes());
        }
        Outcome::Release { priority, delay } => {
            pack.u8(3)
                .flag(priority.is_some())
                .u32(priority.unwrap_or_default())
                .flag(delay.is_some())
                .span(delay.unwrap_or_default());
        }
        Outcome::Bury { error, priority } => {
            pack.u8(4)
                .flag(priority.is_some())
                .u32(priority.unwrap_or_default())
                .flag(error.is_some())
                .raw(error.as_deref().unwrap_or_default().as_bytes());
        }
        Outcome::Snooze { delay } => {
            pack.u8(5).span(*delay);
        }
    }
    Ok(pack.0)
}

pub fn token_of(pack: &mut Pack, token: Token) {
    pack.raw(&token.counter.min((1 << 48) - 1).to_be_bytes()[2..])
        .u64(token.nonce);
}

/// Prolongs leases.
pub async fn extend(store: &Arc<Store>, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
    let shard_of = |item: &Extend| shard(store, item.token.job);
    let cost = |_: Option<&Extend>, item: &Extend| {
        let progress = item.progress.as_ref().map_or(0, |progress| progress.len());
        20 + parts::bytes(progress)
    };
    by_shard(items, shard_of, |shard, items| {
        in_parts(store.link.timeout(), items, cost, move |part| {
            extend_part(store, shard, part)
        })
    })
    .await
}

async fn extend_part(
    store: &Store,
    shard: u16,
    items: Vec<Extend>,
) -> Result<Taken<Extend, Extended>> {
    let mut call = store.call(&script::EXTEND, shard);
    for item in &items {
        let mut pack = Pack::default();
        pack.u64(item.token.job.0);
        token_of(&mut pack, item.token);
        pack.flag(item.ttr.is_some())
            .span(item.ttr.unwrap_or_default())
            .flag(item.progress.is_some())
            .raw(item.progress.as_deref().unwrap_or_default());
        call.arg(pack.0);
    }
    let answer = bytes(store.run(call).await?)?;
    if answer.len() != items.len() * 8 {
        return Err(garbled("answers to another number of leases"));
    }
    let read = |(answer, item): (&[u8], &Extend)| {
        let mut unpack = Unpack(answer);
        let mut parts = || Some((unpack.u8()? == 1, unpack.u8()? == 1, unpack.time()?));
        let (held, cancel, deadline) = parts().ok_or_else(|| garbled("a lease"))?;
        Ok(match held {
            false => Err(refusal::lease_lost(item.token.job)),
            true => Ok(Extended {
                id: item.token.job,
                deadline,
                cancel,
            }),
        })
    };
    let answers = answer.chunks_exact(8).zip(&items).map(read);
    Ok(Taken::all(answers.collect::<Result<_>>()?))
}
