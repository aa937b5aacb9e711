//! Our own queue on Redis, used as a library: the engine behind a service, as every program uses it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auxo_core::engine::{Ask, Outcome, Pick, Settle};
use auxo_core::job::Leased;
use auxo_core::time::{Timestamp, When};
use auxo_core::{Engine, JobSpec, Limits, NewJob, QueueName, Service};
use auxo_redis::{Options, RedisEngine};
use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use super::ground::{Ground, used_memory};
use super::line::{Figures, spread};
use super::load::{lasting, meet, paced, repeat};
use super::neighbour::{Neighbour, Spec};
use super::{BATCH, HANDLERS, OPEN, PACE, STORED};
use crate::Result;
use crate::drive::PAYLOAD;

/// Jobs of a backlog for each second that consuming it should take, roughly.
const BACKLOG: f64 = 60_000.0;
/// Jobs of a call that has as many as it may.
const CALL: usize = 1_000;
/// How often the auditor of a store looks after it.
const BEAT: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Queue {
    service: Arc<Service>,
    name: QueueName,
}

impl Queue {
    async fn open(ground: &Ground) -> Result<Queue> {
        Queue::on(ground, 1).await
    }

    /// On a store of so many shards.
    async fn on(ground: &Ground, shards: u16) -> Result<Queue> {
        let url = format!("{}?durability=none&shards={shards}", ground.url()).parse()?;
        let engine: Arc<dyn Engine> = Arc::new(RedisEngine::open(&url, Options::default()).await?);
        Ok(Queue {
            service: Arc::new(Service::new(engine, Limits::default())),
            name: QueueName::new("q")?,
        })
    }

    fn job(&self, payload: Vec<u8>, when: When) -> NewJob {
        NewJob {
            queue: self.name.clone(),
            spec: JobSpec {
                payload: payload.into(),
                when,
                ..JobSpec::default()
            },
        }
    }

    async fn push(&self, count: usize) -> auxo_core::Result<u64> {
        let job = self.job(vec![b'x'; PAYLOAD], When::Now);
        let pushed = self.service.push(vec![job; count]).await?;
        pushed.into_iter().map(|pushed| pushed.map(|_| 1)).sum()
    }

    /// Pushes as many, in batches.
    async fn fill(&self, count: usize, when: When) -> auxo_core::Result<()> {
        let job = self.job(vec![b'x'; PAYLOAD], when);
        for _ in 0..count / BATCH {
            self.service.push(vec![job.clone(); BATCH]).await?;
        }
        Ok(())
    }

    async fn lease(&self, max: usize, wait: Duration) -> auxo_core::Result<Vec<Leased>> {
        let ask = Ask {
            queues: vec![self.name.clone()],
            job: None,
            pick: Pick::First,
            max: max as u32,
            wait,
            ttr: None,
            worker: "bench".into(),
        };
        self.service.lease(ask).await
    }

    async fn ack(&self, leased: Vec<Leased>) -> auxo_core::Result<u64> {
        if leased.is_empty() {
            return Ok(0);
        }
        let ends = leased.into_iter().map(|leased| Settle {
            token: leased.token,
            outcome: Outcome::Ack { result: None },
        });
        let settled = self.service.settle(ends.collect()).await?;
        settled.into_iter().map(|settled| settled.map(|_| 1)).sum()
    }
}

/// Pushes so many jobs and works them off, in calls that are as large as they may be, while a neighbour uses the same Redis.
pub fn beside_a_neighbour(ground: &Ground, jobs: usize, spec: Spec) -> Result<Figures> {
    let neighbour = Neighbour::start(ground)?;
    let began = Instant::now();
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        let mut next = 0..jobs;
        loop {
            let batch = next.by_ref().take(CALL).map(|number| NewJob {
                queue: queue.name.clone(),
                spec: spec(number),
            });
            let batch: Vec<NewJob> = batch.collect();
            if batch.is_empty() {
                break;
            }
            for pushed in queue.service.push(batch).await? {
                pushed?;
            }
        }
        let mut done = 0;
        while done < jobs as u64 {
            // Those with a delay are due within a second.
            let leased = queue.lease(CALL, Duration::from_secs(2)).await?;
            done += queue.ack(leased).await?;
        }
        Ok(())
    })?;
    neighbour.stop(jobs as f64 / began.elapsed().as_secs_f64())
}

/// Pushes in batches, beside a backlog.
pub fn bulk(ground: &Ground, backlog: usize) -> Result<Figures> {
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        queue.fill(backlog, When::Now).await?;
        let step = move || {
            let queue = queue.clone();
            async move { queue.push(BATCH).await }
        };
        let watch = ground.watch()?;
        let jobs = repeat(ground.plan.in_flight, lasting(ground.plan.span), step).await?;
        watch.stop(jobs)
    })
}

/// Pushes of which each caller awaits one.
pub fn single(ground: &Ground) -> Result<Figures> {
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        let step = move || {
            let queue = queue.clone();
            async move { queue.push(1).await }
        };
        let watch = ground.watch()?;
        let jobs = repeat(OPEN, lasting(ground.plan.span), step).await?;
        watch.stop(jobs)
    })
}

/// Leases and acks a backlog, `at_once` jobs being leased at most, by two callers so that Redis need not wait.
pub fn drain(ground: &Ground, at_once: usize) -> Result<Figures> {
    let count = (ground.plan.span.as_secs_f64() * BACKLOG) as usize;
    consume_while(ground, at_once, count, When::Now, || true)
}

/// A backlog of jobs that all fell due at the same instant.
pub fn drain_due(ground: &Ground, at_once: usize, count: usize) -> Result<Figures> {
    // Late enough that all are there by then.
    let wait = Duration::from_secs(1 + count as u64 / 50_000);
    let due = Timestamp::from(SystemTime::now()).plus(wait);
    consume_while(ground, at_once, count, When::At(due), || true)
}

/// As much of a backlog as there is time for.
pub fn consume(ground: &Ground, at_once: usize, count: usize) -> Result<Figures> {
    let begin = OnceLock::new();
    let span = ground.plan.span;
    let in_time = move || begin.get_or_init(Instant::now).elapsed() < span;
    consume_while(ground, at_once, count, When::Now, in_time)
}

fn consume_while(
    ground: &Ground,
    at_once: usize,
    count: usize,
    when: When,
    in_time: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Figures> {
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        queue.fill(count, when).await?;
        if let When::At(due) = when {
            tokio::time::sleep(due.since(Timestamp::from(SystemTime::now()))).await;
        }
        let left = Arc::new(AtomicBool::new(true));
        let go_on = {
            let (left, in_time) = (left.clone(), Arc::new(in_time));
            move || left.load(Ordering::Relaxed) && in_time()
        };
        let step = move || {
            let (queue, left) = (queue.clone(), left.clone());
            async move {
                let leased = queue.lease(at_once / 2, Duration::ZERO).await?;
                if leased.is_empty() {
                    left.store(false, Ordering::Relaxed);
                }
                queue.ack(leased).await
            }
        };
        let watch = ground.watch()?;
        let jobs = repeat(2, go_on, step).await?;
        watch.stop(jobs)
    })
}

/// Pushes, leases and acks at once.
pub fn cycle(ground: &Ground) -> Result<Figures> {
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        let producer = queue.clone();
        let produce = move || {
            let queue = producer.clone();
            async move { queue.push(BATCH).await }
        };
        let consume = move |_| {
            let queue = queue.clone();
            async move {
                let leased = queue.lease(BATCH, Duration::from_millis(500)).await?;
                queue.ack(leased).await
            }
        };
        meet(ground, produce, consume).await
    })
}

/// From just before a push until one who waits has the job.
pub fn latency(ground: &Ground) -> Result<Figures> {
    let count = (ground.plan.span.as_secs_f64() * f64::from(PACE)) as u64;
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        let zero = Instant::now();
        let pushing = paced(count, PACE, || {
            let queue = queue.clone();
            async move {
                let payload = format!("{:<PAYLOAD$}", zero.elapsed().as_nanos());
                let job = queue.job(payload.into_bytes(), When::Now);
                queue.service.push(vec![job]).await.map(drop)
            }
        });
        let times = handled(&queue, count as usize, |leased| {
            let sent: f64 = std::str::from_utf8(&leased.job.payload)?
                .trim_end()
                .parse()?;
            Ok(zero.elapsed().as_secs_f64() - sent / 1e9)
        });
        let (pushed, times) = tokio::join!(pushing, times);
        pushed?;
        Ok(spread(times?))
    })
}

/// How late jobs are handed out that are due at random instants within ten seconds.
pub fn lateness(ground: &Ground) -> Result<Figures> {
    let count = ground.plan.due as usize;
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        let begin = Timestamp::from(SystemTime::now()).plus(Duration::from_secs(2));
        let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
        let mut jobs = Vec::new();
        for _ in 0..count {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let due = begin.plus(Duration::from_millis(dice % 10_000));
            jobs.push(queue.job(vec![b'x'; PAYLOAD], When::At(due)));
        }
        for batch in jobs.chunks(BATCH) {
            queue.service.push(batch.to_vec()).await?;
        }
        let times = handled(&queue, count, |leased| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            Ok(now.as_secs_f64() - leased.job.run_at.0 as f64 / 1e3)
        });
        Ok(spread(times.await?))
    })
}

/// Handles so many jobs by callers that wait, and notes a time for each.
async fn handled(
    queue: &Queue,
    count: usize,
    time: impl Fn(&Leased) -> Result<f64>,
) -> Result<Vec<f64>> {
    let times = RefCell::new(Vec::with_capacity(count));
    let handler = || async {
        while times.borrow().len() < count {
            let leased = queue.lease(1, Duration::from_millis(500)).await?;
            for leased in &leased {
                times.borrow_mut().push(time(leased)?);
            }
            queue.ack(leased).await?;
        }
        Result::Ok(())
    };
    try_join_all((0..HANDLERS).map(|_| handler())).await?;
    Ok(times.into_inner())
}

/// What Redis needs for a waiting job.
pub fn memory(ground: &Ground) -> Result<Figures> {
    ground.block_on(async {
        let queue = Queue::open(ground).await?;
        let mut redis = ground.connect().await?;
        let before = used_memory(&mut redis).await?;
        queue.fill(STORED as usize, When::Now).await?;
        let used = used_memory(&mut redis).await? - before;
        Ok(vec![used as f64 / STORED as f64])
    })
}

/// What a process asks of Redis while so many calls of it wait in vain.
pub fn idle(ground: &Ground, shards: u16, waiting: usize) -> Result<Figures> {
    ground.block_on(async {
        let queue = Queue::on(ground, shards).await?;
        // The first beat of the auditor walks through what is new; then it rests.
        tokio::time::sleep(BEAT + Duration::from_secs(5)).await;
        let mut waits = JoinSet::new();
        for number in 0..waiting {
            let mut queue = queue.clone();
            // Over all shards.
            queue.name = QueueName::new(&format!("q{number}"))?;
            waits.spawn(async move { queue.lease(1, Duration::from_secs(60)).await });
        }
        // Until all have asked once.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (idle, monitor) = (ground.plan.idle, ground.monitor()?);
        let counting = tokio::task::spawn_blocking(move || monitor.count(idle));
        let commands = counting.await?.map_err(|error| error.to_string())?;
        Ok(vec![commands as f64 / idle.as_secs_f64()])
    })
}
