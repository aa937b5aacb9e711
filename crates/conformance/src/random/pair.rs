//! The engine and the model, side by side.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use auxo_core::engine::*;
use auxo_core::job::{Leased, Ttl};
use auxo_core::queue::QueueConfig;
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::{Now, Timestamp, When};
use auxo_core::topic::Subscription;
use auxo_core::{JobId, NewJob, QueueName, Result, State, Token, refusal};
use tokio::task::JoinHandle;

use super::op::{Draft, Moment, Op, Pick, QUEUES, key_name};
use super::same::*;
use crate::bench::{Bench, asking, named, plain as plain_job};
use crate::model::{Mint, Model};

/// How many ids and tokens that are gone are remembered, to be tried again.
const MEMORY: usize = 6;

/// Nothing, or what the two disagree about.
pub(super) type Verdict = Result<(), String>;

pub(super) struct Pair {
    pub(super) bench: Bench,
    pub(super) model: Model,
    pub(super) mint: Fed,
    waiters: Vec<Waiter>,
    gone_ids: VecDeque<JobId>,
    gone_tokens: VecDeque<Token>,
}

struct Waiter {
    ask: Ask,
    until: Timestamp,
    task: JoinHandle<Result<Vec<Leased>>>,
}

/// Names jobs as the engine did. Tokens are made up, and put right as soon as the engine's are known.
#[derive(Default)]
pub(super) struct Fed {
    /// What comes next, of this queue or of any.
    ids: VecDeque<(Option<QueueName>, JobId)>,
    made_up: u64,
}

impl Mint for Fed {
    fn id(&mut self, queue: &QueueName, _now: Now) -> JobId {
        self.made_up += 1;
        // Where there are several shards, ids tell the order of jobs of one queue only.
        let fits = |of: &Option<QueueName>| of.as_ref().is_none_or(|of| of == queue);
        let next = self.ids.iter().position(|(of, _)| fits(of));
        // A job that the engine does not have: the comparison that follows tells.
        let unknown = JobId(u64::MAX - self.made_up);
        next.and_then(|at| self.ids.remove(at))
            .map_or(unknown, |(_, id)| id)
    }

    fn token(&mut self, job: JobId) -> Token {
        self.made_up += 1;
        Token {
            job,
            counter: u64::MAX,
            nonce: self.made_up,
        }
    }

    fn dice(&mut self) -> u64 {
        0
    }
}

impl Pair {
    pub fn new(bench: Bench) -> Pair {
        Pair {
            bench,
            model: Model::new(),
            mint: Fed::default(),
            waiters: Vec::new(),
            gone_ids: VecDeque::new(),
            gone_tokens: VecDeque::new(),
        }
    }

    /// Takes a step, then lets both serve who waits, and compares all queues.
    pub async fn step(&mut self, op: &Op) -> Verdict {
        let (ids, tokens) = (self.model.job_ids(), self.model.tokens());
        self.take(op).await?;
        self.serve().await?;
        self.compare_queues().await?;
        self.mint.ids.clear();
        self.model.take_notices();
        let lost = |token: &Token| !self.model.tokens().contains(token);
        remember(&mut self.gone_tokens, tokens.into_iter().filter(lost));
        let now: BTreeSet<JobId> = self.model.job_ids().into_iter().collect();
        remember(
            &mut self.gone_ids,
            ids.into_iter().filter(|id| !now.contains(id)),
        );
        Ok(())
    }

    async fn take(&mut self, op: &Op) -> Verdict {
        match op {
            Op::Push(drafts) => self.push(drafts).await,
            Op::Lease {
                queues,
                pick,
                max,
                ttr,
            } => {
                let ask = Ask {
                    pick: *pick,
                    ttr: *ttr,
                    ..asking(&names(queues), *max, Duration::ZERO)
                };
                self.lease(ask).await
            }
            Op::LeaseJob(pick, holds) => self.lease_job(*pick, *holds).await,
            Op::Wait {
                queues,
                pick,
                max,
                wait,
            } => {
                let ask = Ask {
                    pick: *pick,
                    ..asking(&names(queues), *max, *wait)
                };
                self.wait(ask).await
            }
            Op::Drop(which) => self.drop_waiter(*which).await,
            Op::Settle(items) => self.settle(items).await,
            Op::Extend(items) => self.extend(items).await,
            Op::Steer(picks, action, mode) => self.steer(picks, action, *mode).await,
            Op::Reschedule(pick, moment) => {
                let action = Action::Reschedule(When::At(self.instant(*moment)));
                self.steer(&[*pick], &action, Mode::Act).await
            }
            Op::Bulk(queue, states, action, mode) => self.bulk(*queue, states, action, *mode).await,
            Op::FindKey(queue, key) => self.find_key(*queue, *key).await,
            Op::Configure(queue, config) => {
                let change = Change::Queue(name(*queue), config.clone());
                self.change(change).await
            }
            Op::Subscribe(which, queue) => {
                let subscription = Subscription {
                    topic: "topic".into(),
                    name: which.to_string(),
                    queue: name(*queue),
                    pattern: None,
                };
                self.change(Change::Subscribe(subscription)).await
            }
            Op::Unsubscribe(which) => {
                let change = Change::Unsubscribe("topic".into(), which.to_string());
                self.change(change).await
            }
            Op::Publish(draft) => self.publish(draft).await,
            Op::Schedule(which, queue, period) => self.schedule(*which, *queue, *period).await,
            Op::Unschedule(which) => self.change(Change::Unschedule(which.to_string())).await,
            Op::Pass(by) => {
                self.bench.clock.advance(*by);
                self.settle_down().await
            }
            Op::StepWall(by) => {
                let step = Duration::from_millis(by.unsigned_abs());
                match *by < 0 {
                    true => self.bench.clock.step_wall_back(step),
                    false => self.bench.clock.step_wall_forward(step),
                }
                self.settle_down().await
            }
            Op::Reopen => self.reopen().await,
            Op::Look => self.compare_all().await,
        }
    }

    pub(super) fn now(&self) -> Now {
        self.bench.now()
    }

    fn instant(&self, moment: Moment) -> Timestamp {
        Timestamp(self.now().wall.0.saturating_add_signed(moment.0))
    }

    /// After the time moved: lets the engine catch up, and tells the model how it named the jobs of schedules.
    async fn settle_down(&mut self) -> Verdict {
        self.bench.engine.queues(None).await.map_err(failed)?;
        if self.model.ticks_at(self.now()) {
            let known: BTreeSet<JobId> = self.model.job_ids().into_iter().collect();
            let listed = self.bench.all(Filter::default(), 1000).await;
            let new = listed.into_iter().filter(|job| !known.contains(&job.id));
            let mut new: Vec<_> = new.map(|job| (Some(job.queue), job.id)).collect();
            new.sort();
            self.mint.ids = new.into();
        }
        self.note_waits();
        self.model.advance(self.now(), &mut self.mint);
        Ok(())
    }

    /// Tells the model which queues are waited for.
    fn note_waits(&mut self) {
        let waiters = self.waiters.iter();
        let queues = waiters.flat_map(|waiter| waiter.ask.queues.iter().cloned());
        self.model.set_awaited(queues.collect(), self.bench.now());
    }

    fn new_job(&self, draft: &Draft) -> NewJob {
        let mut spec = draft.spec.clone();
        if let Some(due) = draft.due {
            spec.when = When::At(self.instant(due));
        }
        if let Some(end) = draft.end {
            spec.ttl = Ttl::At(self.instant(end));
        }
        NewJob {
            queue: name(draft.queue),
            spec,
        }
    }

    async fn push(&mut self, drafts: &[Draft]) -> Verdict {
        let jobs: Vec<NewJob> = drafts.iter().map(|draft| self.new_job(draft)).collect();
        let engine = self.bench.engine.push(jobs.clone()).await.map_err(failed)?;
        self.name_new(engine.iter().flatten());
        let model = self.model.push(jobs, self.bench.now(), &mut self.mint);
        same_all("push", engine, model)?;
        self.serve().await?;
        self.compare_jobs().await
    }

    fn name_new<'a>(&mut self, pushed: impl Iterator<Item = &'a Pushed>) {
        let new = pushed.filter(|pushed| pushed.how == Accepted::New);
        self.mint.ids = new.map(|pushed| (None, pushed.id)).collect();
    }

    async fn publish(&mut self, draft: &Draft) -> Verdict {
        let message = Message {
            topic: "topic".into(),
            routing_key: None,
            spec: draft.spec.clone(),
        };
        let engine = self.bench.engine.publish(message.clone()).await;
        self.name_new(engine.iter().flatten());
        let model = self
            .model
            .publish(&message, self.bench.now(), &mut self.mint);
        match (engine, model) {
            // Where several queues refuse, the engine chooses whose refusal it tells.
            (Err(_), Err(_)) => Ok(()),
            (engine, model) => same("publish", plain(engine), plain(model)),
        }
    }

    async fn lease(&mut self, ask: Ask) -> Verdict {
        let engine = self.bench.engine.lease(ask.clone()).await.map_err(failed)?;
        let model = self.model.lease(&ask, self.bench.now(), &mut self.mint);
        self.lent("lease", engine, model)
    }

    async fn lease_job(&mut self, pick: Pick, holds: Holds) -> Verdict {
        let id = self.id(pick);
        let ask = Ask {
            job: Some(NamedJob { id, holds }),
            ..asking(&[], 1, Duration::ZERO)
        };
        let engine = self.bench.engine.lease(ask.clone()).await;
        let hold = self.model.hold(&ask, self.bench.now(), &mut self.mint);
        if let Some(hold) = hold {
            let refused = engine.map(|leased| leased.len());
            same(
                "refused lease of a named job",
                refused,
                Err(refusal::held_back(id, hold)),
            )?;
        } else {
            let model = self.model.lease(&ask, self.bench.now(), &mut self.mint);
            self.lent("lease of a named job", engine.map_err(failed)?, model)?;
        }
        self.serve().await?;
        self.compare_job(id).await
    }

    /// Compares what was handed out, and takes over the engine's tokens.
    fn lent(&mut self, what: &str, engine: Vec<Leased>, model: Vec<Leased>) -> Verdict {
        let ids = |leased: &[Leased]| leased.iter().map(|l| l.job.id).collect::<Vec<_>>();
        same(what, ids(&engine), ids(&model))?;
        for (engine, model) in engine.into_iter().zip(model) {
            let what = format!("{what} of job {}", model.job.id);
            same(&what, engine.deadline, model.deadline)?;
            same(&what, engine.token.job, model.token.job)?;
            self.model.rename(model.token, engine.token);
            match is_taken(&model.job) {
                true => same(&what, taken(engine.job), taken(model.job))?,
                false => same_job(&what, engine.job, model.job)?,
            }
        }
        Ok(())
    }

    async fn wait(&mut self, ask: Ask) -> Verdict {
        let now = self.now();
        let known = self.model.queues(None, now, &mut self.mint);
        let is_known = |queue: &QueueName| known.iter().any(|info| info.name == *queue);
        if !ask.queues.iter().all(is_known) {
            return Ok(());
        }
        let (engine, asked) = (self.bench.engine.clone(), ask.clone());
        let task = tokio::spawn(async move { engine.lease(asked).await });
        self.model.called(&ask, now);
        let waiter = Waiter {
            until: now.steady.plus(ask.wait),
            ask: ask.clone(),
            task,
        };
        self.waiters.push(waiter);
        self.note_waits();
        self.serve().await?;
        self.compare_all_waiting(&ask.queues).await
    }

    async fn drop_waiter(&mut self, which: u8) -> Verdict {
        if self.waiters.is_empty() {
            return Ok(());
        }
        let waiter = self.waiters.remove(usize::from(which) % self.waiters.len());
        waiter.task.abort();
        // Whether it ended before it was dropped shows in the count.
        let _ = waiter.task.await;
        self.note_waits();
        self.compare_all_waiting(&waiter.ask.queues).await
    }

    async fn compare_all_waiting(&self, queues: &[QueueName]) -> Verdict {
        for queue in queues {
            self.compare_waiting(queue).await?;
        }
        Ok(())
    }

    pub(super) fn waiting(&self, queue: &QueueName) -> u64 {
        let here = |waiter: &&Waiter| waiter.ask.queues.contains(queue);
        self.waiters.iter().filter(here).count() as u64
    }

    /// Whoever waits and can be served by now, or has waited long enough, must have an answer.
    async fn serve(&mut self) -> Verdict {
        let now = self.now();
        let mut at = 0;
        while at < self.waiters.len() {
            let waiter = &self.waiters[at];
            let model = self.model.offer(&waiter.ask, now, &mut self.mint);
            if model.is_empty() && waiter.until > now.steady {
                at += 1;
                continue;
            }
            let waiter = self.waiters.remove(at);
            let answer = tokio::time::timeout(Duration::from_secs(3), waiter.task).await;
            let Ok(Ok(engine)) = answer else {
                return Err(format!(
                    "no answer to {:?}, where the model gives {model:?}",
                    waiter.ask
                ));
            };
            let engine = engine.map_err(failed)?;
            self.lent("the answer to a lease that waited", engine, model)?;
        }
        self.note_waits();
        Ok(())
    }

    fn token(&self, pick: Pick) -> Token {
        let nobody = Token {
            job: JobId(1),
            counter: 1,
            nonce: 1,
        };
        match pick {
            Pick::Live(n) => nth(&self.model.tokens(), n).unwrap_or(nobody),
            Pick::Gone(n) => self.gone_tokens.get(n.into()).copied().unwrap_or(nobody),
        }
    }

    fn id(&self, pick: Pick) -> JobId {
        match pick {
            Pick::Live(n) => nth(&self.model.job_ids(), n).unwrap_or(JobId(1)),
            Pick::Gone(n) => self.gone_ids.get(n.into()).copied().unwrap_or(JobId(1)),
        }
    }

    async fn settle(&mut self, items: &[(Pick, Outcome)]) -> Verdict {
        let items: Vec<Settle> = items
            .iter()
            .map(|(pick, outcome)| Settle {
                token: self.token(*pick),
                outcome: outcome.clone(),
            })
            .collect();
        let settled = self.bench.engine.settle(items.clone()).await;
        let engine = settled.map_err(failed)?;
        let model = self
            .model
            .settle(items.clone(), self.bench.now(), &mut self.mint);
        same_all("settle", engine, model)?;
        self.serve().await?;
        for item in items {
            self.compare_job(item.token.job).await?;
        }
        Ok(())
    }

    async fn extend(&mut self, items: &[(Pick, Option<Duration>)]) -> Verdict {
        let items: Vec<Extend> = items
            .iter()
            .map(|(pick, ttr)| Extend {
                token: self.token(*pick),
                ttr: *ttr,
                progress: ttr.map(|ttr| crate::bench::text(&format!("{ttr:?}"))),
            })
            .collect();
        let extended = self.bench.engine.extend(items.clone()).await;
        let engine = extended.map_err(failed)?;
        let model = self.model.extend(items, self.bench.now(), &mut self.mint);
        same_all("extend", engine, model)
    }

    async fn steer(&mut self, picks: &[Pick], action: &Action, mode: Mode) -> Verdict {
        let ids: Vec<JobId> = picks.iter().map(|pick| self.id(*pick)).collect();
        let order = Order {
            target: Target::Jobs(ids.clone()),
            action: action.clone(),
            mode,
        };
        let engine = self
            .bench
            .engine
            .steer(order.clone())
            .await
            .map_err(failed)?;
        let model = self.model.steer(&order, self.bench.now(), &mut self.mint);
        let model = model.map_err(failed)?;
        same("steer: moved", engine.moved, model.moved)?;
        // A dry run need not know whether a due time would have come.
        let state = |result: Result<State>| {
            plain(result).map(|state| match mode {
                Mode::Act => Some(state),
                Mode::DryRun => None,
            })
        };
        let engine: Vec<_> = engine.results.into_iter().map(state).collect();
        let model: Vec<_> = model.results.into_iter().map(state).collect();
        same("steer", engine, model)?;
        self.serve().await?;
        for id in ids {
            self.compare_job(id).await?;
        }
        Ok(())
    }

    /// Pages may be short and come in any order, so only the sum is compared.
    async fn bulk(&mut self, queue: u8, states: &[State], action: &Action, mode: Mode) -> Verdict {
        let mut order = Order {
            target: Target::Matching(Query {
                filter: Filter {
                    queue: Some(name(queue)),
                    states: states.to_vec(),
                    ..Filter::default()
                },
                cursor: None,
                limit: 1000,
            }),
            action: action.clone(),
            mode,
        };
        let model = self.model.steer(&order, self.bench.now(), &mut self.mint);
        let mut moved = 0;
        loop {
            let steered = self
                .bench
                .engine
                .steer(order.clone())
                .await
                .map_err(failed)?;
            moved += steered.moved;
            same("bulk: results", steered.results.len(), 0)?;
            match (&mut order.target, steered.next) {
                (Target::Matching(query), Some(next)) => query.cursor = Some(next),
                _ => break,
            }
        }
        same("bulk: moved", moved, model.map_err(failed)?.moved)
    }

    async fn find_key(&mut self, queue: u8, key: u8) -> Verdict {
        let which = Which::Key(name(queue), key_name(key));
        self.compare_found(which).await
    }

    async fn change(&mut self, change: Change) -> Verdict {
        let engine = self.bench.engine.change(change.clone()).await;
        let model = self.model.change(change, self.bench.now(), &mut self.mint);
        let code = |answer: Result<()>| answer.map_err(|error| error.code());
        same("change", code(engine), code(model))
    }

    /// Its jobs have a lease, no key and no end, so that they can be found and named.
    async fn schedule(&mut self, which: u8, queue: u8, period: Duration) -> Verdict {
        let schedule = Schedule {
            name: which.to_string(),
            queue: name(queue),
            rhythm: Rhythm::Every(period),
            missed: match which {
                0 => Missed::Once,
                _ => Missed::Skip,
            },
            spec: plain_job(),
            next: None,
            last: None,
        };
        self.change(Change::Schedule(schedule)).await
    }

    async fn reopen(&mut self) -> Verdict {
        for waiter in self.waiters.drain(..) {
            waiter.task.abort();
            let _ = waiter.task.await;
        }
        self.note_waits();
        for info in self.model.queues(None, self.bench.now(), &mut self.mint) {
            self.compare_waiting(&info.name).await?;
        }
        self.bench = self.bench.reopen().await;
        self.model.restart();
        if self.bench.steady {
            self.model.use_all(self.bench.now());
        }
        self.compare_all().await
    }

    /// Lifts all limits, works off what is due or will be, takes out the dead, and compares what is left.
    pub async fn drain(&mut self) -> Verdict {
        for which in 0..2 {
            self.step(&Op::Unschedule(which)).await?;
        }
        for queue in 0..QUEUES {
            let config = QueueConfig::default();
            self.step(&Op::Configure(queue, config)).await?;
        }
        self.step(&Op::Look).await?;
        for _ in 0..4 {
            self.step(&Op::Pass(Duration::from_secs(3 * 3600))).await?;
            for queue in 0..QUEUES {
                self.empty(queue).await?;
            }
        }
        for queue in 0..QUEUES {
            let cancel = Op::Bulk(queue, vec![State::Dead], Action::Cancel, Mode::Act);
            self.step(&cancel).await?;
        }
        self.step(&Op::Look).await
    }

    async fn empty(&mut self, queue: u8) -> Verdict {
        for _ in 0..1000 {
            let lease = Op::Lease {
                queues: vec![queue],
                pick: auxo_core::engine::Pick::First,
                max: 100,
                ttr: Some(Duration::from_secs(60)),
            };
            self.step(&lease).await?;
            let count = self.model.tokens().len() as u16;
            if count == 0 {
                return Ok(());
            }
            let ack = |_| (Pick::Live(0), Outcome::Ack { result: None });
            for item in (0..count).map(ack) {
                self.step(&Op::Settle(vec![item])).await?;
            }
        }
        Err(format!("queue {queue} does not get empty"))
    }
}

/// Compares a batch, item by item.
fn same_all<T: PartialEq + std::fmt::Debug>(
    what: &str,
    engine: Vec<Result<T>>,
    model: Vec<Result<T>>,
) -> Verdict {
    let engine: Vec<_> = engine.into_iter().map(plain).collect();
    let model: Vec<_> = model.into_iter().map(plain).collect();
    same(what, engine, model)
}

pub(super) fn failed(error: auxo_core::Error) -> String {
    format!("a whole call failed: {error}")
}

fn name(number: u8) -> QueueName {
    named(["alpha", "beta", "gamma"][usize::from(number) % 3])
}

fn names(numbers: &[u8]) -> Vec<QueueName> {
    numbers.iter().copied().map(name).collect()
}

fn nth<T: Copy>(all: &[T], n: u16) -> Option<T> {
    match all.is_empty() {
        true => None,
        false => Some(all[usize::from(n) % all.len()]),
    }
}

fn remember<T>(memory: &mut VecDeque<T>, gone: impl Iterator<Item = T>) {
    for one in gone {
        memory.push_front(one);
    }
    memory.truncate(MEMORY);
}
