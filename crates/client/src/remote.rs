//! A server as an engine: every call of the contract over HTTP.

pub(crate) mod access;
pub(crate) mod address;
pub(crate) mod batch;
pub(crate) mod events;
pub(crate) mod link;
pub(crate) mod pool;
pub(crate) mod settings;
mod socket;
pub(crate) mod take;
pub(crate) mod tls;

use std::collections::BTreeMap;
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
use auxo_core::json::{parse, passage, write};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages, Step};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::{Code, Engine, Error, Job, NewJob, QueueName, Result};
use bytes::Bytes;
use hyper::Method;
use tokio::sync::broadcast;

use self::address::{Address, encoded};
use self::batch::{MOST_ITEMS, Piece};
use self::events::Stream;
use self::link::{Call, Effect, Link};
pub(crate) use self::settings::{Settings, Token};

/// An audit reads every stored job.
const AUDIT_TIME: Duration = Duration::from_secs(60 * 60);

/// A server, reached over HTTP. It must be used within a tokio runtime.
///
/// Connections are kept and used again. What is safe to send twice is tried again when the server does not answer; all else
/// says `unknown_outcome` once it has been sent. A batch goes in as many requests as its queues and the limits of a server
/// need, so a push to several queues keeps its order within each of them.
pub struct Remote {
    link: Arc<Link>,
}

impl Remote {
    /// A client of the server at this URL, with the default settings. Nothing is sent before the first call.
    pub fn new(url: &str) -> Result<Remote> {
        Remote::with_settings(url, Settings::default())
    }

    pub(crate) fn with_settings(url: &str, settings: Settings) -> Result<Remote> {
        let link = Link::new(Address::parse(url)?, settings)?;
        Ok(Remote {
            link: Arc::new(link),
        })
    }

    async fn get<T>(&self, path: String, read: impl FnOnce(&[u8]) -> Result<T>) -> Result<T> {
        let call = Call::new(Method::GET, path, Effect::None);
        self.link.ask(call, read).await
    }

    /// Each of these queues by itself: a part of the store is away, and a queue that is not shown may be there.
    async fn each_queue(&self, names: &[QueueName]) -> Result<Vec<QueueInfo>> {
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            found.extend(self.look(queue_path(name), parse::queue).await?);
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.dedup_by(|a, b| a.name == b.name);
        Ok(found)
    }

    /// Looks for one thing that may not be there.
    async fn look<T>(
        &self,
        path: String,
        read: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<Option<T>> {
        match self.get(path, read).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code() == Code::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Changes something, where the answer says nothing more.
    async fn put(&self, method: Method, path: String, body: Bytes) -> Result<()> {
        let call = Call::new(method, path, Effect::Once).body(body);
        self.link.call(call).await.map(drop)
    }

    async fn order(&self, order: &Order) -> Result<Steered> {
        let effect = match order.mode {
            Mode::Act => Effect::Once,
            Mode::DryRun => Effect::None,
        };
        let call = Call::new(Method::POST, "/v1/jobs:bulk", effect);
        let call = call.body(write::body(&write::order(order)));
        self.link.ask(call, parse::steered).await
    }

    /// Whether a push of this job may be sent twice: its key must outlive every try.
    fn repeatable(&self, job: &NewJob) -> bool {
        let key = job.spec.key.as_ref();
        key.is_some_and(|key| key.window >= self.link.settings.answer_time)
    }
}

fn path(which: &Which) -> String {
    match which {
        Which::Id(id) => format!("/v1/jobs/{id}"),
        Which::Key(queue, key) => {
            let (queue, key) = (encoded(queue.as_str()), encoded(key));
            format!("/v1/queues/{queue}/keys/{key}")
        }
    }
}

fn queue_path(name: &QueueName) -> String {
    format!("/v1/queues/{}", encoded(name.as_str()))
}

#[async_trait]
impl Engine for Remote {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        let mut queues: BTreeMap<&QueueName, Vec<usize>> = BTreeMap::new();
        for (place, job) in jobs.iter().enumerate() {
            queues.entry(&job.queue).or_default().push(place);
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for (queue, places) in queues {
            let path = format!("{}/jobs", queue_path(queue));
            let of = |place: &usize| write::push(&jobs[*place].spec);
            let items = write::bodies(places.iter().map(of));
            for mut piece in self.link.pieces(&path, &items, Effect::Once) {
                for place in &mut piece.places {
                    *place = places[*place];
                }
                if piece
                    .places
                    .iter()
                    .all(|place| self.repeatable(&jobs[*place]))
                {
                    piece.effect = Effect::Repeatable;
                }
                pieces.push(piece);
            }
        }
        self.link.batch(pieces, jobs.len(), parse::pushed).await
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        take::take(&self.link, ask).await
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        let bodies = write::bodies(items.iter().map(write::settle));
        let pieces = self.link.pieces("/v1/settle", &bodies, Effect::Once);
        self.link.batch(pieces, items.len(), parse::settled).await
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        let bodies = write::bodies(items.iter().map(write::extend));
        // The same extension again only extends again.
        let pieces = self.link.pieces("/v1/extend", &bodies, Effect::Repeatable);
        self.link.batch(pieces, items.len(), parse::extended).await
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.look(path(&which), parse::job).await
    }

    async fn list(&self, query: Query) -> Result<Page> {
        // In a URL it would not be there, and the list would begin anew.
        if query.cursor.as_ref().is_some_and(|at| at.0.is_empty()) {
            let message = "cursor: this is not one that a listing gave out";
            return Err(Error::bad_request(message));
        }
        let pairs = write::query_pairs(&query).into_iter();
        let pairs = pairs.map(|(name, value)| format!("{}={}", encoded(&name), encoded(&value)));
        let path = format!("/v1/jobs?{}", pairs.collect::<Vec<_>>().join("&"));
        let mut page = self.get(path, parse::page).await?;
        // A URL cannot ask for an empty text, so what it stands for is chosen here.
        page.jobs.retain(|job| query.filter.matches(job));
        Ok(page)
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
        match names.as_deref() {
            Some([]) => Ok(Vec::new()),
            Some([name]) => {
                let found = self.look(queue_path(name), parse::queue).await?;
                Ok(found.into_iter().collect())
            }
            None => self.reachable_queues().await?.into_all(),
            Some(names) => {
                let mut all = self.reachable_queues().await?;
                if !all.unavailable.is_empty() {
                    return self.each_queue(names).await;
                }
                all.queues.retain(|queue| names.contains(&queue.name));
                Ok(all.queues)
            }
        }
    }

    async fn reachable_queues(&self) -> Result<QueueList> {
        self.get("/v1/queues".to_owned(), parse::queues).await
    }

    async fn forgotten(&self) -> Result<Books> {
        self.get("/v1/queues".to_owned(), parse::forgotten).await
    }

    async fn change(&self, change: Change) -> Result<()> {
        match change {
            Change::Queue(name, config) => {
                let body = write::body(&write::queue_config(&config));
                self.put(Method::PUT, queue_path(&name), body).await
            }
            Change::Subscribe(subscription) => {
                let path = subscription_path(&subscription.topic, &subscription.name);
                let body = write::body(&write::subscription(&subscription));
                self.put(Method::PUT, path, body).await
            }
            Change::Unsubscribe(topic, name) => {
                let path = subscription_path(&topic, &name);
                self.put(Method::DELETE, path, Bytes::new()).await
            }
            Change::Schedule(schedule) => {
                let body = write::body(&write::schedule(&schedule));
                self.put(Method::PUT, schedule_path(&schedule.name), body)
                    .await
            }
            Change::Arm(schedule) => {
                let body = write::body(&write::armed(&schedule));
                self.put(Method::PUT, schedule_path(&schedule.name), body)
                    .await
            }
            Change::Unschedule(name) => {
                self.put(Method::DELETE, schedule_path(&name), Bytes::new())
                    .await
            }
            Change::Disarm(name, last) => {
                let last = last.map_or("never".to_owned(), |at| at.to_string());
                let path = format!("{}?last={}", schedule_path(&name), encoded(&last));
                self.put(Method::DELETE, path, Bytes::new()).await
            }
        }
    }

    async fn catalog(&self) -> Result<Catalog> {
        Ok(Catalog {
            subscriptions: self
                .get("/v1/topics".to_owned(), parse::subscriptions)
                .await?,
            schedules: self
                .get("/v1/schedules".to_owned(), parse::schedules)
                .await?,
        })
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        let path = format!("/v1/topics/{}/messages", encoded(&message.topic));
        // Several queues get it; with a key in one of them alone a second try would not be harmless.
        let call = Call::new(Method::POST, path, Effect::Once);
        let call = call.body(write::body(&write::message(&message)));
        self.link.ask(call, parse::published).await
    }

    async fn explain(&self, which: &Which) -> Result<Option<Explanation>> {
        let path = format!("{}/explain", path(which));
        self.look(path, parse::explanation).await
    }

    async fn passages(&self, departure: Departure) -> Result<Passages> {
        let Departure {
            queue,
            cursor,
            limit,
        } = departure;
        let mut path = format!("{}/passages?limit={limit}", queue_path(&queue));
        if let Some(cursor) = cursor {
            path += &format!("&cursor={}", encoded(&cursor.0));
        }
        self.get(path, passage::parse_passages).await
    }

    async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        let path = format!("{}/depart", queue_path(&queue));
        let mut departed = Vec::with_capacity(jobs.len());
        for jobs in jobs.chunks(MOST_ITEMS) {
            // What has left is not there the second time, and that is told.
            let call = Call::new(Method::POST, path.clone(), Effect::Once);
            let call = call.body(write::body(&passage::write_leaving(jobs)));
            departed.extend(self.link.ask(call, passage::parse_departed).await?);
        }
        Ok(departed)
    }

    /// One step of the server, so a batch is not cut: it must be within the server's limits.
    async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        let path = format!("{}/adopt", queue_path(&adoption.queue));
        let effect = match adoption.step {
            Step::Look => Effect::None,
            Step::Begin | Step::Leave | Step::Stay => Effect::Repeatable,
            Step::Jobs(_) | Step::End => Effect::Once,
        };
        let call = Call::new(Method::POST, path, effect);
        let call = call.body(write::body(&passage::write_adoption(&adoption)));
        self.link.ask(call, passage::parse_adopted).await
    }

    async fn audit(&self) -> Result<Audit> {
        let call = Call::new(Method::POST, "/v1/audit", Effect::None).time(AUDIT_TIME);
        self.link.ask(call, parse::audit).await
    }

    /// Opens the stream of events when it is first called. Calls of this handle that follow wait until it is open, so that the
    /// watcher hears of them. What a server cannot tell any more is a gap in the sequence.
    fn watch(&self) -> broadcast::Receiver<Notice> {
        let link = &self.link;
        let stream = link.stream.get_or_init(|| {
            let closed = link.closed.subscribe();
            let (address, access) = (link.address.clone(), link.access.clone());
            Stream::start(address, access, link.settings.connect_time, closed)
        });
        stream.watch()
    }

    /// How the last call went. Not a call by itself.
    fn health(&self) -> Result<()> {
        self.link.health()
    }

    /// Ends this handle, not the server: leases that wait are hung up, and calls that run may finish.
    async fn close(&self) -> Result<()> {
        self.link.closed.send_replace(true);
        self.link.pool.clear();
        Ok(())
    }
}

fn subscription_path(topic: &str, name: &str) -> String {
    format!(
        "/v1/topics/{}/subscriptions/{}",
        encoded(topic),
        encoded(name)
    )
}

fn schedule_path(name: &str) -> String {
    format!("/v1/schedules/{}", encoded(name))
}
