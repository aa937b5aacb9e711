//! Redis commands and nothing else: what a queue is when nobody asks for more than a list. The same client as the engine's,
//! one connection for all callers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisResult};

use super::ground::{Ground, used_memory};
use super::line::{Figures, spread};
use super::load::{Meeting, lasting, meet, paced, repeat};
use super::{BATCH, OPEN, PACE, STORED};
use crate::Result;
use crate::drive::PAYLOAD;

const WAITING: &str = "waiting";
const TAKEN: &str = "taken";
/// Jobs of a backlog for each second that consuming it should take, roughly.
const BACKLOG: f64 = 120_000.0;

/// Pipelined pushes.
pub fn bulk(ground: &Ground) -> Result<Figures> {
    ground.block_on(async {
        let redis = ground.connect().await?;
        let values = Values::default();
        let step = move || push(redis.clone(), values.pipeline(BATCH));
        let watch = ground.watch()?;
        let jobs = repeat(ground.plan.in_flight, lasting(ground.plan.span), step).await?;
        watch.stop(jobs)
    })
}

/// Pushes of which each caller awaits one.
pub fn single(ground: &Ground) -> Result<Figures> {
    ground.block_on(async {
        let redis = ground.connect().await?;
        let values = Values::default();
        let step = move || push(redis.clone(), values.pipeline(1));
        let watch = ground.watch()?;
        let jobs = repeat(OPEN, lasting(ground.plan.span), step).await?;
        watch.stop(jobs)
    })
}

/// Takes and removes a backlog, `at_once` jobs being taken at most, by two callers so that Redis need not wait.
pub fn drain(ground: &Ground, at_once: usize) -> Result<Figures> {
    ground.block_on(async {
        let redis = ground.connect().await?;
        let values = Values::default();
        let count = (ground.plan.span.as_secs_f64() * BACKLOG) as usize;
        for _ in 0..count / BATCH {
            push(redis.clone(), values.pipeline(BATCH)).await?;
        }
        let empty = Arc::new(AtomicU64::new(0));
        let seen = empty.clone();
        let step = move || {
            let (redis, empty) = (redis.clone(), empty.clone());
            async move {
                let jobs = take(redis.clone(), at_once / 2).await?;
                if jobs.is_empty() {
                    empty.store(1, Ordering::Relaxed);
                }
                remove(redis, jobs).await
            }
        };
        let watch = ground.watch()?;
        let jobs = repeat(2, move || seen.load(Ordering::Relaxed) == 0, step).await?;
        watch.stop(jobs)
    })
}

/// Pushes, takes and removes at once.
pub fn cycle(ground: &Ground) -> Result<Figures> {
    ground.block_on(async {
        let redis = ground.connect().await?;
        let values = Values::default();
        let producer = redis.clone();
        let produce = move || push(producer.clone(), values.pipeline(BATCH));
        let consume = move |meeting: Arc<Meeting>| {
            let redis = redis.clone();
            async move {
                let jobs = take(redis.clone(), BATCH).await?;
                if jobs.is_empty() {
                    meeting.work().await;
                }
                remove(redis, jobs).await
            }
        };
        meet(ground, produce, consume).await
    })
}

/// From just before a push until one who waits has the job.
pub fn latency(ground: &Ground) -> Result<Figures> {
    let count = (ground.plan.span.as_secs_f64() * f64::from(PACE)) as u64;
    ground.block_on(async {
        let redis = ground.connect().await?;
        // A blocked command holds up whatever follows it on its connection.
        let mut waiter = ground.connect().await?;
        let zero = Instant::now();
        let pushing = paced(count, PACE, || {
            let mut redis = redis.clone();
            async move {
                let value = format!("{:<PAYLOAD$}", zero.elapsed().as_nanos());
                Cmd::lpush(WAITING, value).exec_async(&mut redis).await
            }
        });
        let waiting = async {
            let mut times = Vec::new();
            for _ in 0..count {
                let mut wait = redis::cmd("BLMOVE");
                wait.arg(&[WAITING, TAKEN, "RIGHT", "LEFT", "0"]);
                let value: String = wait.query_async(&mut waiter).await?;
                let sent: u64 = value.trim_end().parse()?;
                times.push(zero.elapsed().as_secs_f64() - sent as f64 / 1e9);
                remove(redis.clone(), vec![value.into_bytes()]).await?;
            }
            Ok(spread(times))
        };
        let (pushed, times) = tokio::join!(pushing, waiting);
        pushed?;
        times
    })
}

/// What jobs take that wait in a list.
pub fn memory(ground: &Ground) -> Result<Figures> {
    ground.block_on(async {
        let mut redis = ground.connect().await?;
        let values = Values::default();
        let before = used_memory(&mut redis).await?;
        for _ in 0..STORED / BATCH as u64 {
            push(redis.clone(), values.pipeline(BATCH)).await?;
        }
        let bytes = used_memory(&mut redis).await? - before;
        Ok(vec![bytes as f64 / STORED as f64])
    })
}

/// Payloads of which no two are the same: who removes one from a list must mean that one.
#[derive(Clone, Default)]
struct Values(Arc<AtomicU64>);

impl Values {
    fn pipeline(&self, jobs: usize) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(jobs);
        for _ in 0..jobs {
            let number = self.0.fetch_add(1, Ordering::Relaxed);
            pipeline
                .lpush(WAITING, format!("{number:<PAYLOAD$}"))
                .ignore();
        }
        pipeline
    }
}

async fn push(mut redis: MultiplexedConnection, jobs: Pipeline) -> RedisResult<u64> {
    jobs.exec_async(&mut redis).await?;
    Ok(jobs.len() as u64)
}

/// Takes up to so many jobs.
async fn take(mut redis: MultiplexedConnection, most: usize) -> RedisResult<Vec<Vec<u8>>> {
    let mut pipeline = Pipeline::with_capacity(most);
    for _ in 0..most {
        pipeline
            .cmd("LMOVE")
            .arg(&[WAITING, TAKEN, "RIGHT", "LEFT"]);
    }
    let taken: Vec<Option<Vec<u8>>> = pipeline.query_async(&mut redis).await?;
    Ok(taken.into_iter().flatten().collect())
}

/// Removes jobs that were taken, searching from the end where the oldest are.
async fn remove(mut redis: MultiplexedConnection, jobs: Vec<Vec<u8>>) -> RedisResult<u64> {
    if jobs.is_empty() {
        return Ok(0);
    }
    let mut pipeline = Pipeline::with_capacity(jobs.len());
    for job in &jobs {
        pipeline.lrem(TAKEN, -1, job);
    }
    let removed: Vec<u64> = pipeline.query_async(&mut redis).await?;
    Ok(removed.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::super::ground::Persistence;
    use super::*;
    use crate::Plan;

    #[test]
    fn a_backlog_is_consumed_to_the_last_job() {
        let args = ["--seconds", "0.01"].map(String::from).to_vec();
        let plan = Plan::parse(args, &[]).unwrap().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground::start(&plan, dir.path(), Persistence::Off).unwrap();
        let figures = drain(&ground, 50).unwrap();
        assert!(figures[0] > 0.0, "{figures:?}");
        let left: usize = ground
            .block_on(async {
                let mut redis = ground.connect().await?;
                Ok(redis::cmd("DBSIZE").query_async(&mut redis).await?)
            })
            .unwrap();
        assert_eq!(left, 0);
    }
}
