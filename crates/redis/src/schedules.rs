//! Schedules and subscriptions. A rhythm is reckoned here, and kept by a script that makes sure nobody else was first.

use std::collections::HashSet;
use std::sync::Arc;

use auxo_core::engine::{Accepted, Action, Catalog, Change, Message, Mode, Order, Pushed, Target};
use auxo_core::json;
use auxo_core::schedule::{Schedule, Tick};
use auxo_core::time::{Base, Due, Now, Timestamp};
use auxo_core::topic::Subscription;
use auxo_core::{NewJob, QueueName, Result, refusal};
use bytes::Bytes;

use crate::bytes::{Pack, Unpack};
use crate::desk::catch_up;
use crate::forget;
use crate::link::Value;
use crate::look;
use crate::push::{self, Planned, Said, Why};
use crate::record::garbled;
use crate::script;
use crate::spread::{self, Limit};
use crate::store::{Store, bytes, items, number, tuple};

/// How often a message is planned anew, or room is looked for.
const TRIES: usize = 16;
/// How many ticks of a schedule, and how many copies of a message, one script makes jobs of.
const TICKED: usize = 40;
const COPIES: usize = 40;

/// All that is set up besides queues.
pub async fn catalog(store: &Arc<Store>) -> Result<Catalog> {
    let mut catalog = Catalog::default();
    for shard in store.all() {
        catch_up(store, shard).await?;
        let part = read(store, shard).await?;
        catalog.subscriptions.extend(part.subscriptions);
        let schedules = part.schedules.into_iter();
        catalog
            .schedules
            .extend(schedules.map(|(schedule, _)| schedule));
    }
    catalog
        .subscriptions
        .sort_by(|a, b| (&a.topic, &a.name).cmp(&(&b.topic, &b.name)));
    catalog.schedules.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(catalog)
}

/// What a look at the schedules of a shard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// Nothing to do.
    None,
    /// A tick has come.
    Due,
    /// The clock was set back.
    Arm,
}

struct Part {
    subscriptions: Vec<Subscription>,
    /// Each with the bytes it was read from.
    schedules: Vec<(Schedule, Bytes)>,
}

async fn read(store: &Store, shard: u16) -> Result<Part> {
    let mut call = store.call(&script::CATALOG, shard);
    call.arg("all");
    let [subscriptions, schedules] = tuple(store.run(call).await?)?;
    let pairs = |value| -> Result<Vec<(String, Bytes)>> {
        let parts: Vec<Bytes> = items(value)?
            .into_iter()
            .map(bytes)
            .collect::<Result<_>>()?;
        let pair = |pair: &[Bytes]| {
            let name = String::from_utf8(pair[0].to_vec());
            Ok((name.map_err(|_| garbled("a name"))?, pair[1].clone()))
        };
        parts.chunks_exact(2).map(pair).collect()
    };
    let subscription = |(name, value): (String, Bytes)| {
        let (topic, name) = name.split_once('\0').ok_or_else(|| garbled("a name"))?;
        json::read::subscription(topic, name, &value)
    };
    let schedule = |(name, value): (String, Bytes)| Ok((unpack(&name, &value)?, value));
    let mut schedules = pairs(schedules)?;
    // In the order of their names, so that it does not depend on chance which of two ticks finds the last place in a queue.
    schedules.sort();
    Ok(Part {
        subscriptions: pairs(subscriptions)?
            .into_iter()
            .map(subscription)
            .collect::<Result<_>>()?,
        schedules: schedules.into_iter().map(schedule).collect::<Result<_>>()?,
    })
}

/// The schedules of a shard.
pub async fn at(store: &Store, shard: u16) -> Result<Vec<Schedule>> {
    let schedules = read(store, shard).await?.schedules.into_iter();
    Ok(schedules.map(|(schedule, _)| schedule).collect())
}

/// The queues that schedules of a shard and subscriptions make jobs for.
pub async fn bound(store: &Store, shard: u16) -> Result<HashSet<QueueName>> {
    let part = read(store, shard).await?;
    let subscriptions = match shard {
        0 => part.subscriptions,
        _ => read(store, 0).await?.subscriptions,
    };
    let scheduled = part.schedules.into_iter();
    let scheduled = scheduled.map(|(schedule, _)| schedule.queue);
    let subscribed = subscriptions.into_iter().map(|it| it.queue);
    Ok(scheduled.chain(subscribed).collect())
}

/// last:6 next:1+6, and then the schedule as a client puts it.
fn pack(schedule: &Schedule) -> Vec<u8> {
    let mut pack = Pack::default();
    pack.time(schedule.last.unwrap_or_default());
    match schedule.next {
        None => pack.u8(0).time(Timestamp(0)),
        Some(due) => pack
            .u8(match due.base {
                Base::Steady => 1,
                Base::Wall => 2,
            })
            .time(due.at),
    };
    pack.raw(&json::write::body(&json::write::schedule(schedule)));
    pack.0
}

fn unpack(name: &str, value: &[u8]) -> Result<Schedule> {
    let mut unpack = Unpack(value);
    let mut parts = || Some((unpack.time()?, unpack.u8()?, unpack.time()?));
    let (last, base, at) = parts().ok_or_else(|| garbled("a schedule"))?;
    let schedule = json::read::schedule(name, unpack.0)?;
    let due = |base| Some(Due { at, base });
    Ok(Schedule {
        last: (last.0 > 0).then_some(last),
        next: match base {
            0 => None,
            1 => due(Base::Steady),
            _ => due(Base::Wall),
        },
        ..schedule
    })
}

/// Makes the jobs of the ticks that have come. A tick that another process was quicker with is none of ours.
/// When the clock was set back they are armed anew.
pub async fn tick(store: &Arc<Store>, shard: u16, now: Timestamp, ticks: Ticks) -> Result<()> {
    let set_back = ticks == Ticks::Arm;
    let now = Now::at(now.0);
    let mut behind = true;
    while std::mem::take(&mut behind) {
        for (mut schedule, was) in read(store, shard).await?.schedules {
            let before = schedule.next;
            // Set back, the clock would silence the schedule until it has caught up.
            if set_back && let Some(next) = schedule.next {
                let first = schedule.rearm(now).filter(|first| first.at < next.at);
                schedule.next = first.or(Some(next));
            }
            let tick = schedule.tick(now);
            if tick.next == before && tick.fire.is_empty() {
                continue;
            }
            behind |= ticks_of(store, shard, schedule, was, tick).await?;
        }
    }
    if set_back {
        let mut call = store.call(&script::CATALOG, shard);
        call.arg("arm");
        store.run(call).await?;
    }
    Ok(())
}

/// Makes the jobs of a schedule's ticks, a few with each script. In between, the first tick that has no job yet is the next one of
/// the schedule, so the call can be broken off anywhere, and another process goes on from there. Whether another one was first, and
/// there may be more to do than is known here.
async fn ticks_of(
    store: &Arc<Store>,
    shard: u16,
    mut schedule: Schedule,
    mut was: Bytes,
    tick: Tick,
) -> Result<bool> {
    let base = schedule.next.map_or(Base::Steady, |next| next.base);
    let mut fire = tick.fire.as_slice();
    loop {
        let (some, rest) = fire.split_at(fire.len().min(TICKED));
        schedule.next = match rest.first() {
            Some(at) => Some(Due { at: *at, base }),
            None => tick.next,
        };
        match make(store, shard, &schedule, was, some).await? {
            Made::Ticks(ticked) if !rest.is_empty() => was = ticked,
            made => return Ok(made == Made::Nothing),
        }
        fire = rest;
    }
}

/// What came of some ticks.
#[derive(Debug, PartialEq)]
enum Made {
    /// Their jobs. The schedule is kept as this now.
    Ticks(Bytes),
    /// Another call was first.
    Nothing,
    /// The queue is being changed, and the ticks come with the next look.
    Later,
}

/// Makes jobs of ticks. A queue that is spread gets the room for them to its home, where they go, if any of its shards has some.
async fn make(
    store: &Arc<Store>,
    shard: u16,
    schedule: &Schedule,
    was: Bytes,
    fire: &[Timestamp],
) -> Result<Made> {
    let count = fire.len() as u64;
    let mut tries = 0;
    let mut any = true;
    loop {
        let last = !any || tries == TRIES;
        let mut call = store.call(&script::TICK, shard);
        call.arg(schedule.name.as_str())
            .arg(was.to_vec())
            .arg(pack(schedule))
            .arg(score(schedule.next))
            .arg(if last { "1" } else { "" });
        for at in fire {
            call.arg(at.0.to_string());
            let job = NewJob {
                queue: schedule.queue.clone(),
                spec: schedule.spec.clone(),
            };
            push::single(&mut call, &Planned::at_home(store, job));
        }
        let refused = match store.run(call).await? {
            Value::Int(refused) => refused,
            ticked => return bytes(ticked).map(Made::Ticks),
        };
        let (limit, need) = match refused {
            2 => {
                spread::refresh(store, &schedule.queue).await?;
                return Ok(Made::Later);
            }
            5 => {
                // Where all queues are in use, the tick is dropped.
                tries = match forget::make_room(store, shard, 1).await? {
                    0 => TRIES,
                    _ => (tries + 1).min(TRIES),
                };
                continue;
            }
            3 => (Limit::Jobs, count),
            4 => (Limit::Bytes, count * schedule.spec.payload.len() as u64),
            _ => return Ok(Made::Nothing),
        };
        any = spread::gather(store, &schedule.queue, shard, limit, need).await?;
        tries += 1;
    }
}

fn score(next: Option<Due>) -> String {
    next.map_or_else(String::new, |due| due.at.0.to_string())
}

/// Changes a subscription or a schedule.
pub async fn change(store: &Arc<Store>, change: Change) -> Result<()> {
    match change {
        Change::Queue(..) => unreachable!("settings of a queue are changed elsewhere"),
        Change::Subscribe(subscription) => {
            let shard = 0;
            let mut call = store.call(&script::CATALOG, shard);
            let body = json::write::body(&json::write::subscription(&subscription));
            call.arg("subscribe")
                .arg(format!("{}\0{}", subscription.topic, subscription.name))
                .arg(body.to_vec());
            let [_, old] = tuple(store.run(call).await?)?;
            release_subscription(store, &subscription.topic, &subscription.name, old).await
        }
        Change::Unsubscribe(topic, name) => {
            let mut call = store.call(&script::CATALOG, 0);
            call.arg("unsubscribe").arg(format!("{topic}\0{name}"));
            let [removed, old] = tuple(store.run(call).await?)?;
            match number(removed)? {
                0 => Err(refusal::no_subscription(&topic, &name)),
                _ => release_subscription(store, &topic, &name, old).await,
            }
        }
        // It goes on where it was, on the same clock as everything here.
        Change::Arm(schedule) => {
            spread::allow_schedule(store, &schedule).await?;
            let shard = store.shard_of(&schedule.queue);
            for other in store.all().filter(|other| *other != shard) {
                remove(store, other, &schedule.name).await?;
            }
            let mut call = store.call(&script::CATALOG, shard);
            call.arg("go_on")
                .arg(schedule.name.as_str())
                .arg(pack(&schedule))
                .arg(score(schedule.next));
            let [_, old] = tuple(store.run(call).await?)?;
            release_schedule(store, &schedule.name, old).await
        }
        Change::Schedule(schedule) => {
            spread::allow_schedule(store, &schedule).await?;
            let shard = store.shard_of(&schedule.queue);
            let now = Now::at(catch_up(store, shard).await?.0);
            let mut schedule = Schedule {
                next: schedule.rearm(now),
                last: None,
                ..schedule
            };
            // A schedule is where its queue is; under its name there may be one for another queue.
            for other in store.all().filter(|other| *other != shard) {
                let here = read(store, other).await?.schedules;
                if let Some((old, _)) = here.into_iter().find(|(old, _)| old.name == schedule.name)
                {
                    remove(store, other, &schedule.name).await?;
                    schedule.last = old.last;
                }
            }
            let mut call = store.call(&script::CATALOG, shard);
            call.arg("schedule")
                .arg(schedule.name.as_str())
                .arg(pack(&schedule))
                .arg(score(schedule.next));
            let [_, old] = tuple(store.run(call).await?)?;
            release_schedule(store, &schedule.name, old).await
        }
        Change::Unschedule(name) => {
            let mut found = false;
            for shard in store.all() {
                catch_up(store, shard).await?;
                found |= remove(store, shard, &name).await?;
            }
            match found {
                true => Ok(()),
                false => Err(refusal::no_schedule(&name)),
            }
        }
        Change::Disarm(name, last) => disarm(store, &name, last).await,
    }
}

/// A schedule is in one shard.
async fn disarm(store: &Arc<Store>, name: &str, last: Option<Timestamp>) -> Result<()> {
    let mut known = Pack::default();
    known.time(last.unwrap_or_default());
    for shard in store.all() {
        catch_up(store, shard).await?;
        let mut call = store.call(&script::CATALOG, shard);
        call.arg("unschedule").arg(name).arg(known.0.clone());
        let [removed, old] = tuple(store.run(call).await?)?;
        match number(removed)? {
            0 => {}
            1 => return release_schedule(store, name, old).await,
            _ => return Err(refusal::ticked(name)),
        }
    }
    Err(refusal::no_schedule(name))
}

async fn remove(store: &Store, shard: u16, schedule: &str) -> Result<bool> {
    let mut call = store.call(&script::CATALOG, shard);
    call.arg("unschedule").arg(schedule);
    let [removed, old] = tuple(store.run(call).await?)?;
    release_schedule(store, schedule, old).await?;
    Ok(number(removed)? > 0)
}

/// A schedule is gone, or another one is in its place: its queue was in use until now.
async fn release_schedule(store: &Store, name: &str, old: Value) -> Result<()> {
    match bytes(old)? {
        old if old.is_empty() => Ok(()),
        old => forget::note_use(store, &unpack(name, &old)?.queue).await,
    }
}

/// The same for a subscription.
async fn release_subscription(store: &Store, topic: &str, name: &str, old: Value) -> Result<()> {
    match bytes(old)? {
        old if old.is_empty() => Ok(()),
        old => {
            let old = json::read::subscription(topic, name, &old)?;
            forget::note_use(store, &old.queue).await
        }
    }
}

/// Puts one job into the queue of each matching subscription, or none anywhere.
pub async fn publish(store: &Arc<Store>, message: Message) -> Result<Vec<Pushed>> {
    let part = read(store, 0).await?;
    let mut targets: Vec<Subscription> = part
        .subscriptions
        .into_iter()
        .filter(|subscription| {
            subscription.topic == message.topic
                && subscription.wants(message.routing_key.as_deref())
        })
        .collect();
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    if targets.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<NewJob> = targets
        .into_iter()
        .map(|target| NewJob {
            queue: target.queue,
            spec: message.spec.clone(),
        })
        .collect();
    let mut planned = push::plan(store, jobs);
    let mut tries = 0;
    loop {
        match copies(store, &planned).await? {
            Ok(pushed) => return Ok(pushed),
            Err((place, why)) if tries == TRIES => {
                let queue = &planned[place].job.queue;
                return Err(push::given_up(store, queue, why).await?);
            }
            Err((place, why)) => {
                let again = planned.remove(place);
                let again = push::plan_again(store, (again, why)).await??;
                planned.insert(place, again);
            }
        }
        tries += 1;
    }
}

/// Which copy must be planned anew, and why.
type Again = (usize, Why);

/// Puts each copy into its queue, or none.
async fn copies(
    store: &Arc<Store>,
    planned: &[Planned],
) -> Result<std::result::Result<Vec<Pushed>, Again>> {
    let parts = parts_of(planned);
    // Where it takes several scripts no single step can keep all or none: all are asked first.
    if parts.len() > 1 {
        for part in &parts {
            if let Err(again) = copies_in(store, planned, part, "0").await? {
                return Ok(Err(again));
            }
        }
    }
    let mut pushed: Vec<(usize, Pushed)> = Vec::new();
    for part in parts {
        let refused = match copies_in(store, planned, &part, "1").await {
            Ok(Ok(here)) => {
                pushed.extend(here);
                continue;
            }
            Ok(Err(again)) => Ok(Err(again)),
            Err(refused) => Err(refused),
        };
        // Something changed in between. What was kept elsewhere is taken back, unless a worker was quicker.
        let new = pushed.into_iter().filter(|(_, p)| p.how == Accepted::New);
        let order = Order {
            target: Target::Jobs(new.map(|(_, pushed)| pushed.id).collect()),
            action: Action::Delete,
            mode: Mode::Act,
        };
        look::steer(store, order).await?;
        return refused;
    }
    pushed.sort_by_key(|(place, _)| *place);
    Ok(Ok(pushed.into_iter().map(|(_, pushed)| pushed).collect()))
}

/// The places of the copies that go to one shard with one script, for each script.
fn parts_of(planned: &[Planned]) -> Vec<Vec<usize>> {
    let mut places: Vec<usize> = (0..planned.len()).collect();
    places.sort_by_key(|place| planned[*place].shard);
    let shards = places.chunk_by(|a, b| planned[*a].shard == planned[*b].shard);
    let parts = shards.flat_map(|places| places.chunks(COPIES));
    parts.map(<[usize]>::to_vec).collect()
}

/// Puts some copies, all of one shard, into their queues, all or none; with the place of each among all.
async fn copies_in(
    store: &Store,
    planned: &[Planned],
    part: &[usize],
    keep: &str,
) -> Result<std::result::Result<Vec<(usize, Pushed)>, Again>> {
    let here: Vec<(usize, &Planned)> = part.iter().map(|at| (*at, &planned[*at])).collect();
    let mut call = store.call(&script::PUBLISH, here[0].1.shard);
    call.arg(keep);
    for (_, planned) in &here {
        push::single(&mut call, planned);
    }
    let [taken, place, answer] = tuple(store.run(call).await?)?;
    let answer = bytes(answer)?;
    if number(taken)? == 0 {
        let refused = here.get(number(place)? as usize);
        let (place, planned) = refused.ok_or_else(|| garbled("a refusal of nothing"))?;
        return match push::answer(&answer, planned)?? {
            Said::Again(why) => Ok(Err((*place, why))),
            Said::Pushed(_) => Err(garbled("a refusal that is none")),
        };
    }
    let mut pushed = Vec::new();
    for ((place, planned), answer) in here.into_iter().zip(answer.chunks_exact(push::ANSWER)) {
        // Not all are asked first if they are in one shard; but then each was looked at before the first was kept.
        if let Said::Pushed(answer) = push::answer(answer, planned)?? {
            pushed.push((place, answer));
        }
    }
    Ok(Ok(pushed))
}
