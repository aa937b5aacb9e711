//! Pushes: jobs that differ in nothing a script must know travel as one run.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use auxo_core::engine::{Accepted, Pushed};
use auxo_core::job::{OnDuplicate, Ttl};
use auxo_core::time::{Timestamp, When};
use auxo_core::{Code, Error, JobId, NewJob, QueueName, Result, refusal};
use futures_util::future::join_all;

use crate::bytes::{Pack, Unpack};
use crate::forget;
use crate::link::Call;
use crate::look;
use crate::parts::{self, Taken, in_parts};
use crate::record::{garbled, pack_record, pack_spec, state};
use crate::script;
use crate::spread::{self, Limit};
use crate::store::{Store, bytes};

/// The bytes of one answer.
pub const ANSWER: usize = 16;
/// The answer to all jobs of a run at once.
const RUN: u8 = 3;

/// How often a push is planned anew.
const TRIES: usize = 16;

/// A job, and where it is to go.
pub struct Planned {
    pub job: NewJob,
    pub shard: u16,
    /// As of which epoch its queue was known to be spread.
    epoch: u32,
    /// Where it is to go unless its key is held in `shard`.
    rest: Vec<u16>,
}

/// What came of a push.
pub enum Came {
    Pushed(Pushed),
    /// It must be planned anew.
    Again(Box<Planned>, Why),
}

/// Why a push must be planned anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The queue is spread otherwise, or about to be.
    Elsewhere,
    /// The key is not held there.
    Free,
    /// The place has no room, but another one may have.
    Full(Limit),
    /// It would make a queue where there are as many as there may be: one that is not used must give way first.
    Crowded,
}

impl Planned {
    /// At home, whatever is known of the queue.
    pub fn at_home(store: &Store, job: NewJob) -> Planned {
        Planned {
            shard: store.shard_of(&job.queue),
            epoch: 0,
            rest: Vec::new(),
            job,
        }
    }

    /// As the queue is known to be spread now.
    fn anew(self, store: &Store) -> Planned {
        let turn = store.turns.fetch_add(1, Ordering::Relaxed);
        Planned::new(store, self.job, turn)
    }

    /// Where its queue is, or by its key, or in turns.
    fn new(store: &Store, job: NewJob, turn: usize) -> Planned {
        let spread = store.spreads.of(&job.queue);
        let shard = |place: u16| store.place(&job.queue, place);
        let mut rest = Vec::new();
        let first = match &job.spec.key {
            Some(key) if spread.reach > 1 => {
                rest = spread.places_of(&key.name).into_iter().map(shard).collect();
                rest.remove(0)
            }
            _ => shard((turn % usize::from(spread.count)) as u16),
        };
        Planned {
            shard: first,
            epoch: spread.epoch,
            rest,
            job,
        }
    }
}

/// Plans where jobs go. Those of a queue that is spread go to all its places, as many to each as can be.
pub fn plan(store: &Store, jobs: Vec<NewJob>) -> Vec<Planned> {
    let first = store.turns.fetch_add(1, Ordering::Relaxed);
    let count = jobs.len();
    let each = |(at, job): (usize, NewJob)| {
        let places = usize::from(store.spreads.of(&job.queue).count);
        // Neighbours stay together, for a run of them costs less.
        let run = (count / places).max(1);
        Planned::new(store, job, first + at / run)
    };
    jobs.into_iter().enumerate().map(each).collect()
}

/// Plans a push anew; an inner error is what remains to be said.
pub async fn plan_again(store: &Arc<Store>, again: (Planned, Why)) -> Result<Result<Planned>> {
    let (mut planned, why) = again;
    let queue = planned.job.queue.clone();
    match why {
        Why::Elsewhere => {
            spread::refresh(store, &queue).await?;
            Ok(Ok(planned.anew(store)))
        }
        Why::Crowded => match forget::make_room(store, planned.shard, 1).await? {
            0 => Ok(Err(forget::too_many())),
            _ => Ok(Ok(planned)),
        },
        Why::Free => {
            planned.shard = planned.rest.remove(0);
            Ok(Ok(planned))
        }
        Why::Full(limit) => {
            let need = match limit {
                Limit::Bytes => planned.job.spec.payload.len() as u64,
                _ => 1,
            };
            match spread::gather(store, &queue, planned.shard, limit, need).await? {
                false => Ok(Err(full(store, &queue, limit).await?)),
                true => Ok(Ok(planned)),
            }
        }
    }
}

/// Why a queue that is spread takes no more.
async fn full(store: &Arc<Store>, queue: &QueueName, limit: Limit) -> Result<Error> {
    let infos = look::queues(store, Some(vec![queue.clone()])).await?;
    let info = infos.first().ok_or_else(|| garbled("no such queue"))?;
    let books = &info.books;
    let stored = books.live + books.dead + books.expired;
    Ok(match limit {
        Limit::Bytes => {
            let most = info.config.max_bytes.unwrap_or_default();
            refusal::too_many_bytes(queue, info.bytes, most)
        }
        _ => refusal::too_many_jobs(queue, stored, info.config.max_jobs.unwrap_or_default()),
    })
}

/// Pushes jobs that go to one shard.
async fn push(store: &Store, shard: u16, planned: Vec<Planned>) -> Result<Vec<Result<Came>>> {
    let time = store.link.timeout();
    in_parts(time, planned, cost, |part| push_part(store, shard, part)).await
}

/// What a script does for a job that is pushed behind another one, as far as that can be seen from here. Measured.
fn cost(before: Option<&Planned>, planned: &Planned) -> usize {
    let spec = &planned.job.spec;
    let own = match before {
        _ if spec.key.is_some() || spec.ttl != Ttl::None => 40,
        Some(before) if alike(before, planned) => 3,
        _ => 20,
    };
    own + parts::bytes(spec.payload.len())
}

/// Pushes jobs that go to one shard and stand in one part.
async fn push_part(
    store: &Store,
    shard: u16,
    mut planned: Vec<Planned>,
) -> Result<Taken<Planned, Came>> {
    let mut call = store.call(&script::PUSH, shard);
    let mut runs = Vec::new();
    let mut rest = planned.as_slice();
    while let Some(first) = rest.first() {
        let count = match first.job.spec.key {
            Some(_) => 1,
            None => rest.iter().take_while(|next| alike(first, next)).count(),
        };
        let (run, others) = rest.split_at(count);
        call.arg(head(run));
        for planned in run {
            call.arg(pack_record(&planned.job.queue, &planned.job.spec));
        }
        runs.push(run);
        rest = others;
    }
    let answer = bytes(store.run(call).await?)?;
    let mut answers = answer.chunks_exact(ANSWER);
    let mut said = Vec::with_capacity(planned.len());
    'runs: for run in runs {
        let mut left = run.iter();
        while let Some(planned) = left.next() {
            let Some(answer) = answers.next() else {
                break 'runs;
            };
            if answer[0] != RUN {
                said.push(self::answer(answer, planned)?);
                continue;
            }
            let mut all = [0; ANSWER];
            all.copy_from_slice(answer);
            all[0] = 0;
            let Ok(Said::Pushed(first)) = self::answer(&all, planned)? else {
                return Err(garbled("an answer to many jobs"));
            };
            let mut id = first.id;
            said.push(Ok(Said::Pushed(first.clone())));
            for _ in left.by_ref() {
                id = id.next(store.shards);
                let next = Pushed {
                    id,
                    ..first.clone()
                };
                said.push(Ok(Said::Pushed(next)));
            }
        }
    }
    if said.is_empty() {
        return Err(garbled("an answer to no job"));
    }
    let left = planned.split_off(said.len());
    let came = |(said, planned): (Result<Said>, Planned)| {
        Ok(match said? {
            Said::Pushed(pushed) => Came::Pushed(pushed),
            Said::Again(why) => Came::Again(Box::new(planned), why),
        })
    };
    let answers = said.into_iter().zip(planned).map(came).collect();
    Ok(Taken { answers, left })
}

/// Pushes as the call of a job that is pushed alone: its head, and its spec.
pub fn single(call: &mut Call, planned: &Planned) {
    call.arg(head(std::slice::from_ref(planned)))
        .arg(pack_spec(&planned.job.queue, &planned.job.spec));
}

fn alike(a: &Planned, b: &Planned) -> bool {
    let (a_spec, b_spec) = (&a.job.spec, &b.job.spec);
    b_spec.key.is_none()
        && a.job.queue == b.job.queue
        && a.epoch == b.epoch
        && a_spec.priority == b_spec.priority
        && a_spec.when == b_spec.when
        && a_spec.ttl == b_spec.ttl
        && a_spec.group == b_spec.group
}

/// What the jobs of a run have in common, and how many there are.
fn head(run: &[Planned]) -> Vec<u8> {
    let job = &run[0].job;
    let spec = &job.spec;
    let size: usize = run.iter().map(|next| next.job.spec.payload.len()).sum();
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
        .time(Timestamp(size as u64))
        .u32(run[0].epoch)
        .flag(!run[0].rest.is_empty());
    pack.0
}

/// What a script says of one push.
pub enum Said {
    Pushed(Pushed),
    Again(Why),
}

/// What came of one push; an outer error means that the answer makes no sense.
pub fn answer(answer: &[u8], planned: &Planned) -> Result<Result<Said>> {
    let job = &planned.job;
    let queue = &job.queue;
    let again = |why| Ok(Ok(Said::Again(why)));
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
        14 => return again(Why::Elsewhere),
        15 if !planned.rest.is_empty() => return again(Why::Free),
        16 => return again(Why::Crowded),
        12 if planned.epoch > 0 => return again(Why::Full(Limit::Jobs)),
        13 if planned.epoch > 0 => return again(Why::Full(Limit::Bytes)),
        12 => return Ok(Err(refusal::too_many_jobs(queue, run_at.0, id))),
        13 => return Ok(Err(refusal::too_many_bytes(queue, run_at.0, id))),
        _ => return Err(garbled("an answer to a push")),
    };
    Ok(Ok(Said::Pushed(Pushed {
        id: JobId(id),
        state,
        run_at,
        how,
    })))
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

/// Pushes jobs of any shards.
pub async fn push_all(store: &Arc<Store>, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
    let mut done = Vec::with_capacity(jobs.len());
    let mut again = Vec::new();
    for (place, came) in send(store, plan(store, jobs))
        .await?
        .into_iter()
        .enumerate()
    {
        done.push(match came {
            Ok(Came::Pushed(pushed)) => Ok(pushed),
            Ok(Came::Again(planned, why)) => {
                again.push((place, (*planned, why)));
                // Until something came of it.
                Err(unsettled())
            }
            Err(error) => Err(error),
        });
    }
    for _ in 0..TRIES {
        if again.is_empty() {
            break;
        }
        let (mut places, mut planned) = (Vec::new(), Vec::new());
        let rooms = make_names(store, &again).await;
        // What is true of one job of a queue is true of the next.
        let mut known: HashMap<(QueueName, Why), Option<Error>> = HashMap::new();
        for (place, (next, why)) in again.drain(..) {
            let queue = next.job.queue.clone();
            if why == Why::Crowded
                && let Some(error) = rooms.get(&next.shard)
            {
                done[place] = Err(error.clone());
                continue;
            }
            let next = match known.get(&(queue.clone(), why)) {
                Some(Some(error)) => Err(error.clone()),
                Some(None) => Ok(next.anew(store)),
                None if why == Why::Crowded => Ok(next),
                None => {
                    let next = plan_again(store, (next, why)).await.unwrap_or_else(Err);
                    match why {
                        Why::Elsewhere => drop(known.insert((queue, why), None)),
                        Why::Full(Limit::Jobs) if next.is_err() => {
                            known.insert((queue, why), next.as_ref().err().cloned());
                        }
                        _ => {}
                    }
                    next
                }
            };
            match next {
                Ok(next) => {
                    places.push(place);
                    planned.push(next);
                }
                Err(error) => done[place] = Err(error),
            }
        }
        // What the rounds before did stands: an error is the answer to those of this one only.
        let came = send(store, planned).await;
        let came = came.unwrap_or_else(|error| {
            let each = places.iter().map(|_| Err(error.clone()));
            each.collect()
        });
        for (place, came) in places.into_iter().zip(came) {
            match came {
                Ok(Came::Pushed(pushed)) => done[place] = Ok(pushed),
                Ok(Came::Again(planned, why)) => again.push((place, (*planned, why))),
                Err(error) => done[place] = Err(error),
            }
        }
    }
    for (place, (planned, why)) in again {
        let why = given_up(store, &planned.job.queue, why).await;
        done[place] = Err(why.unwrap_or_else(|error| error));
    }
    Ok(done)
}

/// Makes room for the new queues of pushes that found none, in each shard for all of them. Why there is none in a shard.
async fn make_names(store: &Store, again: &[(usize, (Planned, Why))]) -> HashMap<u16, Error> {
    let mut names: HashMap<u16, HashSet<&QueueName>> = HashMap::new();
    for (_, (planned, why)) in again {
        if *why == Why::Crowded {
            let here = names.entry(planned.shard).or_default();
            here.insert(&planned.job.queue);
        }
    }
    let mut refused = HashMap::new();
    for (shard, names) in names {
        match forget::make_room(store, shard, names.len()).await {
            Ok(0) => drop(refused.insert(shard, forget::too_many())),
            Ok(_) => {}
            Err(error) => drop(refused.insert(shard, error)),
        }
    }
    refused
}

async fn send(store: &Store, planned: Vec<Planned>) -> Result<Vec<Result<Came>>> {
    let shard_of = |planned: &Planned| planned.shard;
    let push = |shard, planned| push(store, shard, planned);
    by_shard(planned, shard_of, push).await
}

/// Why a push was planned so often in vain.
pub async fn given_up(store: &Arc<Store>, queue: &QueueName, why: Why) -> Result<Error> {
    match why {
        // Several take room from each other.
        Why::Full(limit) => full(store, queue, limit).await,
        Why::Crowded => Ok(forget::too_many()),
        _ => Ok(unsettled()),
    }
}

fn unsettled() -> Error {
    let text = "the queue's settings change all the time: nothing was pushed, try again";
    Error::new(Code::Unavailable, text)
}
