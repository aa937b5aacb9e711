//! One stream of a worker, from its first message to its end.

use std::collections::{HashSet, VecDeque};
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Ask, Extend, Extended, Settle, Settled};
use auxo_core::job::Leased;
use auxo_core::{Code, Error, JobId, Result, State, Token, text};
use auxo_proto::{leased_for_work, settles, status_of, v1};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tonic::{Status, Streaming};

use super::held::Held;
use crate::app::App;
use crate::auth::Caller;
use crate::calls::leases;
use crate::grpc::{outlet, revoked};
use crate::names::Room;

/// The most credit that a worker may have at once.
const MOST_CREDIT: u32 = 10_000;
/// The most jobs that a stream holds; more come when some are settled.
const MOST_HELD: usize = 10_000;
/// How many jobs are asked for at once, at first.
const FIRST_STEP: u32 = 256;
/// Bytes of jobs that go in one message, unless a single one has more: 1 MiB. Most libraries take 4.
const MESSAGE: usize = 1 << 20;
/// How often a quiet stream shows that it lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How often it looks at what it holds.
const LOOK: Duration = Duration::from_secs(1);

/// A call to the queue that runs while others do.
type Running<T> = Option<BoxFuture<'static, T>>;
/// What a batch of items was answered, with the tokens that could be read.
type Answered<T> = Vec<(Option<Token>, Result<T>)>;

/// What is to be sent.
#[derive(Default)]
struct Outbox {
    jobs: VecDeque<v1::Leased>,
    /// All but the jobs.
    message: v1::WorkResponse,
    heartbeat: bool,
}

impl Outbox {
    fn is_empty(&self) -> bool {
        self.jobs.is_empty()
            && !self.heartbeat
            && self.message.settled.is_empty()
            && self.message.extended.is_empty()
            && self.message.cancelled.is_empty()
            && self.message.pong.is_none()
            && !self.message.stopping
    }

    /// The next message.
    fn take(&mut self) -> v1::WorkResponse {
        self.heartbeat = false;
        let mut message = std::mem::take(&mut self.message);
        let mut bytes = 0;
        while let Some(next) = self.jobs.front() {
            let more = weight(next);
            if !message.jobs.is_empty() && bytes + more > MESSAGE {
                break;
            }
            bytes += more;
            message.jobs.extend(self.jobs.pop_front());
        }
        message
    }
}

/// About how many bytes a job takes in a message.
fn weight(leased: &v1::Leased) -> usize {
    let Some(job) = &leased.job else { return 0 };
    let headers = job
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len());
    let texts = [&job.last_error, &job.key, &job.group];
    let texts = texts
        .iter()
        .map(|text| text.as_ref().map_or(0, String::len));
    let progress = job.progress.as_ref().map_or(0, |progress| progress.len());
    200 + job.payload.len() + progress + headers.sum::<usize>() + texts.sum::<usize>()
}

/// The state of a stream.
pub struct Session {
    app: Arc<App>,
    caller: Caller,
    inbound: Streaming<v1::WorkRequest>,
    outlet: mpsc::Sender<Result<v1::WorkResponse, Status>>,
    held: Held,
    cancelled: mpsc::UnboundedReceiver<JobId>,
    settles: Vec<v1::Settle>,
    extends: Vec<v1::Extend>,
    outbox: Outbox,
    credit: u32,
    /// How many jobs are asked for at once: fewer when they are large.
    step: u32,
    /// The worker may still say something.
    is_open: bool,
    /// What it said that cannot be understood, for the end.
    wrong: Option<Status>,
    /// Until when a server that stops waits for it.
    stopping: Option<Instant>,
}

impl Session {
    pub fn new(
        app: Arc<App>,
        caller: Caller,
        inbound: Streaming<v1::WorkRequest>,
        outlet: mpsc::Sender<Result<v1::WorkResponse, Status>>,
    ) -> Session {
        let (tell, cancelled) = mpsc::unbounded_channel();
        Session {
            held: Held::new(app.grpc.cancels.clone(), tell),
            app,
            caller,
            inbound,
            outlet,
            cancelled,
            settles: Vec::new(),
            extends: Vec::new(),
            outbox: Outbox::default(),
            credit: 0,
            step: FIRST_STEP,
            is_open: true,
            wrong: None,
            stopping: None,
        }
    }

    /// Releases whatever is held. What cannot be released comes back at its deadline.
    pub async fn give_back(&mut self) {
        let mut items = self.held.take();
        let most = self.app.service.limits().batch.max(1);
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(most));
            if let Err(error) = self.app.service.settle(items).await {
                tracing::debug!(%error, "jobs of a stream that ended come back at their deadlines");
            }
            items = rest;
        }
    }

    /// Answers the worker until one of the two is done.
    pub async fn run(&mut self) -> Result<(), Status> {
        let (ask, _room) = self.start().await?;
        let (app, outlet) = (self.app.clone(), self.outlet.clone());
        let mut stopped = pin!(app.stopped());
        let identity = self.caller.identity().clone();
        let mut over = pin!(app.auth.revoked(&identity));
        let (mut leasing, mut settling, mut extending) = (None, None, None);
        let mut look = interval_at(Instant::now() + LOOK, LOOK);
        let mut beat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.begin(&ask, &mut leasing, &mut settling, &mut extending);
            if settling.is_none() && extending.is_none() && self.is_over() {
                return self.wrong.take().map_or(Ok(()), Err);
            }
            let may_read = self.is_open && self.has_room();
            let deadline = self.stopping;
            tokio::select! {
                biased;
                // The worker is gone.
                () = outlet.closed() => return Ok(()),
                () = &mut over => return Err(revoked()),
                permit = outlet.reserve(), if !self.outbox.is_empty() => {
                    if let Ok(permit) = permit {
                        permit.send(Ok(self.outbox.take()));
                        beat.reset();
                    }
                }
                answers = running(&mut settling) => self.settled(answers),
                answers = running(&mut extending) => self.extended(answers),
                message = self.inbound.next(), if may_read => self.read(message),
                jobs = running(&mut leasing) => {
                    self.leased(jobs.map_err(|e| status_of(&e))?, ask.ttr);
                }
                Some(job) = self.cancelled.recv() => self.outbox.message.cancelled.push(job.0),
                () = &mut stopped, if deadline.is_none() => {
                    // Dropping the call gives back what it was about to return.
                    leasing = None;
                    self.stop().await;
                }
                () = until(deadline) => return Ok(()),
                _ = look.tick(), if !self.held.is_empty() => self.held.look(&app.service),
                _ = beat.tick() => self.outbox.heartbeat = true,
            }
        }
    }

    /// The first message, and room for the names in it.
    async fn start(&mut self) -> Result<(Ask, Option<Room>), Status> {
        let refused = |error: Error| status_of(&error);
        let first = tokio::select! {
            message = outlet::first(&self.app, &mut self.inbound) => message?.unwrap_or_default(),
            () = self.app.stopped() => {
                let message = "the server is stopping";
                return Err(refused(Error::new(Code::Unavailable, message)));
            }
        };
        let missing = || Error::bad_request("start: is missing from the first message");
        let start = first.start.clone().ok_or_else(missing).map_err(refused)?;
        let ask = Ask::try_from(v1::LeaseRequest {
            queues: start.queues,
            ttr_ms: start.ttr_ms,
            worker: start.worker,
            pick: start.pick,
            ..v1::LeaseRequest::default()
        });
        let ask = ask.map_err(refused)?;
        let limits = self.app.service.limits();
        limits.check_ask(&ask).map_err(refused)?;
        self.caller.check_all(&ask.queues).map_err(refused)?;
        let wait = limits.wait;
        let mut ask = Ask { wait, ..ask };
        let room = leases::room_for_names(&self.app, &self.caller, &mut ask).map_err(refused)?;
        let first = v1::WorkRequest {
            start: None,
            ..first
        };
        self.take_in(first).map_err(refused)?;
        Ok((ask, room))
    }

    /// Begins the calls that there is something for.
    fn begin(
        &mut self,
        ask: &Ask,
        leasing: &mut Running<Result<Vec<Leased>>>,
        settling: &mut Running<Answered<Settled>>,
        extending: &mut Running<Answered<Extended>>,
    ) {
        if !self.is_open {
            *leasing = None;
        } else if leasing.is_none() && self.wants_jobs() {
            let most = u32::try_from(self.app.service.limits().batch).unwrap_or(u32::MAX);
            let ask = Ask {
                max: self.credit.min(self.step).min(most),
                ..ask.clone()
            };
            let app = self.app.clone();
            *leasing = Some(async move { app.service.lease(ask).await }.boxed());
        }
        let most = self.app.service.limits().batch;
        if settling.is_none() && !self.settles.is_empty() {
            let items = settles(first(&mut self.settles, most));
            *settling = Some(self.settle(items).boxed());
        }
        if extending.is_none() && !self.extends.is_empty() {
            let items = settles(first(&mut self.extends, most));
            *extending = Some(self.extend(items).boxed());
        }
    }

    fn wants_jobs(&self) -> bool {
        self.credit > 0
            && self.stopping.is_none()
            && self.outbox.jobs.is_empty()
            && self.held.len() < MOST_HELD
    }

    /// Nothing is left to be done or told.
    fn is_over(&self) -> bool {
        let is_leaving = !self.is_open || (self.stopping.is_some() && self.held.is_empty());
        is_leaving && self.outbox.is_empty() && self.settles.is_empty() && self.extends.is_empty()
    }

    /// Whether what is waiting leaves room for more to be read.
    fn has_room(&self) -> bool {
        let most = self.app.service.limits().batch;
        self.settles.len() < most
            && self.extends.len() < most
            && self.outbox.message.settled.len() < most
            && self.outbox.message.extended.len() < most
    }

    /// Takes in a message and all that have arrived with it.
    fn read(&mut self, mut message: Option<Result<v1::WorkRequest, Status>>) {
        loop {
            let taken = match message {
                None => break,
                Some(Ok(message)) => self.take_in(message).map_err(|error| status_of(&error)),
                Some(Err(status)) => Err(status),
            };
            if let Err(status) = taken {
                self.wrong = Some(status);
                break;
            }
            if !self.has_room() {
                return;
            }
            match self.inbound.next().now_or_never() {
                Some(next) => message = next,
                None => return,
            }
        }
        self.is_open = false;
        // A worker that has said its last word gets no more jobs; these are given back with the others.
        self.outbox.jobs.clear();
    }

    fn take_in(&mut self, message: v1::WorkRequest) -> Result<()> {
        if message.start.is_some() {
            return Err(Error::bad_request("start: belongs into the first message"));
        }
        let credit = self.credit.saturating_add(message.credit);
        if credit > MOST_CREDIT {
            let problem = format!("credit: {credit} together are over the limit of {MOST_CREDIT}");
            return Err(Error::bad_request(problem));
        }
        self.credit = credit;
        self.settles.extend(message.settle);
        self.extends.extend(message.extend);
        if message.ping.is_some() {
            self.outbox.message.pong = message.ping;
        }
        Ok(())
    }

    /// Takes in jobs that were asked for with this time to run.
    fn leased(&mut self, jobs: Vec<Leased>, ttr: Option<Duration>) {
        let bytes: usize = jobs.iter().map(|leased| leased.job.payload.len()).sum();
        if bytes > 4 * MESSAGE {
            self.step = (self.step / 2).max(1);
        } else if bytes < MESSAGE {
            self.step = (self.step * 2).min(MOST_CREDIT);
        }
        let count = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
        self.credit = self.credit.saturating_sub(count);
        for leased in jobs {
            // One that is delivered at most once is done already: there is nothing to give back.
            if leased.job.state == State::Leased {
                let time = ttr.unwrap_or(leased.job.ttr);
                self.held.insert(leased.token, leased.deadline, time);
            }
            self.outbox.jobs.push_back(leased_for_work(leased));
        }
    }

    fn settled(&mut self, answers: Answered<Settled>) {
        for (token, answer) in answers {
            let is_over = match &answer {
                Ok(_) => true,
                Err(error) => error.code() == Code::LeaseLost,
            };
            if let Some(token) = token.filter(|_| is_over) {
                self.held.remove(token);
            }
            self.outbox.message.settled.push((&answer).into());
        }
    }

    fn extended(&mut self, answers: Answered<Extended>) {
        for (token, answer) in answers {
            match (token, &answer) {
                (Some(token), Ok(extended)) => self.held.extended(token, extended.deadline),
                (Some(token), Err(error)) if error.code() == Code::LeaseLost => {
                    self.held.remove(token);
                }
                _ => {}
            }
            self.outbox.message.extended.push((&answer).into());
        }
    }

    /// Ends leases, in a step that goes on without the session.
    fn settle(
        &self,
        items: Vec<Result<Settle>>,
    ) -> impl Future<Output = Answered<Settled>> + Send + 'static {
        let tokens = tokens(&items, |item| item.token);
        let (app, caller, known) = (self.app.clone(), self.caller.clone(), self.known(&tokens));
        async move {
            let settled = leases::settle(&app, &caller, items, &known);
            matched(tokens, in_time(&app, settled).await)
        }
    }

    /// Prolongs leases, in a step that goes on without the session.
    fn extend(
        &self,
        items: Vec<Result<Extend>>,
    ) -> impl Future<Output = Answered<Extended>> + Send + 'static {
        let tokens = tokens(&items, |item| item.token);
        let (app, caller, known) = (self.app.clone(), self.caller.clone(), self.known(&tokens));
        async move {
            let extended = leases::extend(&app, &caller, items, &known);
            matched(tokens, in_time(&app, extended).await)
        }
    }

    /// Those of these leases that the stream holds, which need no look at whose they are. Nobody asks for them if the caller has
    /// its right everywhere.
    fn known(&self, tokens: &[Option<Token>]) -> HashSet<Token> {
        if self.caller.may_everywhere() {
            return HashSet::new();
        }
        let all = tokens.iter().flatten().copied();
        all.filter(|token| self.held.contains(*token)).collect()
    }

    /// Sends no more jobs, says so, and leaves the worker most of the server's grace to settle what it has.
    async fn stop(&mut self) {
        let unsent = std::mem::take(&mut self.outbox.jobs);
        let items = unsent.into_iter().map(|leased| v1::Settle {
            token: leased.token,
            outcome: Some(v1::settle::Outcome::Release(v1::settle::Release::default())),
        });
        let answers = self.settle(settles(items.collect())).await;
        for token in answers.into_iter().filter_map(|(token, _)| token) {
            self.held.remove(token);
        }
        self.outbox.message.stopping = true;
        self.stopping = Some(Instant::now() + self.app.settings.grace.mul_f32(0.8));
    }
}

/// The answer of a call that runs, if one does.
async fn running<T>(call: &mut Running<T>) -> T {
    let Some(future) = call else {
        return pending().await;
    };
    let answer = future.await;
    *call = None;
    answer
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// Takes the first items out of a list.
fn first<T>(items: &mut Vec<T>, most: usize) -> Vec<T> {
    let rest = items.split_off(items.len().min(most));
    std::mem::replace(items, rest)
}

/// The leases of a batch, where they could be read.
fn tokens<T>(items: &[Result<T>], token: impl Fn(&T) -> Token) -> Vec<Option<Token>> {
    items
        .iter()
        .map(|item| item.as_ref().ok().map(&token))
        .collect()
}

/// An answer for each item, also when the call failed as a whole.
fn matched<T>(tokens: Vec<Option<Token>>, answers: Result<Vec<Result<T>>>) -> Answered<T> {
    match answers {
        Ok(answers) => tokens.into_iter().zip(answers).collect(),
        Err(error) => {
            let fail = |token| (token, Err(error.clone()));
            tokens.into_iter().map(fail).collect()
        }
    }
}

async fn in_time<T>(app: &App, call: impl Future<Output = Result<T>>) -> Result<T> {
    let time = app.settings.answer_time;
    timeout(time, call).await.unwrap_or_else(|_| {
        let time = text::duration(time);
        let message = format!(
            "no answer from the store within {time}: the step may or may not have happened"
        );
        Err(Error::new(Code::UnknownOutcome, message))
    })
}
