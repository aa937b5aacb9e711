//! A server as an engine: every call of the contract over gRPC.
//!
//! It keeps the same truths as the client over HTTP. What differs is how little a call costs: all calls share a few connections,
//! and pushes, settles and extends that many tasks make at once travel together.

mod events;
mod gather;
mod line;
mod link;
mod method;
mod take;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use auxo_core::engine::{
    Ask, Audit, Catalog, Change, Extend, Extended, Message, Mode, Order, Page, Pushed, Query,
    QueueList, Settle, Settled, Steered, Target, Which,
};
use auxo_core::event::Notice;
use auxo_core::explain::Explanation;
use auxo_core::job::Leased;
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages, Step};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::{Code, Engine, Job, NewJob, QueueName, Result};
use auxo_proto::{read_all, result, v1};
use tokio::sync::broadcast;

use self::events::Stream;
use self::gather::Gather;
use self::link::{Call, Link};
use crate::remote::address::Address;
use crate::remote::batch::MOST_ITEMS;
use crate::remote::link::Effect;
pub(crate) use crate::remote::settings::Settings;
use crate::remote::take::take;

/// An audit reads every stored job.
const AUDIT_TIME: Duration = Duration::from_secs(60 * 60);

/// A server, reached over gRPC. It must be used within a tokio runtime.
///
/// What is safe to send twice is tried again when the server does not answer; all else says `unknown_outcome` once it has been
/// sent.
pub struct GrpcRemote {
    link: Arc<Link>,
    pushes: Arc<Gather<v1::NewJob>>,
    /// Pushes that may be sent twice, because every job has a key that outlives the tries.
    keyed: Arc<Gather<v1::NewJob>>,
    settles: Arc<Gather<v1::Settle>>,
    extends: Arc<Gather<v1::Extend>>,
}

impl GrpcRemote {
    /// A client of the server at this URL, such as `grpc://127.0.0.1:8000`, with the default settings. Nothing is sent before
    /// the first call.
    pub fn new(url: &str) -> Result<GrpcRemote> {
        GrpcRemote::with_settings(url, Settings::default())
    }

    pub(crate) fn with_settings(url: &str, settings: Settings) -> Result<GrpcRemote> {
        let link = Arc::new(Link::new(Address::parse_grpc(url)?, settings)?);
        Ok(GrpcRemote {
            pushes: Gather::new(link.clone(), Effect::Once),
            keyed: Gather::new(link.clone(), Effect::Repeatable),
            settles: Gather::new(link.clone(), Effect::Once),
            // The same extension again only extends again.
            extends: Gather::new(link.clone(), Effect::Repeatable),
            link,
        })
    }

    async fn look<R: method::Method>(&self, request: R) -> Result<R::Answer> {
        self.link.ask(Call::new(request, Effect::None)).await
    }

    /// Looks for one thing that may not be there.
    async fn look_for<R: method::Method>(&self, request: R) -> Result<Option<R::Answer>> {
        match self.look(request).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes something, where the answer says nothing more.
    async fn put<R: method::Method>(&self, request: R) -> Result<()> {
        let call = Call::new(request, Effect::Once);
        self.link.ask(call).await.map(drop)
    }

    async fn order(&self, order: &Order) -> Result<Steered> {
        let effect = match order.mode {
            Mode::Act => Effect::Once,
            Mode::DryRun => Effect::None,
        };
        let answer = self
            .link
            .ask(Call::new(v1::SteerRequest::from(order), effect));
        self.link.read(effect, answer.await?.try_into())
    }

    /// These queues, or all.
    async fn list_queues(&self, names: &[QueueName]) -> Result<QueueList> {
        let names = names.iter().map(ToString::to_string).collect();
        let found = self.look(v1::ListQueuesRequest { names }).await?;
        let queues = read_all("queues", found.queues);
        Ok(QueueList {
            queues: self.link.read(Effect::None, queues)?,
            unavailable: result(&found.unavailable),
        })
    }

    /// Whether a push of this job may be sent twice: its key must outlive every try.
    fn repeatable(&self, job: &NewJob) -> bool {
        let key = job.spec.key.as_ref();
        key.is_some_and(|key| key.window >= self.link.settings.answer_time)
    }
}

#[async_trait]
impl Engine for GrpcRemote {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        let gather = match jobs.iter().all(|job| self.repeatable(job)) {
            true => &self.keyed,
            false => &self.pushes,
        };
        gather.call(result(&jobs)).await
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        take(&self.link, ask).await
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.settles.call(result(&items)).await
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.extends.call(result(&items)).await
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        let which = Some((&which).into());
        let found = self.look_for(v1::GetJobRequest { which }).await?;
        let read = found.map(TryInto::try_into).transpose();
        self.link.read(Effect::None, read)
    }

    async fn list(&self, query: Query) -> Result<Page> {
        let page = self.look(v1::ListJobsRequest::from(&query)).await?;
        self.link.read(Effect::None, page.try_into())
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        let ids = match &order.target {
            Target::Jobs(ids) if ids.len() > MOST_ITEMS => ids,
            _ => return self.order(&order).await,
        };
        let mut all = Steered::default();
        for ids in ids.chunks(MOST_ITEMS) {
            let part = Order {
                target: Target::Jobs(ids.to_vec()),
                ..order.clone()
            };
            match self.order(&part).await {
                Ok(steered) => {
                    all.moved += steered.moved;
                    all.results.extend(steered.results);
                }
                Err(error) if all.results.is_empty() => return Err(error),
                Err(error) => all.results.extend(ids.iter().map(|_| Err(error.clone()))),
            }
        }
        Ok(all)
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        if names.as_ref().is_some_and(Vec::is_empty) {
            return Ok(Vec::new());
        }
        let names = names.unwrap_or_default();
        self.list_queues(&names).await?.into_all()
    }

    async fn reachable_queues(&self) -> Result<QueueList> {
        self.list_queues(&[]).await
    }

    async fn forgotten(&self) -> Result<Books> {
        let names = Vec::new();
        let found = self.look(v1::ListQueuesRequest { names }).await?;
        Ok(found.forgotten.unwrap_or_default().into())
    }

    async fn change(&self, change: Change) -> Result<()> {
        let schedule = |schedule, armed| v1::PutScheduleRequest {
            schedule: Some(schedule),
            armed,
        };
        match change {
            Change::Queue(name, config) => {
                let request = v1::ConfigureQueueRequest {
                    queue: name.to_string(),
                    config: Some((&config).into()),
                    only: Vec::new(),
                };
                self.put(request).await
            }
            Change::Subscribe(subscription) => {
                let subscription = Some((&subscription).into());
                self.put(v1::SubscribeRequest { subscription }).await
            }
            Change::Unsubscribe(topic, name) => {
                self.put(v1::UnsubscribeRequest { topic, name }).await
            }
            Change::Schedule(of) => self.put(schedule((&of).into(), false)).await,
            Change::Arm(of) => self.put(schedule((&of).into(), true)).await,
            Change::Unschedule(name) => {
                let only_if = None;
                self.put(v1::DeleteScheduleRequest { name, only_if }).await
            }
            Change::Disarm(name, last) => {
                let at_ms = last.map(|at| at.0);
                let only_if = Some(v1::delete_schedule_request::LastTick { at_ms });
                self.put(v1::DeleteScheduleRequest { name, only_if }).await
            }
        }
    }

    async fn catalog(&self) -> Result<Catalog> {
        let topics = self.look(v1::ListSubscriptionsRequest {}).await?;
        let schedules = self.look(v1::ListSchedulesRequest {}).await?;
        let subscriptions = read_all("subscriptions", topics.subscriptions);
        let schedules = read_all("schedules", schedules.schedules);
        Ok(Catalog {
            subscriptions: self.link.read(Effect::None, subscriptions)?,
            schedules: self.link.read(Effect::None, schedules)?,
        })
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        // Several queues get it; with a key in one of them alone a second try would not be harmless.
        let call = Call::new(v1::PublishRequest::from(&message), Effect::Once);
        let answer = self.link.ask(call).await?;
        self.link.read(Effect::Once, read_all("jobs", answer.jobs))
    }

    async fn explain(&self, which: &Which) -> Result<Option<Explanation>> {
        let which = Some(which.into());
        let found = self.look_for(v1::ExplainRequest { which }).await?;
        let read = found.map(TryInto::try_into).transpose();
        self.link.read(Effect::None, read)
    }

    async fn passages(&self, departure: Departure) -> Result<Passages> {
        let passages = self.look(v1::PassagesRequest::from(&departure)).await?;
        self.link.read(Effect::None, passages.try_into())
    }

    async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        let mut departed = Vec::with_capacity(jobs.len());
        for jobs in jobs.chunks(MOST_ITEMS) {
            let request = v1::DepartRequest {
                queue: queue.to_string(),
                jobs: result(jobs),
            };
            // What has left is not there the second time, and that is told.
            let answer = self.link.ask(Call::new(request, Effect::Once)).await?;
            departed.extend(answer.results.into_iter().map(Into::into));
        }
        Ok(departed)
    }

    /// One step of the server, so a batch is not cut: it must be within the server's limits.
    async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        let effect = match adoption.step {
            Step::Look => Effect::None,
            Step::Begin | Step::Leave | Step::Stay => Effect::Repeatable,
            Step::Jobs(_) | Step::End => Effect::Once,
        };
        let call = Call::new(v1::AdoptRequest::from(&adoption), effect);
        let answer = self.link.ask(call).await?;
        self.link.read(effect, answer.try_into())
    }

    async fn audit(&self) -> Result<Audit> {
        let call = Call::new(v1::AuditRequest {}, Effect::None).time(AUDIT_TIME);
        let answer = self.link.ask(call).await?;
        self.link.read(Effect::None, answer.try_into())
    }

    /// Opens the stream of events when it is first called. Calls of this handle that follow wait until it is open, so that the
    /// watcher hears of them. What a server cannot tell any more is a gap in the sequence.
    fn watch(&self) -> broadcast::Receiver<Notice> {
        let link = &self.link;
        let start = || Stream::start(link.source(), link.closed.subscribe());
        link.stream.get_or_init(start).watch()
    }

    /// How the last call went. Not a call by itself.
    fn health(&self) -> Result<()> {
        self.link.health()
    }

    /// Ends this handle, not the server: leases that wait are hung up, and calls that run may finish.
    async fn close(&self) -> Result<()> {
        self.link.closed.send_replace(true);
        self.link.lines.clear();
        Ok(())
    }
}
