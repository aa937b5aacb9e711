//! An engine on the test bench: the engine, the clock it lives by, and the few words that cases are written in.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::clock::{Clock, ManualClock};
use auxo_core::engine::*;
use auxo_core::job::{Backoff, Jitter, Job, Key, Leased, OnDuplicate};
use auxo_core::queue::{Books, QueueConfig, QueueInfo};
use auxo_core::time::{Now, Timestamp, When};
use auxo_core::{Code, JobId, JobSpec, NewJob, QueueName, Result, State, Token};
use bytes::Bytes;
use tokio::task::JoinHandle;

/// A boxed future, for hooks.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Closes the engine, and opens again what it had stored, by the same clock.
pub type Reopen = Arc<dyn Fn() -> Later<Bench> + Send + Sync>;

/// Real time after which an answer that must come is given up; no case waits for it when an engine is right.
const GIVE_UP: Duration = Duration::from_secs(30);
/// How often a state that must come about is looked for.
const LOOKS: usize = 100_000;

/// An engine under test.
#[derive(Clone)]
pub struct Bench {
    /// The engine, empty at the start of a case.
    pub engine: Arc<dyn Engine>,
    /// The clock it lives by.
    pub clock: Arc<ManualClock>,
    /// How to open it again, where an engine outlives its process.
    pub reopen: Option<Reopen>,
    /// Whether it has a clock of its own that nobody can step, and counts the hour after which an unused queue is forgotten anew
    /// from its start.
    pub steady: bool,
    /// Whether all its queues are in one place, so that it knows the most urgent job of several of them.
    pub together: bool,
}

/// Runs a case to its end on a runtime of its own.
pub fn run<T>(case: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime for one thread")
        .block_on(case)
}

/// The queue that cases use unless they say otherwise.
pub fn queue() -> QueueName {
    named("q")
}

/// The queue of this name.
pub fn named(name: &str) -> QueueName {
    QueueName::new(name).expect("a good name")
}

/// So many seconds.
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// So many milliseconds.
pub const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A plain job. Its waits between tries are exact: one second, then twice as long each time.
pub fn plain() -> JobSpec {
    JobSpec {
        backoff: Backoff::Exponential {
            base: secs(1),
            factor: 2.0,
            cap: secs(3600),
            jitter: Jitter::None,
        },
        ..JobSpec::default()
    }
}

/// A plain job that is due so much later.
pub fn later(delay: Duration) -> JobSpec {
    JobSpec {
        when: When::After(delay),
        ..plain()
    }
}

/// A plain job of this priority.
pub fn urgency(priority: u32) -> JobSpec {
    JobSpec {
        priority,
        ..plain()
    }
}

/// A plain job with this key.
pub fn keyed(name: &str, on_duplicate: OnDuplicate) -> JobSpec {
    let key = Key {
        name: name.to_owned(),
        on_duplicate,
        window: secs(24 * 60 * 60),
    };
    JobSpec {
        key: Some(key),
        ..plain()
    }
}

/// Finished well.
pub fn ack() -> Outcome {
    Outcome::Ack { result: None }
}

/// Failed, to be tried again by the policy.
pub fn fail(error: &str) -> Outcome {
    Outcome::Fail {
        error: error.to_owned(),
        delay: None,
        retry: Retry::Policy,
    }
}

/// Given back to its old place.
pub fn release() -> Outcome {
    Outcome::Release {
        priority: None,
        delay: None,
    }
}

/// Dead at once.
pub fn bury(error: &str) -> Outcome {
    Outcome::Bury {
        error: Some(error.to_owned()),
        priority: None,
    }
}

/// Again later.
pub fn snooze(delay: Duration) -> Outcome {
    Outcome::Snooze { delay }
}

/// The code of a refusal.
pub fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.expect_err("a refusal").code()
}

impl Bench {
    /// What the clocks show.
    pub fn now(&self) -> Now {
        self.clock.now()
    }

    /// What the wall clock shows.
    pub fn wall(&self) -> Timestamp {
        self.now().wall
    }

    /// Lets time pass.
    pub fn pass(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Closes the engine and opens it again.
    pub async fn reopen(&self) -> Bench {
        let reopen = self.reopen.as_ref();
        let reopen = reopen.expect("an engine that claims to outlive its process");
        reopen().await
    }

    /// Pushes a job to the usual queue.
    pub async fn push(&self, spec: JobSpec) -> JobId {
        self.push_to(&queue(), spec).await
    }

    /// Pushes a job to a queue.
    pub async fn push_to(&self, queue: &QueueName, spec: JobSpec) -> JobId {
        self.try_push(queue, spec).await.expect("a push").id
    }

    /// Pushes a job that may be refused.
    pub async fn try_push(&self, queue: &QueueName, spec: JobSpec) -> Result<Pushed> {
        let queue = queue.clone();
        let mut results = self.engine.push(vec![NewJob { queue, spec }]).await?;
        assert_eq!(results.len(), 1, "one answer for one job");
        results.remove(0)
    }

    /// Pushes so many plain jobs in one call.
    pub async fn push_many(&self, count: usize, spec: JobSpec) -> Vec<JobId> {
        let (queue, spec) = (queue(), spec);
        let jobs = vec![NewJob { queue, spec }; count];
        let results = self.engine.push(jobs).await.expect("a batch");
        let id = |result: Result<Pushed>| result.expect("a push").id;
        results.into_iter().map(id).collect()
    }

    /// Leases up to `max` jobs from the usual queue, without waiting.
    pub async fn take(&self, max: u32) -> Vec<Leased> {
        self.take_from(&[queue()], max).await
    }

    /// Leases up to `max` jobs from these queues, without waiting.
    pub async fn take_from(&self, queues: &[QueueName], max: u32) -> Vec<Leased> {
        let ask = asking(queues, max, Duration::ZERO);
        self.engine.lease(ask).await.expect("a lease")
    }

    /// The ids of the jobs that a call gets which wants the most urgent of these queues, without waiting.
    pub async fn most_urgent(&self, queues: &[QueueName], max: u32) -> Vec<JobId> {
        let ask = urgently(asking(queues, max, Duration::ZERO));
        let leased = self.engine.lease(ask).await.expect("a lease");
        leased.into_iter().map(|leased| leased.job.id).collect()
    }

    /// Leases one job from the usual queue, which must have one.
    pub async fn one(&self) -> Leased {
        self.take(1).await.pop().expect("a due job")
    }

    /// The ids of the jobs that are handed out next.
    pub async fn order(&self, max: u32) -> Vec<JobId> {
        let leased = self.take(max).await;
        leased.into_iter().map(|leased| leased.job.id).collect()
    }

    /// Whether the usual queue has nothing to hand out.
    pub async fn idle(&self) -> bool {
        self.take(1).await.is_empty()
    }

    /// Starts a lease that waits, and lets it reach the queue.
    pub async fn wait_on(&self, queues: &[QueueName], max: u32) -> JoinHandle<Vec<Leased>> {
        self.wait_for(asking(queues, max, secs(3600))).await
    }

    /// Starts a lease, and lets it reach its first queue. The queue must exist.
    pub async fn wait_for(&self, ask: Ask) -> JoinHandle<Vec<Leased>> {
        let first = ask.queues[0].clone();
        let before = self.info_of(&first).await.waiting;
        let engine = self.engine.clone();
        let task = tokio::spawn(async move { engine.lease(ask).await.unwrap_or_default() });
        self.until_waiting(&first, before + 1).await;
        task
    }

    /// Pushes a job and leases it for a call that is dropped before it could take the answer.
    pub async fn lend_to_nobody(&self) -> JobId {
        self.configure(QueueConfig::default()).await;
        let mut lease = self.engine.lease(asking(&[queue()], 1, secs(3600)));
        // Polled once, so that the call reaches the engine; then never again.
        let poll = std::future::poll_fn(|context| {
            assert!(lease.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        });
        poll.await;
        self.until_waiting(&queue(), 1).await;
        let pushed = self.push(plain()).await;
        self.until_waiting(&queue(), 0).await;
        drop(lease);
        self.until(|info| info.counts.ready == 1).await;
        pushed
    }

    /// Looks until so many lease calls wait for a queue.
    pub async fn until_waiting(&self, queue: &QueueName, waiting: u64) {
        let seen = self.sees_waiting(queue, waiting).await;
        assert!(seen, "never saw {waiting} lease calls wait for {queue}");
    }

    /// Whether so many lease calls come to wait for a queue.
    pub async fn sees_waiting(&self, queue: &QueueName, waiting: u64) -> bool {
        for _ in 0..LOOKS {
            if self.info_of(queue).await.waiting == waiting {
                return true;
            }
            tokio::task::yield_now().await;
        }
        false
    }

    /// Looks until the usual queue is as it should be.
    pub async fn until(&self, so: impl Fn(&QueueInfo) -> bool) {
        for _ in 0..LOOKS {
            if so(&self.info().await) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("never came about: {:?}", self.info().await);
    }

    /// Deletes every job of a queue that is not leased.
    pub async fn purge(&self, queue: &QueueName) {
        let filter = Filter {
            queue: Some(queue.clone()),
            ..Filter::default()
        };
        for job in self.all(filter, 100).await {
            if job.state != State::Leased {
                self.steer(job.id, Action::Delete).await.expect("a delete");
            }
        }
    }

    /// The answer of a task that must end by itself now.
    pub async fn answer<T>(&self, task: JoinHandle<T>) -> T {
        let answer = tokio::time::timeout(GIVE_UP, task).await;
        let answer = answer.expect("an answer, for the wait is over");
        answer.expect("a task that does not panic")
    }

    /// Ends one lease, which must run.
    pub async fn settle(&self, token: Token, outcome: Outcome) -> Settled {
        let settled = self.try_settle(token, outcome).await;
        settled.expect("a running lease")
    }

    /// Ends one lease that may be over.
    pub async fn try_settle(&self, token: Token, outcome: Outcome) -> Result<Settled> {
        let items = vec![Settle { token, outcome }];
        self.engine.settle(items).await?.remove(0)
    }

    /// Leases the next job and settles it.
    pub async fn work(&self, outcome: Outcome) -> Settled {
        let leased = self.one().await;
        self.settle(leased.token, outcome).await
    }

    /// Extends one lease.
    pub async fn extend(&self, token: Token, ttr: Option<Duration>) -> Result<Extended> {
        let items = vec![Extend {
            token,
            ttr,
            progress: None,
        }];
        self.engine.extend(items).await?.remove(0)
    }

    /// One job, which must be there.
    pub async fn job(&self, id: JobId) -> Job {
        self.find(id).await.expect("the job")
    }

    /// One job, if it is there.
    pub async fn find(&self, id: JobId) -> Option<Job> {
        self.engine.find(Which::Id(id)).await.expect("an answer")
    }

    /// The state of one job, if it is there.
    pub async fn state(&self, id: JobId) -> Option<State> {
        self.find(id).await.map(|job| job.state)
    }

    /// The job that holds a key of the usual queue.
    pub async fn holder(&self, key: &str) -> Option<Job> {
        let which = Which::Key(queue(), key.to_owned());
        self.engine.find(which).await.expect("an answer")
    }

    /// An operator's move on one job.
    pub async fn steer(&self, id: JobId, action: Action) -> Result<State> {
        let order = Order {
            target: Target::Jobs(vec![id]),
            action,
            mode: Mode::Act,
        };
        let mut steered = self.engine.steer(order).await?;
        let result = steered.results.remove(0);
        assert_eq!(steered.moved, u64::from(result.is_ok()), "{result:?}");
        result
    }

    /// The usual queue.
    pub async fn info(&self) -> QueueInfo {
        self.info_of(&queue()).await
    }

    /// One queue, which must exist.
    pub async fn info_of(&self, queue: &QueueName) -> QueueInfo {
        let names = Some(vec![queue.clone()]);
        let mut infos = self.engine.queues(names).await.expect("an answer");
        infos.pop().expect("the queue")
    }

    /// Whether there is a queue of this name.
    pub async fn is_known(&self, queue: &QueueName) -> bool {
        let names = Some(vec![queue.clone()]);
        let infos = self.engine.queues(names).await.expect("an answer");
        !infos.is_empty()
    }

    /// The books of all forgotten queues.
    pub async fn forgotten(&self) -> Books {
        self.engine.forgotten().await.expect("an answer")
    }

    /// Makes a queue that has nothing, by a job that was done.
    pub async fn use_up(&self, queue: &QueueName) {
        self.push_to(queue, plain()).await;
        let leased = self.take_from(std::slice::from_ref(queue), 1).await;
        self.settle(leased[0].token, ack()).await;
    }

    /// Sets the usual queue's settings, and makes it.
    pub async fn configure(&self, config: QueueConfig) {
        self.change(Change::Queue(queue(), config)).await;
    }

    /// Makes a change.
    pub async fn change(&self, change: Change) {
        self.engine.change(change).await.expect("a change");
    }

    /// Every job that a filter shows, page by page.
    pub async fn all(&self, filter: Filter, page: u32) -> Vec<Job> {
        let mut jobs = Vec::new();
        let mut cursor = None;
        for _ in 0..LOOKS {
            let query = Query {
                filter: filter.clone(),
                cursor,
                limit: page,
            };
            let shown = self.engine.list(query).await.expect("a page");
            assert!(shown.jobs.len() <= page as usize, "a page over its limit");
            jobs.extend(shown.jobs);
            cursor = shown.next;
            if cursor.is_none() {
                return jobs;
            }
        }
        panic!("a listing without an end");
    }

    /// Fails unless the books of every queue balance and the audit finds nothing.
    pub async fn check_books(&self) {
        for info in self.engine.queues(None).await.expect("an answer") {
            assert!(info.books.balanced(), "{info:?}");
        }
        let audit = self.engine.audit().await.expect("an audit");
        assert_eq!(audit.problems, Vec::<String>::new());
        assert!(audit.forgotten.balanced(), "{audit:?}");
    }
}

/// A request for jobs.
pub fn asking(queues: &[QueueName], max: u32, wait: Duration) -> Ask {
    Ask {
        queues: queues.to_vec(),
        job: None,
        pick: Pick::First,
        max,
        wait,
        ttr: None,
        worker: "worker-1".into(),
    }
}

/// The same request, for the most urgent job of its queues.
pub fn urgently(ask: Ask) -> Ask {
    Ask {
        pick: Pick::MostUrgent,
        ..ask
    }
}

/// A payload.
pub fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}
