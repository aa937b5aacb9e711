//! A store is made, or found.

use std::collections::BTreeSet;

use auxo_core::{Code, Error, Result};
use futures_util::future::{join_all, try_join_all};

use crate::partial::is_away;
use crate::script;
use crate::store::{Store, text, tuple};

/// How many shards are asked whether they know of a store that has lost the first of them. On a cluster, many nodes would have
/// to lose all at once for none of these to be left.
const ASKED: u16 = 64;

/// The version of how jobs lie in Redis. The first shard says it before the number of shards, as in `2:16`, where builds that
/// only know the first layout, which had the number alone, find something that is no number and do not open the store.
const LAYOUT: u32 = 2;

/// Makes the store, or finds it: with the number of shards that it was made with, for jobs are found by it. `said` is what the
/// URL says of it. Answers which shards are away; a store that is there is opened without them, a new one is not made.
pub async fn make(store: &mut Store, said: Option<u16>) -> Result<Vec<(u16, Error)>> {
    let (made, identity) = match check_the_first(store, said).await? {
        First::Here => {
            let mut call = store.call(&script::MAKE, 0);
            call.arg(said_as(store.shards)).arg(store.name()?).arg("");
            let [made, identity] = tuple(store.run(call).await?)?;
            (shards_of(&text(made)?)?, text(identity)?)
        }
        First::Away(made, identity) => (made, identity),
    };
    if let Some(said) = said.filter(|said| *said != made) {
        let text = format!(
            "the store has {made} shards, not {said}: leave shards out of its URL, or move the jobs to a new store"
        );
        return Err(Error::new(Code::Conflict, text));
    }
    store.shards = made;
    store.identity = identity;
    let asked = join_all(store.all().map(|shard| join_in(store, shard))).await;
    let mut away = Vec::new();
    for (shard, asked) in store.all().zip(asked) {
        match asked {
            Ok(()) => {}
            Err(error) if is_away(&error) => {
                tracing::warn!("redis: shard {shard} is away: {}", error.message());
                away.push((shard, error));
            }
            Err(error) => return Err(error),
        }
    }
    match away.first() {
        Some((_, error)) if away.len() == usize::from(made) => Err(error.clone()),
        _ => Ok(away),
    }
}

/// Tells a shard of which store it is.
async fn join_in(store: &Store, shard: u16) -> Result<()> {
    if shard == 0 {
        // It tells the others, or is away.
        return known_to(store, 0).await.map(drop);
    }
    let mut call = store.call(&script::MAKE, shard);
    call.arg(said_as(store.shards))
        .arg(store.identity.as_str())
        .arg("1");
    let [shards, was] = tuple(store.run(call).await?)?;
    let (shards, was) = (text(shards)?, text(was)?);
    if !shards.is_empty() {
        shards_of(&shards)?;
    }
    if !was.is_empty() && was != store.identity {
        tracing::warn!("redis: shard {shard} outlived the store that it was of, and is taken over");
    }
    Ok(())
}

/// Where the first shard is.
enum First {
    /// It can be asked.
    Here,
    /// It is away, and the others know how many there are, and the store's identity.
    Away(u16, String),
}

/// The first shard says how many there are. If it was lost and others were not, a new store must not be made beside them, in which
/// nobody would find their jobs: unless the URL says how many there are, and so that somebody knows of it.
async fn check_the_first(store: &Store, said: Option<u16>) -> Result<First> {
    match known_to(store, 0).await {
        Ok(Some(_)) => return Ok(First::Here),
        Ok(None) => {}
        Err(error) if is_away(&error) => return known_to_others(store, error).await,
        Err(error) => return Err(error),
    }
    let others = (1..ASKED).map(|shard| known_to(store, shard));
    let others: BTreeSet<u16> = try_join_all(others).await?.into_iter().flatten().collect();
    // Somebody may be making the store just now. The first shard then was there before the others.
    let Some(shards) = others.last() else {
        return Ok(First::Here);
    };
    if known_to(store, 0).await?.is_some() {
        return Ok(First::Here);
    }
    if said.is_some_and(|said| others.contains(&said)) {
        tracing::warn!(
            "redis: the first shard of the store was lost, and is made anew without its jobs"
        );
        return Ok(First::Here);
    }
    let text = format!(
        "the first of the {shards} shards of this store was lost: other shards are still there, with their jobs, but it is empty \
         (a node that came back without its data, or a hand). If it cannot be brought back, put shards={shards} into the URL: it is \
         then made anew, and the other shards are kept. For a new store beside this one, choose another prefix"
    );
    Err(Error::new(Code::Conflict, text))
}

/// What the others know of the store while the first shard is away. One that outlived an earlier store may say something else than
/// the others; then nobody can say which store this is until the first is back.
async fn known_to_others(store: &Store, away: Error) -> Result<First> {
    let asked = join_all((1..ASKED).map(|shard| identity_in(store, shard))).await;
    let known: BTreeSet<(u16, String)> = asked.into_iter().flatten().flatten().collect();
    match (known.len(), known.into_iter().next()) {
        (1, Some((shards, identity))) => Ok(First::Away(shards, identity)),
        _ => Err(away),
    }
}

/// How many shards the store has, and its identity, as one of them knows.
async fn identity_in(store: &Store, shard: u16) -> Result<Option<(u16, String)>> {
    let Some(shards) = known_to(store, shard).await? else {
        return Ok(None);
    };
    let key = store.keys.part(shard, "META");
    let command: [&[u8]; 3] = [b"HGET", key.as_bytes(), b"store"];
    let identity = text(store.link.command(Some(&key), &command).await?)?;
    Ok(Some((shards, identity)).filter(|(_, identity)| !identity.is_empty()))
}

/// How many shards the store has, as one of them knows.
async fn known_to(store: &Store, shard: u16) -> Result<Option<u16>> {
    let key = store.keys.part(shard, "META");
    let command: [&[u8]; 3] = [b"HGET", key.as_bytes(), b"shards"];
    let shards = text(store.link.command(Some(&key), &command).await?)?;
    match shards.is_empty() {
        true => Ok(None),
        false => shards_of(&shards).map(Some),
    }
}

fn said_as(shards: u16) -> String {
    format!("{LAYOUT}:{shards}")
}

/// How many shards there are. Two builds that lay jobs out differently must not share a store.
fn shards_of(said: &str) -> Result<u16> {
    let (layout, shards) = said.split_once(':').unwrap_or(("1", said));
    if let (Ok(LAYOUT), Ok(shards)) = (layout.parse(), shards.parse()) {
        return Ok(shards);
    }
    let text = match layout {
        "1" => format!(
            "this store has layout 1, which an older build of Auxo wrote. This build reads and writes layout {LAYOUT} and did not \
             open it; nothing was changed. To move its jobs, start a server of the older build on the store and run, with this build, \
             `auxo migrate --from http://HOST:8000 --to URL`, where URL names another prefix= or another Redis"
        ),
        _ => format!(
            "this store has layout {layout}, which another build of Auxo wrote. This build reads and writes layout {LAYOUT} and did \
             not open it; nothing was changed. Use a build that knows layout {layout}, or choose another prefix="
        ),
    };
    Err(Error::new(Code::Conflict, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_another_layout_is_refused_with_what_to_do() {
        assert_eq!(shards_of(&said_as(16)), Ok(16));
        for (said, words) in [
            ("16", ["layout 1,", "auxo migrate --from http://"]),
            ("3:16", ["layout 3,", "a build that knows layout 3"]),
            ("2:x", ["layout 2,", "choose another prefix"]),
        ] {
            let error = shards_of(said).unwrap_err();
            assert_eq!(error.code(), Code::Conflict);
            for word in words {
                assert!(error.message().contains(word), "{error}");
            }
        }
    }
}
