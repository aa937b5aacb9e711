//! Queues that are spread over several shards.
//!
//! A queue has a home, the shard that its name names, and may be spread over that one and those that follow it: its places 0, 1,
//! 2… Each place has a copy of the queue's settings, and with them how the queue is spread:
//!
//! - `count`: over how many places jobs are pushed. One with a key goes to the place that the key chooses among them, so that
//!   nobody but that place must be asked whether the key is free.
//! - `low` and `reach`: between which numbers of places the count was since the oldest job of the queue was pushed. Jobs are lent
//!   from all `reach` places; and a key may still be held in any place that it would have chosen under a count in between.
//! - `extent`: how many places there ever were. They have books to show.
//! - `epoch`: grows with each change. A push names the epoch it was planned in, and a place that is in another one refuses it.
//!
//! A change goes from place to place: all are frozen, and only when nobody can push by the old rule any more they are thawed with
//! the new one. The plan is kept at home, so whoever finds a place frozen can complete the change of one who did not.
//!
//! Limits hold for all places together. Of `max_jobs`, `max_bytes` and `max_leased` each place has a share, which it can check
//! alone; a place that needs more gets it from the others, which give first. The rate is kept at home, and leases are paid for
//! there. So no limit is ever exceeded; what a process took and did not put where it belongs when it was killed is missing until
//! the auditor deals anew.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use auxo_core::queue::QueueConfig;
use auxo_core::time::Timestamp;
use auxo_core::{Code, Error, QueueName, Result, refusal};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::bytes::{Pack, Unpack};
use crate::look;
use crate::record::garbled;
use crate::schedules;
use crate::script;
use crate::settings::Settings;
use crate::store::{Store, bytes, hash, items, number, text, time, tuple};

/// As much as Lua can count; a larger limit is none.
const MOST: u64 = 1 << 53;
/// How many keys are looked at in one step.
const KEYS: usize = 1000;

/// How a queue is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    pub epoch: u32,
    pub changing: bool,
    pub count: u16,
    pub low: u16,
    pub reach: u16,
    pub extent: u16,
    /// A lease that ends in one place makes room in another.
    pub limited: bool,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread {
            epoch: 0,
            changing: false,
            count: 1,
            low: 1,
            reach: 1,
            extent: 1,
            limited: false,
        }
    }
}

/// What a place may use of each limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shares {
    pub jobs: u64,
    pub bytes: u64,
    pub leased: u64,
}

impl Shares {
    fn of(&self, limit: Limit) -> u64 {
        match limit {
            Limit::Jobs => self.jobs,
            Limit::Bytes => self.bytes,
            Limit::Leased => self.leased,
        }
    }

    pub fn read(unpack: &mut Unpack<'_>) -> Option<Shares> {
        Some(Shares {
            jobs: unpack.u64()?,
            bytes: unpack.u64()?,
            leased: unpack.u64()?,
        })
    }

    pub fn write(&self, pack: &mut Pack) {
        pack.u64(self.jobs).u64(self.bytes).u64(self.leased);
    }
}

/// The limits of which each place has a share, as the scripts know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    Jobs,
    Bytes,
    Leased,
}

impl Limit {
    fn name(self) -> &'static str {
        match self {
            Limit::Jobs => "jobs",
            Limit::Bytes => "bytes",
            Limit::Leased => "leased",
        }
    }
}

impl Spread {
    pub fn read(unpack: &mut Unpack<'_>, limited: bool) -> Option<Spread> {
        Some(Spread {
            epoch: unpack.u32()?,
            changing: unpack.u8()? == 1,
            count: unpack.u16()?,
            low: unpack.u16()?,
            reach: unpack.u16()?,
            extent: unpack.u16()?,
            limited,
        })
    }

    pub fn write(&self, pack: &mut Pack) {
        pack.u32(self.epoch).flag(self.changing);
        for places in [self.count, self.low, self.reach, self.extent] {
            pack.u16(places.into());
        }
    }

    /// The place among the first `count` that a key chooses. With another count most keys choose the same.
    fn choice(key: &str, count: u16) -> u16 {
        let weight = |place: &u16| mixed(hash([&place.to_be_bytes(), key.as_bytes()]));
        (0..count).max_by_key(weight).unwrap_or_default()
    }

    /// The places in which a key may be held, that in which it is to be last.
    pub fn places_of(&self, key: &str) -> Vec<u16> {
        let now = Spread::choice(key, self.count);
        let mut places: Vec<u16> = (self.low..=self.reach)
            .map(|count| Spread::choice(key, count))
            .filter(|place| *place != now)
            .collect();
        places.sort_unstable();
        places.dedup();
        places.push(now);
        places
    }
}

/// So that each bit depends on each.
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ hash >> 31
}

/// What this process knows of the queues that are spread; all others are at home.
pub struct Spreads {
    known: Mutex<HashMap<QueueName, Spread>>,
    /// Nearly always there are none, and nobody needs to look.
    any: AtomicBool,
    /// Counts what was learned, for those who wait where a queue was.
    learned: watch::Sender<u64>,
    /// When somebody began to look for room for leases of a queue, and there was none.
    in_vain: Mutex<HashMap<QueueName, Arc<InVain>>>,
}

type InVain = tokio::sync::Mutex<Option<Instant>>;

impl Default for Spreads {
    fn default() -> Spreads {
        Spreads {
            known: Mutex::default(),
            any: AtomicBool::new(false),
            learned: watch::channel(0).0,
            in_vain: Mutex::default(),
        }
    }
}

impl Spreads {
    /// How a queue is spread, as far as it is known here.
    pub fn of(&self, queue: &QueueName) -> Spread {
        if !self.any.load(Ordering::Acquire) {
            return Spread::default();
        }
        let known = self.known.lock().expect("spreads");
        known.get(queue).copied().unwrap_or_default()
    }

    /// Tells when something new is learned.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.learned.subscribe()
    }

    fn in_vain(&self, queue: &QueueName) -> Arc<InVain> {
        let mut in_vain = self.in_vain.lock().expect("spreads");
        in_vain.entry(queue.clone()).or_default().clone()
    }

    fn learn(&self, queue: &QueueName, spread: Spread) {
        let mut known = self.known.lock().expect("spreads");
        let old = known.get(queue).copied().unwrap_or_default();
        if spread.epoch > old.epoch {
            known.insert(queue.clone(), spread);
            self.any.store(true, Ordering::Release);
            drop(known);
            self.learned.send_modify(|count| *count += 1);
        }
    }
}

impl Store {
    /// The shard in which a place of a queue is.
    pub fn place(&self, queue: &QueueName, place: u16) -> u16 {
        let shard = u32::from(self.shard_of(queue)) + u32::from(place);
        (shard % u32::from(self.shards)) as u16
    }

    /// The shards from which jobs of a queue are lent, home first.
    pub fn reach(&self, queue: &QueueName) -> Vec<u16> {
        let reach = self.spreads.of(queue).reach;
        (0..reach).map(|place| self.place(queue, place)).collect()
    }
}

/// What a place knows.
struct Known {
    settings: Settings,
    next: Settings,
    used: Shares,
    /// Jobs that are kept, and keys that are held.
    kept: u64,
}

async fn ask(store: &Store, queue: &QueueName, place: u16) -> Result<Known> {
    let mut call = store.call(&script::SPREAD, store.place(queue, place));
    call.arg(queue.as_str());
    let [config, next, _, jobs, size, leased, kept] = tuple(store.run(call).await?)?;
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
        let known = ask(store, queue, 0).await?;
        let spread = known.settings.spread;
        if !spread.changing {
            store.spreads.learn(queue, spread);
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
        let spread = Spread {
            epoch: old.epoch + 1,
            changing: false,
            count: wanted,
            low: old.low.min(wanted),
            reach: old.reach.max(wanted),
            extent: old.extent.max(wanted),
            limited: config.max_leased.is_some(),
        };
        if begin(store, queue, spread, config).await? {
            return Ok(());
        }
    }
}

/// Makes a change known at home, and completes it. False if another one was quicker.
async fn begin(
    store: &Arc<Store>,
    queue: &QueueName,
    spread: Spread,
    config: &QueueConfig,
) -> Result<bool> {
    let mut call = store.call(&script::FREEZE, store.shard_of(queue));
    call.arg(queue.as_str()).arg(spread.epoch.to_string()).arg(
        Settings {
            config: config.clone(),
            spread,
            shares: Shares::default(),
        }
        .pack(),
    );
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

/// Gets room for a limit to a place from the others; whether there was any.
pub async fn gather(
    store: &Arc<Store>,
    queue: &QueueName,
    shard: u16,
    limit: Limit,
    need: u64,
) -> Result<bool> {
    let spread = store.spreads.of(queue);
    let (mut got, mut dealt, mut used, mut most) = (0, 0, 0, 0);
    let mut underway = false;
    // The place itself only says what it has.
    for place in 0..spread.extent {
        let from = store.place(queue, place);
        let give = if from == shard { 0 } else { need - got };
        let Some(room) = room(store, queue, from, &spread, limit, (give, 0)).await? else {
            // It was dealt anew, or is about to be.
            refresh(store, queue).await?;
            return Ok(true);
        };
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
        return Ok(true);
    }
    // Nobody has any: then all must be in use. But a share may be lost with the process that carried it from one place to
    // another, and where too much was in use when it was dealt, nobody has any though there is some now.
    if dealt >= most || used >= most || underway {
        return Ok(false);
    }
    let next = Spread {
        epoch: spread.epoch + 1,
        ..spread
    };
    let config = ask(store, queue, 0).await?.settings.config;
    begin(store, queue, next, &config).await?;
    Ok(true)
}

/// What all places of a queue know.
async fn all(store: &Store, queue: &QueueName, spread: &Spread) -> Result<Vec<Known>> {
    let mut places = Vec::new();
    for place in 0..spread.extent {
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
    let [given, share, used, limit, underway] = tuple(crate::link::Value::Array(answer))?;
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
    let any = gather(store, &said.queue, shard, Limit::Leased, need).await?;
    if !any {
        *vain = Some(began);
    }
    Ok(any)
}

/// Learns what a place said of its queues when it was asked at some time, and gets it what it lacks.
pub async fn help(store: &Arc<Store>, shard: u16, said: &[Said], asked: Instant) -> Result<Help> {
    let mut help = Help::default();
    for said in said {
        let queue = &said.queue;
        if said.spread.changing {
            refresh(store, queue).await?;
            help.better = true;
            continue;
        }
        store.spreads.learn(queue, said.spread);
        let mut wanted = said.want_tokens;
        if said.want_room > 0 {
            help.better |= make_room(store, shard, said, asked).await?;
            // Tokens without room would only have to be given back.
            wanted = 0;
        }
        if said.rated && (wanted > 0 || said.left > 0) {
            let mut call = store.call(&script::TOKENS, store.shard_of(queue));
            call.arg(queue.as_str())
                .arg(wanted.to_string())
                .arg(said.left.to_string());
            let [got, next] = tuple(store.run(call).await?)?;
            let (got, next) = (number(got)? as u32, time(next)?);
            if got > 0 {
                help.better = true;
                help.tokens.push((queue.clone(), got));
            } else if wanted > 0 {
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

/// Whether a schedule makes jobs with a key for a queue. A schedule is at the home of its queue.
async fn has_keyed_schedule(store: &Store, queue: &QueueName) -> Result<bool> {
    let schedules = schedules::at(store, store.shard_of(queue)).await?;
    let keyed = |schedule: &auxo_core::schedule::Schedule| {
        schedule.queue == *queue && schedule.spec.key.is_some()
    };
    Ok(schedules.iter().any(keyed))
}

/// Refuses a schedule that makes jobs with a key for a queue that is spread.
pub async fn allow_schedule(
    store: &Arc<Store>,
    schedule: &auxo_core::schedule::Schedule,
) -> Result<()> {
    if schedule.spec.key.is_none() || refresh(store, &schedule.queue).await?.reach == 1 {
        return Ok(());
    }
    let text = format!(
        "schedule {:?} cannot make jobs with a key: its queue {} is spread over several shards",
        schedule.name, schedule.queue
    );
    Err(Error::new(Code::Conflict, text))
}

/// Looks after the queues of a shard that is their home: of those that are spread, places that are empty are left, and shares
/// that were lost are dealt again. Says how many queues that changed.
pub async fn tidy(store: &Arc<Store>, shard: u16) -> Result<u64> {
    let mut tidied = 0;
    for (info, spread) in look::seen_in(store, shard, None).await? {
        let queue = &info.name;
        if spread.epoch == 0 || store.shard_of(queue) != shard {
            continue;
        }
        let spread = refresh(store, queue).await?;
        let places = all(store, queue, &spread).await?;
        let same = |place: &Known| place.settings.spread == spread;
        if !places.iter().all(same) {
            // It changes just now.
            continue;
        }
        let limits = [Limit::Jobs, Limit::Bytes, Limit::Leased];
        let lost = spread.reach > 1 && limits.iter().any(|limit| is_short(&places, *limit));
        let narrow =
            spread.low != spread.reach && can_narrow(store, queue, &spread, &places).await?;
        if lost || narrow {
            let mut next = Spread {
                epoch: spread.epoch + 1,
                ..spread
            };
            if narrow {
                (next.low, next.reach) = (spread.count, spread.count);
            }
            let config = &places[0].settings.config;
            tidied += u64::from(begin(store, queue, next, config).await?);
        }
    }
    Ok(tidied)
}

/// Whether all jobs of a queue are where its count says they should be.
async fn can_narrow(
    store: &Store,
    queue: &QueueName,
    spread: &Spread,
    places: &[Known],
) -> Result<bool> {
    let empty = |place: &Known| place.used.jobs == 0 && place.kept == 0;
    let rest = &places[usize::from(spread.count)..usize::from(spread.reach)];
    if !rest.iter().all(empty) {
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

    #[test]
    fn a_key_moves_only_to_a_place_that_is_new_and_from_one_that_goes() {
        let mut moved = 0;
        for number in 0..1000 {
            let key = format!("key {number}");
            let (four, five) = (Spread::choice(&key, 4), Spread::choice(&key, 5));
            assert!(five == four || five == 4);
            moved += u32::from(five != four);
        }
        assert!((120..280).contains(&moved), "a fifth: {moved}");
    }

    #[test]
    fn a_key_may_be_wherever_it_was_chosen_to_be() {
        let spread = Spread {
            low: 1,
            count: 3,
            reach: 8,
            ..Spread::default()
        };
        for number in 0..1000 {
            let key = format!("key {number}");
            let places = spread.places_of(&key);
            for count in 1..=8 {
                assert!(places.contains(&Spread::choice(&key, count)));
            }
            assert_eq!(places.last(), Some(&Spread::choice(&key, 3)));
        }
        let settled = Spread {
            low: 3,
            reach: 3,
            ..spread
        };
        assert_eq!(settled.places_of("key").len(), 1);
    }
}
