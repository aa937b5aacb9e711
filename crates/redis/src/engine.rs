//! The engine: each call becomes a script, and those that come together travel together.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use auxo_core::clock::{Clock, SystemClock};
use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::queue::QueueInfo;
use auxo_core::time::Timestamp;
use auxo_core::{Code, Error, NewJob, QueueName, Result};
use futures_util::FutureExt;
use tokio::sync::broadcast;

use crate::checks::{self, Setup};
use crate::desk::{Desk, catch_up};
use crate::gather::Gather;
use crate::keys::Keys;
use crate::link::Link;
use crate::store::{Store, items, number, text, tuple};
use crate::url::{Kind, StoreUrl};
use crate::{audit, auditor, look, push, schedules, script, settle};

/// How long a look into the letter box lasts before the next.
const LETTERS: Duration = Duration::from_secs(10);
/// How long to wait after the letter box could not be read.
const LOST: Duration = Duration::from_millis(200);

/// Into how many shards a new store on a cluster is split, unless its URL says otherwise. More than nodes, so that a node that
/// is added later has something to take over.
const CLUSTER_SHARDS: u16 = 16;

/// How a store is opened, besides what its URL says.
#[derive(Clone, Default)]
pub struct Options {
    /// A clock instead of Redis' own, for tests.
    pub clock: Option<Arc<dyn Clock>>,
}

/// The queue on Redis.
pub struct RedisEngine {
    pub(crate) store: Arc<Store>,
    desks: Vec<Arc<Desk>>,
    pushes: Arc<Gather<NewJob, Result<Pushed>>>,
    settles: Arc<Gather<Settle, Result<Settled>>>,
    setup: Setup,
}

impl RedisEngine {
    /// Opens the store at a URL. It must be used within a tokio runtime. A Redis that does not keep jobs is refused, unless the
    /// URL says `durability=none`.
    pub async fn open(url: &StoreUrl, options: Options) -> Result<RedisEngine> {
        let link = Link::open(url).await?;
        let setup = checks::look(&link, url.durability()).await?;
        let told = options.clock.is_some();
        let clock = options.clock;
        let clock = clock.unwrap_or_else(|| Arc::new(SystemClock::new(Timestamp(0))));
        let wished = url.shards().unwrap_or(match url.kind() {
            Kind::Cluster { .. } => CLUSTER_SHARDS,
            Kind::Single(_) | Kind::Sentinel { .. } => 1,
        });
        let mut store = Store::new(link, Keys::new(url.prefix()), wished, clock, told)?;
        make(&mut store, url.shards()).await?;
        let store = Arc::new(store);
        let desks: Vec<_> = store
            .all()
            .map(|shard| Arc::new(Desk::new(shard)))
            .collect();
        for (shard, desk) in store.all().zip(&desks) {
            tokio::spawn(desk.clone().run(Arc::downgrade(&store)));
            tokio::spawn(letters(Arc::downgrade(&store), Arc::downgrade(desk), shard));
            let weak = Arc::downgrade(desk);
            store.clock.on_move(Arc::new(move || {
                if let Some(desk) = weak.upgrade() {
                    desk.look();
                }
            }));
        }
        // By a clock that is turned by hand nobody can tell when a minute has passed.
        if !store.told {
            let moves = store.link.moves();
            tokio::spawn(auditor::run(Arc::downgrade(&store), moves));
        }
        Ok(RedisEngine {
            store,
            desks,
            pushes: Arc::default(),
            settles: Arc::default(),
            setup,
        })
    }

    /// Looks at all jobs now and puts right what it finds, without waiting for the auditor; says how much that was.
    pub async fn repair(&self) -> Result<u64> {
        auditor::repair(&self.store).await
    }

    /// What this Redis, as it was set up when the store was opened, can lose.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The ask in parts, each for the queues of one shard that stand together.
    fn by_desk(&self, ask: &Ask) -> Vec<Ask> {
        let same = |a: &QueueName, b: &QueueName| self.store.shard_of(a) == self.store.shard_of(b);
        let parts = ask.queues.chunk_by(same);
        let part = |queues: &[QueueName]| Ask {
            queues: queues.to_vec(),
            ..ask.clone()
        };
        parts.map(part).collect()
    }

    fn desk_of(&self, queue: &QueueName) -> &Arc<Desk> {
        &self.desks[usize::from(self.store.shard_of(queue))]
    }
}

/// Makes the store, or finds it: with the number of shards that it was made with, for jobs are found by it.
async fn make(store: &mut Store, said: Option<u16>) -> Result<()> {
    let mut call = store.call(&script::MAKE, 0);
    call.arg(store.shards.to_string()).arg(store.name()?);
    let [made, identity] = tuple(store.run(call).await?)?;
    let made = number(made)? as u16;
    if let Some(said) = said.filter(|said| *said != made) {
        let text = format!(
            "the store has {made} shards, not {said}: leave shards out of its URL, or move the jobs to a new store"
        );
        return Err(Error::new(Code::Conflict, text));
    }
    store.shards = made;
    store.identity = text(identity)?;
    for shard in store.all().skip(1) {
        let mut call = store.call(&script::MAKE, shard);
        call.arg("").arg(store.identity.as_str());
        let [_, was] = tuple(store.run(call).await?)?;
        let was = text(was)?;
        if !was.is_empty() && was != store.identity {
            tracing::warn!(
                "redis: shard {shard} outlived the store that it was of, and is taken over"
            );
        }
    }
    Ok(())
}

impl Drop for RedisEngine {
    fn drop(&mut self) {
        self.store.closed.store(true, Ordering::Release);
        self.desks.iter().for_each(|desk| desk.close());
    }
}

/// Reads what other processes, and our own calls, have to tell a desk.
async fn letters(store: std::sync::Weak<Store>, desk: std::sync::Weak<Desk>, shard: u16) {
    loop {
        let Some(strong) = store.upgrade() else {
            return;
        };
        if strong.open().is_err() {
            return;
        }
        let key = format!("{}{}", strong.keys.part(shard, "SIGNALS"), strong.process);
        let link = strong.link.clone();
        drop(strong);
        let letter = link.pop(&key, LETTERS).await;
        let Some(desk) = desk.upgrade() else { return };
        match letter {
            Ok(Some(name)) => match std::str::from_utf8(&name).ok().map(QueueName::new) {
                Some(Ok(queue)) => desk.tell(queue),
                _ => desk.look(),
            },
            Ok(None) => {}
            // A letter may be lost with the connection.
            Err(_) => {
                tokio::time::sleep(LOST).await;
                desk.look();
            }
        }
    }
}

#[async_trait]
impl Engine for RedisEngine {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        self.store.open()?;
        let store = self.store.clone();
        self.pushes
            .send(jobs, move |jobs| {
                let store = store.clone();
                async move { push::push_all(&store, jobs).await }
            })
            .await
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        self.store.open()?;
        let now = self.store.clock.now().wall;
        for queue in &ask.queues {
            self.desk_of(queue).name(queue, now);
        }
        let parts = self.by_desk(&ask);
        if let [_] = parts.as_slice() {
            return self.desk_of(&ask.queues[0]).lease(&self.store, ask).await;
        }
        // Each shard has its own desk. First they are asked in the order of the queues. One that is away does not keep the
        // others from giving; only of nothing it must be said whether that is all that is known.
        let mut away = None;
        for part in &parts {
            let now = Ask {
                wait: Duration::ZERO,
                ..part.clone()
            };
            match self.desk_of(&part.queues[0]).lease(&self.store, now).await {
                Ok(leased) if leased.is_empty() => {}
                Ok(leased) => return Ok(leased),
                Err(error) => away = Some(error),
            }
        }
        if ask.wait.is_zero() {
            return away.map_or_else(|| Ok(Vec::new()), Err);
        }
        // Then the call waits at all of them. What the others were about to give when one does goes back.
        let waits = parts.into_iter().map(|part| {
            let desk = self.desk_of(&part.queues[0]).clone();
            async move { desk.lease(&self.store, part).await }.boxed()
        });
        let mut waits: Vec<_> = waits.collect();
        let mut away = None;
        while !waits.is_empty() {
            let (answer, _, rest) = futures_util::future::select_all(waits).await;
            match answer {
                Ok(leased) if leased.is_empty() => {}
                Ok(leased) => return Ok(leased),
                Err(error) => away = Some(error),
            }
            waits = rest;
        }
        away.map_or_else(|| Ok(Vec::new()), Err)
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.store.open()?;
        let store = self.store.clone();
        self.settles
            .send(items, move |items| {
                let store = store.clone();
                async move { settle::settle(&store, items).await }
            })
            .await
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        settle::extend(&self.store, items).await
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        look::find(&self.store, which).await
    }

    async fn list(&self, query: Query) -> Result<Page> {
        look::list(&self.store, &query).await
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        look::steer(&self.store, order).await
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        let mut infos = look::queues(&self.store, names).await?;
        for info in &mut infos {
            let desk = self.desk_of(&info.name);
            info.waiting = desk.waiting(&info.name);
            info.last_asked = desk.asked(&info.name);
        }
        Ok(infos)
    }

    async fn change(&self, change: Change) -> Result<()> {
        let Change::Queue(queue, config) = change else {
            return schedules::change(&self.store, change).await;
        };
        let shard = self.store.shard_of(&queue);
        catch_up(&self.store, shard).await?;
        let mut call = self.store.call(&script::CONFIGURE, shard);
        call.arg(queue.as_str()).arg(look::pack_config(&config));
        if number(self.store.run(call).await?)? == 0 {
            return Ok(());
        }
        let mut from = vec![Vec::new(); 3];
        loop {
            let mut call = self.store.call(&script::REGROUP, shard);
            call.arg(queue.as_str());
            for part in from {
                call.arg(part);
            }
            let next = items(self.store.run(call).await?)?;
            if next.is_empty() {
                return Ok(());
            }
            let part = |part| crate::store::bytes(part).map(|part| part.to_vec());
            from = next.into_iter().map(part).collect::<Result<_>>()?;
        }
    }

    async fn catalog(&self) -> Result<Catalog> {
        schedules::catalog(&self.store).await
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        schedules::publish(&self.store, message).await
    }

    async fn audit(&self) -> Result<Audit> {
        audit::audit(&self.store).await
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.store.notices.watch(&self.store)
    }

    fn health(&self) -> Result<()> {
        self.store.open()?;
        self.desks.iter().try_for_each(|desk| desk.health())
    }

    fn repaired(&self) -> u64 {
        self.store.repaired.load(Ordering::Relaxed)
    }

    async fn close(&self) -> Result<()> {
        let leaving = self.desks.iter().map(|desk| desk.leave(&self.store));
        futures_util::future::join_all(leaving).await;
        self.store.closed.store(true, Ordering::Release);
        Ok(())
    }
}
