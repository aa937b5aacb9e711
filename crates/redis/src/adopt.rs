//! Jobs that leave for another store, and jobs that come from one.

use std::collections::VecDeque;
use std::sync::Arc;

use auxo_core::engine::Cursor;
use auxo_core::job::{DeadReason, TIMELINE_LENGTH};
use auxo_core::life::{Event, State};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passage, Passages, Step as Part};
use auxo_core::time::Timestamp;
use auxo_core::{JobId, QueueName, Result, refusal};
use bytes::Bytes;

use crate::bytes::{Pack, Unpack};
use crate::desk::catch_up;
use crate::parts::{self, Taken, in_parts};
use crate::push::by_shard;
use crate::record::{Shown, garbled, pack_life, pack_spec, state};
use crate::script;
use crate::settle::shard;
use crate::spot::{self, Behind};
use crate::spread;
use crate::store::{Store, bytes, items, number, text, time, tuple};

/// How many bytes one look at jobs to move may bring, roughly: the last job may be large.
const ROOM: usize = 4 << 20;
/// How many jobs, and about how many bytes of them, a script reads at once.
const PIECE: usize = 150;
const PIECE_BYTES: usize = 1 << 20;
/// What it costs to let a job go, and to take one in, see [`crate::parts`]. Measured.
const DEPART: usize = 30;
const ADOPT: usize = 40;
/// The bytes of an answer about one job.
const ANSWER: usize = 10;

/// Where a job of a queue is kept, whatever it was called elsewhere: the shard that must be in its id. A queue that is spread
/// takes in none: which shard a key chooses may change while its jobs come.
async fn home(store: &Arc<Store>, queue: &QueueName) -> Result<u16> {
    if store.shards > 1 && spread::refresh(store, queue).await?.reach > 1 {
        return Err(refusal::spread(queue));
    }
    Ok(store.shard_of(queue))
}

/// Where a walk through a queue is: in which place if it is spread, in which part, and behind what.
#[derive(Clone, Debug, Default, PartialEq)]
struct Spot {
    place: u16,
    part: u8,
    behind: Behind,
}

/// Those that wait, the dead, the done, and keys.
const PARTS: u8 = 4;

impl Spot {
    fn write(&self) -> Cursor {
        let (place, part, behind) = (self.place, self.part, self.behind.write());
        Cursor(format!("{place},{part},{behind}"))
    }

    fn read(cursor: &Cursor) -> Result<Spot> {
        let parse = || {
            let mut parts = cursor.0.split(',');
            let place = parts.next()?.parse().ok()?;
            let part = parts.next()?.parse().ok().filter(|part| *part < PARTS)?;
            let behind = Behind::read(&mut parts)?;
            // A scan of the keys knows no job.
            let whole = !behind.id.is_empty() || behind.score.is_empty() || part == PARTS - 1;
            (whole && parts.next().is_none()).then_some(Spot {
                place,
                part,
                behind,
            })
        };
        parse().ok_or_else(spot::not_mine)
    }
}

/// Jobs of a queue that are not leased, whole.
pub async fn passages(store: &Arc<Store>, departure: &Departure) -> Result<Passages> {
    let mut spot = match &departure.cursor {
        Some(cursor) => Spot::read(cursor)?,
        None => Spot::default(),
    };
    let extent = match store.shards {
        1 => 1,
        _ => spread::refresh(store, &departure.queue).await?.extent,
    };
    let mut page = Passages {
        store: store.identity.clone(),
        ..Passages::default()
    };
    let mut room = ROOM;
    loop {
        let left = departure.limit as usize - page.jobs.len().min(departure.limit as usize);
        if left == 0 || room == 0 {
            page.next = Some(spot.write());
            return Ok(page);
        }
        let shard = store.place(&departure.queue, spot.place);
        if spot.part == 0 && spot.behind.id.is_empty() {
            catch_up(store, shard).await?;
        }
        let mut call = store.call(&script::PASSAGES, shard);
        call.arg(departure.queue.as_str())
            .arg(spot.part.to_string());
        spot.behind.tell(&mut call);
        call.arg(left.min(PIECE).to_string())
            .arg(room.min(PIECE_BYTES).to_string());
        let [now, next, found] = tuple(store.run(call).await?)?;
        let now = time(now)?;
        let found: Vec<Bytes> = items(found)?
            .into_iter()
            .map(bytes)
            .collect::<Result<_>>()?;
        for parts in found.chunks_exact(5) {
            room = room.saturating_sub(parts[1].len() + parts[2].len());
            page.jobs.push(passage(parts, now)?);
        }
        spot = match Behind::next(next)? {
            Some(behind) => Spot { behind, ..spot },
            None if spot.part + 1 < PARTS => Spot {
                place: spot.place,
                part: spot.part + 1,
                ..Spot::default()
            },
            None if spot.place + 1 < extent => Spot {
                place: spot.place + 1,
                ..Spot::default()
            },
            None => return Ok(page),
        };
    }
}

/// Id, record, life, score, and the hash of the life.
fn passage(parts: &[Bytes], now: Timestamp) -> Result<Passage> {
    let hash = std::str::from_utf8(&parts[4]).ok();
    let hash = hash.and_then(|hash| u64::from_str_radix(hash.get(..16)?, 16).ok());
    let shown = Shown {
        id: &parts[0],
        record: &parts[1],
        life: &parts[2],
        score: spot::score(&parts[3])?,
    };
    shown.passage(now, hash.ok_or_else(|| garbled("a hash"))?)
}

/// Removes jobs that are at another store now.
pub async fn depart(
    store: &Arc<Store>,
    queue: &QueueName,
    jobs: Vec<Leaving>,
) -> Result<Vec<Result<()>>> {
    let shard_of = |job: &Leaving| shard(store, job.id);
    by_shard(jobs, shard_of, |shard, jobs| {
        in_parts(
            store.link.timeout(),
            jobs,
            |_, _| DEPART,
            move |part| depart_part(store, shard, queue, part),
        )
    })
    .await
}

async fn depart_part(
    store: &Arc<Store>,
    shard: u16,
    queue: &QueueName,
    jobs: Vec<Leaving>,
) -> Result<Taken<Leaving, ()>> {
    let mut call = store.call(&script::DEPART, shard);
    call.arg(queue.as_str());
    for job in &jobs {
        let version = job.version.map(|version| format!("{version:016x}"));
        call.arg(job.id.0.to_be_bytes())
            .arg(version.unwrap_or_default());
    }
    let answer = bytes(store.run(call).await?)?;
    if answer.len() != jobs.len() {
        return Err(garbled("answers to another number of jobs"));
    }
    let read = |(answer, job): (&u8, Leaving)| match answer {
        0 => Err(refusal::no_job(job.id)),
        1 => Ok(()),
        2 => Err(refusal::leased(job.id)),
        _ => Err(refusal::not_as_it_was(job.id)),
    };
    Ok(Taken::all(answer.iter().zip(jobs).map(read).collect()))
}

/// Takes a part of a move.
pub async fn adopt(store: &Arc<Store>, adoption: Adoption) -> Result<Adopted> {
    let Adoption {
        queue,
        store: other,
        run,
        step,
    } = adoption;
    let shard = match step {
        Part::Jobs(_) => home(store, &queue).await?,
        // How a move stands is known at home in any case.
        _ => store.shard_of(&queue),
    };
    catch_up(store, shard).await?;
    let act = step.as_str();
    let mut jobs = match step {
        Part::Jobs(jobs) => VecDeque::from(jobs),
        _ => VecDeque::new(),
    };
    let mut adopted =
        adopt_part(store, shard, &queue, &other, act, run, next_part(&mut jobs)).await?;
    // The note that the target keeps of the call grows with each part, so the call can be broken off between two of them.
    while !jobs.is_empty() {
        let part = next_part(&mut jobs);
        let more = adopt_part(store, shard, &queue, &other, "more", run, part).await?;
        adopted.results.extend(more.results);
        adopted.last = more.last;
    }
    Ok(adopted)
}

/// The first of the jobs, at least one if there are any, that a script takes in without keeping Redis for long.
fn next_part(jobs: &mut VecDeque<Passage>) -> Vec<Passage> {
    let cost = |_: Option<&Passage>, passage: &Passage| {
        let job = &passage.job;
        let result = job.result.as_ref().map_or(0, |result| result.len());
        ADOPT + parts::bytes(job.payload.len() + result)
    };
    parts::next(jobs, cost, usize::MAX)
}

async fn adopt_part(
    store: &Arc<Store>,
    shard: u16,
    queue: &QueueName,
    other: &str,
    act: &str,
    run: u64,
    jobs: Vec<Passage>,
) -> Result<Adopted> {
    let mut call = store.call(&script::ADOPT, shard);
    call.arg(queue.as_str())
        .arg(other)
        .arg(act)
        .arg(run.to_be_bytes());
    // Jobs of one step keep their ids all, or none does: those with new ones would fall behind others that were due with them.
    let stay = jobs
        .iter()
        .all(|passage| passage.job.id.shard(store.shards) == shard);
    for passage in &jobs {
        let mut own = Pack::default();
        own.u64(passage.job.id.0).u64(passage.version);
        let id = match stay {
            true => passage.job.id,
            false => JobId(0),
        };
        call.arg(own.0)
            .arg(id.0.to_be_bytes())
            .arg(record(queue, passage))
            .arg(life(queue, passage))
            .arg(passage.job.run_at.0.to_string());
    }
    let [refused, note, leaving, answers] = tuple(store.run(call).await?)?;
    let leaving = Some(text(leaving)?).filter(|store| !store.is_empty());
    match number(refused)? {
        0 => {}
        1 => return Err(refusal::another_run(queue)),
        3 => return Err(refusal::spread(queue)),
        _ => return Err(refusal::leaving(queue, &leaving.unwrap_or_default())),
    }
    let (note, answers) = (bytes(note)?, bytes(answers)?);
    if answers.len() != jobs.len() * ANSWER {
        return Err(garbled("answers to another number of jobs"));
    }
    let answers = answers.chunks_exact(ANSWER).zip(&jobs);
    Ok(Adopted {
        last: last(&note)?,
        leaving,
        results: answers
            .map(|(answer, passage)| taken(answer, queue, passage))
            .collect::<Result<_>>()?,
    })
}

/// The run, and what was taken in last.
fn last(note: &[u8]) -> Result<Option<Vec<Leaving>>> {
    if note.is_empty() {
        return Ok(None);
    }
    let mut unpack = Unpack(note);
    let wrong = || garbled("a note about a move");
    unpack.u64().ok_or_else(wrong)?;
    let mut last = Vec::new();
    while !unpack.0.is_empty() {
        last.push(Leaving {
            id: JobId(unpack.u64().ok_or_else(wrong)?),
            version: Some(unpack.u64().ok_or_else(wrong)?),
        });
    }
    Ok(Some(last))
}

fn taken(answer: &[u8], queue: &QueueName, passage: &Passage) -> Result<Result<JobId>> {
    let mut unpack = Unpack(answer);
    let mut parts = || Some((unpack.u8()?, unpack.u64()?, unpack.u8()?));
    let (how, id, now) = parts().ok_or_else(|| garbled("an answer about a job"))?;
    let key = passage.job.key.as_deref().unwrap_or_default();
    Ok(match how {
        0 => Ok(JobId(id)),
        _ => {
            let state = state(now).ok_or_else(|| garbled("a state"))?;
            Err(refusal::duplicate_key(key, queue, JobId(id), state))
        }
    })
}

/// What the client once said, with the times of the push and of the end of its life.
fn record(queue: &QueueName, passage: &Passage) -> Vec<u8> {
    let job = &passage.job;
    let mut pack = Pack::default();
    pack.time(job.created_at);
    pack.time(
        job.expires_at
            .map_or(Timestamp(0), |at| Timestamp(at.0.max(1))),
    );
    pack.raw(&pack_spec(queue, &passage.spec()));
    pack.0
}

/// What has happened since, if anything has.
fn life(queue: &QueueName, passage: &Passage) -> Vec<u8> {
    let job = &passage.job;
    let mut moments = job.timeline.as_slice();
    if let [first, rest @ ..] = moments
        && first.event == Event::Push
    {
        moments = rest;
    }
    let moments = &moments[..moments.len().min(TIMELINE_LENGTH - 1)];
    let waits = matches!(job.state, State::Scheduled | State::Ready);
    if waits && moments.is_empty() && job.attempt == 0 && !passage.front {
        return Vec::new();
    }
    let reason = match job.dead {
        None => 0,
        Some(DeadReason::Failed) => 1,
        Some(DeadReason::Vanished) => 2,
        Some(DeadReason::Buried) => 3,
        Some(DeadReason::Expired) => 4,
    };
    pack_life(queue, passage, reason, moments)
}
