//! The way into an engine: checks every field, counts, and adds what can be built from the engine's calls.
//!
//! Every interface goes through here, so that an engine sees only values within the [`Limits`]. In a batch a wrong item is
//! answered with its own error and the others go on; nothing of a wrong item reaches the engine.

mod counters;

use std::sync::Arc;

use tokio::sync::broadcast;

use self::counters::Counters;
pub use self::counters::Tally;
use crate::clock::{Clock, SystemClock};
use crate::engine::{
    Action, Ask, Audit, Catalog, Change, Engine, Extend, Extended, Filter, Message, Mode, Order,
    Outage, Page, Pushed, Query, QueueList, Settle, Settled, Steered, Target, Which,
};
use crate::error::{Code, Error, Result};
use crate::event::Notice;
use crate::explain::{self, Explanation, Watch};
use crate::job::{Job, Leased, NewJob, QueueName};
use crate::life::State;
use crate::limits::Limits;
use crate::passage::{Adopted, Adoption, Departure, Leaving, Passage, Passages, Step};
use crate::queue::{Books, QueueInfo};
use crate::time::{Timestamp, When};

/// An engine behind its checks. Each method has the meaning of the [`Engine`] call of the same name.
pub struct Service {
    engine: Arc<dyn Engine>,
    limits: Limits,
    clock: Arc<dyn Clock>,
    opened: Timestamp,
    counters: Counters,
}

impl Service {
    /// A service over an engine.
    pub fn new(engine: Arc<dyn Engine>, limits: Limits) -> Service {
        Service::with_clock(engine, limits, Arc::new(SystemClock::new(Timestamp(0))))
    }

    /// A service that takes the time from `clock`, which should be the engine's. It needs the wall clock only, to tell a due
    /// time that is too far ahead and to explain how long something still takes.
    pub fn with_clock(engine: Arc<dyn Engine>, limits: Limits, clock: Arc<dyn Clock>) -> Service {
        Service {
            engine,
            limits,
            opened: clock.now().wall,
            clock,
            counters: Counters::default(),
        }
    }

    /// The limits that callers are held to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What the service has done since it was made.
    pub fn tally(&self) -> Tally {
        self.counters.tally()
    }

    /// What the clock on the wall shows, as the engine and the service read it.
    pub fn now(&self) -> Timestamp {
        self.clock.now().wall
    }

    /// Keeps the jobs.
    pub async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        self.push_each(jobs.into_iter().map(Ok).collect()).await
    }

    /// Keeps those jobs that could be read; an item that is an error already is answered with it.
    pub async fn push_each(&self, jobs: Vec<Result<NewJob>>) -> Result<Vec<Result<Pushed>>> {
        let now = self.now();
        let check = |job: NewJob| self.limits.check_spec(&job.spec, now).map(|()| job);
        let sorted = self.sort(jobs, check)?;
        let answers = match sorted.good.is_empty() {
            true => Vec::new(),
            false => self.outer(self.engine.push(sorted.good).await)?,
        };
        let answers = self.merge(sorted.verdicts, answers)?;
        self.counters.pushed(answers.iter().flatten());
        Ok(answers)
    }

    /// Lends jobs, or waits for some.
    pub async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        self.outer(self.limits.check_ask(&ask))?;
        let jobs = self.outer(self.engine.lease(ask).await)?;
        self.counters.leased(jobs.len());
        Ok(jobs)
    }

    /// Ends leases.
    pub async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.settle_each(items.into_iter().map(Ok).collect()).await
    }

    /// Ends those leases whose items could be read; an item that is an error already is answered with it.
    pub async fn settle_each(&self, items: Vec<Result<Settle>>) -> Result<Vec<Result<Settled>>> {
        let outcomes: Vec<Option<&'static str>> = items
            .iter()
            .map(|item| item.as_ref().ok().map(|item| item.outcome.as_str()))
            .collect();
        let sorted = self.sort(items, |item| self.limits.check_settle(item))?;
        let answers = match sorted.good.is_empty() {
            true => Vec::new(),
            false => self.outer(self.engine.settle(sorted.good).await)?,
        };
        let answers = self.merge(sorted.verdicts, answers)?;
        for (outcome, answer) in outcomes.into_iter().zip(&answers) {
            if let (Some(outcome), Ok(_)) = (outcome, answer) {
                self.counters.settled(outcome);
            }
        }
        Ok(answers)
    }

    /// Prolongs leases.
    pub async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.extend_each(items.into_iter().map(Ok).collect()).await
    }

    /// Prolongs those leases whose items could be read; an item that is an error already is answered with it.
    pub async fn extend_each(&self, items: Vec<Result<Extend>>) -> Result<Vec<Result<Extended>>> {
        let check = |item: Extend| self.limits.check_extend(&item).map(|()| item);
        let sorted = self.sort(items, check)?;
        let answers = match sorted.good.is_empty() {
            true => Vec::new(),
            false => self.outer(self.engine.extend(sorted.good).await)?,
        };
        self.merge(sorted.verdicts, answers)
    }

    /// Shows one job.
    pub async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.outer(self.limits.check_which(&which))?;
        self.outer(self.engine.find(which).await)
    }

    /// Shows a page of jobs.
    pub async fn list(&self, query: Query) -> Result<Page> {
        self.outer(self.limits.check_query(&query))?;
        self.outer(self.engine.list(query).await)
    }

    /// Makes an operator's move.
    pub async fn steer(&self, order: Order) -> Result<Steered> {
        self.outer(self.limits.check_order(&order, self.now()))?;
        if matches!(&order.target, Target::Jobs(ids) if ids.is_empty()) {
            return Ok(Steered::default());
        }
        let steered = self.outer(self.engine.steer(order).await)?;
        let refused = steered.results.iter().filter_map(|r| r.as_ref().err());
        refused.for_each(|error| self.counters.refused(error.code()));
        Ok(steered)
    }

    /// Makes a move on every job that matches, page by page, and answers how many it moved. After each page `progress`
    /// hears how many there were so far.
    ///
    /// A relative due time is fixed once, before the first page: were it computed anew for each, jobs would keep moving away
    /// in front of the cursor and the walk would not end.
    pub async fn bulk(
        &self,
        filter: Filter,
        action: Action,
        mode: Mode,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<u64> {
        let action = match action {
            Action::Reschedule(when) => {
                // Checked before it is fixed, so that an error speaks of what the caller said.
                let asked = Order {
                    target: Target::Jobs(Vec::new()),
                    action: Action::Reschedule(when),
                    mode,
                };
                self.outer(self.limits.check_order(&asked, self.now()))?;
                Action::Reschedule(When::At(self.fixed(when)))
            }
            other => other,
        };
        let (mut moved, mut cursor) = (0, None);
        loop {
            let query = Query {
                filter: filter.clone(),
                cursor: cursor.clone(),
                limit: self.limits.page,
            };
            let steered = self
                .steer(Order {
                    target: Target::Matching(query),
                    action: action.clone(),
                    mode,
                })
                .await?;
            moved += steered.moved;
            progress(moved);
            match steered.next {
                None => return Ok(moved),
                Some(next) if Some(&next) == cursor.as_ref() => {
                    return self.outer(Err(Error::new(
                        Code::Internal,
                        format!("the engine's cursor stands still after {moved} jobs"),
                    )));
                }
                next => cursor = next,
            }
        }
    }

    fn fixed(&self, when: When) -> Timestamp {
        match when {
            When::Now => self.now(),
            When::After(delay) => self.now().plus(delay),
            When::At(at) => at,
        }
    }

    /// Deletes a queue's jobs in these states, or in any state but leased when none is named, and answers how many.
    pub async fn purge(
        &self,
        queue: QueueName,
        states: Vec<State>,
        progress: impl FnMut(u64) + Send,
    ) -> Result<u64> {
        if states.contains(&State::Leased) {
            return self.outer(Err(Error::bad_request(
                "states: a leased job cannot be deleted, cancel it instead",
            )));
        }
        let states = match states.is_empty() {
            true => vec![State::Scheduled, State::Ready, State::Dead, State::Done],
            false => states,
        };
        let filter = Filter {
            queue: Some(queue),
            states,
            ..Filter::default()
        };
        self.bulk(filter, Action::Delete, Mode::Act, progress).await
    }

    /// Says why a job is not running, or who has a key.
    pub async fn explain(&self, which: Which) -> Result<Explanation> {
        self.explain_since(which, Some(self.opened)).await
    }

    /// The same, said by a process that opened the store only to ask: that nobody has asked it for jobs means nothing.
    pub async fn explain_unwatched(&self, which: Which) -> Result<Explanation> {
        self.explain_since(which, None).await
    }

    async fn explain_since(&self, which: Which, since: Option<Timestamp>) -> Result<Explanation> {
        self.outer(self.limits.check_which(&which))?;
        if let Some(explanation) = self.outer(self.engine.explain(&which).await)? {
            return Ok(explanation);
        }
        let job = self.find(which.clone()).await?;
        let queue = match (&job, &which) {
            (Some(job), _) => Some(job.queue.clone()),
            (None, Which::Key(queue, _)) => Some(queue.clone()),
            (None, Which::Id(_)) => None,
        };
        let info = match queue {
            Some(name) => self.queues(Some(vec![name])).await?.into_iter().next(),
            None => None,
        };
        let (job, info) = (job.as_ref(), info.as_ref());
        let now = self.now();
        let watch = Watch { since, now };
        Ok(match &which {
            Which::Id(_) => explain::explain(job, info, watch),
            Which::Key(_, key) => explain::explain_key(key, job, info, watch),
        })
    }

    /// Shows queues.
    pub async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        let named = names.as_ref().map_or(0, Vec::len);
        self.outer(self.limits.check_queues(named))?;
        self.outer(self.engine.queues(names).await)
    }

    /// Shows all queues that can be reached, and what cannot.
    pub async fn reachable_queues(&self) -> Result<QueueList> {
        self.outer(self.engine.reachable_queues().await)
    }

    /// The books of all forgotten queues together.
    pub async fn forgotten(&self) -> Result<Books> {
        self.outer(self.engine.forgotten().await)
    }

    /// Changes what is set up.
    pub async fn change(&self, change: Change) -> Result<()> {
        self.outer(self.limits.check_change(&change, self.now()))?;
        self.outer(self.engine.change(change).await)
    }

    /// Shows what is set up.
    pub async fn catalog(&self) -> Result<Catalog> {
        self.outer(self.engine.catalog().await)
    }

    /// Publishes a message.
    pub async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        self.outer(self.limits.check_message(&message, self.now()))?;
        let pushed = self.outer(self.engine.publish(message).await)?;
        self.counters.pushed(&pushed);
        Ok(pushed)
    }

    /// Shows jobs to be moved.
    pub async fn passages(&self, departure: Departure) -> Result<Passages> {
        self.outer(self.limits.check_departure(&departure))?;
        self.outer(self.engine.passages(departure).await)
    }

    /// Removes jobs that are at another store now.
    pub async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        self.outer(self.limits.check_batch(jobs.len()))?;
        self.outer(self.engine.depart(queue, jobs).await)
    }

    /// Takes a part of a move.
    pub async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        self.outer(self.limits.check_name("store", &adoption.store))?;
        let Step::Jobs(jobs) = adoption.step else {
            return self.outer(self.engine.adopt(adoption).await);
        };
        let now = self.now();
        let check = |job: Passage| self.limits.check_passage(&job, now).map(|()| job);
        let sorted = self.sort(jobs.into_iter().map(Ok).collect(), check)?;
        let step = Step::Jobs(sorted.good);
        let adopted = self.engine.adopt(Adoption { step, ..adoption }).await;
        let adopted = self.outer(adopted)?;
        Ok(Adopted {
            results: self.merge(sorted.verdicts, adopted.results)?,
            ..adopted
        })
    }

    /// Recomputes the books.
    pub async fn audit(&self) -> Result<Audit> {
        self.outer(self.engine.audit().await)
    }

    /// Tells of every transition from now on.
    pub fn watch(&self) -> broadcast::Receiver<Notice> {
        self.engine.watch()
    }

    /// Whether the engine works at all. Not counted: it is asked over and over.
    pub fn health(&self) -> Result<()> {
        self.engine.health()
    }

    /// What the engine refuses now, while it does the rest.
    pub fn outages(&self) -> Vec<Outage> {
        self.engine.outages()
    }

    /// How much the engine has put right by itself since it was opened.
    pub fn repaired(&self) -> u64 {
        self.engine.repaired()
    }

    /// Makes everything durable and stops.
    pub async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    /// Counts the failure of a whole call.
    fn outer<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.counters.refused(error.code());
        }
        result
    }

    fn sort<T>(&self, items: Vec<Result<T>>, check: impl Fn(T) -> Result<T>) -> Result<Sorted<T>> {
        self.outer(self.limits.check_batch(items.len()))?;
        let mut sorted = Sorted {
            good: Vec::with_capacity(items.len()),
            verdicts: Vec::with_capacity(items.len()),
        };
        for item in items {
            match item.and_then(&check) {
                Ok(item) => {
                    sorted.good.push(item);
                    sorted.verdicts.push(None);
                }
                Err(error) => sorted.verdicts.push(Some(error)),
            }
        }
        Ok(sorted)
    }

    /// Puts the engine's answers and our own back into the order of the items.
    fn merge<U>(
        &self,
        verdicts: Vec<Option<Error>>,
        answers: Vec<Result<U>>,
    ) -> Result<Vec<Result<U>>> {
        let asked = verdicts.iter().filter(|verdict| verdict.is_none()).count();
        if asked != answers.len() {
            let message = format!("the engine gave {} answers to {asked} items", answers.len());
            return self.outer(Err(Error::new(Code::Internal, message)));
        }
        let mut answers = answers.into_iter();
        let merged = verdicts
            .into_iter()
            .filter_map(|verdict| match verdict {
                Some(error) => Some(Err(error)),
                None => answers.next(),
            })
            .map(|answer| self.outer(answer))
            .collect();
        Ok(merged)
    }
}

/// A batch, checked: the good items, and for each item of the batch what is wrong with it.
struct Sorted<T> {
    good: Vec<T>,
    verdicts: Vec<Option<Error>>,
}
