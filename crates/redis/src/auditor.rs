//! The auditor: looks after the shards while nobody asks, and puts right what a failover or a hand in the keys left behind.
//!
//! About once a minute, and soon after another server took over, one process walks through all jobs of a shard (see
//! [`crate::audit`]) and lets `repair.lua` mend what it finds, which looks again before it does: the finds of a walk are old by
//! then. A shard in which nothing has changed since the last walk that found nothing is left alone: that costs one command a
//! minute.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use auxo_core::queue::QueueInfo;
use auxo_core::{QueueName, Result};
use tokio::time::Instant;

use crate::audit::{Find, Jobs, Strays, Sum};
use crate::link::Moves;
use crate::look::queues_in;
use crate::script;
use crate::spread;
use crate::store::{Store, number, text, tuple};

/// How often a shard is looked after.
const BEAT: Duration = Duration::from_secs(60);
/// For how long a process has a shard to itself, and after what time it says so again.
const CLAIM: Duration = Duration::from_secs(90);
const RENEW: Duration = Duration::from_secs(30);
/// How long after a change of servers the walk begins.
const SETTLE: Duration = Duration::from_secs(1);
/// How long a walk pauses after each piece of about a hundred jobs. A job was measured to take 13 µs of Redis, so the first, some
/// 600 jobs a second, is less than one percent of its time. The second is for after a change of servers: a quarter of its time,
/// and a million jobs in about a minute.
const EASY: Duration = Duration::from_millis(75);
const URGENT: Duration = Duration::from_millis(2);

/// A walk through a shard that mends what it finds.
struct Walk<'a> {
    store: &'a Store,
    shard: u16,
    pause: Duration,
    /// When the shard was last claimed, if others are to keep away.
    claimed: Option<Instant>,
    found: u64,
    mended: u64,
}

/// Looks after all shards until the engine is gone.
pub async fn run(store: Weak<Store>, mut moves: Moves) {
    // For each shard, what it looked like when a walk that found nothing began.
    let mut clean: BTreeMap<u16, String> = BTreeMap::new();
    loop {
        let pause = tokio::select! {
            () = tokio::time::sleep(BEAT) => EASY,
            moved = moves.next() => {
                if moved {
                    tokio::time::sleep(SETTLE).await;
                }
                clean.clear();
                URGENT
            }
        };
        let Some(store) = store.upgrade() else {
            return;
        };
        if store.open().is_err() {
            return;
        }
        for shard in store.all() {
            // Whatever went wrong, the next beat comes.
            if let Err(error) = beat(&store, shard, pause, &mut clean).await {
                tracing::debug!("redis: the audit of shard {shard} was given up: {error}");
            }
        }
        if let Err(error) = tidy(&store, store.all()).await {
            tracing::debug!("redis: queues that are spread were not looked after: {error}");
        }
    }
}

/// Looks after a shard, if no other process does and anything has changed.
async fn beat(
    store: &Store,
    shard: u16,
    pause: Duration,
    clean: &mut BTreeMap<u16, String>,
) -> Result<()> {
    let Some(sketch) = claim(store, shard).await? else {
        return Ok(());
    };
    if !sketch.is_empty() && clean.get(&shard) == Some(&sketch) {
        return Ok(());
    }
    clean.remove(&shard);
    let mut walk = Walk {
        store,
        shard,
        pause,
        claimed: Some(Instant::now()),
        found: 0,
        mended: 0,
    };
    if walk.all().await? && walk.found == 0 {
        clean.insert(shard, sketch);
    }
    Ok(())
}

/// Claims a shard. If it is ours, what it looks like.
async fn claim(store: &Store, shard: u16) -> Result<Option<String>> {
    let mut call = store.call(&script::CLAIM, shard);
    call.arg(store.process.as_str())
        .arg(CLAIM.as_millis().to_string());
    let [ours, sketch] = tuple(store.run(call).await?)?;
    Ok((number(ours)? == 1).then_some(text(sketch)?))
}

/// Walks through all shards at once and mends what it finds; says how much.
pub async fn repair(store: &Arc<Store>) -> Result<u64> {
    let mut mended = 0;
    for shard in store.all() {
        let mut walk = Walk {
            store,
            shard,
            pause: Duration::ZERO,
            claimed: None,
            found: 0,
            mended: 0,
        };
        walk.all().await?;
        mended += walk.mended;
    }
    Ok(mended + tidy(store, store.all()).await?)
}

/// Looks after the queues that are spread and have a place in one of these shards; says how many were changed.
async fn tidy(store: &Arc<Store>, shards: impl IntoIterator<Item = u16>) -> Result<u64> {
    let mut queues: BTreeMap<QueueName, u16> = BTreeMap::new();
    for shard in shards {
        for (queue, extent) in spread::seen(store, shard).await? {
            let most = queues.entry(queue).or_default();
            *most = extent.max(*most);
        }
    }
    let mut tidied = 0;
    for (queue, extent) in queues {
        tidied += u64::from(spread::tidy(store, &queue, extent).await?);
    }
    Ok(tidied)
}

impl Walk<'_> {
    /// Goes through everything. Whether it came to the end: another process may have taken over.
    async fn all(&mut self) -> Result<bool> {
        // The first count need not be exact: what it says is only whether to count again.
        let Some(wrong) = self.jobs_and_books(false).await? else {
            return Ok(false);
        };
        let mut strays = Strays::new();
        while let Some(finds) = strays.next(self.store, self.shard).await? {
            self.mend(&finds).await?;
            if !self.breathe().await? {
                return Ok(false);
            }
        }
        if wrong.is_empty() {
            return Ok(true);
        }
        let Some(wrong) = self.jobs_and_books(true).await? else {
            return Ok(false);
        };
        for (queue, (before, sum)) in wrong {
            self.balance(&queue, before.as_ref(), &sum).await?;
        }
        Ok(true)
    }

    /// Goes through all jobs. Which queues have other books than jobs: the books as they were before, and the count. `None` if
    /// it did not come to the end.
    async fn jobs_and_books(&mut self, exact: bool) -> Result<Option<Wrong>> {
        let before = queues_in(self.store, self.shard).await?;
        let mut jobs = Jobs::new(exact);
        while let Some(finds) = jobs.next(self.store, self.shard).await? {
            self.mend(&finds).await?;
            if !self.breathe().await? {
                return Ok(None);
            }
        }
        let mut sums = jobs.sums;
        let mut wrong = Wrong::new();
        for info in before {
            let sum = sums.remove(&info.name).unwrap_or_default();
            if !books_agree(&info, &sum) {
                wrong.insert(info.name.clone(), (Some(info), sum));
            }
        }
        // Whatever is left has no books at all.
        wrong.extend(sums.into_iter().map(|(queue, sum)| (queue, (None, sum))));
        Ok(Some(wrong))
    }

    async fn mend(&mut self, finds: &[Find]) -> Result<()> {
        if finds.is_empty() {
            return Ok(());
        }
        let mut call = self.store.call(&script::REPAIR, self.shard);
        for part in finds.iter().flat_map(Find::parts) {
            call.arg(part);
        }
        let mended = number(self.store.run(call).await?)?;
        for find in finds {
            tracing::warn!("redis: {find}");
        }
        self.found += finds.len() as u64;
        self.count(mended);
        Ok(())
    }

    async fn balance(
        &mut self,
        queue: &QueueName,
        before: Option<&QueueInfo>,
        sum: &Sum,
    ) -> Result<()> {
        let books = before.map(|info| info.books).unwrap_or_default();
        let mut call = self.store.call(&script::BALANCE, self.shard);
        call.arg(queue.as_str());
        for count in [
            books.accepted,
            books.done,
            books.dead,
            books.expired,
            books.cancelled,
            books.deleted,
            before.map_or(0, |info| info.bytes),
            sum.stored(),
            sum.dead,
            sum.expired,
            sum.bytes,
        ] {
            call.arg(count.to_string());
        }
        self.found += 1;
        if number(self.store.run(call).await?)? == 1 {
            tracing::warn!("redis: the books of queue {queue} were wrong");
            self.count(1);
        }
        Ok(())
    }

    fn count(&mut self, mended: u64) {
        self.mended += mended;
        self.store.repaired.fetch_add(mended, Ordering::Relaxed);
    }

    /// Lets others go first. Whether the shard is still ours.
    async fn breathe(&mut self) -> Result<bool> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        if self.claimed.is_some_and(|at| at.elapsed() > RENEW) {
            self.claimed = Some(Instant::now());
            return Ok(claim(self.store, self.shard).await?.is_some());
        }
        Ok(true)
    }
}

type Wrong = BTreeMap<QueueName, (Option<QueueInfo>, Sum)>;

/// Whether the books say what was counted. Who waits and who is leased may change while it is counted, the books do not.
fn books_agree(info: &QueueInfo, sum: &Sum) -> bool {
    let books = &info.books;
    let stored = books.live + books.dead + books.expired;
    (stored, books.dead, books.expired, info.bytes)
        == (sum.stored(), sum.dead, sum.expired, sum.bytes)
}

#[cfg(test)]
#[path = "../tests/auditor/mod.rs"]
mod tests;
