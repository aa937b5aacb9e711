//! A store of which a part is away: what is refused, and what can still be shown.
//!
//! On a cluster a node can be lost with its shards while the others go on. A shard is taken for away while its desk, which tries
//! again all the time, cannot reach it.

use std::sync::Arc;

use auxo_core::engine::{Outage, QueueList};
use auxo_core::queue::QueueInfo;
use auxo_core::{Code, Error, Result};
use futures_util::future::join_all;

use crate::desk::{Desk, catch_up};
use crate::forget;
use crate::look::{merged, seen_in};
use crate::spread::Spread;
use crate::store::Store;

/// How many queues of a shard that is away are named.
const NAMED: usize = 5;

/// Whether an error means that a shard cannot be reached now.
pub fn is_away(error: &Error) -> bool {
    matches!(error.code(), Code::Unavailable | Code::UnknownOutcome)
}

/// Fails while no shard can be reached.
pub fn health(store: &Store, desks: &[Arc<Desk>]) -> Result<()> {
    store.open()?;
    let mut health = desks.iter().map(|desk| desk.health());
    let first = health.next().unwrap_or(Ok(()));
    match first.is_err() && health.all(|health| health.is_err()) {
        true => first,
        false => Ok(()),
    }
}

/// What is refused while the rest works.
pub fn outages(store: &Store, desks: &[Arc<Desk>]) -> Vec<Outage> {
    if health(store, desks).is_err() {
        return Vec::new();
    }
    let of = |(shard, desk): (u16, &Arc<Desk>)| match desk.health() {
        Err(error) => Some(away(shard, desk, &error)),
        Ok(()) if store.lacks_replicas(shard) => Some(unconfirmed(store, shard)),
        Ok(()) if store.is_full(shard) => Some(full(store, shard)),
        Ok(()) => None,
    };
    store.all().zip(desks).filter_map(of).collect()
}

fn away(shard: u16, desk: &Desk, error: &Error) -> Outage {
    let names = desk.names(NAMED);
    let queues = match names.is_empty() {
        true => String::new(),
        false => format!("; queues that were asked for there: {}", names.join(", ")),
    };
    Outage {
        part: format!("shard {shard}"),
        why: format!("{}{queues}", error.message()),
    }
}

fn unconfirmed(store: &Store, shard: u16) -> Outage {
    Outage {
        part: match store.shards {
            1 => "changes".to_owned(),
            _ => format!("changes in shard {shard}"),
        },
        why: "too few replicas confirmed the last change: see that all are connected and answer; jobs can be read meanwhile, \
              but not leased, and whether a push or an ack will last is unknown"
            .to_owned(),
    }
}

fn full(store: &Store, shard: u16) -> Outage {
    Outage {
        part: match store.shards {
            1 => "pushes".to_owned(),
            _ => format!("pushes to shard {shard}"),
        },
        why: "redis has no memory left for jobs: raise its maxmemory; jobs can be leased and settled meanwhile"
            .to_owned(),
    }
}

/// All queues of the shards that can be reached.
pub async fn queues(store: &Arc<Store>) -> Result<QueueList> {
    store.open()?;
    let asked = join_all(store.all().map(|shard| in_shard(store, shard))).await;
    let (mut seen, mut unavailable, mut first) = (Vec::new(), Vec::new(), None);
    for (shard, answer) in store.all().zip(asked) {
        match answer {
            Ok(found) => seen.push((shard, found)),
            Err(error) if is_away(&error) => {
                unavailable.extend(store.desk(shard).map(|desk| away(shard, &desk, &error)));
                first.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match first {
        Some(error) if seen.is_empty() => Err(error),
        _ => Ok(QueueList {
            queues: merged(store, seen),
            unavailable,
        }),
    }
}

async fn in_shard(store: &Arc<Store>, shard: u16) -> Result<Vec<(QueueInfo, Spread)>> {
    reachable(store, shard)?;
    catch_up(store, shard).await?;
    forget::unused_if_known(store, shard).await?;
    seen_in(store, shard, None).await
}

/// Fails if a shard of several is known to be away, so that no call waits for that once more. Whether it is back is soon known.
pub fn reachable(store: &Store, shard: u16) -> Result<()> {
    if store.shards > 1
        && let Some(desk) = store.desk(shard)
        && let Err(error) = desk.health()
    {
        desk.look();
        return Err(error);
    }
    Ok(())
}
