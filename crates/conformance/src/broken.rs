//! Engines with a planted bug, and one behind a bad line. A checker that misses a bug is not worth trusting, and neither is
//! one that mistakes a lost reply for a bug.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::{Code, Error, JobId, NewJob, QueueName, Result, State, Token};
use tokio::sync::broadcast;

/// What is wrong with a [`Broken`] engine. Where there is a number, it goes wrong each time that many were done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Settles whatever lease the job has, as if the token did not matter.
    NoTokenCheck,
    /// Lends a job to the next who asks though it is lent already.
    DoubleLease(u64),
    /// Answers a push with success and does not keep the job.
    LosesPush(u64),
    /// Hands out scheduled jobs before they are due.
    EarlyDelivery,
    /// Answers an ack with success and does nothing.
    ForgetsAck(u64),
    /// Not a bug but a bad line: the call is made, and its answer gets lost. No promise is broken.
    LostReply(u64),
}

/// A good engine behind a bad one.
pub struct Broken<E> {
    engine: E,
    bug: Bug,
    done: AtomicU64,
    newest: Mutex<HashMap<JobId, Token>>,
}

impl<E: Engine> Broken<E> {
    /// Plants a bug.
    pub fn new(engine: E, bug: Bug) -> Broken<E> {
        Broken {
            engine,
            bug,
            done: AtomicU64::new(0),
            newest: Mutex::default(),
        }
    }

    /// Whether it is time to go wrong.
    fn now_wrong(&self, every: u64) -> bool {
        (self.done.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every)
    }

    async fn forget(&self, pushed: &Result<Pushed>) -> Result<()> {
        if let (Bug::LosesPush(every), Ok(pushed)) = (self.bug, pushed)
            && pushed.how == Accepted::New
            && self.now_wrong(every)
        {
            let order = Order {
                target: Target::Jobs(vec![pushed.id]),
                action: Action::Delete,
                mode: Mode::Act,
            };
            self.engine.steer(order).await?;
        }
        Ok(())
    }

    async fn kick_scheduled(&self, queue: &QueueName) -> Result<()> {
        let filter = Filter {
            queue: Some(queue.clone()),
            states: vec![State::Scheduled],
            ..Filter::default()
        };
        let query = Query {
            filter,
            cursor: None,
            limit: 100,
        };
        let order = Order {
            target: Target::Matching(query),
            action: Action::Kick,
            mode: Mode::Act,
        };
        self.engine.steer(order).await.map(drop)
    }

    async fn after_lease(&self, leased: &Leased) -> Result<()> {
        let token = leased.token;
        match self.bug {
            Bug::NoTokenCheck => {
                let mut newest = self.newest.lock().expect("no panic");
                newest.insert(token.job, token);
            }
            Bug::DoubleLease(every) if self.now_wrong(every) => {
                let outcome = Outcome::Release {
                    priority: None,
                    delay: None,
                };
                self.engine.settle(vec![Settle { token, outcome }]).await?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Passes an answer on, unless it gets lost.
    fn reply<T>(&self, answer: Result<T>) -> Result<T> {
        match self.bug {
            Bug::LostReply(every) if self.now_wrong(every) => {
                Err(Error::new(Code::UnknownOutcome, "the reply got lost"))
            }
            _ => answer,
        }
    }

    /// The lie that a settle is answered with, if this is a time to lie.
    fn lie(&self, item: &Settle) -> Option<Settled> {
        let ack = matches!(item.outcome, Outcome::Ack { .. });
        match self.bug {
            Bug::ForgetsAck(every) if ack && self.now_wrong(every) => Some(Settled {
                id: item.token.job,
                state: State::Done,
                run_at: None,
            }),
            _ => None,
        }
    }

    fn substitute(&self, item: &mut Settle) {
        let newest = self.newest.lock().expect("no panic");
        if let Some(token) = newest.get(&item.token.job) {
            item.token = *token;
        }
    }
}

#[async_trait]
impl<E: Engine> Engine for Broken<E> {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        let answers = self.engine.push(jobs).await?;
        for answer in &answers {
            self.forget(answer).await?;
        }
        self.reply(Ok(answers))
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        if self.bug == Bug::EarlyDelivery {
            for queue in &ask.queues {
                self.kick_scheduled(queue).await?;
            }
        }
        let leased = self.engine.lease(ask).await?;
        for one in &leased {
            self.after_lease(one).await?;
        }
        self.reply(Ok(leased))
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        let mut answers = Vec::new();
        for mut item in items {
            if let Some(lie) = self.lie(&item) {
                answers.push(Ok(lie));
                continue;
            }
            self.substitute(&mut item);
            answers.append(&mut self.engine.settle(vec![item]).await?);
        }
        self.reply(Ok(answers))
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.reply(self.engine.extend(items).await)
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.engine.find(which).await
    }

    async fn list(&self, query: Query) -> Result<Page> {
        self.engine.list(query).await
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        self.reply(self.engine.steer(order).await)
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        self.engine.queues(names).await
    }

    async fn forgotten(&self) -> Result<Books> {
        self.engine.forgotten().await
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.engine.change(change).await
    }

    async fn catalog(&self) -> Result<Catalog> {
        self.engine.catalog().await
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        self.engine.publish(message).await
    }

    async fn passages(&self, departure: Departure) -> Result<Passages> {
        self.engine.passages(departure).await
    }

    async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        self.engine.depart(queue, jobs).await
    }

    async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        self.engine.adopt(adoption).await
    }

    async fn audit(&self) -> Result<Audit> {
        self.engine.audit().await
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.engine.watch()
    }

    fn health(&self) -> Result<()> {
        self.engine.health()
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }
}
