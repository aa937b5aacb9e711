//! Changes of how a queue is spread, and of the settings of one that is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use auxo_core::queue::QueueConfig;
use auxo_core::schedule::Schedule;
use auxo_core::{Code, Error, QueueName, Result, refusal};
use tokio::time::Instant;

use super::{Limit, MOST, Shares, Spread};
use crate::bytes::{Pack, Unpack};
use crate::look;
use crate::record::garbled;
use crate::schedules;
use crate::script;
use crate::settings::Settings;
use crate::store::{Store, bytes, items, number, text, tuple};

/// How many keys are looked at in one step.
const KEYS: usize = 1000;

/// What a place knows.
pub(super) struct Known {
    pub settings: Settings,
    next: Settings,
    used: Shares,
    /// Jobs that are kept, and keys that are held.
    kept: u64,
}

impl Known {
    fn is_empty(&self) -> bool {
        self.used.jobs == 0 && self.kept == 0
    }

    /// Whether two places know the same, but for their shares.
    fn agrees_with(&self, other: &Known) -> bool {
        let (one, two) = (&self.settings, &other.settings);
        one.spread == two.spread && one.config == two.config
    }
}

pub(super) async fn ask(store: &Store, queue: &QueueName, place: u16) -> Result<Known> {
    let mut call = store.call(&script::SPREAD, store.place(queue, place));
    call.arg(queue.as_str());
    let [config, next, jobs, size, leased, kept] = tuple(store.run(call).await?)?;
    let read = |value| Settings::unpack(&bytes(value)?).ok_or_else(|| garbled("settings"));
    Ok(Known {
        settings: read(config)?,
        next: read(next)?,
        used: Shares {
            jobs: number(jobs)?,
            bytes: number(size)?,
            leased: number(leased)?,
        },
        kept: number(kept)?,
    })
}

/// How a queue is spread, as its home knows it. A change that somebody began is completed first.
pub async fn refresh(store: &Arc<Store>, queue: &QueueName) -> Result<Spread> {
    loop {
        let asked = Instant::now();
        let known = ask(store, queue, 0).await?;
        let spread = known.settings.spread;
        if !spread.changing {
            store.spreads.believe(queue, spread, asked);
            return Ok(spread);
        }
        complete(store, queue, &known).await?;
    }
}

/// Changes the settings of a queue that is, was or is to be spread.
pub async fn change(store: &Arc<Store>, queue: &QueueName, config: &QueueConfig) -> Result<()> {
    let wanted = config.shards.unwrap_or(1);
    loop {
        if wanted > 1 && has_keyed_schedule(store, queue).await? {
            let text = format!(
                "queue {queue} cannot be spread: a schedule makes jobs with a key for it, which only one shard can do. Take the \
                 key out of the schedule's job first"
            );
            return Err(Error::new(Code::Conflict, text));
        }
        let old = refresh(store, queue).await?;
        let places = all(store, queue, old.extent.max(wanted)).await?;
        let spread = Spread {
            epoch: newest(&places) + 1,
            changing: false,
            count: wanted,
            low: old.low.min(wanted),
            reach: old.reach.max(wanted),
            extent: old.extent.max(wanted),
            limited: config.max_leased.is_some(),
        };
        if begin(store, queue, old.epoch, spread, config).await? {
            return Ok(());
        }
    }
}

/// The newest epoch that any place knows. Home has it, unless Redis lost a part of what it had: then a change that went on from
/// home's would leave those out that are ahead.
fn newest(places: &[Known]) -> u32 {
    let epochs = places.iter().map(|place| place.settings.spread.epoch);
    epochs.max().unwrap_or_default()
}

/// Makes a change known at home, if that is still in the old epoch, and completes it. False if another one was quicker.
pub(super) async fn begin(
    store: &Arc<Store>,
    queue: &QueueName,
    old: u32,
    spread: Spread,
    config: &QueueConfig,
) -> Result<bool> {
    let mut call = store.call(&script::FREEZE, store.shard_of(queue));
    let settings = Settings {
        config: config.clone(),
        spread,
        shares: Shares::default(),
    };
    call.arg(queue.as_str())
        .arg(spread.epoch.to_string())
        .arg(settings.pack())
        .arg(old.to_string());
    if number(store.run(call).await?)? == 0 {
        return Ok(false);
    }
    refresh(store, queue).await?;
    Ok(true)
}

/// Completes a change that is known at home.
async fn complete(store: &Arc<Store>, queue: &QueueName, home: &Known) -> Result<()> {
    let plan = &home.next;
    let epoch = home.settings.spread.epoch;
    let extent = plan.spread.extent;
    for place in 1..extent {
        let mut call = store.call(&script::FREEZE, store.place(queue, place));
        call.arg(queue.as_str()).arg(epoch.to_string()).arg("");
        store.run(call).await?;
    }
    // From here on nothing is used that was not, only less.
    let mut used = Vec::new();
    for place in 0..extent {
        used.push(ask(store, queue, place).await?.used);
    }
    let mut wish = Pack::default();
    for shares in deal(&plan.config, &plan.spread, &used) {
        shares.write(&mut wish);
    }
    let mut call = store.call(&script::DECIDE, store.shard_of(queue));
    call.arg(queue.as_str()).arg(epoch.to_string()).arg(wish.0);
    let decision = bytes(store.run(call).await?)?;
    let mut unpack = Unpack(&decision);
    let mut shares = Vec::new();
    while let Some(share) = Shares::read(&mut unpack) {
        shares.push(share);
    }
    // Home last: as long as it is frozen, whoever comes goes on with what is left.
    for (place, shares) in shares.into_iter().enumerate().rev() {
        let shard = store.place(queue, place as u16);
        let mut call = store.call(&script::THAW, shard);
        call.arg(queue.as_str()).arg(epoch.to_string()).arg(
            Settings {
                shares,
                ..plan.clone()
            }
            .pack(),
        );
        if number(store.run(call).await?)? > 0 {
            regroup(store, shard, queue).await?;
        }
    }
    Ok(())
}

/// Gathers or scatters the groups of a queue in a shard.
pub async fn regroup(store: &Store, shard: u16, queue: &QueueName) -> Result<()> {
    let mut from = vec![Vec::new(); 3];
    loop {
        let mut call = store.call(&script::REGROUP, shard);
        call.arg(queue.as_str());
        for part in from {
            call.arg(part);
        }
        let next = items(store.run(call).await?)?;
        if next.is_empty() {
            return Ok(());
        }
        let part = |part| bytes(part).map(|part| part.to_vec());
        from = next.into_iter().map(part).collect::<Result<_>>()?;
    }
}

/// Deals the limits to the places: each has what it uses, and of the rest those have equal parts that can use more.
fn deal(config: &QueueConfig, spread: &Spread, used: &[Shares]) -> Vec<Shares> {
    let by = |limit: Option<u64>, part: fn(&Shares) -> u64, takers: u16| {
        let used: Vec<u64> = used.iter().map(part).collect();
        split(limit.unwrap_or_default().min(MOST), &used, takers)
    };
    let jobs = by(config.max_jobs, |used| used.jobs, spread.count);
    let size = by(config.max_bytes, |used| used.bytes, spread.count);
    let leased = config.max_leased.map(u64::from);
    let leased = by(leased, |used| used.leased, spread.reach);
    let each = jobs.into_iter().zip(size).zip(leased);
    let each = each.map(|((jobs, bytes), leased)| Shares {
        jobs,
        bytes,
        leased,
    });
    each.collect()
}

/// Splits a limit. Where more is used than there is, nobody gets anything, until so much has ended that it can be dealt again.
fn split(limit: u64, used: &[u64], takers: u16) -> Vec<u64> {
    let sum: u64 = used.iter().sum();
    if sum > limit {
        return vec![0; used.len()];
    }
    let takers = u64::from(takers);
    let (each, more) = ((limit - sum) / takers, (limit - sum) % takers);
    let share = |(place, used): (usize, &u64)| {
        let place = place as u64;
        match place < takers {
            true => used + each + u64::from(place < more),
            false => *used,
        }
    };
    used.iter().enumerate().map(share).collect()
}

/// What the first places of a queue know.
async fn all(store: &Store, queue: &QueueName, extent: u16) -> Result<Vec<Known>> {
    let mut places = Vec::new();
    for place in 0..extent {
        places.push(ask(store, queue, place).await?);
    }
    Ok(places)
}

/// Whether less than there is of a limit was dealt, though more could be used.
fn is_short(places: &[Known], limit: Limit) -> bool {
    let sum = |part: fn(&Known) -> &Shares| -> u64 {
        places.iter().map(|place| part(place).of(limit)).sum()
    };
    let config = &places[0].settings.config;
    let most = match limit {
        Limit::Jobs => config.max_jobs,
        Limit::Bytes => config.max_bytes,
        Limit::Leased => config.max_leased.map(u64::from),
    };
    let most = most.unwrap_or_default().min(MOST);
    sum(|place| &place.settings.shares) < most && sum(|place| &place.used) < most
}

/// Whether a schedule makes jobs with a key for a queue. A schedule is at the home of its queue.
async fn has_keyed_schedule(store: &Store, queue: &QueueName) -> Result<bool> {
    let schedules = schedules::at(store, store.shard_of(queue)).await?;
    let keyed = |schedule: &Schedule| schedule.queue == *queue && schedule.spec.key.is_some();
    Ok(schedules.iter().any(keyed))
}

/// Refuses a schedule that makes jobs with a key for a queue that is spread.
pub async fn allow_schedule(store: &Arc<Store>, schedule: &Schedule) -> Result<()> {
    if schedule.spec.key.is_none() || refresh(store, &schedule.queue).await?.reach == 1 {
        return Ok(());
    }
    let text = format!(
        "schedule {:?} cannot make jobs with a key: its queue {} is spread over several shards",
        schedule.name, schedule.queue
    );
    Err(Error::new(Code::Conflict, text))
}

/// The queues that are or were spread, each with how many places it has at least. All shards are asked: a home that has forgotten
/// a queue does not know that it was spread.
pub async fn seen(store: &Store) -> Result<BTreeMap<QueueName, u16>> {
    let mut seen: BTreeMap<QueueName, u16> = BTreeMap::new();
    for shard in store.all() {
        for (info, spread) in look::seen_in(store, shard, None).await? {
            if spread.epoch > 0 {
                // A place that was just frozen knows no more than that it is one.
                let home = store.shard_of(&info.name);
                let place = (shard + store.shards - home) % store.shards;
                let extent = seen.entry(info.name).or_default();
                *extent = spread.extent.max(place + 1).max(*extent);
            }
        }
    }
    Ok(seen)
}

/// What the places of a queue know, so many at least, and whether that is the same.
async fn compare(store: &Arc<Store>, queue: &QueueName, extent: u16) -> Result<(Vec<Known>, bool)> {
    let mut last = None;
    loop {
        let spread = refresh(store, queue).await?;
        let places = all(store, queue, spread.extent.max(extent)).await?;
        let home = &places[0];
        let same =
            home.settings.spread == spread && places.iter().all(|place| place.agrees_with(home));
        // If they differ, perhaps it changed while they were asked: then home is on by the next look.
        if same || last == Some(spread) {
            return Ok((places, same));
        }
        last = Some(spread);
    }
}

/// Whether the places of a queue, so many at least, know the same.
pub async fn agree(store: &Arc<Store>, queue: &QueueName, extent: u16) -> Result<bool> {
    Ok(compare(store, queue, extent).await?.1)
}

/// Looks after a queue that is or was spread, over so many places at least: places that know different things are brought
/// together, those that are empty are left, and shares that were lost are dealt again. Whether that changed anything.
pub async fn tidy(store: &Arc<Store>, queue: &QueueName, extent: u16) -> Result<bool> {
    let (places, same) = compare(store, queue, extent).await?;
    if !same {
        return reunite(store, queue, &places).await;
    }
    let spread = places[0].settings.spread;
    let limits = [Limit::Jobs, Limit::Bytes, Limit::Leased];
    let lost = spread.reach > 1 && limits.iter().any(|limit| is_short(&places, *limit));
    let narrow = spread.low != spread.reach && can_narrow(store, queue, &spread, &places).await?;
    if !lost && !narrow {
        return Ok(false);
    }
    let mut next = Spread {
        epoch: spread.epoch + 1,
        ..spread
    };
    if narrow {
        (next.low, next.reach) = (spread.count, spread.count);
    }
    let config = &places[0].settings.config;
    begin(store, queue, spread.epoch, next, config).await
}

/// Redis lost the last changes of a queue in some of its places: all get the settings of home anew. Jobs and keys are looked for
/// wherever any place knows that they may be.
async fn reunite(store: &Arc<Store>, queue: &QueueName, places: &[Known]) -> Result<bool> {
    let home = &places[0].settings;
    if home.spread.changing {
        // Somebody sees to it just now. What home has is not what it is to have.
        return Ok(false);
    }
    let whole = places
        .iter()
        .filter(|place| !place.settings.spread.changing);
    let ahead = whole.max_by_key(|place| place.settings.spread.epoch);
    // Where home has forgotten the queue, the newest settings hold that there are.
    let forgotten = home.spread.epoch == 0 && home.config == QueueConfig::default();
    let config = match ahead {
        Some(ahead) if forgotten => &ahead.settings.config,
        _ => &home.config,
    };
    let count = config.shards.unwrap_or(1);
    let filled = places.iter().rposition(|place| !place.is_empty());
    let filled = filled.map_or(0, |last| last as u16 + 1);
    let spreads = || places.iter().map(|place| place.settings.spread);
    let next = Spread {
        epoch: newest(places) + 1,
        changing: false,
        count,
        low: spreads().map(|spread| spread.low).fold(count, u16::min),
        reach: spreads()
            .map(|spread| spread.reach)
            .fold(count.max(filled), u16::max),
        extent: places.len() as u16,
        limited: config.max_leased.is_some(),
    };
    let begun = begin(store, queue, home.spread.epoch, next, config).await?;
    if begun {
        tracing::warn!(
            "redis: the shards of queue {queue} knew different settings, and have the same again"
        );
        store.repaired.fetch_add(1, Ordering::Relaxed);
    }
    Ok(begun)
}

/// Whether all jobs of a queue are where its count says they should be.
async fn can_narrow(
    store: &Store,
    queue: &QueueName,
    spread: &Spread,
    places: &[Known],
) -> Result<bool> {
    let rest = &places[usize::from(spread.count)..usize::from(spread.reach)];
    if !rest.iter().all(Known::is_empty) {
        return Ok(false);
    }
    for place in 0..spread.count {
        let mut cursor = "0".to_owned();
        loop {
            let mut call = store.call(&script::HELD, store.place(queue, place));
            call.arg(queue.as_str())
                .arg(cursor.as_str())
                .arg(KEYS.to_string());
            let [next, keys] = tuple(store.run(call).await?)?;
            for key in items(keys)? {
                if Spread::choice(&text(key)?, spread.count) != place {
                    return Ok(false);
                }
            }
            cursor = text(next)?;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(true)
}

/// Refuses a spread over more shards than there are.
pub fn allow(store: &Store, queue: &QueueName, config: &QueueConfig) -> Result<()> {
    match config.shards {
        Some(wanted) if wanted > store.shards => {
            Err(refusal::too_few_shards(queue, wanted, store.shards))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_never_more_than_the_limit_and_nobody_loses_what_it_uses() {
        for limit in 0..40 {
            for used in [vec![0; 4], vec![3, 0, 1, 9], vec![20, 0, 0, 0], vec![7; 4]] {
                for takers in 1..=4 {
                    let shares = split(limit, &used, takers);
                    let sum: u64 = shares.iter().sum();
                    if used.iter().sum::<u64>() <= limit {
                        assert_eq!(sum, limit, "{used:?}: {shares:?}");
                        assert!(shares.iter().zip(&used).all(|(share, used)| share >= used));
                    } else {
                        assert_eq!(sum, 0, "{used:?}: {shares:?}");
                    }
                }
            }
        }
    }
}
