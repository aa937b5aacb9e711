//! Jobs: pushed, shown, explained, listed and steered.

use auxo_core::engine::{
    Accepted, Action, Cursor, Filter, Mode, Order, Page, Pushed, Query, Steered, Target, Which,
};
use auxo_core::explain::{Explanation, Reason};
use auxo_core::job::{
    Backoff, DEFAULT_KEY_WINDOW, DeadReason, Holder, Jitter, Job, JobSpec, Key, Moment, NewJob,
    OnDuplicate, Ttl,
};
use auxo_core::json::read::DEFAULT_LIMIT;
use auxo_core::life::Event;
use auxo_core::{Error, JobId, QueueName, Result, State, Timestamp, When};

use crate::v1;
use crate::value::{
    at, choice, instant, instant_if, ms, need, queue, read_all, result, span, within, word, wrong,
};

impl From<State> for v1::State {
    fn from(state: State) -> v1::State {
        match state {
            State::Scheduled => v1::State::Scheduled,
            State::Ready => v1::State::Ready,
            State::Leased => v1::State::Leased,
            State::Done => v1::State::Done,
            State::Dead => v1::State::Dead,
            State::Cancelled => v1::State::Cancelled,
        }
    }
}

fn state_if(field: &str, number: i32) -> Result<Option<State>> {
    Ok(match choice(field, number)? {
        v1::State::Unspecified => None,
        v1::State::Scheduled => Some(State::Scheduled),
        v1::State::Ready => Some(State::Ready),
        v1::State::Leased => Some(State::Leased),
        v1::State::Done => Some(State::Done),
        v1::State::Dead => Some(State::Dead),
        v1::State::Cancelled => Some(State::Cancelled),
    })
}

pub(crate) fn state(field: &str, number: i32) -> Result<State> {
    need(field, state_if(field, number)?)
}

pub(crate) fn state_number(state: State) -> i32 {
    v1::State::from(state).into()
}

impl v1::PurgeQueueRequest {
    /// The states that are meant.
    pub fn chosen(&self) -> Result<Vec<State>> {
        self.states.iter().map(|n| state("states", *n)).collect()
    }
}

impl From<&Backoff> for v1::Backoff {
    fn from(backoff: &Backoff) -> v1::Backoff {
        use v1::backoff::{Delays, Exponential, Fixed, Kind};
        let kind = match backoff {
            Backoff::Exponential {
                base,
                factor,
                cap,
                jitter,
            } => Kind::Exponential(Exponential {
                base_ms: Some(ms(*base)),
                factor: Some(*factor),
                cap_ms: Some(ms(*cap)),
                exact: *jitter == Jitter::None,
            }),
            Backoff::Fixed { delay } => Kind::Fixed(Fixed {
                delay_ms: ms(*delay),
            }),
            Backoff::List { delays } => Kind::List(Delays {
                delays_ms: delays.iter().map(|delay| ms(*delay)).collect(),
            }),
        };
        v1::Backoff { kind: Some(kind) }
    }
}

impl TryFrom<v1::Backoff> for Backoff {
    type Error = Error;

    fn try_from(backoff: v1::Backoff) -> Result<Backoff> {
        use v1::backoff::Kind;
        Ok(match need("backoff.kind", backoff.kind)? {
            Kind::Exponential(wait) => Backoff::Exponential {
                base: span(wait.base_ms.unwrap_or(1000)),
                factor: wait.factor.unwrap_or(2.0),
                cap: span(wait.cap_ms.unwrap_or(60 * 60 * 1000)),
                jitter: match wait.exact {
                    true => Jitter::None,
                    false => Jitter::Full,
                },
            },
            Kind::Fixed(wait) => Backoff::Fixed {
                delay: span(wait.delay_ms),
            },
            Kind::List(waits) => Backoff::List {
                delays: waits.delays_ms.into_iter().map(span).collect(),
            },
        })
    }
}

/// Left out when it is the default.
fn backoff_if_other(backoff: &Backoff) -> Option<v1::Backoff> {
    (*backoff != Backoff::default()).then(|| backoff.into())
}

fn backoff_or_default(backoff: Option<v1::Backoff>) -> Result<Backoff> {
    backoff.map_or_else(|| Ok(Backoff::default()), Backoff::try_from)
}

impl From<&JobSpec> for v1::JobSpec {
    /// Fields that have their default are left out.
    fn from(spec: &JobSpec) -> v1::JobSpec {
        use v1::job_spec::{Life, When as Due};
        let default = JobSpec::default();
        let key = spec.key.as_ref();
        v1::JobSpec {
            kind: spec.kind.clone(),
            payload: spec.payload.clone(),
            headers: spec.headers.clone(),
            priority: (spec.priority != default.priority).then_some(spec.priority),
            when: match spec.when {
                When::Now => None,
                When::After(delay) => Some(Due::DelayMs(ms(delay))),
                When::At(at) => Some(Due::RunAtMs(at.0)),
            },
            ttr_ms: (spec.ttr != default.ttr).then(|| ms(spec.ttr)),
            life: match spec.ttl {
                Ttl::None => None,
                Ttl::After(ttl) => Some(Life::TtlMs(ms(ttl))),
                Ttl::At(at) => Some(Life::ExpiresAtMs(at.0)),
            },
            max_attempts: (spec.max_attempts != default.max_attempts).then_some(spec.max_attempts),
            backoff: backoff_if_other(&spec.backoff),
            key: key.map(|key| key.name.clone()),
            on_duplicate: key.map_or(0, |key| on_duplicate_number(key.on_duplicate)),
            key_window_ms: key
                .filter(|key| key.window != DEFAULT_KEY_WINDOW)
                .map(|key| ms(key.window)),
            group: spec.group.clone(),
            retention_ms: ms(spec.retention),
        }
    }
}

fn on_duplicate_number(policy: OnDuplicate) -> i32 {
    let policy = match policy {
        OnDuplicate::Reject => v1::OnDuplicate::Unspecified,
        OnDuplicate::Return => v1::OnDuplicate::Return,
        OnDuplicate::Replace => v1::OnDuplicate::Replace,
    };
    policy.into()
}

impl TryFrom<v1::JobSpec> for JobSpec {
    type Error = Error;

    fn try_from(spec: v1::JobSpec) -> Result<JobSpec> {
        use v1::job_spec::{Life, When as Due};
        let default = JobSpec::default();
        Ok(JobSpec {
            when: match spec.when {
                None => When::Now,
                Some(Due::DelayMs(ms)) => When::After(span(ms)),
                Some(Due::RunAtMs(ms)) => When::At(instant("run_at_ms", ms)?),
            },
            ttl: match spec.life {
                None => Ttl::None,
                Some(Life::TtlMs(ms)) => Ttl::After(span(ms)),
                Some(Life::ExpiresAtMs(ms)) => Ttl::At(instant("expires_at_ms", ms)?),
            },
            key: key(spec.key, spec.on_duplicate, spec.key_window_ms)?,
            kind: spec.kind,
            payload: spec.payload,
            headers: spec.headers,
            priority: spec.priority.unwrap_or(default.priority),
            ttr: spec.ttr_ms.map_or(default.ttr, span),
            max_attempts: spec.max_attempts.unwrap_or(default.max_attempts),
            backoff: backoff_or_default(spec.backoff)?,
            group: spec.group,
            retention: span(spec.retention_ms),
        })
    }
}

fn key(name: Option<String>, policy: i32, window: Option<u64>) -> Result<Option<Key>> {
    let policy: v1::OnDuplicate = choice("on_duplicate", policy)?;
    match name {
        Some(name) => Ok(Some(Key {
            name,
            on_duplicate: match policy {
                v1::OnDuplicate::Unspecified | v1::OnDuplicate::Reject => OnDuplicate::Reject,
                v1::OnDuplicate::Return => OnDuplicate::Return,
                v1::OnDuplicate::Replace => OnDuplicate::Replace,
            },
            window: window.map_or(DEFAULT_KEY_WINDOW, span),
        })),
        None if policy != v1::OnDuplicate::Unspecified => Err(wrong("on_duplicate", "needs a key")),
        None if window.is_some() => Err(wrong("key_window_ms", "needs a key")),
        None => Ok(None),
    }
}

impl From<&NewJob> for v1::NewJob {
    fn from(job: &NewJob) -> v1::NewJob {
        v1::NewJob {
            queue: job.queue.to_string(),
            spec: Some((&job.spec).into()),
        }
    }
}

/// The jobs of a push, each read or an error. Jobs of one queue in a row share its name.
pub fn pushes(jobs: Vec<v1::NewJob>) -> Vec<Result<NewJob>> {
    let mut last: Option<QueueName> = None;
    let read = |job: v1::NewJob| {
        let queue = match last.as_ref().filter(|last| last.as_str() == job.queue) {
            Some(last) => last.clone(),
            None => queue("queue", &job.queue)?,
        };
        last = Some(queue.clone());
        let spec = job.spec.unwrap_or_default().try_into()?;
        Ok(NewJob { queue, spec })
    };
    jobs.into_iter().map(read).collect()
}

impl From<&Pushed> for v1::Pushed {
    fn from(pushed: &Pushed) -> v1::Pushed {
        let how = match pushed.how {
            Accepted::New => v1::Accepted::New,
            Accepted::Existing => v1::Accepted::Existing,
            Accepted::Replaced => v1::Accepted::Replaced,
        };
        v1::Pushed {
            id: pushed.id.0,
            state: state_number(pushed.state),
            run_at_ms: pushed.run_at.0,
            how: how.into(),
        }
    }
}

impl TryFrom<v1::Pushed> for Pushed {
    type Error = Error;

    fn try_from(pushed: v1::Pushed) -> Result<Pushed> {
        Ok(Pushed {
            id: JobId(pushed.id),
            state: state("state", pushed.state)?,
            run_at: Timestamp(pushed.run_at_ms),
            how: match choice("how", pushed.how)? {
                v1::Accepted::Unspecified => return Err(wrong("how", "is missing")),
                v1::Accepted::New => Accepted::New,
                v1::Accepted::Existing => Accepted::Existing,
                v1::Accepted::Replaced => Accepted::Replaced,
            },
        })
    }
}

impl From<&Job> for v1::Job {
    fn from(job: &Job) -> v1::Job {
        let dead = match job.dead {
            None => v1::DeadReason::Unspecified,
            Some(DeadReason::Failed) => v1::DeadReason::Failed,
            Some(DeadReason::Vanished) => v1::DeadReason::Vanished,
            Some(DeadReason::Buried) => v1::DeadReason::Buried,
            Some(DeadReason::Expired) => v1::DeadReason::Expired,
        };
        v1::Job {
            id: job.id.0,
            queue: job.queue.to_string(),
            kind: job.kind.to_string(),
            payload: job.payload.clone(),
            headers: job.headers.clone(),
            priority: job.priority,
            state: state_number(job.state),
            run_at_ms: job.run_at.0,
            created_at_ms: job.created_at.0,
            ttr_ms: ms(job.ttr),
            expires_at_ms: at(job.expires_at),
            max_attempts: job.max_attempts,
            backoff: backoff_if_other(&job.backoff),
            key: job.key.clone(),
            key_window_ms: ms(job.key_window),
            group: job.group.clone(),
            retention_ms: ms(job.retention),
            attempt: job.attempt,
            failures: job.failures,
            vanished: job.vanished,
            last_error: job.last_error.clone(),
            dead: dead.into(),
            ended_at_ms: at(job.ended_at),
            progress: job.progress.clone(),
            result: job.result.clone(),
            holder: job.holder.as_ref().map(Into::into),
            timeline: result(&job.timeline),
        }
    }
}

impl TryFrom<v1::Job> for Job {
    type Error = Error;

    fn try_from(job: v1::Job) -> Result<Job> {
        Ok(Job {
            id: JobId(job.id),
            queue: queue("queue", &job.queue)?,
            kind: job.kind.into(),
            payload: job.payload,
            headers: job.headers,
            priority: job.priority,
            state: state("state", job.state)?,
            run_at: instant("run_at_ms", job.run_at_ms)?,
            created_at: instant("created_at_ms", job.created_at_ms)?,
            ttr: span(job.ttr_ms),
            expires_at: instant_if("expires_at_ms", job.expires_at_ms)?,
            max_attempts: job.max_attempts,
            backoff: backoff_or_default(job.backoff)?,
            key: job.key,
            key_window: span(job.key_window_ms),
            group: job.group,
            retention: span(job.retention_ms),
            attempt: job.attempt,
            failures: job.failures,
            vanished: job.vanished,
            last_error: job.last_error,
            dead: match choice("dead", job.dead)? {
                v1::DeadReason::Unspecified => None,
                v1::DeadReason::Failed => Some(DeadReason::Failed),
                v1::DeadReason::Vanished => Some(DeadReason::Vanished),
                v1::DeadReason::Buried => Some(DeadReason::Buried),
                v1::DeadReason::Expired => Some(DeadReason::Expired),
            },
            ended_at: instant_if("ended_at_ms", job.ended_at_ms)?,
            progress: job.progress,
            result: job.result,
            holder: job.holder.map(Into::into),
            timeline: read_all("timeline", job.timeline)?,
        })
    }
}

impl From<&Holder> for v1::Holder {
    fn from(holder: &Holder) -> v1::Holder {
        v1::Holder {
            worker: holder.worker.to_string(),
            deadline_at_ms: holder.deadline.0,
            cancel: holder.cancel,
        }
    }
}

impl From<v1::Holder> for Holder {
    fn from(holder: v1::Holder) -> Holder {
        Holder {
            worker: holder.worker.into(),
            deadline: Timestamp(holder.deadline_at_ms),
            cancel: holder.cancel,
        }
    }
}

impl From<&Moment> for v1::Moment {
    fn from(moment: &Moment) -> v1::Moment {
        v1::Moment {
            at_ms: moment.at.0,
            event: moment.event.as_str().to_owned(),
            by: moment.by.clone(),
            note: moment.note.clone(),
        }
    }
}

impl TryFrom<v1::Moment> for Moment {
    type Error = Error;

    fn try_from(moment: v1::Moment) -> Result<Moment> {
        Ok(Moment {
            at: instant("at_ms", moment.at_ms)?,
            event: word("event", &moment.event, &Event::ALL, Event::as_str)?,
            by: moment.by,
            note: moment.note,
        })
    }
}

impl From<&Which> for v1::Which {
    fn from(which: &Which) -> v1::Which {
        use v1::which::{Key, Which as One};
        v1::Which {
            which: Some(match which {
                Which::Id(id) => One::Id(id.0),
                Which::Key(queue, key) => One::Key(Key {
                    queue: queue.to_string(),
                    key: key.clone(),
                }),
            }),
        }
    }
}

/// The job that a call names.
pub fn which(which: Option<v1::Which>) -> Result<Which> {
    use v1::which::Which as One;
    match need("which", which.and_then(|which| which.which))? {
        One::Id(id) => Ok(Which::Id(JobId(id))),
        One::Key(key) => Ok(Which::Key(queue("which.key.queue", &key.queue)?, key.key)),
    }
}

impl From<&Explanation> for v1::Explanation {
    fn from(explanation: &Explanation) -> v1::Explanation {
        v1::Explanation {
            reason: explanation.reason.as_str().to_owned(),
            text: explanation.text.clone(),
            job: explanation.job.map(|id| id.0),
            state: explanation.state.map_or(0, state_number),
            queue: explanation.queue.as_ref().map(ToString::to_string),
            until_ms: at(explanation.until),
            since_ms: at(explanation.since),
            worker: explanation.worker.as_ref().map(ToString::to_string),
            error: explanation.error.clone(),
        }
    }
}

impl TryFrom<v1::Explanation> for Explanation {
    type Error = Error;

    fn try_from(told: v1::Explanation) -> Result<Explanation> {
        Ok(Explanation {
            reason: word("reason", &told.reason, &Reason::ALL, Reason::as_str)?,
            text: told.text,
            job: told.job.map(JobId),
            state: state_if("state", told.state)?,
            queue: told.queue.map(|name| queue("queue", &name)).transpose()?,
            until: told.until_ms.map(Timestamp),
            since: told.since_ms.map(Timestamp),
            worker: told.worker.map(Into::into),
            error: told.error,
        })
    }
}

impl From<&Filter> for v1::Filter {
    fn from(filter: &Filter) -> v1::Filter {
        v1::Filter {
            queue: filter.queue.as_ref().map(ToString::to_string),
            states: filter.states.iter().map(|s| state_number(*s)).collect(),
            kind: filter.kind.clone(),
            key: filter.key.clone(),
            group: filter.group.clone(),
            headers: filter.headers.clone(),
            error: filter.error.clone(),
            search: filter.search.clone(),
            created_from_ms: at(filter.created_from),
            created_before_ms: at(filter.created_before),
            due_from_ms: at(filter.due_from),
            due_before_ms: at(filter.due_before),
        }
    }
}

impl TryFrom<v1::Filter> for Filter {
    type Error = Error;

    fn try_from(filter: v1::Filter) -> Result<Filter> {
        let states = filter.states.iter().map(|n| state("filter.states", *n));
        Ok(Filter {
            queue: filter
                .queue
                .map(|name| queue("filter.queue", &name))
                .transpose()?,
            states: states.collect::<Result<_>>()?,
            kind: filter.kind,
            key: filter.key,
            group: filter.group,
            headers: filter.headers,
            error: filter.error,
            search: filter.search,
            // A border that lies after everything is one, too.
            created_from: filter.created_from_ms.map(Timestamp),
            created_before: filter.created_before_ms.map(Timestamp),
            due_from: filter.due_from_ms.map(Timestamp),
            due_before: filter.due_before_ms.map(Timestamp),
        })
    }
}

/// What a listing asks for.
pub fn query(
    filter: Option<v1::Filter>,
    cursor: Option<String>,
    limit: Option<u32>,
) -> Result<Query> {
    Ok(Query {
        filter: filter.unwrap_or_default().try_into()?,
        cursor: cursor.map(Cursor),
        limit: limit.unwrap_or(DEFAULT_LIMIT),
    })
}

impl From<&Query> for v1::ListJobsRequest {
    fn from(query: &Query) -> v1::ListJobsRequest {
        v1::ListJobsRequest {
            filter: Some((&query.filter).into()),
            cursor: query.cursor.as_ref().map(|cursor| cursor.0.clone()),
            limit: Some(query.limit),
        }
    }
}

impl From<&Page> for v1::ListJobsResponse {
    fn from(page: &Page) -> v1::ListJobsResponse {
        v1::ListJobsResponse {
            jobs: result(&page.jobs),
            next_cursor: page.next.as_ref().map(|cursor| cursor.0.clone()),
        }
    }
}

impl TryFrom<v1::ListJobsResponse> for Page {
    type Error = Error;

    fn try_from(page: v1::ListJobsResponse) -> Result<Page> {
        Ok(Page {
            jobs: read_all("jobs", page.jobs)?,
            next: page.next_cursor.map(Cursor),
        })
    }
}

impl From<&Order> for v1::SteerRequest {
    fn from(order: &Order) -> v1::SteerRequest {
        use v1::steer_request as to;
        let target = match &order.target {
            Target::Jobs(ids) => to::Target::Ids(to::Ids {
                ids: ids.iter().map(|id| id.0).collect(),
            }),
            Target::Matching(query) => to::Target::Matching(to::Matching {
                filter: Some((&query.filter).into()),
                cursor: query.cursor.as_ref().map(|cursor| cursor.0.clone()),
                limit: Some(query.limit),
            }),
        };
        let action = match order.action {
            Action::Kick => to::Action::Kick(to::Kick {}),
            Action::Cancel => to::Action::Cancel(to::Cancel {}),
            Action::Delete => to::Action::Delete(to::Delete {}),
            Action::Reschedule(when) => {
                use to::reschedule::When as Due;
                let when = match when {
                    When::Now => Due::DelayMs(0),
                    When::After(delay) => Due::DelayMs(ms(delay)),
                    When::At(at) => Due::RunAtMs(at.0),
                };
                to::Action::Reschedule(to::Reschedule { when: Some(when) })
            }
        };
        v1::SteerRequest {
            target: Some(target),
            action: Some(action),
            dry_run: order.mode == Mode::DryRun,
        }
    }
}

impl TryFrom<v1::SteerRequest> for Order {
    type Error = Error;

    fn try_from(order: v1::SteerRequest) -> Result<Order> {
        use v1::steer_request as to;
        let target = match need("target", order.target)? {
            to::Target::Ids(ids) => Target::Jobs(ids.ids.into_iter().map(JobId).collect()),
            to::Target::Matching(matching) => {
                // Leaving it out would be every job of every queue, by mistake.
                let filter = need("matching.filter", matching.filter)?;
                Target::Matching(query(Some(filter), matching.cursor, matching.limit)?)
            }
        };
        let action = match need("action", order.action)? {
            to::Action::Kick(_) => Action::Kick,
            to::Action::Cancel(_) => Action::Cancel,
            to::Action::Delete(_) => Action::Delete,
            to::Action::Reschedule(to) => {
                use to::reschedule::When as Due;
                Action::Reschedule(match need("reschedule.when", to.when)? {
                    Due::DelayMs(ms) => When::After(span(ms)),
                    Due::RunAtMs(ms) => When::At(instant("reschedule.run_at_ms", ms)?),
                })
            }
        };
        Ok(Order {
            target,
            action,
            mode: match order.dry_run {
                true => Mode::DryRun,
                false => Mode::Act,
            },
        })
    }
}

impl From<&Steered> for v1::SteerResponse {
    fn from(steered: &Steered) -> v1::SteerResponse {
        use v1::steer_result::Result as Answer;
        let answer = |result: &Result<State>| v1::SteerResult {
            result: Some(match result {
                Ok(state) => Answer::Ok(state_number(*state)),
                Err(error) => Answer::Error(error.into()),
            }),
        };
        v1::SteerResponse {
            moved: steered.moved,
            results: steered.results.iter().map(answer).collect(),
            next_cursor: steered.next.as_ref().map(|cursor| cursor.0.clone()),
        }
    }
}

impl TryFrom<v1::SteerResponse> for Steered {
    type Error = Error;

    fn try_from(steered: v1::SteerResponse) -> Result<Steered> {
        use v1::steer_result::Result as Answer;
        let read = |answer: v1::SteerResult| {
            Ok(match need("result", answer.result)? {
                Answer::Ok(number) => Ok(state("ok", number)?),
                Answer::Error(error) => Err(error.into()),
            })
        };
        let results = steered.results.into_iter().map(read);
        Ok(Steered {
            moved: steered.moved,
            results: within("results", results.collect())?,
            next: steered.next_cursor.map(Cursor),
        })
    }
}
