//! An engine at work: tasks on one thread that push, lease and ack.

use std::cell::Cell;
use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use auxo_core::engine::{Ask, Outcome, Pick, Settle};
use auxo_core::job::Leased;
use auxo_core::{Engine, JobSpec, NewJob, QueueName};
use auxo_embedded::{Embedded, Options, Sync};
use bytes::Bytes;

use crate::counted::{CountedDisk, Counters};
use crate::table::{Sample, Watch};
use crate::{Plan, Result};

/// The size of a payload.
pub const PAYLOAD: usize = 100;

/// An engine whose I/O is counted.
#[derive(Clone)]
pub struct Subject {
    pub engine: Arc<Embedded>,
    pub counters: Arc<Counters>,
}

impl Subject {
    pub fn open(plan: &Plan, dir: &Path, sync: Sync) -> Result<Subject> {
        let counters = Arc::new(Counters::default());
        let options = Options {
            sync,
            segment_size: plan.segment,
            ..Options::default()
        };
        let engine = Embedded::on(CountedDisk::open(dir, counters.clone())?, options)?;
        Ok(Subject {
            engine: Arc::new(engine),
            counters,
        })
    }

    /// Lets `tasks` do cycles for a while. A cycle answers how many jobs it did.
    pub fn run<F, C>(&self, span: Duration, tasks: usize, cycle: C) -> Result<Sample>
    where
        C: Fn(Arc<Embedded>) -> F + 'static,
        F: Future<Output = Result<u64>>,
    {
        let end = Instant::now() + span;
        self.measure(tasks, cycle, move |_| Instant::now() < end)
    }

    /// Lets `tasks` do cycles until so many jobs are done.
    pub fn run_jobs<F, C>(&self, jobs: u64, tasks: usize, cycle: C) -> Result<Sample>
    where
        C: Fn(Arc<Embedded>) -> F + 'static,
        F: Future<Output = Result<u64>>,
    {
        self.measure(tasks, cycle, move |done| done < jobs)
    }

    fn measure<F, C>(
        &self,
        tasks: usize,
        cycle: C,
        goes_on: impl Fn(u64) -> bool + 'static,
    ) -> Result<Sample>
    where
        C: Fn(Arc<Embedded>) -> F + 'static,
        F: Future<Output = Result<u64>>,
    {
        let shared = Rc::new((cycle, goes_on, Cell::new(0)));
        let watch = Watch::start(self.counters.read());
        block_on(async {
            let mut running = Vec::new();
            for _ in 0..tasks {
                let (shared, engine) = (shared.clone(), self.engine.clone());
                running.push(tokio::task::spawn_local(async move {
                    let (cycle, goes_on, done) = &*shared;
                    while goes_on(done.get()) {
                        match cycle(engine.clone()).await {
                            Ok(jobs) => done.set(done.get() + jobs),
                            Err(error) => return Err(error.to_string()),
                        }
                    }
                    Ok(())
                }));
            }
            for task in running {
                task.await??;
            }
            Ok::<(), Box<dyn std::error::Error>>(())
        })?;
        Ok(watch.stop(shared.2.get(), self.counters.read()))
    }
}

/// Runs a future, and what it spawns, on this thread.
pub fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

pub fn queue(name: &str) -> QueueName {
    QueueName::new(name).expect("names of benchmarks are legal")
}

/// So many new jobs, each with a payload of its own.
pub fn jobs(queue: &QueueName, count: usize) -> Vec<NewJob> {
    (0..count)
        .map(|_| NewJob {
            queue: queue.clone(),
            spec: spec(),
        })
        .collect()
}

pub fn spec() -> JobSpec {
    JobSpec {
        payload: Bytes::from(vec![b'x'; PAYLOAD]),
        ..JobSpec::default()
    }
}

pub fn ask(queue: &QueueName, max: usize, wait: Duration, worker: &Arc<str>) -> Ask {
    Ask {
        queues: vec![queue.clone()],
        job: None,
        pick: Pick::First,
        max: max as u32,
        wait,
        ttr: None,
        worker: worker.clone(),
    }
}

pub fn worker() -> Arc<str> {
    Arc::from("bench")
}

/// Pushes; a job that is refused is an error.
pub async fn push(engine: &Embedded, jobs: Vec<NewJob>) -> Result<u64> {
    let mut count = 0;
    for pushed in engine.push(jobs).await? {
        pushed?;
        count += 1;
    }
    Ok(count)
}

/// Acks; a lease that is lost is an error.
pub async fn ack(engine: &Embedded, leased: Vec<Leased>) -> Result<u64> {
    let items = leased
        .into_iter()
        .map(|leased| Settle {
            token: leased.token,
            outcome: Outcome::Ack { result: None },
        })
        .collect();
    let mut count = 0;
    for settled in engine.settle(items).await? {
        settled?;
        count += 1;
    }
    Ok(count)
}

/// Pushes a batch, leases as many, acks them.
pub async fn mixed(
    engine: &Embedded,
    queue: &QueueName,
    batch: usize,
    worker: &Arc<str>,
) -> Result<u64> {
    push(engine, jobs(queue, batch)).await?;
    lease_ack(engine, queue, batch, worker).await
}

/// Leases a batch and acks it; finding nothing is an error.
pub async fn lease_ack(
    engine: &Embedded,
    queue: &QueueName,
    batch: usize,
    worker: &Arc<str>,
) -> Result<u64> {
    let leased = engine
        .lease(ask(queue, batch, Duration::ZERO, worker))
        .await?;
    if leased.is_empty() {
        return Err("the queue is empty before its time".into());
    }
    ack(engine, leased).await
}
