//! How sides are kept busy: the same way for each of them.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::ground::Ground;
use super::line::Figures;
use crate::Result;

/// How far a producer may be ahead of its consumer.
const AHEAD: u64 = 1_000;

/// So many callers at once, each repeating a step as long as `go_on` says; a step answers how many jobs it did. Answers the
/// jobs of all.
pub async fn repeat<E, F>(
    callers: usize,
    go_on: impl Fn() -> bool + Clone + Send + 'static,
    step: impl Fn() -> F + Clone + Send + 'static,
) -> Result<u64>
where
    E: Display + Send + 'static,
    F: Future<Output = std::result::Result<u64, E>> + Send,
{
    let mut running = JoinSet::new();
    for _ in 0..callers {
        let (go_on, step) = (go_on.clone(), step.clone());
        running.spawn(async move {
            let mut jobs = 0;
            while go_on() {
                jobs += step().await?;
            }
            Ok::<u64, E>(jobs)
        });
    }
    let mut jobs = 0;
    while let Some(done) = running.join_next().await {
        jobs += done?.map_err(|error| error.to_string())?;
    }
    Ok(jobs)
}

/// True for a while.
pub fn lasting(span: Duration) -> impl Fn() -> bool + Clone + Send + 'static {
    let end = Instant::now() + span;
    move || Instant::now() < end
}

/// Starts `count` tasks at an even pace and waits for all of them.
pub async fn paced<E, F>(count: u64, pace: u32, task: impl Fn() -> F) -> Result<()>
where
    E: Display + Send + 'static,
    F: Future<Output = std::result::Result<(), E>> + Send + 'static,
{
    let begin = tokio::time::Instant::now();
    let mut running = JoinSet::new();
    for turn in 0..count {
        tokio::time::sleep_until(begin + Duration::from_secs(turn) / pace).await;
        running.spawn(task());
    }
    while let Some(done) = running.join_next().await {
        done?.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Producers and consumers at once, as many of each as there may be batches under way, for as long as a side is measured.
/// Each step answers how many jobs it did; a consumer that has nothing to wait for can wait for the producers at the meeting.
pub async fn meet<E, P, C>(
    ground: &Ground,
    produce: impl Fn() -> P + Clone + Send + 'static,
    consume: impl Fn(Arc<Meeting>) -> C + Clone + Send + 'static,
) -> Result<Figures>
where
    E: Display + Send + 'static,
    P: Future<Output = std::result::Result<u64, E>> + Send,
    C: Future<Output = std::result::Result<u64, E>> + Send,
{
    let meeting = Arc::new(Meeting::default());
    let go_on = {
        let meeting = meeting.clone();
        move || !meeting.is_over()
    };
    let producer = {
        let meeting = meeting.clone();
        move || {
            let (meeting, produce) = (meeting.clone(), produce.clone());
            async move {
                meeting.room().await;
                let jobs = produce().await?;
                meeting.push(jobs);
                Ok::<u64, E>(jobs)
            }
        }
    };
    let consumer = {
        let meeting = meeting.clone();
        move || {
            let (meeting, consume) = (meeting.clone(), consume.clone());
            async move {
                let done = consume(meeting.clone()).await?;
                meeting.finish(done);
                Ok::<u64, E>(done)
            }
        }
    };
    let callers = ground.plan.in_flight;
    let watch = ground.watch()?;
    let timed = async {
        tokio::time::sleep(ground.plan.span).await;
        let figures = watch.stop(meeting.done());
        meeting.end();
        figures
    };
    let (pushed, done, figures) = tokio::join!(
        repeat(callers, go_on.clone(), producer),
        repeat(callers, go_on, consumer),
        timed
    );
    pushed?;
    done?;
    figures
}

/// What producers and consumers that work at once know of each other.
#[derive(Default)]
pub struct Meeting {
    pushed: AtomicU64,
    done: AtomicU64,
    over: AtomicBool,
    came: Notify,
    went: Notify,
}

impl Meeting {
    /// Lets a producer wait until its consumers have caught up.
    pub async fn room(&self) {
        while !self.is_over() && self.pushed.load(Ordering::Relaxed) > self.done() + AHEAD {
            self.went.notified().await;
        }
    }

    pub fn push(&self, jobs: u64) {
        self.pushed.fetch_add(jobs, Ordering::Relaxed);
        self.came.notify_one();
    }

    /// Lets a consumer that found nothing wait until something was pushed.
    pub async fn work(&self) {
        if !self.is_over() {
            self.came.notified().await;
        }
    }

    pub fn finish(&self, jobs: u64) {
        self.done.fetch_add(jobs, Ordering::Relaxed);
        self.went.notify_one();
    }

    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Lets everybody go. All run on one thread: nobody can begin to wait between the word and the call.
    pub fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.came.notify_waiters();
        self.went.notify_waiters();
    }
}
