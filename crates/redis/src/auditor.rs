//! The auditor: looks after the shards while nobody asks, and puts right what a failover or a hand in the keys left behind.
//!
//! About once a minute, and soon after another server took over, one process walks through all jobs of a shard (see
//! [`crate::audit`]) and lets `repair.lua` mend what it finds, which looks again before it does: the finds of a walk are old by
//! then. Before that it looks after the queues in the shard that are spread. A shard in which nothing has changed since the last
//! walk that found nothing is left alone: that costs one command a minute.
//!
//! Who walks says so every few seconds. Who has walked keeps the shard until its next beat, so that there is one process that knows
//! what it looked like; but after a change of servers nobody waits for that one, which may be gone: a walk is tried for until one has
//! come to its end, whoever did it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use auxo_core::queue::QueueInfo;
use auxo_core::{QueueName, Result};
use tokio::time::Instant;

use crate::audit::{Find, Jobs, Strays, Sum};
use crate::forget;
use crate::link::Moves;
use crate::look::queues_in;
use crate::script;
use crate::spread;
use crate::store::{Store, number, text, tuple};

/// How often a shard is looked after.
pub const BEAT: Duration = Duration::from_secs(60);
/// For how long a process that walks has a shard to itself, and after what time it says so again; and for how long one that rests.
const CLAIM: Duration = Duration::from_secs(20);
const RENEW: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(65);
/// How soon a claim that was refused is tried again where it is urgent.
const RETRY: Duration = Duration::from_secs(5);
/// How long after a change of servers the walk begins.
const SETTLE: Duration = Duration::from_secs(1);
/// How many finds one script mends.
const MENDED: usize = 30;
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
    /// Tells that another server took over, and the walk has to begin anew.
    moves: Option<&'a Moves>,
    found: u64,
    mended: u64,
}

/// Looks after all shards until the engine is gone.
pub async fn run(store: Weak<Store>, mut moves: Moves) {
    let Some(shards) = store.upgrade().map(|store| store.shards) else {
        return;
    };
    let mut rounds = Rounds::new(shards, Instant::now() + BEAT);
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(rounds.next()) => {}
            moved = moves.next() => {
                if moved {
                    tokio::time::sleep(SETTLE).await;
                }
                rounds.hurry(Instant::now());
            }
        };
        let Some(store) = store.upgrade() else {
            return;
        };
        if store.open().is_err() {
            return;
        }
        rounds.look(&store, Instant::now(), Some(&moves)).await;
    }
}

/// What a process knows of the shards between two looks.
struct Rounds {
    /// What a shard looked like when a walk that found nothing began.
    clean: BTreeMap<u16, String>,
    shards: Vec<Next>,
}

/// When a shard is looked after next.
#[derive(Clone, Copy)]
struct Next {
    at: Instant,
    /// Another server took over, and nobody is known to have walked since.
    urgent: bool,
    /// While it is urgent and others have the shard: how many walks had come to their end at first.
    walks: Option<u64>,
}

/// What came of a claim.
enum Claim {
    /// What the shard looks like, and how many of its queues may be forgotten.
    Ours(String, u64),
    /// For how long another process has it, and how many walks came to their end.
    Theirs(Duration, u64),
}

impl Rounds {
    fn new(shards: u16, at: Instant) -> Rounds {
        let next = Next {
            at,
            urgent: false,
            walks: None,
        };
        Rounds {
            clean: BTreeMap::new(),
            shards: vec![next; usize::from(shards)],
        }
    }

    /// When there is something to do.
    fn next(&self) -> Instant {
        let times = self.shards.iter().map(|next| next.at);
        times.min().expect("a store has a shard")
    }

    /// Another server took over.
    fn hurry(&mut self, now: Instant) {
        self.clean.clear();
        self.shards.fill(Next {
            at: now,
            urgent: true,
            walks: None,
        });
    }

    /// Looks after the shards whose time has come, if no other process does and anything has changed.
    async fn look(&mut self, store: &Arc<Store>, now: Instant, moves: Option<&Moves>) {
        let mut ours = Vec::new();
        for shard in store.all() {
            let next = self.shards[usize::from(shard)];
            if next.at > now {
                continue;
            }
            let clean = self.clean.get(&shard).cloned().unwrap_or_default();
            let claimed = claim(store, shard, deed(next.urgent), &clean).await;
            self.shards[usize::from(shard)] = next.after(&claimed, now);
            let Ok(Claim::Ours(sketch, unused)) = claimed else {
                continue;
            };
            if unused > 0
                && let Err(error) = forget::unused(store, shard).await
            {
                tracing::debug!("redis: unused queues were not forgotten: {error}");
            }
            if sketch.is_empty() || sketch != clean {
                self.clean.remove(&shard);
                ours.push((shard, next.urgent));
            }
        }
        if ours.is_empty() {
            return;
        }
        // First, for pushes may fail until that is done, and it is soon done.
        let tidied = tidy(store).await;
        if let Err(error) = &tidied {
            tracing::debug!("redis: queues that are spread were not looked after: {error}");
        }
        for (shard, urgent) in ours {
            if moves.is_some_and(Moves::pending) {
                return;
            }
            let next = &mut self.shards[usize::from(shard)];
            match walk(store, shard, urgent, moves).await {
                Ok(Some(sketch)) => {
                    (next.urgent, next.walks) = (false, None);
                    let sketch = sketch.filter(|_| tidied.is_ok());
                    self.clean.extend(sketch.map(|sketch| (shard, sketch)));
                }
                // Another process has it now, or it is to begin anew.
                Ok(None) => {}
                // Whatever went wrong, the next beat comes.
                Err(error) => {
                    tracing::debug!("redis: the audit of shard {shard} was given up: {error}");
                }
            }
            next.at = Instant::now() + if next.urgent { RETRY } else { BEAT };
        }
    }
}

impl Next {
    /// When to come back after a claim.
    fn after(self, claimed: &Result<Claim>, now: Instant) -> Next {
        let mut next = self;
        let wait = match claimed {
            Ok(Claim::Ours(..)) => BEAT,
            Ok(Claim::Theirs(left, walks)) => {
                let first = *next.walks.get_or_insert(*walks);
                if first != *walks {
                    (next.urgent, next.walks) = (false, None);
                }
                // When the other is gone, its time is over then.
                (*left).min(REST) + Duration::from_secs(1)
            }
            Err(_) => BEAT,
        };
        next.at = now + if next.urgent { wait.min(RETRY) } else { wait };
        next
    }
}

fn deed(urgent: bool) -> &'static str {
    if urgent { "urgent" } else { "walk" }
}

/// Claims a shard, or says that a walk through it is over.
async fn claim(store: &Store, shard: u16, deed: &str, clean: &str) -> Result<Claim> {
    let mut call = store.call(&script::CLAIM, shard);
    call.arg(store.process.as_str())
        .arg(deed)
        .arg(CLAIM.as_millis().to_string())
        .arg(REST.as_millis().to_string())
        .arg(clean);
    let [ours, sketch, left, walks, unused] = tuple(store.run(call).await?)?;
    Ok(match number(ours)? {
        1 => Claim::Ours(text(sketch)?, number(unused)?),
        _ => Claim::Theirs(Duration::from_millis(number(left)?), number(walks)?),
    })
}

/// Walks through a shard that is ours. If it came to the end: what the shard looked like before, if nothing was found.
async fn walk(
    store: &Store,
    shard: u16,
    urgent: bool,
    moves: Option<&Moves>,
) -> Result<Option<Option<String>>> {
    // Others may have been walked through since it was claimed.
    let Claim::Ours(sketch, _) = claim(store, shard, deed(urgent), "").await? else {
        return Ok(None);
    };
    let mut walk = Walk {
        store,
        shard,
        pause: if urgent { URGENT } else { EASY },
        claimed: Some(Instant::now()),
        moves,
        found: 0,
        mended: 0,
    };
    if !walk.all().await? {
        return Ok(None);
    }
    claim(store, shard, "over", "").await?;
    Ok(Some((walk.found == 0).then_some(sketch)))
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
            moves: None,
            found: 0,
            mended: 0,
        };
        walk.all().await?;
        mended += walk.mended;
    }
    Ok(mended + tidy(store).await?)
}

/// Looks after the queues that are spread; says how many were changed.
async fn tidy(store: &Arc<Store>) -> Result<u64> {
    let mut tidied = 0;
    for (queue, extent) in spread::seen(store).await? {
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
        // Of those that no script has left since, nobody may have noted that they have no jobs.
        let empty = before.iter().filter(|info| is_empty(info));
        let empty: Vec<QueueName> = empty.map(|info| info.name.clone()).collect();
        forget::list(self.store, self.shard, &empty).await?;
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
        for finds in finds.chunks(MENDED) {
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
        }
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

    /// Lets others go first. Whether to go on: the shard is still ours, and no other server took over meanwhile.
    async fn breathe(&mut self) -> Result<bool> {
        if !self.pause.is_zero() {
            tokio::time::sleep(self.pause).await;
        }
        if self.moves.is_some_and(Moves::pending) {
            return Ok(false);
        }
        if self.claimed.is_some_and(|at| at.elapsed() > RENEW) {
            self.claimed = Some(Instant::now());
            let claimed = claim(self.store, self.shard, "walk", "").await?;
            return Ok(matches!(claimed, Claim::Ours(..)));
        }
        Ok(true)
    }
}

type Wrong = BTreeMap<QueueName, (Option<QueueInfo>, Sum)>;

fn is_empty(info: &QueueInfo) -> bool {
    info.books.live + info.books.dead + info.books.expired == 0
}

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
