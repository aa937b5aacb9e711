//! What a connection knows, and what it does for each request.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use auxo_core::engine::{
    Action, Change, Filter, Mode, Order, Outcome, Query, Settle, Target, Which,
};
use auxo_core::{Code, Error, Job, JobId, QueueName, State, When};
use auxo_wire::beanstalk::{Item, Reply, Request};
use futures_util::TryFutureExt;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Peer;
use super::held::Held;
use super::stats::is_tube;
use super::tubes::{DEFAULT, Role, Tube};
use crate::app::App;
use crate::clock::{Clock, within};
use crate::line::{LARGE, Line, unanswered};
use crate::trail::{Move, Who};

/// How many delayed jobs a kick takes in the order in which they are due.
const ONE_BY_ONE: u32 = 1000;

/// How it goes on after some requests.
pub enum End {
    /// With more of them.
    Open,
    /// Not at all.
    Closed,
}

/// A connection.
pub struct Session {
    pub(super) app: Arc<App>,
    pub(super) peer: Peer,
    pub(super) worker: Arc<str>,
    pub(super) using: Role,
    pub(super) watching: Vec<Role>,
    pub(super) held: Held,
    /// For how long the engine is waited for by the calls that come by the thousand.
    pub(super) clock: Option<Clock>,
    _open: Counted,
    producer: Option<Counted>,
    consumer: Option<Counted>,
}

impl Session {
    /// A new connection.
    pub fn new(app: Arc<App>, peer: Peer) -> Session {
        let name = QueueName::new(DEFAULT).expect("a good name");
        let tubes = &app.beanstalk.tubes;
        app.beanstalk.counts.all_connections.fetch_add(1, Relaxed);
        Session {
            worker: format!("beanstalk {}", peer.name).into(),
            peer,
            using: Role::new(tubes.get(&name), |tube| &tube.using),
            watching: vec![Role::new(tubes.get(&name), |tube| &tube.watching)],
            held: Held::default(),
            clock: None,
            _open: Counted::new(&app, |app| &app.beanstalk.counts.connections),
            producer: None,
            consumer: None,
            app,
        }
    }

    /// Answers requests, in their order.
    pub async fn serve<S>(
        &mut self,
        line: &mut Line<S>,
        items: &mut VecDeque<Item>,
    ) -> io::Result<End>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        while !items.is_empty() {
            // What a row could not take in may begin the next one.
            if self.gather(line, items).await? {
                continue;
            }
            let request = match items.front() {
                None => break,
                Some(Item::Request(
                    request @ (Request::Reserve | Request::ReserveWithTimeout(_)),
                )) => {
                    let seconds = match request {
                        Request::ReserveWithTimeout(seconds) => *seconds,
                        _ => None,
                    };
                    self.reserve(line, items, seconds).await?;
                    if line.output.len() >= LARGE {
                        line.flush().await?;
                    }
                    continue;
                }
                Some(_) => items.pop_front(),
            };
            let reply = match request {
                Some(Item::Request(Request::Quit)) => {
                    self.app.beanstalk.counts.asked(&Request::Quit);
                    return Ok(End::Closed);
                }
                Some(Item::Request(request)) => {
                    self.app.beanstalk.counts.asked(&request);
                    // In a box: what comes rarely must not make every connection as large as it is.
                    Box::pin(self.answer(request)).await?
                }
                Some(Item::Wrong(reply)) => reply,
                None => break,
            };
            reply.encode(&mut line.output);
            if line.output.len() >= LARGE {
                line.flush().await?;
            }
        }
        Ok(End::Open)
    }

    /// Answers a request that is on its own.
    async fn answer(&mut self, request: Request) -> io::Result<Reply> {
        let answer = match request {
            Request::Use(tube) => Ok(self.use_tube(&tube)),
            Request::Watch(tube) => Ok(self.watch(&tube)),
            Request::Ignore(tube) => Ok(self.ignore(&tube)),
            Request::ListTubeUsed => Ok(Reply::Using(self.using.name().clone())),
            Request::ListTubesWatched => {
                let names = self.watching.iter().map(Role::name);
                Ok(Reply::Data(super::stats::list(names)))
            }
            Request::Delete(id) if self.held.has_lapsed(id) => self.delete_late(id).await?,
            Request::Delete(id) => self.timely(self.delete(id)).await?,
            Request::Peek(id) => self.timely(self.peek(id)).await?,
            Request::PeekReady => self.timely(self.peek_first(State::Ready)).await?,
            Request::PeekDelayed => self.timely(self.peek_delayed()).await?,
            Request::PeekBuried => self.timely(self.peek_first(State::Dead)).await?,
            Request::Kick(bound) => self.timely(self.kick(bound)).await?,
            Request::KickJob(id) => self.timely(self.kick_job(id)).await?,
            Request::StatsJob(id) => self.timely(self.stats_job(id)).await?,
            Request::StatsTube(tube) => self.timely(self.stats_tube(tube)).await?,
            Request::Stats => self.timely(self.stats()).await?,
            Request::ListTubes => self.timely(self.list_tubes()).await?,
            Request::ReserveJob(id) => self.reserve_job(id).await?,
            Request::PauseTube(tube, seconds) => self.timely(self.pause(tube, seconds)).await?,
            Request::Put { .. }
            | Request::Release { .. }
            | Request::Bury { .. }
            | Request::Touch(_)
            | Request::Reserve
            | Request::ReserveWithTimeout(_)
            | Request::Quit => unreachable!("answered elsewhere"),
        };
        answer.or_else(|error| refusal(&error))
    }

    /// Waits for an answer of the engine, but not for ever. Whoever gets none does not know what happened, and a connection that
    /// ends says just that.
    pub(super) fn timely<F: Future>(&self, call: F) -> impl Future<Output = io::Result<F::Output>> {
        within(self.app.settings.answer_time, None, call).map_err(unanswered)
    }

    /// Takes a tube into use, if all connections together do not name too many.
    fn take_up(&self, tube: &QueueName) -> Option<Arc<Tube>> {
        let most = self.app.settings.names;
        self.app.beanstalk.tubes.get_if_fewer(most, tube)
    }

    fn use_tube(&mut self, tube: &QueueName) -> Reply {
        let Some(used) = self.take_up(tube) else {
            return Reply::OutOfMemory;
        };
        self.using = Role::new(used, |tube| &tube.using);
        Reply::Using(tube.clone())
    }

    fn watch(&mut self, tube: &QueueName) -> Reply {
        if !self.watching.iter().any(|role| role.name() == tube) {
            if self.watching.len() >= self.app.service.limits().queues {
                return Reply::OutOfMemory;
            }
            let Some(tube) = self.take_up(tube) else {
                return Reply::OutOfMemory;
            };
            self.watching.push(Role::new(tube, |tube| &tube.watching));
        }
        Reply::Watching(self.watching.len())
    }

    fn ignore(&mut self, tube: &QueueName) -> Reply {
        match self.watching.iter().position(|role| role.name() == tube) {
            Some(_) if self.watching.len() == 1 => return Reply::NotIgnored,
            Some(place) => drop(self.watching.remove(place)),
            None => {}
        }
        Reply::Watching(self.watching.len())
    }

    /// Removes a job that this connection has not reserved, if nobody else has.
    async fn delete(&self, id: u64) -> Result<Reply, Error> {
        let Some(job) = self.find(id).await? else {
            return Ok(Reply::NotFound);
        };
        let moved = self.steer(id, Action::Delete, Reply::Deleted).await;
        if let (Ok(Reply::Deleted), Some(tube)) =
            (&moved, self.app.beanstalk.tubes.find(&job.queue))
        {
            tube.deletes.fetch_add(1, Relaxed);
        }
        moved
    }

    async fn peek(&self, id: u64) -> Result<Reply, Error> {
        Ok(self.find(id).await?.map_or(Reply::NotFound, found))
    }

    async fn kick_job(&self, id: u64) -> Result<Reply, Error> {
        match self.find(id).await? {
            Some(job) if matches!(job.state, State::Dead | State::Scheduled) => {
                self.steer(id, Action::Kick, Reply::Kicked).await
            }
            _ => Ok(Reply::NotFound),
        }
    }

    /// A job that beanstalkd would know of: one that is done is gone.
    pub(super) async fn find(&self, id: u64) -> Result<Option<Job>, Error> {
        let job = self.app.service.find(Which::Id(JobId(id))).await?;
        Ok(job.filter(|job| !matches!(job.state, State::Done | State::Cancelled)))
    }

    /// Makes an operator's move between its two lines in the audit log. To delete a job that is reserved here is none: that is how a
    /// worker says that it is done.
    async fn noted<T>(
        &self,
        what: Move,
        call: impl Future<Output = Result<T, Error>>,
        moved: impl FnOnce(&T) -> u64,
    ) -> Result<T, Error> {
        self.app.trail.noted(self.who(), what, call, moved).await
    }

    /// Who is at the other end, for the audit log.
    pub(super) fn who(&self) -> Who {
        let from = self.peer.from.map(|from| from.to_string());
        Who {
            name: self.peer.subject.clone(),
            token: None,
            from: from.unwrap_or_else(|| self.peer.name.clone()),
            via: "beanstalk",
        }
    }

    async fn steer(&self, id: u64, action: Action, done: Reply) -> Result<Reply, Error> {
        let order = Order {
            target: Target::Jobs(vec![JobId(id)]),
            action,
            mode: Mode::Act,
        };
        let (what, steer) = (Move::order(&order), self.app.service.steer(order));
        let mut steered = self.noted(what, steer, |steered| steered.moved).await?;
        match steered.results.pop() {
            Some(Ok(_)) => Ok(done),
            Some(Err(error)) => Err(error),
            None => Ok(Reply::NotFound),
        }
    }

    /// The first job of the tube in use in this state.
    async fn peek_first(&self, state: State) -> Result<Reply, Error> {
        let filter = Filter {
            queue: Some(self.using.name().clone()),
            states: vec![state],
            ..Filter::default()
        };
        Ok(self.first(filter).await?.map_or(Reply::NotFound, found))
    }

    async fn first(&self, filter: Filter) -> Result<Option<Job>, Error> {
        let mut query = Query {
            filter,
            cursor: None,
            limit: 1,
        };
        loop {
            let mut page = self.app.service.list(query.clone()).await?;
            match (page.jobs.pop(), page.next) {
                (Some(job), _) => return Ok(Some(job)),
                (None, None) => return Ok(None),
                (None, next) => query.cursor = next,
            }
        }
    }

    async fn peek_delayed(&self) -> Result<Reply, Error> {
        Ok(self.next_delayed().await?.map_or(Reply::NotFound, found))
    }

    /// The delayed job of the tube in use that is due next.
    async fn next_delayed(&self) -> Result<Option<Job>, Error> {
        let tube = self.using.name().clone();
        let queues = self.app.service.queues(Some(vec![tube.clone()])).await?;
        let Some(due) = queues.first().and_then(|queue| queue.next_due) else {
            return Ok(None);
        };
        // The order of a list is by priority first; of what is due next there are few.
        let filter = Filter {
            queue: Some(tube),
            states: vec![State::Scheduled],
            due_before: Some(due.plus(Duration::from_millis(2))),
            ..Filter::default()
        };
        self.first(filter).await
    }

    /// Kicks buried jobs or, if there are none, delayed ones.
    async fn kick(&self, bound: u32) -> Result<Reply, Error> {
        let what = Move::new("kick").queue(self.using.name());
        let call = async {
            match self.kick_in(State::Dead, bound).await? {
                0 => self.kick_delayed(bound).await,
                kicked => Ok(kicked),
            }
        };
        let kicked = self.noted(what.with("at_most", bound), call, |kicked| *kicked);
        kicked.await.map(Reply::KickedMany)
    }

    /// Kicks the delayed jobs that are due next. A list has them by priority first, so they are looked for one by one; of those
    /// beyond [`ONE_BY_ONE`], and where all are meant, the order of the list is as good as any.
    async fn kick_delayed(&self, bound: u32) -> Result<u64, Error> {
        let tube = vec![self.using.name().clone()];
        let queues = self.app.service.queues(Some(tube)).await?;
        let delayed = queues.first().map_or(0, |queue| queue.counts.scheduled);
        let mut kicked = 0;
        if u64::from(bound) < delayed {
            while kicked < bound.min(ONE_BY_ONE) {
                let Some(job) = self.next_delayed().await? else {
                    break;
                };
                let order = Order {
                    target: Target::Jobs(vec![job.id]),
                    action: Action::Kick,
                    mode: Mode::Act,
                };
                kicked += self.app.service.steer(order).await?.moved as u32;
            }
        }
        let rest = self.kick_in(State::Scheduled, bound - kicked).await?;
        Ok(u64::from(kicked) + rest)
    }

    async fn kick_in(&self, state: State, bound: u32) -> Result<u64, Error> {
        let mut query = Query {
            filter: Filter {
                queue: Some(self.using.name().clone()),
                states: vec![state],
                ..Filter::default()
            },
            cursor: None,
            limit: 1,
        };
        let mut left = bound;
        while left > 0 {
            query.limit = left.min(self.app.service.limits().page);
            let steered = self
                .app
                .service
                .steer(Order {
                    target: Target::Matching(query.clone()),
                    action: Action::Kick,
                    mode: Mode::Act,
                })
                .await?;
            left -= u32::try_from(steered.moved).unwrap_or(left).min(left);
            match steered.next {
                None => break,
                next => query.cursor = next,
            }
        }
        Ok(u64::from(bound - left))
    }

    /// Hands out nothing of a tube for a time; for none, it goes on at once.
    async fn pause(&self, name: QueueName, seconds: u32) -> Result<Reply, Error> {
        let _alone = self.app.changing.lock().await;
        let (tube, queue) = (
            self.app.beanstalk.tubes.find(&name),
            self.queue(&name).await?,
        );
        if !is_tube(&name, tube.is_some(), queue.as_ref()) {
            return Ok(Reply::NotFound);
        }
        let mut config = queue.map(|queue| queue.config).unwrap_or_default();
        let span = Duration::from_secs(seconds.into());
        config.paused_until = (seconds > 0).then_some(When::After(span));
        let call = if seconds > 0 { "pause" } else { "resume" };
        let what = Move::settings(call, &name, &config);
        let change = self.app.service.change(Change::Queue(name, config));
        self.noted(what, change, |()| 1).await?;
        if let Some(tube) = tube {
            tube.pauses.fetch_add(1, Relaxed);
            tube.pause.store(seconds.into(), Relaxed);
        }
        Ok(Reply::Paused)
    }

    /// Notes that the connection has put a job.
    pub(super) fn produces(&mut self) {
        self.producer
            .get_or_insert_with(|| Counted::new(&self.app, |app| &app.beanstalk.counts.producers));
    }

    /// Notes that the connection has asked for a job.
    pub(super) fn consumes(&mut self) {
        self.consumer
            .get_or_insert_with(|| Counted::new(&self.app, |app| &app.beanstalk.counts.workers));
    }

    /// Gives back everything that is still held.
    pub async fn let_go(&mut self) {
        let tokens = self.held.take_tokens();
        let release = |token| Settle {
            token,
            outcome: Outcome::Release {
                priority: None,
                delay: None,
            },
        };
        for tokens in tokens.chunks(self.app.service.limits().batch) {
            let settles = tokens.iter().copied().map(release).collect();
            // What cannot be given back comes back at its deadline.
            if let Err(error) = self.app.service.settle(settles).await {
                tracing::warn!(%error, "cannot release the jobs of a beanstalk connection that ended");
            }
        }
    }
}

fn found(job: Job) -> Reply {
    Reply::Found(job.id.0, job.payload)
}

/// beanstalkd's word for an error. A call that may or may not have happened has none: the connection ends.
pub fn refusal(error: &Error) -> io::Result<Reply> {
    Ok(match error.code() {
        Code::BadRequest => Reply::BadFormat,
        Code::NotFound | Code::LeaseLost | Code::Conflict => Reply::NotFound,
        Code::QueuePaused => Reply::Draining,
        Code::QueueFull | Code::RateLimited => Reply::OutOfMemory,
        Code::TooLarge => Reply::JobTooBig,
        Code::UnknownOutcome => return Err(io::Error::other(error.clone())),
        Code::DuplicateKey
        | Code::Unauthorized
        | Code::Forbidden
        | Code::Unavailable
        | Code::Internal => Reply::InternalError,
    })
}

/// A counter that counts this one as long as it lives.
struct Counted {
    app: Arc<App>,
    count: fn(&App) -> &AtomicU64,
}

impl Counted {
    fn new(app: &Arc<App>, count: fn(&App) -> &AtomicU64) -> Counted {
        count(app).fetch_add(1, Relaxed);
        Counted {
            app: app.clone(),
            count,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.app).fetch_sub(1, Relaxed);
    }
}
