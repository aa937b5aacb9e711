//! Pushes: jobs that differ in nothing a script must know travel as one run.

use std::sync::Arc;

use auxo_core::engine::{Accepted, Pushed};
use auxo_core::job::{OnDuplicate, Ttl};
use auxo_core::time::{Timestamp, When};
use auxo_core::{JobId, NewJob, Result, refusal};
use futures_util::future::join_all;

use crate::bytes::{Pack, Unpack};
use crate::link::Call;
use crate::record::{garbled, pack_record, pack_spec, state};
use crate::script;
use crate::store::{Store, bytes};

/// The bytes of one answer.
const ANSWER: usize = 16;
/// The answer to all jobs of a run at once.
const RUN: u8 = 3;

/// Pushes jobs that are all of one shard.
pub async fn push(store: &Store, shard: u16, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
    let mut call = store.call(&script::PUSH, shard);
    let mut runs = Vec::new();
    let mut rest = jobs.as_slice();
    while let Some(first) = rest.first() {
        let count = match first.spec.key {
            Some(_) => 1,
            None => rest.iter().take_while(|job| alike(first, job)).count(),
        };
        let (run, others) = rest.split_at(count);
        call.arg(head(run));
        for job in run {
            call.arg(pack_record(&job.queue, &job.spec));
        }
        runs.push(run);
        rest = others;
    }
    let answer = bytes(store.run(call).await?)?;
    let mut answers = answer.chunks_exact(ANSWER);
    let mut pushes = Vec::with_capacity(jobs.len());
    for run in runs {
        let mut left = run.iter();
        while let Some(job) = left.next() {
            let answer = answers.next();
            let answer = answer.ok_or_else(|| garbled("answers to fewer jobs"))?;
            if answer[0] != RUN {
                pushes.push(pushed(answer, job)?);
                continue;
            }
            let mut all = [0; ANSWER];
            all.copy_from_slice(answer);
            all[0] = 0;
            let first = pushed(&all, job)??;
            let mut id = first.id;
            pushes.push(Ok(first.clone()));
            for _ in left.by_ref() {
                id = id.next();
                let next = Pushed {
                    id,
                    ..first.clone()
                };
                pushes.push(Ok(next));
            }
        }
    }
    Ok(pushes)
}

/// Pushes as the call of a job that is pushed alone: its head, and its spec.
pub fn single(call: &mut Call, job: &NewJob) {
    call.arg(head(std::slice::from_ref(job)))
        .arg(pack_spec(&job.queue, &job.spec));
}

/// Reads the answers to these pushes.
pub fn answers(bytes: &[u8], jobs: &[NewJob]) -> Result<Vec<Result<Pushed>>> {
    let answers = bytes.chunks_exact(ANSWER).zip(jobs);
    answers.map(|(answer, job)| pushed(answer, job)).collect()
}

fn alike(a: &NewJob, b: &NewJob) -> bool {
    let (a_spec, b_spec) = (&a.spec, &b.spec);
    b_spec.key.is_none()
        && a.queue == b.queue
        && a_spec.priority == b_spec.priority
        && a_spec.when == b_spec.when
        && a_spec.ttl == b_spec.ttl
        && a_spec.group == b_spec.group
}

/// What the jobs of a run have in common, and how many there are.
fn head(run: &[NewJob]) -> Vec<u8> {
    let (job, spec) = (&run[0], &run[0].spec);
    let size: usize = run.iter().map(|job| job.spec.payload.len()).sum();
    let mut pack = Pack(Vec::with_capacity(64));
    pack.short(job.queue.as_str()).u32(spec.priority);
    match spec.when {
        When::Now => pack.u8(0).span(Default::default()),
        When::After(delay) => pack.u8(1).span(delay),
        When::At(at) => pack.u8(2).time(at),
    };
    match spec.ttl {
        Ttl::None => pack.u8(0).span(Default::default()),
        Ttl::After(life) => pack.u8(1).span(life),
        Ttl::At(at) => pack.u8(2).time(at),
    };
    match &spec.key {
        None => pack.u8(0).text(""),
        Some(key) => pack
            .u8(match key.on_duplicate {
                OnDuplicate::Reject => 1,
                OnDuplicate::Return => 2,
                OnDuplicate::Replace => 3,
            })
            .text(&key.name),
    };
    pack.flag(spec.group.is_some())
        .text(spec.group.as_deref().unwrap_or_default())
        .u32(run.len() as u32)
        .time(Timestamp(size as u64));
    pack.0
}

/// What came of one push; an outer error means that the answer makes no sense.
fn pushed(answer: &[u8], job: &NewJob) -> Result<Result<Pushed>> {
    let queue = &job.queue;
    let mut unpack = Unpack(answer);
    let mut parts = || Some((unpack.u8()?, unpack.u64()?, unpack.u8()?, unpack.time()?));
    let (how, id, now, run_at) = parts().ok_or_else(|| garbled("an answer to a push"))?;
    let state = state(now).ok_or_else(|| garbled("a state"))?;
    // In a refusal for want of room the limit stands in the place of the id, and the count in that of the time.
    let how = match how {
        0 => Accepted::New,
        1 => Accepted::Existing,
        2 => Accepted::Replaced,
        10 => {
            let key = job.spec.key.as_ref().map_or("", |key| &key.name);
            return Ok(Err(refusal::duplicate_key(key, queue, JobId(id), state)));
        }
        11 => return Ok(Err(refusal::paused(queue))),
        12 => return Ok(Err(refusal::too_many_jobs(queue, run_at.0, id))),
        _ => return Ok(Err(refusal::too_many_bytes(queue, run_at.0, id))),
    };
    Ok(Ok(Pushed {
        id: JobId(id),
        state,
        run_at,
        how,
    }))
}

/// Splits by shard, sends, and puts the answers back in the order asked. A shard that fails fails its own items only: what
/// the others did stands, and who asked for it must hear so.
pub async fn by_shard<T, R, F>(
    items: Vec<T>,
    shard_of: impl Fn(&T) -> u16,
    send: impl Fn(u16, Vec<T>) -> F,
) -> Result<Vec<Result<R>>>
where
    F: Future<Output = Result<Vec<Result<R>>>>,
{
    let mut parts: Vec<(u16, Vec<T>, Vec<usize>)> = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let shard = shard_of(&item);
        let part = match parts.iter().position(|part| part.0 == shard) {
            Some(part) => part,
            None => {
                parts.push((shard, Vec::new(), Vec::new()));
                parts.len() - 1
            }
        };
        parts[part].1.push(item);
        parts[part].2.push(place);
    }
    if parts.len() <= 1 {
        return match parts.pop() {
            Some((shard, items, _)) => send(shard, items).await,
            None => Ok(Vec::new()),
        };
    }
    let sent = parts.into_iter().map(|(shard, items, places)| {
        let sent = send(shard, items);
        async move { (places, sent.await) }
    });
    let mut answers = Vec::new();
    for (places, sent) in join_all(sent).await {
        match sent {
            Ok(sent) => answers.extend(places.into_iter().zip(sent)),
            Err(error) => {
                let each = places.into_iter().map(|place| (place, Err(error.clone())));
                answers.extend(each);
            }
        }
    }
    answers.sort_by_key(|(place, _)| *place);
    Ok(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Pushes jobs of any shards, each shard's in one step.
pub async fn push_all(store: &Arc<Store>, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
    let shard_of = |job: &NewJob| store.shard_of(&job.queue);
    by_shard(jobs, shard_of, |shard, jobs| push(store, shard, jobs)).await
}
