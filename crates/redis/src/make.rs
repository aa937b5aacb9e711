//! A store is made, or found.

use std::collections::BTreeSet;

use auxo_core::{Code, Error, Result};
use futures_util::future::try_join_all;

use crate::script;
use crate::store::{Store, number, text, tuple};

/// How many shards are asked whether they know of a store that has lost the first of them. On a cluster, many nodes would have
/// to lose all at once for none of these to be left.
const ASKED: u16 = 64;

/// Makes the store, or finds it: with the number of shards that it was made with, for jobs are found by it. `said` is what the
/// URL says of it.
pub async fn make(store: &mut Store, said: Option<u16>) -> Result<()> {
    check_the_first(store, said).await?;
    let mut call = store.call(&script::MAKE, 0);
    call.arg(store.shards.to_string())
        .arg(store.name()?)
        .arg("");
    let [made, identity] = tuple(store.run(call).await?)?;
    let made = number(made)? as u16;
    if let Some(said) = said.filter(|said| *said != made) {
        let text = format!(
            "the store has {made} shards, not {said}: leave shards out of its URL, or move the jobs to a new store"
        );
        return Err(Error::new(Code::Conflict, text));
    }
    store.shards = made;
    store.identity = text(identity)?;
    for shard in store.all().skip(1) {
        let mut call = store.call(&script::MAKE, shard);
        call.arg(made.to_string())
            .arg(store.identity.as_str())
            .arg("1");
        let was = text(store.run(call).await?)?;
        if !was.is_empty() && was != store.identity {
            tracing::warn!(
                "redis: shard {shard} outlived the store that it was of, and is taken over"
            );
        }
    }
    Ok(())
}

/// The first shard says how many there are. If it was lost and others were not, a new store must not be made beside them, in which
/// nobody would find their jobs: unless the URL says how many there are, and so that somebody knows of it.
async fn check_the_first(store: &Store, said: Option<u16>) -> Result<()> {
    if known_to(store, 0).await?.is_some() {
        return Ok(());
    }
    let others = (1..ASKED).map(|shard| known_to(store, shard));
    let others: BTreeSet<u16> = try_join_all(others).await?.into_iter().flatten().collect();
    // Somebody may be making the store just now. The first shard then was there before the others.
    let Some(shards) = others.last() else {
        return Ok(());
    };
    if known_to(store, 0).await?.is_some() {
        return Ok(());
    }
    if said.is_some_and(|said| others.contains(&said)) {
        tracing::warn!(
            "redis: the first shard of the store was lost, and is made anew without its jobs"
        );
        return Ok(());
    }
    let text = format!(
        "the first of the {shards} shards of this store was lost: other shards are still there, with their jobs, but it is empty \
         (a node that came back without its data, or a hand). If it cannot be brought back, put shards={shards} into the URL: it is \
         then made anew, and the other shards are kept. For a new store beside this one, choose another prefix"
    );
    Err(Error::new(Code::Conflict, text))
}

/// How many shards the store has, as one of them knows.
async fn known_to(store: &Store, shard: u16) -> Result<Option<u16>> {
    let key = store.keys.part(shard, "META");
    let command: [&[u8]; 3] = [b"HGET", key.as_bytes(), b"shards"];
    let shards = text(store.link.command(Some(&key), &command).await?)?;
    Ok(shards.parse().ok())
}
