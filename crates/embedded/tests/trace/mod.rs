//! A short life of a store, and what must be left of it whatever happens to its disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::clock::ManualClock;
use auxo_core::engine::{Action, Ask, Mode, Order, Outcome, Pick, Query, Retry, Settle, Target};
use auxo_core::job::{JobSpec, Key, OnDuplicate};
use auxo_core::{Engine, JobId, NewJob, QueueName, Result, State, Token, When};
use auxo_embedded::disk::SimDisk;
use auxo_embedded::disk::sim::Rng;
use auxo_embedded::{Embedded, Options};

/// The moment at which every trace begins.
pub const START: u64 = 1_700_000_000_000;

/// Opens the store on a disk, with the smallest segments there are.
pub fn open(disk: &SimDisk) -> Result<Embedded> {
    let options = Options {
        segment_size: 64 << 10,
        clock: Some(ManualClock::at(START)),
        seed: Some(11),
        ..Options::default()
    };
    Embedded::on(Arc::new(disk.clone()), options)
}

pub fn queue() -> QueueName {
    QueueName::new("q").expect("a good name")
}

/// What the answers so far promise about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It is there, with this payload, in one of these states.
    There(Vec<State>),
    /// It is gone, or done.
    Gone,
    /// Something was asked about it and not answered: it is there or gone.
    Either,
}

/// A trace under way: the jobs whose push was answered, with what is promised about each.
#[derive(Default)]
pub struct Trace {
    pub promises: BTreeMap<JobId, (Vec<u8>, Promise)>,
    /// Payloads of pushes that were asked for, answered or not.
    pub asked: Vec<Vec<u8>>,
    tokens: Vec<Token>,
}

const WAITING: [State; 3] = [State::Scheduled, State::Ready, State::Leased];

impl Trace {
    /// Takes up to `steps` steps; ends early when the store stops answering.
    pub async fn run(&mut self, engine: &Embedded, rng: &mut Rng, steps: usize) {
        for step in 0..steps {
            let done = match rng.below(10) {
                0..=4 => self.push(engine, rng, step).await,
                5..=6 => self.lease(engine).await,
                7..=8 => self.settle(engine, rng).await,
                _ => self.cancel(engine, rng).await,
            };
            if done.is_err() {
                return;
            }
        }
    }

    async fn push(&mut self, engine: &Embedded, rng: &mut Rng, step: usize) -> Result<()> {
        let jobs: Vec<NewJob> = (0..1 + rng.bits() % 3)
            .map(|i| {
                let mut payload = format!("{step}-{i}-").into_bytes();
                payload.resize(payload.len() + (rng.bits() % 900) as usize, b'x');
                let key = (rng.below(4) == 0).then(|| Key {
                    name: format!("{step}-{i}"),
                    on_duplicate: OnDuplicate::Reject,
                    window: Duration::from_secs(3600),
                });
                let when = if rng.below(4) == 0 {
                    When::After(Duration::from_secs(60))
                } else {
                    When::Now
                };
                let retention = Duration::from_secs((rng.bits() % 3) * 60);
                let spec = JobSpec {
                    payload: payload.into(),
                    key,
                    when,
                    retention,
                    ..JobSpec::default()
                };
                NewJob {
                    queue: queue(),
                    spec,
                }
            })
            .collect();
        let payloads: Vec<Vec<u8>> = jobs.iter().map(|job| job.spec.payload.to_vec()).collect();
        self.asked.extend(payloads.iter().cloned());
        for (payload, pushed) in payloads.into_iter().zip(engine.push(jobs).await?) {
            let pushed = pushed.expect("nothing refuses these");
            self.promises
                .insert(pushed.id, (payload, Promise::There(WAITING.to_vec())));
        }
        Ok(())
    }

    async fn lease(&mut self, engine: &Embedded) -> Result<()> {
        let ask = Ask {
            queues: vec![queue()],
            job: None,
            pick: Pick::First,
            max: 3,
            wait: Duration::ZERO,
            ttr: None,
            worker: "w".into(),
        };
        let leased = engine.lease(ask).await?;
        self.tokens.extend(leased.iter().map(|leased| leased.token));
        Ok(())
    }

    async fn settle(&mut self, engine: &Embedded, rng: &mut Rng) -> Result<()> {
        if self.tokens.is_empty() {
            return Ok(());
        }
        let token = self
            .tokens
            .swap_remove((rng.bits() % self.tokens.len() as u64) as usize);
        let delay = Some(Duration::from_secs(5));
        let (outcome, after) = match rng.bits() % 6 {
            0..=2 => (Outcome::Ack { result: None }, Promise::Gone),
            3 => {
                let error = "it failed".to_owned();
                (
                    Outcome::Fail {
                        error,
                        delay,
                        retry: Retry::Policy,
                    },
                    Promise::There(WAITING.to_vec()),
                )
            }
            4 => (
                Outcome::Bury {
                    error: None,
                    priority: None,
                },
                Promise::There(vec![State::Dead]),
            ),
            _ => (
                Outcome::Release {
                    priority: None,
                    delay,
                },
                Promise::There(WAITING.to_vec()),
            ),
        };
        let before = self.doubt(token.job);
        engine
            .settle(vec![Settle { token, outcome }])
            .await?
            .remove(0)
            .expect("a running lease");
        self.promise(token.job, before, after);
        Ok(())
    }

    async fn cancel(&mut self, engine: &Embedded, rng: &mut Rng) -> Result<()> {
        let nth = (rng.bits() % (self.promises.len().max(1)) as u64) as usize;
        let Some(id) = self.promises.keys().nth(nth).copied() else {
            return Ok(());
        };
        let before = self.doubt(id);
        let order = Order {
            target: Target::Jobs(vec![id]),
            action: Action::Cancel,
            mode: Mode::Act,
        };
        let after = match engine.steer(order).await?.results.remove(0) {
            Ok(State::Cancelled) => Promise::Gone,
            // A leased job is only asked to stop, and a later end of its lease may take it out.
            Ok(_) => Promise::Either,
            Err(_) => before.clone(),
        };
        self.promise(id, before, after);
        Ok(())
    }

    /// From here until the answer, anything may be true of the job.
    fn doubt(&mut self, id: JobId) -> Promise {
        let (_, promise) = self.promises.get_mut(&id).expect("a job of this trace");
        std::mem::replace(promise, Promise::Either)
    }

    fn promise(&mut self, id: JobId, before: Promise, after: Promise) {
        let (_, promise) = self.promises.get_mut(&id).expect("a job of this trace");
        // A job that was asked to stop may end in any way.
        *promise = if before == Promise::Either && after != Promise::Gone {
            Promise::Either
        } else {
            after
        };
    }
}

/// Everything a store shows: payload and state by id. Its books must balance too.
pub async fn contents(engine: &Embedded) -> Result<BTreeMap<JobId, (Vec<u8>, State)>> {
    let mut query = Query {
        limit: 500,
        ..Query::default()
    };
    let mut shown = BTreeMap::new();
    loop {
        let page = engine.list(query.clone()).await?;
        shown.extend(
            page.jobs
                .into_iter()
                .map(|job| (job.id, (job.payload.to_vec(), job.state))),
        );
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    engine.audit().await?.into_result()?;
    Ok(shown)
}
