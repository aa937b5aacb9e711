//! Schedules and subscriptions. A rhythm is reckoned here, and kept by a script that makes sure nobody else was first.

use std::sync::Arc;

use auxo_core::engine::{Accepted, Action, Catalog, Change, Message, Mode, Order, Pushed, Target};
use auxo_core::json;
use auxo_core::schedule::Schedule;
use auxo_core::time::{Base, Due, Now, Timestamp};
use auxo_core::topic::Subscription;
use auxo_core::{NewJob, Result, refusal};
use bytes::Bytes;

use crate::bytes::{Pack, Unpack};
use crate::desk::catch_up;
use crate::look;
use crate::push::{self, Planned, Said, Why};
use crate::record::garbled;
use crate::script;
use crate::spread::{self, Limit};
use crate::store::{Store, bytes, items, number, tuple};

/// How often a message is planned anew, or room is looked for.
const TRIES: usize = 16;

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
    for (mut schedule, was) in read(store, shard).await?.schedules {
        let before = schedule.next;
        // Set back, the clock would silence the schedule until it has caught up.
        if set_back && let Some(next) = schedule.next {
            let first = schedule.rearm(now).filter(|first| first.at < next.at);
            schedule.next = first.or(Some(next));
        }
        let tick = schedule.tick(now);
        schedule.next = tick.next;
        if schedule.next == before && tick.fire.is_empty() {
            continue;
        }
        make(store, shard, &schedule, was, &tick.fire).await?;
    }
    if set_back {
        let mut call = store.call(&script::CATALOG, shard);
        call.arg("arm");
        store.run(call).await?;
    }
    Ok(())
}

/// Makes the jobs of a schedule's ticks, if nobody else was first. A queue that is spread gets the room for them to its home,
/// where they go, if any of its shards has some.
async fn make(
    store: &Arc<Store>,
    shard: u16,
    schedule: &Schedule,
    was: Bytes,
    fire: &[Timestamp],
) -> Result<()> {
    let count = fire.len() as u64;
    let mut tries = 0;
    // How often in a row there was no room. Once is not enough: another process that makes the same ticks may just be bringing it.
    let mut without = 0;
    loop {
        let last = without == 2 || tries == TRIES;
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
        let (limit, need) = match number(store.run(call).await?)? {
            2 => {
                // The tick comes with the next look.
                spread::refresh(store, &schedule.queue).await?;
                return Ok(());
            }
            3 => (Limit::Jobs, count),
            4 => (Limit::Bytes, count * schedule.spec.payload.len() as u64),
            _ => return Ok(()),
        };
        without = match spread::gather(store, &schedule.queue, shard, limit, need).await? {
            true => 0,
            false => without + 1,
        };
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
            store.run(call).await.map(drop)
        }
        Change::Unsubscribe(topic, name) => {
            let mut call = store.call(&script::CATALOG, 0);
            call.arg("unsubscribe").arg(format!("{topic}\0{name}"));
            match number(store.run(call).await?)? {
                0 => Err(refusal::no_subscription(&topic, &name)),
                _ => Ok(()),
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
            store.run(call).await.map(drop)
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
            store.run(call).await.map(drop)
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
        match number(store.run(call).await?)? {
            0 => {}
            1 => return Ok(()),
            _ => return Err(refusal::ticked(name)),
        }
    }
    Err(refusal::no_schedule(name))
}

async fn remove(store: &Store, shard: u16, schedule: &str) -> Result<bool> {
    let mut call = store.call(&script::CATALOG, shard);
    call.arg("unschedule").arg(schedule);
    Ok(number(store.run(call).await?)? > 0)
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
    let mut shards: Vec<u16> = planned.iter().map(|planned| planned.shard).collect();
    shards.sort_unstable();
    shards.dedup();
    // On several shards no single step can keep all or none: all are asked first.
    if shards.len() > 1 {
        for shard in &shards {
            if let Err(again) = copies_in(store, *shard, planned, "0").await? {
                return Ok(Err(again));
            }
        }
    }
    let mut pushed: Vec<(usize, Pushed)> = Vec::new();
    for shard in shards {
        let refused = match copies_in(store, shard, planned, "1").await {
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

/// Puts the copies of one shard into their queues, all or none; with the place of each among all.
async fn copies_in(
    store: &Store,
    shard: u16,
    planned: &[Planned],
    keep: &str,
) -> Result<std::result::Result<Vec<(usize, Pushed)>, Again>> {
    let mut call = store.call(&script::PUBLISH, shard);
    call.arg(keep);
    let here = |(_, planned): &(usize, &Planned)| planned.shard == shard;
    let here: Vec<(usize, &Planned)> = planned.iter().enumerate().filter(here).collect();
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
