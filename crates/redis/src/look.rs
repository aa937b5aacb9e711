//! What is shown: one job, pages of jobs, queues, the audit.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use auxo_core::engine::{Action, Cursor, Mode, Order, Page, Query, Steered, Target, Which};
use auxo_core::job::Job;
use auxo_core::life::State;
use auxo_core::queue::{Books, Counts, QueueInfo};
use auxo_core::time::{Timestamp, When};
use auxo_core::{Code, Error, JobId, QueueName, Result, refusal};
use bytes::Bytes;

use crate::bytes::Pack;
use crate::desk::catch_up;
use crate::forget;
use crate::partial;
use crate::parts::{Taken, in_parts};
use crate::push::by_shard;
use crate::record::{Shown, garbled, state};
use crate::script;
use crate::settings::Settings;
use crate::settle::shard;
use crate::spot::{self, Behind};
use crate::spread::{self, Spread};
use crate::store::{Store, bytes, items, number, text, time, tuple};

/// How many jobs one call of a listing looks at, whether they are shown or not.
const LOOKS: usize = 5000;
/// How many jobs a script reads at once.
const PIECE: usize = 200;
/// After how many bytes of jobs it stops.
const PIECE_BYTES: usize = 1 << 20;
/// What an operator's move of one job costs, see [`crate::parts`]. Measured.
const STEER: usize = 30;
/// How many queues a script shows at once.
const QUEUES: usize = 50;

/// One job.
pub async fn find(store: &Arc<Store>, which: Which) -> Result<Option<Job>> {
    let places = match &which {
        Which::Id(id) => vec![shard(store, *id)],
        Which::Key(queue, key) if store.shards > 1 => {
            let places = spread::refresh(store, queue).await?.places_of(key);
            let shard = |place| store.place(queue, place);
            places.into_iter().map(shard).collect()
        }
        Which::Key(queue, _) => vec![store.shard_of(queue)],
    };
    for place in places {
        let found = find_in(store, place, &which).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

async fn find_in(store: &Arc<Store>, shard: u16, which: &Which) -> Result<Option<Job>> {
    catch_up(store, shard).await?;
    let mut call = store.call(&script::FIND, shard);
    match which {
        Which::Id(id) => call.arg(id.0.to_be_bytes()),
        Which::Key(queue, key) => call.arg("").arg(queue.as_str()).arg(key.as_str()),
    };
    let mut parts = items(store.run(call).await?)?.into_iter();
    let now = time(parts.next().ok_or_else(|| garbled("no time"))?)?;
    let parts: Vec<Bytes> = parts.map(bytes).collect::<Result<_>>()?;
    match parts.is_empty() {
        true => Ok(None),
        false => shown(&parts)?.job(now).map(Some),
    }
}

/// Id, record, life and score.
fn shown(parts: &[Bytes]) -> Result<Shown<'_>> {
    let [id, record, life, score] = parts else {
        return Err(garbled("a job in parts"));
    };
    Ok(Shown {
        id,
        record,
        life,
        score: spot::score(score)?,
    })
}

/// Where in a listing a walk is: the queue, the part, the place if it is spread, and after which job. What is done with goes on in
/// the next.
#[derive(Clone, Debug, Default, PartialEq)]
struct Spot {
    queue: Option<QueueName>,
    part: u8,
    place: u16,
    behind: Behind,
}

const PARTS: u8 = 4;

impl Spot {
    fn write(&self) -> Cursor {
        let queue = self.queue.as_ref().map_or("", QueueName::as_str);
        let (part, place, behind) = (self.part, self.place, self.behind.write());
        Cursor(format!("{part},{place},{behind},{queue}"))
    }

    fn read(cursor: &Cursor) -> Result<Spot> {
        let parse = || {
            let mut parts = cursor.0.splitn(6, ',');
            let part = parts.next()?.parse().ok().filter(|part| *part <= PARTS)?;
            let place = parts.next()?.parse().ok()?;
            let behind = Behind::read(&mut parts)?;
            let whole = behind.score.is_empty() == behind.id.is_empty();
            let queue = QueueName::new(parts.next()?).ok()?;
            whole.then_some(Spot {
                queue: Some(queue),
                part,
                place,
                behind,
            })
        };
        parse().ok_or_else(spot::not_mine)
    }
}

/// A page of jobs that match a query.
pub async fn list(store: &Arc<Store>, query: &Query) -> Result<Page> {
    let mut spot = match &query.cursor {
        Some(cursor) => Spot::read(cursor)?,
        None => Spot::default(),
    };
    let filter = &query.filter;
    for shard in shards(store, filter.queue.as_ref()).await? {
        catch_up(store, shard).await?;
    }
    let mut page = Page::default();
    let mut looked = 0;
    let names = match &filter.queue {
        Some(queue) => vec![queue.clone()],
        None => names(store).await?,
    };
    let from = spot.queue.clone();
    for queue in names {
        if from.as_ref().is_some_and(|from| queue < *from) {
            continue;
        }
        if spot.queue.as_ref() != Some(&queue) {
            spot = Spot {
                queue: Some(queue.clone()),
                ..Spot::default()
            };
        }
        let extent = match store.shards {
            1 => 1,
            _ => spread::refresh(store, &queue).await?.extent,
        };
        while spot.part < PARTS {
            if !has_part(&filter.states, spot.part) || spot.place >= extent {
                spot = Spot {
                    queue: Some(queue.clone()),
                    part: spot.part + 1,
                    ..Spot::default()
                };
                continue;
            }
            let left = query.limit as usize - page.jobs.len();
            if left == 0 || looked >= LOOKS {
                page.next = Some(spot.write());
                return Ok(page);
            }
            // Not more than fit: whatever matches is shown, and the walk goes on behind it.
            let (now, next, jobs) = piece(store, &queue, &spot, left.min(PIECE)).await?;
            looked += jobs.len().max(1);
            for parts in jobs.chunks_exact(4) {
                let job = shown(parts)?.job(now)?;
                if filter.matches(&job) {
                    page.jobs.push(job);
                }
            }
            spot = match next {
                Some(behind) => Spot { behind, ..spot },
                None => Spot {
                    queue: Some(queue.clone()),
                    part: spot.part,
                    place: spot.place + 1,
                    ..Spot::default()
                },
            };
        }
    }
    Ok(page)
}

/// Where the jobs of a queue are, or those of all.
async fn shards(store: &Arc<Store>, queue: Option<&QueueName>) -> Result<Vec<u16>> {
    let Some(queue) = queue.filter(|_| store.shards > 1) else {
        return Ok(store.all().collect());
    };
    let extent = spread::refresh(store, queue).await?.extent;
    Ok((0..extent).map(|place| store.place(queue, place)).collect())
}

/// Whether a part of a queue can have jobs in any of these states.
fn has_part(states: &[State], part: u8) -> bool {
    use State::*;
    let here: &[State] = match part {
        0 => &[Scheduled, Ready],
        1 => &[Leased],
        2 => &[Dead],
        _ => &[Done],
    };
    states.is_empty() || states.iter().any(|state| here.contains(state))
}

async fn piece(
    store: &Store,
    queue: &QueueName,
    spot: &Spot,
    limit: usize,
) -> Result<(Timestamp, Option<Behind>, Vec<Bytes>)> {
    let mut call = store.call(&script::LIST, store.place(queue, spot.place));
    call.arg(queue.as_str()).arg(spot.part.to_string());
    spot.behind.tell(&mut call);
    call.arg(limit.to_string()).arg(PIECE_BYTES.to_string());
    let [now, next, jobs] = tuple(store.run(call).await?)?;
    let jobs = items(jobs)?.into_iter().map(bytes).collect::<Result<_>>()?;
    Ok((time(now)?, Behind::next(next)?, jobs))
}

/// An operator's move.
pub async fn steer(store: &Arc<Store>, order: Order) -> Result<Steered> {
    let mut steered = Steered::default();
    let (ids, named, states) = match &order.target {
        Target::Jobs(ids) => (ids.clone(), true, &[][..]),
        Target::Matching(query) => {
            let page = list(store, query).await?;
            steered.next = page.next;
            let ids = page.jobs.iter().map(|job| job.id).collect();
            (ids, false, query.filter.states.as_slice())
        }
    };
    let shard_of = |id: &JobId| shard(store, *id);
    let order = &order;
    let results = by_shard(ids, shard_of, |shard, ids| async move {
        catch_up(store, shard).await?;
        in_parts(
            store.link.timeout(),
            ids,
            |_, _| STEER,
            |part| steer_part(store, shard, order, states, part),
        )
        .await
    });
    for result in results.await? {
        match &result {
            Ok(_) => steered.moved += 1,
            // Who named no jobs hears of none: that a shard failed must not look as if there had been nothing to move.
            Err(error) if !named && !is_about_the_job(error) => return Err(error.clone()),
            Err(_) => {}
        }
        if named {
            steered.results.push(result);
        }
    }
    Ok(steered)
}

/// Whether a move was refused because the job is not there or not in the right state (any more).
fn is_about_the_job(error: &Error) -> bool {
    matches!(error.code(), Code::NotFound | Code::Conflict)
}

async fn steer_part(
    store: &Arc<Store>,
    shard: u16,
    order: &Order,
    states: &[State],
    ids: Vec<JobId>,
) -> Result<Taken<JobId, State>> {
    let mut when = Pack::default();
    let action = match order.action {
        Action::Kick => 1,
        Action::Cancel => 2,
        Action::Reschedule(at) => {
            match at {
                When::Now => when.u8(0).span(Default::default()),
                When::After(delay) => when.u8(1).span(delay),
                When::At(at) => when.u8(2).time(at),
            };
            3
        }
        Action::Delete => 4,
    };
    // What a filter chose must still be in the state that it was chosen for.
    let bit = |known: &State| states.contains(known);
    let bits = [
        State::Scheduled,
        State::Ready,
        State::Leased,
        State::Done,
        State::Dead,
    ];
    let wanted: u32 = (0..5).filter(|i| bit(&bits[*i])).map(|i| 1 << i).sum();
    let mut call = store.call(&script::STEER, shard);
    call.arg(action.to_string())
        .arg(when.0)
        .arg(if order.mode == Mode::Act { "1" } else { "0" })
        .arg(wanted.to_string());
    for id in &ids {
        call.arg(id.0.to_be_bytes());
    }
    let answer = bytes(store.run(call).await?)?;
    if answer.len() != 2 * ids.len() {
        return Err(garbled("answers to another number of jobs"));
    }
    let read = |(answer, id): (&[u8], JobId)| {
        let state = state(answer[1]).ok_or_else(|| garbled("a state"))?;
        Ok(match answer[0] {
            1 => Ok(state),
            0 => Err(refusal::no_job(id)),
            _ => Err(refusal::no_arrow(id, state, order.action.event())),
        })
    };
    let answers = answer.chunks_exact(2).zip(ids).map(read);
    Ok(Taken::all(answers.collect::<Result<_>>()?))
}

/// The names of all queues, in order.
pub async fn names(store: &Arc<Store>) -> Result<Vec<QueueName>> {
    let mut names = Vec::new();
    for shard in store.all() {
        let infos = queues_in(store, shard).await?;
        names.extend(infos.into_iter().map(|info| info.name));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// The named queues, or all, in the order of their names.
pub async fn queues(store: &Arc<Store>, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
    let Some(names) = names else {
        return partial::queues(store).await?.into_all();
    };
    let mut infos = BTreeMap::new();
    let mut add = |seen| add(&mut infos, seen);
    let mut asked: Vec<(u16, Vec<QueueName>)> = store.all().map(|shard| (shard, vec![])).collect();
    for name in names {
        let home = &mut asked[usize::from(store.shard_of(&name))].1;
        if !home.contains(&name) {
            home.push(name);
        }
    }
    let mut away: Vec<(u16, Vec<QueueName>)> = store.all().map(|shard| (shard, vec![])).collect();
    for (shard, names) in asked.into_iter().filter(|(_, names)| !names.is_empty()) {
        catch_up(store, shard).await?;
        forget::unused_if_known(store, shard).await?;
        let seen = seen_in(store, shard, Some(names)).await?;
        for (info, spread) in &seen {
            for place in 1..spread.extent {
                let shard = store.place(&info.name, place);
                away[usize::from(shard)].1.push(info.name.clone());
            }
        }
        add(seen);
    }
    for (shard, names) in away.into_iter().filter(|(_, names)| !names.is_empty()) {
        catch_up(store, shard).await?;
        add(seen_in(store, shard, Some(names)).await?);
    }
    Ok(infos.into_values().collect())
}

/// What was seen in each of these shards, queue by queue.
pub fn merged(store: &Store, seen: Vec<(u16, Vec<(QueueInfo, Spread)>)>) -> Vec<QueueInfo> {
    let mut infos = BTreeMap::new();
    let mut others = Vec::new();
    for (shard, seen) in seen {
        let at_home = |seen: &(QueueInfo, Spread)| store.shard_of(&seen.0.name) == shard;
        let (home, away) = seen.into_iter().partition(at_home);
        add(&mut infos, home);
        others.push(away);
    }
    // Only the home knows when a rate allows the next lease.
    others.into_iter().for_each(|seen| add(&mut infos, seen));
    infos.into_values().collect()
}

fn add(infos: &mut BTreeMap<QueueName, QueueInfo>, seen: Vec<(QueueInfo, Spread)>) {
    for (info, _) in seen {
        match infos.entry(info.name.clone()) {
            Entry::Vacant(place) => drop(place.insert(info)),
            Entry::Occupied(mut there) => sum(there.get_mut(), info),
        }
    }
}

/// Adds what a queue has in another place. Its settings are the same in all.
fn sum(all: &mut QueueInfo, more: QueueInfo) {
    all.counts.scheduled += more.counts.scheduled;
    all.counts.ready += more.counts.ready;
    all.counts.leased += more.counts.leased;
    all.counts.dead += more.counts.dead;
    all.counts.done += more.counts.done;
    all.bytes += more.bytes;
    all.books += more.books;
    // Who waits does so in all places.
    all.waiting = all.waiting.max(more.waiting);
    all.last_asked = all.last_asked.max(more.last_asked);
    all.next_due = all.next_due.into_iter().chain(more.next_due).min();
}

/// The queues of a shard, with what they have there.
pub async fn queues_in(store: &Store, shard: u16) -> Result<Vec<QueueInfo>> {
    let seen = seen_in(store, shard, None).await?;
    Ok(seen.into_iter().map(|(info, _)| info).collect())
}

/// The named queues of a shard, or all, and how they are spread.
pub async fn seen_in(
    store: &Store,
    shard: u16,
    names: Option<Vec<QueueName>>,
) -> Result<Vec<(QueueInfo, Spread)>> {
    let mut infos: Vec<(QueueInfo, Spread)> = Vec::new();
    match names {
        Some(names) => {
            for names in names.chunks(QUEUES) {
                let mut call = store.call(&script::QUEUES, shard);
                call.arg(store.process.as_str());
                for name in names {
                    call.arg(name.as_str());
                }
                infos.extend(infos_of(store.run(call).await?)?);
            }
        }
        None => loop {
            let mut call = store.call(&script::QUEUES, shard);
            call.arg(store.process.as_str());
            let after = infos.last().map_or("", |(info, _)| info.name.as_str());
            call.arg("").arg(after).arg(QUEUES.to_string());
            let more = infos_of(store.run(call).await?)?;
            let end = more.len() < QUEUES;
            infos.extend(more);
            if end {
                break;
            }
        },
    }
    Ok(infos)
}

fn infos_of(answer: crate::link::Value) -> Result<Vec<(QueueInfo, Spread)>> {
    items(answer)?.into_iter().map(info_of).collect()
}

fn info_of(value: crate::link::Value) -> Result<(QueueInfo, Spread)> {
    let [name, config, rest @ ..] = tuple::<16>(value)?;
    let name = QueueName::new(&text(name)?)?;
    let settings = Settings::unpack(&bytes(config)?).ok_or_else(|| garbled("settings"))?;
    let mut numbers = [0; 14];
    for (number_of, value) in numbers.iter_mut().zip(rest) {
        *number_of = number(value)?;
    }
    let [
        accepted,
        done,
        dead,
        expired,
        cancelled,
        deleted,
        size,
        ready,
        scheduled,
        kept,
        next_due,
        allowed,
        others,
        asked,
    ] = numbers;
    let gone = done + dead + expired + cancelled + deleted;
    let live = accepted.saturating_sub(gone);
    let at = |ms: u64| (ms > 0).then_some(Timestamp(ms));
    let info = QueueInfo {
        name,
        config: settings.config,
        counts: Counts {
            scheduled,
            ready,
            leased: live.saturating_sub(ready + scheduled),
            dead: dead + expired,
            done: kept,
        },
        bytes: size,
        books: Books {
            accepted,
            live,
            done,
            dead,
            expired,
            cancelled,
            deleted,
        },
        // Those of this process are known to its desks.
        waiting: others,
        last_asked: at(asked),
        next_due: at(next_due),
        rate_wait: at(allowed),
    };
    Ok((info, settings.spread))
}
