//! Moves over a bad line, and moves that overtake each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use auxo::core::NewJob;
use auxo::core::engine::*;
use auxo::core::event::Notice;
use auxo::core::job::{Job, Leased};
use auxo::core::passage::{Adopted, Adoption, Departure, Leaving, Passages, Step};
use auxo::core::queue::QueueInfo;
use auxo::core::schedule::{Missed, Rhythm, Schedule};
use auxo::core::time::{Due, Timestamp};
use auxo::{Auxo, Code, Error, JobSpec, QueueName, Result};
use auxo_embedded::{Embedded, Options};
use tempfile::TempDir;
use tokio::sync::broadcast;

use super::ends::Ends;
use super::queue::Move;
use super::tally::Tally;

/// What happens when jobs are to depart for the second time.
#[derive(Clone)]
enum Mishap {
    /// They do, and the answers get lost one by one, as those of several shards.
    LostAnswers,
    /// Another run of the same move begins at the target and lets them depart itself.
    Overtaken(Arc<dyn Engine>),
    /// Nothing; but so often a schedule ticks right before it is removed.
    Ticks(u32),
}

/// Lets the one schedule tick, whose next tick is far away.
async fn tick(engine: &Arc<dyn Engine>) {
    let schedule = engine.catalog().await.unwrap().schedules.remove(0);
    let base = schedule.rhythm.base();
    let due = Schedule {
        next: Some(Due {
            at: Timestamp(1),
            base,
        }),
        ..schedule
    };
    engine.change(Change::Arm(due)).await.unwrap();
    let ticked = engine.catalog().await.unwrap().schedules.remove(0);
    assert!(ticked.last.is_some());
}

struct Source {
    engine: Arc<dyn Engine>,
    mishap: Mishap,
    departures: AtomicU32,
    name: String,
}

#[async_trait]
impl Engine for Source {
    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        self.engine.queues(names).await
    }

    async fn change(&self, change: Change) -> Result<()> {
        if let (Mishap::Ticks(ticks), Change::Disarm(..)) = (&self.mishap, &change)
            && self.departures.fetch_add(1, Ordering::Relaxed) < *ticks
        {
            tick(&self.engine).await;
        }
        self.engine.change(change).await
    }

    async fn catalog(&self) -> Result<Catalog> {
        self.engine.catalog().await
    }

    async fn passages(&self, departure: Departure) -> Result<Passages> {
        self.engine.passages(departure).await
    }

    async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        let second = self.departures.fetch_add(1, Ordering::Relaxed) == 1;
        if !second || matches!(self.mishap, Mishap::Ticks(_)) {
            return self.engine.depart(queue, jobs).await;
        }
        if let Mishap::Overtaken(target) = &self.mishap {
            let begin = Adoption {
                queue: queue.clone(),
                store: self.name.clone(),
                run: 1,
                step: Step::Begin,
            };
            let last = target.adopt(begin).await?.last.unwrap();
            assert_eq!(last, jobs);
            self.engine.depart(queue.clone(), last).await?;
            return self.engine.depart(queue, jobs).await;
        }
        let answers = self.engine.depart(queue, jobs).await?;
        let lost = |_| Err(Error::new(Code::UnknownOutcome, "the line is bad"));
        Ok(answers.into_iter().map(lost).collect())
    }

    async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        self.engine.adopt(adoption).await
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    fn health(&self) -> Result<()> {
        self.engine.health()
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.engine.watch()
    }

    async fn audit(&self) -> Result<Audit> {
        self.engine.audit().await
    }

    // The rest is no part of a move.
    async fn push(&self, _: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        unreachable!()
    }

    async fn lease(&self, _: Ask) -> Result<Vec<Leased>> {
        unreachable!()
    }

    async fn settle(&self, _: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        unreachable!()
    }

    async fn extend(&self, _: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        unreachable!()
    }

    async fn find(&self, _: Which) -> Result<Option<Job>> {
        unreachable!()
    }

    async fn list(&self, _: Query) -> Result<Page> {
        unreachable!()
    }

    async fn steer(&self, _: Order) -> Result<Steered> {
        unreachable!()
    }

    async fn publish(&self, _: Message) -> Result<Vec<Pushed>> {
        unreachable!()
    }
}

/// Two stores, the first with more jobs than go in one step.
struct Bench {
    from: Arc<dyn Engine>,
    to: Arc<dyn Engine>,
    queue: QueueName,
    _dirs: [TempDir; 2],
}

const JOBS: u64 = 2500;

impl Bench {
    async fn new() -> Bench {
        let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let open = |dir: &TempDir| -> Arc<dyn Engine> {
            Arc::new(Embedded::open(dir.path(), Options::default()).unwrap())
        };
        let (from, to) = (open(&dirs[0]), open(&dirs[1]));
        let queue = QueueName::new("mail").unwrap();
        let job = NewJob {
            queue: queue.clone(),
            spec: JobSpec::default(),
        };
        let jobs = (0..JOBS).map(|_| job.clone()).collect();
        from.push(jobs).await.unwrap();
        Bench {
            from,
            to,
            queue,
            _dirs: dirs,
        }
    }

    async fn run(&self, mishap: Mishap) -> Result<()> {
        let departure = Departure {
            queue: self.queue.clone(),
            cursor: None,
            limit: 1,
        };
        let name = self.from.passages(departure).await.unwrap().store;
        let ends = Ends {
            from: Auxo::with_engine(Arc::new(Source {
                engine: self.from.clone(),
                mishap,
                departures: AtomicU32::new(0),
                name,
            })),
            to: Auxo::with_engine(self.to.clone()),
        };
        let names = ends.check().await?;
        let mut tally = Tally::new(&[]);
        let mut one = Move::new(&ends, &names, self.queue.clone(), false, &mut tally);
        one.run(Duration::from_secs(60)).await.map(drop)
    }

    async fn counts(&self) -> (u64, u64) {
        let live = async |engine: &Arc<dyn Engine>| {
            let found = engine.queues(Some(vec![self.queue.clone()])).await.unwrap();
            found[0].books.live
        };
        (live(&self.from).await, live(&self.to).await)
    }
}

#[tokio::test]
async fn answers_that_are_lost_one_by_one_cost_no_job() {
    let bench = Bench::new().await;
    bench.run(Mishap::LostAnswers).await.unwrap();
    assert_eq!(bench.counts().await, (0, JOBS));
}

#[tokio::test]
async fn a_run_that_was_overtaken_takes_nothing_back() {
    let bench = Bench::new().await;
    let target = bench.to.clone();
    let error = bench.run(Mishap::Overtaken(target)).await.unwrap_err();
    assert_eq!(error.code(), Code::Conflict);
    assert!(error.message().contains("another run"), "{error}");
    let (from, to) = bench.counts().await;
    assert_eq!((from + to, to), (JOBS, 2000));
}

async fn with_schedule() -> Bench {
    let bench = Bench::new().await;
    let pulse = Schedule {
        name: "pulse".into(),
        queue: bench.queue.clone(),
        rhythm: Rhythm::Every(Duration::from_secs(60 * 60 * 24)),
        missed: Missed::Once,
        spec: JobSpec::default(),
        next: None,
        last: None,
    };
    bench.from.change(Change::Schedule(pulse)).await.unwrap();
    bench
}

#[tokio::test]
async fn a_tick_right_before_its_schedule_leaves_is_known_at_the_target() {
    let bench = with_schedule().await;
    bench.run(Mishap::Ticks(2)).await.unwrap();
    assert_eq!(bench.counts().await, (0, JOBS + 2));
    assert_eq!(bench.from.catalog().await.unwrap().schedules, []);
    let there = bench.to.catalog().await.unwrap().schedules.remove(0);
    assert!(there.last.is_some() && there.next.is_some(), "{there:?}");
}

#[tokio::test]
async fn a_schedule_that_ticks_all_the_time_moves_all_the_same() {
    let bench = with_schedule().await;
    bench.run(Mishap::Ticks(u32::MAX)).await.unwrap();
    assert_eq!(bench.from.catalog().await.unwrap().schedules, []);
    assert_eq!(bench.to.catalog().await.unwrap().schedules.len(), 1);
}
