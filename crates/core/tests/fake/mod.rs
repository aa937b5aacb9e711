//! An engine that keeps nothing and remembers what it was asked.

use std::sync::Mutex;

use async_trait::async_trait;
use auxo_core::engine::*;
use auxo_core::error::{Code, Error, Result};
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased, NewJob};
use auxo_core::queue::QueueInfo;
use auxo_core::{JobId, QueueName, State, Timestamp, Token};
use tokio::sync::broadcast;

/// The fake. Its lists are what it was asked; its settings say what it answers.
#[derive(Default)]
pub struct Fake {
    pub pushed: Mutex<Vec<NewJob>>,
    pub settled: Mutex<Vec<Settle>>,
    pub orders: Mutex<Vec<Order>>,
    /// The names of all calls.
    pub calls: Mutex<Vec<&'static str>>,
    /// How many pages a steer by filter has.
    pub pages: u64,
    /// A steer by filter always answers with the same cursor.
    pub stuck: bool,
    /// What `find` shows.
    pub job: Option<Job>,
    /// What `queues` shows.
    pub queue: Option<QueueInfo>,
    /// Every call fails with this.
    pub broken: Option<Error>,
}

impl Fake {
    pub fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    fn called(&self, name: &'static str) -> Result<()> {
        self.calls.lock().unwrap().push(name);
        self.broken.clone().map_or(Ok(()), Err)
    }
}

fn accepted(n: usize) -> Pushed {
    Pushed {
        id: JobId(n as u64),
        state: State::Ready,
        run_at: Timestamp(0),
        how: Accepted::New,
    }
}

/// Tokens with counter 0 have lost their lease.
fn held(token: Token) -> Result<JobId> {
    match token.counter {
        0 => Err(Error::new(Code::LeaseLost, "the lease is over")),
        _ => Ok(token.job),
    }
}

#[async_trait]
impl Engine for Fake {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        self.called("push")?;
        let mut pushed = self.pushed.lock().unwrap();
        Ok(jobs
            .into_iter()
            .map(|job| {
                pushed.push(job);
                Ok(accepted(pushed.len()))
            })
            .collect())
    }

    async fn lease(&self, _ask: Ask) -> Result<Vec<Leased>> {
        self.called("lease")?;
        let token = Token {
            job: JobId(1),
            counter: 1,
            nonce: 1,
        };
        let lend = |job: &Job| Leased {
            job: job.clone(),
            token,
            deadline: Timestamp(0),
        };
        Ok(self.job.iter().map(lend).collect())
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.called("settle")?;
        self.settled.lock().unwrap().extend(items.clone());
        let settle = |item: Settle| {
            held(item.token).map(|id| Settled {
                id,
                state: State::Done,
                run_at: None,
            })
        };
        Ok(items.into_iter().map(settle).collect())
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.called("extend")?;
        let extend = |item: Extend| {
            held(item.token).map(|id| Extended {
                id,
                deadline: Timestamp(0),
                cancel: false,
            })
        };
        Ok(items.into_iter().map(extend).collect())
    }

    async fn find(&self, _which: Which) -> Result<Option<Job>> {
        self.called("find")?;
        Ok(self.job.clone())
    }

    async fn list(&self, _query: Query) -> Result<Page> {
        self.called("list")?;
        Ok(Page::default())
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        self.called("steer")?;
        self.orders.lock().unwrap().push(order.clone());
        Ok(match order.target {
            Target::Jobs(ids) => Steered {
                moved: ids.len() as u64,
                results: ids.iter().map(|_| Ok(State::Ready)).collect(),
                next: None,
            },
            Target::Matching(query) => {
                let page = match query.cursor {
                    Some(cursor) if !self.stuck => cursor.0.parse::<u64>().unwrap() + 1,
                    _ => 1,
                };
                Steered {
                    moved: 10,
                    results: Vec::new(),
                    next: (self.stuck || page < self.pages).then(|| Cursor(page.to_string())),
                }
            }
        })
    }

    async fn queues(&self, _names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        self.called("queues")?;
        Ok(self.queue.iter().cloned().collect())
    }

    async fn change(&self, _change: Change) -> Result<()> {
        self.called("change")
    }

    async fn catalog(&self) -> Result<Catalog> {
        self.called("catalog").map(|()| Catalog::default())
    }

    async fn publish(&self, _message: Message) -> Result<Vec<Pushed>> {
        self.called("publish")?;
        Ok(vec![accepted(1), accepted(2)])
    }

    async fn audit(&self) -> Result<Audit> {
        self.called("audit").map(|()| Audit::default())
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        broadcast::channel(1).1
    }

    fn health(&self) -> Result<()> {
        self.called("health")
    }

    async fn close(&self) -> Result<()> {
        self.called("close")
    }
}
