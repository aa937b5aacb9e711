//! Queues that have nothing and that no call uses are forgotten, and their books kept together.
//!
//! Scripts that leave a queue without jobs, or are asked for one that has none, note the time in a sorted set, `unused`. Who
//! lists queues or audits them, and once a minute the auditor, looks for those whose hour is over; a push of a new name that finds
//! no place looks for those that went unused the longest. `forget.lua` sees to it that a queue has nothing in its shard. Of
//! subscriptions and schedules it knows nothing: they are looked at here, before. One that is made in between loses nothing, for its
//! next job makes the queue again.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::queue::{Books, FORGET_AFTER};
use auxo_core::{Code, Error, QueueName, Result};
use futures_util::future::join_all;

use crate::desk::catch_up;
use crate::partial::{self, is_away};
use crate::schedules;
use crate::script;
use crate::store::{Store, items, number, text, tuple};

/// How many queues are looked for at once.
const PIECE: usize = 100;
/// How often it is looked for queues that can make room, where others have schedules or subscriptions.
const ROUNDS: usize = 16;

/// Forgets the queues of a shard whose hour is over.
pub async fn unused(store: &Store, shard: u16) -> Result<()> {
    if let Some(desk) = store.desk(shard) {
        desk.leave_idle().await;
    }
    while some(store, shard, FORGET_AFTER, PIECE).await?.1 {}
    Ok(())
}

/// Forgets so many queues of a shard, those that went unused the longest. How many there were.
pub async fn make_room(store: &Store, shard: u16, wanted: usize) -> Result<usize> {
    let mut made = 0;
    // What was found to be in use is noted so, and is the last to be found again.
    for _ in 0..ROUNDS {
        let (forgotten, more) = some(store, shard, Duration::ZERO, wanted - made).await?;
        made += forgotten;
        if made == wanted || forgotten == 0 && !more {
            break;
        }
    }
    Ok(made)
}

/// The answer to a new name where all queues are in use.
pub fn too_many() -> Error {
    let text = "there are as many queues as there may be, and all of them are in use; \
                a queue is forgotten when it has no job, held key, setting, schedule, subscription or waiting call";
    Error::new(Code::TooLarge, text)
}

/// Forgets some, at most so many; how many, and whether there may be more.
async fn some(store: &Store, shard: u16, age: Duration, most: usize) -> Result<(usize, bool)> {
    let mut call = store.call(&script::FORGET, shard);
    call.arg("look")
        .arg(age.as_millis().to_string())
        .arg(PIECE.to_string());
    let [names, more] = tuple(store.run(call).await?)?;
    let name = |name| QueueName::new(&text(name)?);
    let names: Vec<QueueName> = items(names)?.into_iter().map(name).collect::<Result<_>>()?;
    let more = number(more)? == 1 || names.len() == PIECE;
    if names.is_empty() {
        return Ok((0, more));
    }
    // Where that is known to be away, nothing is waited for.
    partial::reachable(store, 0)?;
    let bound: HashSet<QueueName> = schedules::bound(store, shard).await?;
    let (kept, mut gone): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| bound.contains(name));
    gone.truncate(most);
    tell(store, shard, "keep", &kept).await?;
    Ok((tell(store, shard, "forget", &gone).await?, more))
}

/// Notes queues that have no job, if they are not noted yet.
pub async fn list(store: &Store, shard: u16, names: &[QueueName]) -> Result<()> {
    tell(store, shard, "list", names).await.map(drop)
}

/// Notes that a queue is used, or was until now by something that is not stored beside it.
pub async fn note_use(store: &Store, queue: &QueueName) -> Result<()> {
    let shard = store.shard_of(queue);
    tell(store, shard, "keep", std::slice::from_ref(queue))
        .await
        .map(drop)
}

async fn tell(store: &Store, shard: u16, act: &str, names: &[QueueName]) -> Result<usize> {
    let mut forgotten = 0;
    for names in names.chunks(PIECE) {
        let mut call = store.call(&script::FORGET, shard);
        call.arg(act);
        for name in names {
            call.arg(name.as_str());
        }
        forgotten += number(store.run(call).await?)? as usize;
    }
    Ok(forgotten)
}

/// The books of all forgotten queues. Of a shard that is away they are as they were last seen, so that the sum does not fall.
pub async fn books(store: &Arc<Store>) -> Result<Books> {
    let asked = join_all(store.all().map(|shard| caught_up_books(store, shard))).await;
    let mut books = Books::default();
    let mut known = store.forgotten.lock().expect("forgotten");
    for (shard, asked) in store.all().zip(asked) {
        match asked {
            Err(error) if is_away(&error) && store.shards > 1 => {}
            asked => drop(known.insert(shard, asked?)),
        }
        if let Some(seen) = known.get(&shard) {
            books += *seen;
        }
    }
    Ok(books)
}

async fn caught_up_books(store: &Arc<Store>, shard: u16) -> Result<Books> {
    partial::reachable(store, shard)?;
    catch_up(store, shard).await?;
    unused_if_known(store, shard).await?;
    books_in(store, shard).await
}

/// Forgets the queues of a shard whose hour is over. The shard that knows of subscriptions may be away; then that waits.
pub async fn unused_if_known(store: &Store, shard: u16) -> Result<()> {
    match unused(store, shard).await {
        Err(error) if is_away(&error) => Ok(()),
        done => done,
    }
}

/// The books of the forgotten queues of a shard.
pub async fn books_in(store: &Store, shard: u16) -> Result<Books> {
    let call = store.call(&script::FORGOTTEN, shard);
    let mut numbers = [0; 4];
    for (to, value) in numbers.iter_mut().zip(items(store.run(call).await?)?) {
        *to = number(value)?;
    }
    let [accepted, done, cancelled, deleted] = numbers;
    Ok(Books {
        accepted,
        done,
        cancelled,
        deleted,
        ..Books::default()
    })
}
