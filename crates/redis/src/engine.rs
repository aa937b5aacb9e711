//! The engine: each call becomes a script, and those that come together travel together.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use auxo_core::clock::{Clock, SystemClock};
use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages};
use auxo_core::queue::{Books, QueueInfo};
use auxo_core::time::Timestamp;
use auxo_core::{Code, Error, NewJob, QueueName, Result};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{broadcast, watch};

use crate::asked::Asked;
use crate::checks::{self, Setup};
use crate::desk::{Desk, catch_up};
use crate::forget;
use crate::gather::Gather;
use crate::keys::Keys;
use crate::link::Link;
use crate::partial::is_away;
use crate::settings::Settings;
use crate::store::{Store, number};
use crate::url::{Kind, StoreUrl};
use crate::{
    adopt, audit, auditor, lend, look, make, partial, push, rest, schedules, script, settle, spread,
};

/// How long to wait after the letter box could not be read.
const LOST: Duration = Duration::from_millis(200);

/// How soon a shard that is there answers. Of several, the next are asked, too, when one takes longer.
const SOON: Duration = Duration::from_millis(100);
/// How long a shard that does not answer soon is waited for once another one did not.
const SOONER: Duration = Duration::from_millis(5);
/// How long shards that are not known to be away are waited for when a wait is over.
const LAST_CALL: Duration = Duration::from_secs(1);

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
    asked: Asked,
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
        let keys = Keys::new(url.prefix());
        match checks::commands(&link, &keys).await {
            // The shard that was asked may be away while others are not.
            Err(error) if is_away(&error) => {}
            checked => checked?,
        }
        let mut store = Store::new(link, keys, wished, clock, told)?;
        let away = make::make(&mut store, url.shards()).await?;
        let store = Arc::new(store);
        let desks: Vec<_> = store
            .all()
            .map(|shard| Arc::new(Desk::new(shard)))
            .collect();
        let _ = store.desks.set(desks.iter().map(Arc::downgrade).collect());
        for (shard, error) in away {
            desks[usize::from(shard)].begin_away(error);
        }
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
            asked: Asked::default(),
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

    /// The ask in parts, each for the queues of one shard that stand together; who wants the most urgent has those of a shard in one
    /// part, wherever they stand. Those of a queue that is spread begin with another of its shards each time.
    fn by_shard(&self, ask: &Ask) -> Vec<(u16, Ask)> {
        let turn = self.store.turns.fetch_add(1, Ordering::Relaxed);
        let mut parts: Vec<(u16, Ask)> = Vec::new();
        for queue in &ask.queues {
            let mut shards = self.store.reach(queue);
            let first = turn % shards.len();
            shards.rotate_left(first);
            for shard in shards {
                let open = match ask.pick {
                    Pick::First => parts.last_mut().filter(|(last, _)| *last == shard),
                    Pick::MostUrgent => parts.iter_mut().find(|(other, _)| *other == shard),
                };
                match open {
                    Some((_, part)) => part.queues.push(queue.clone()),
                    None => {
                        let part = Ask {
                            queues: vec![queue.clone()],
                            ..ask.clone()
                        };
                        parts.push((shard, part));
                    }
                }
            }
        }
        parts
    }

    /// Asks, and waits at the desks of all queues until one gives, or until it is known that a queue is elsewhere: then there is no
    /// answer.
    async fn lease_where_known(&self, ask: &Ask) -> Result<Option<Vec<Leased>>> {
        let mut news = self.store.spreads.news();
        let parts = self.by_shard(ask);
        let shards: Vec<u16> = parts.iter().map(|(shard, _)| *shard).collect();
        if let [shard] = shards.as_slice() {
            let desk = &self.desks[usize::from(*shard)];
            let leased = tokio::select! {
                biased;
                leased = desk.lease(&self.store, ask.clone(), false) => leased?,
                () = self.elsewhere(&mut news, ask, &shards) => return Ok(None),
            };
            // To have asked may have shown that there is more to ask.
            let more = leased.is_empty() && self.is_elsewhere(ask, &shards);
            return Ok((!more).then_some(leased));
        }
        let until = self.store.clock.now().steady.plus(ask.wait);
        // Each shard has its own desk. First they are asked in the order of the queues. One that is away does not keep the
        // others from giving; only of nothing it must be said whether that is all that is known.
        let (leased, away) = self.fill(&parts, Vec::new(), !ask.wait.is_zero()).await;
        if !leased.is_empty() {
            return Ok(Some(leased));
        }
        if ask.wait.is_zero() {
            if self.is_elsewhere(ask, &shards) {
                return Ok(None);
            }
            return away.map_or_else(|| Ok(Some(Vec::new())), Err);
        }
        // Then the call waits at all of them. What the others were about to give when one does goes back.
        let wait = until.since(self.store.clock.now().steady);
        let waits = parts.iter().map(|(shard, part)| {
            let desk = self.desks[usize::from(*shard)].clone();
            let part = Ask {
                wait,
                ..part.clone()
            };
            async move { desk.lease(&self.store, part, false).await }.boxed()
        });
        let mut waits: Vec<_> = waits.collect();
        let mut away = None;
        let mut over = std::pin::pin!(self.after(wait + SOON));
        let mut last_call = false;
        while !waits.is_empty() {
            let (answer, at) = tokio::select! {
                biased;
                (answer, at, _) = futures_util::future::select_all(waits.iter_mut()) => (answer, at),
                () = self.elsewhere(&mut news, ask, &shards) => return Ok(None),
                // A shard that is away is not waited for any longer than the others.
                () = &mut over => {
                    let known = shards.iter().find_map(|shard| self.trouble(*shard));
                    away = away.or(known);
                    if away.is_none() && !last_call {
                        last_call = true;
                        over.set(self.after(LAST_CALL));
                        continue;
                    }
                    away = away.or_else(|| Some(unheard()));
                    break;
                }
            };
            drop(waits.swap_remove(at));
            match answer {
                Ok(leased) if leased.is_empty() => {}
                Ok(leased) => {
                    drop(waits);
                    return Ok(Some(self.fill(&parts, leased, true).await.0));
                }
                Err(error) => away = Some(error),
            }
        }
        away.map_or_else(|| Ok(Some(Vec::new())), Err)
    }

    /// Waits so long.
    async fn after(&self, wait: Duration) {
        match self.store.clock.real_wait(wait) {
            Some(wait) => tokio::time::sleep(wait).await,
            // A clock that is turned by hand ends the waits by itself.
            None => std::future::pending().await,
        }
    }

    /// Why a shard could not be asked the last time, if so. Its desk tries again by itself.
    fn trouble(&self, shard: u16) -> Option<Error> {
        let desk = &self.desks[usize::from(shard)];
        desk.health().err().filter(|_| !self.store.told)
    }

    /// Asks in one shard after the other for what is left to ask for, and does not wait. Once a queue has given some, its other
    /// shards are asked for more, but no other queue; and not for the most urgent of several queues, for which more than the
    /// others' next jobs would have to be known. Also says why one could not be asked. One that is known to be away is not
    /// asked, and while one does not answer soon, the next are asked, too.
    async fn fill(
        &self,
        parts: &[(u16, Ask)],
        mut leased: Vec<Leased>,
        at_hand: bool,
    ) -> (Vec<Leased>, Option<Error>) {
        let (mut away, mut soon) = (None, SOON);
        let mut slow = FuturesUnordered::new();
        for (shard, part) in parts {
            if part.pick == Pick::MostUrgent && !leased.is_empty() {
                break;
            }
            let mut now = Ask {
                wait: Duration::ZERO,
                ..part.clone()
            };
            if let Some(first) = leased.first() {
                now.queues.retain(|queue| *queue == first.job.queue);
                now.max = part.max.saturating_sub(leased.len() as u32);
            }
            if now.queues.is_empty() || now.max == 0 {
                continue;
            }
            if let Some(trouble) = self.trouble(*shard) {
                away = Some(trouble);
                continue;
            }
            let desk = &self.desks[usize::from(*shard)];
            let mut asked = desk.lease(&self.store, now, at_hand).boxed();
            let answer = tokio::select! {
                biased;
                answer = &mut asked => answer,
                Some(answer) = slow.next(), if leased.is_empty() => {
                    slow.push(asked);
                    answer
                }
                () = self.after(soon) => {
                    slow.push(asked);
                    soon = SOONER;
                    continue;
                }
            };
            match answer {
                Ok(more) => leased.extend(more),
                Err(error) => away = Some(error),
            }
        }
        // What is at hand is answered; who waits goes on to wait for the others, too.
        while leased.is_empty() && !at_hand {
            match slow.next().await {
                Some(Ok(more)) => leased.extend(more),
                Some(Err(error)) => away = Some(error),
                None => break,
            }
        }
        // Stable: what a shard lent stays in the order in which it was lent.
        leased.sort_by_key(|leased| leased.job.priority);
        (leased, away)
    }

    /// How many leases were over when Redis answered, since the engine was opened. No worker got them.
    pub fn late_leases(&self) -> u64 {
        self.store.late.load(Ordering::Relaxed)
    }

    /// Waits until it is known that a queue is in more or other shards than these.
    async fn elsewhere(&self, news: &mut watch::Receiver<u64>, ask: &Ask, shards: &[u16]) {
        while !self.is_elsewhere(ask, shards) {
            if news.changed().await.is_err() {
                // As long as there is an engine there is somebody to learn.
                std::future::pending::<()>().await;
            }
        }
    }

    fn is_elsewhere(&self, ask: &Ask, shards: &[u16]) -> bool {
        let mut all = ask.queues.iter().flat_map(|queue| self.store.reach(queue));
        !all.all(|shard| shards.contains(&shard))
    }

    /// Adds what is known of the callers of this process.
    fn add_own(&self, infos: &mut [QueueInfo]) {
        for info in infos {
            let desk = self.desk_of(&info.name);
            // Of the others is only known which processes wait, each for one or more.
            info.waiting += desk.waiting(&info.name);
            info.last_asked = info.last_asked.max(desk.asked(&info.name));
        }
    }

    fn desk_of(&self, queue: &QueueName) -> &Arc<Desk> {
        &self.desks[usize::from(self.store.shard_of(queue))]
    }
}

impl Drop for RedisEngine {
    fn drop(&mut self) {
        self.store.closed.store(true, Ordering::Release);
        self.desks.iter().for_each(|desk| desk.close());
    }
}

/// A part of the store did not answer a call that waits.
fn unheard() -> Error {
    let why = "not all shards of redis answered in time; those that did had no job";
    Error::new(Code::Unavailable, why)
}

/// Reads what other processes, and our own calls, have to tell a desk.
async fn letters(store: Weak<Store>, desk: Weak<Desk>, shard: u16) {
    loop {
        let Some(strong) = store.upgrade() else {
            return;
        };
        if strong.open().is_err() {
            return;
        }
        let key = format!("{}{}", strong.keys.part(shard, "SIGNALS"), strong.process);
        let (link, wait) = (strong.link.clone(), rest::listen(strong.shards));
        drop(strong);
        let moved = || {
            // What the old server knew of who waits may be lost.
            if let Some(desk) = desk.upgrade() {
                desk.look();
            }
        };
        let letter = link.pop(&key, wait, moved).await;
        let (Some(desk), Some(store)) = (desk.upgrade(), store.upgrade()) else {
            return;
        };
        match letter {
            Ok(Some(name)) => match std::str::from_utf8(&name).ok().map(QueueName::new) {
                Some(Ok(queue)) => {
                    let spread = store.spreads.of(&queue);
                    // A lease that ended here may make room for a job that is due elsewhere.
                    let others = if spread.limited { spread.reach - 1 } else { 0 };
                    desk.tell(queue, others);
                }
                _ => desk.look(),
            },
            Ok(None) => {}
            // A letter may be lost with the connection.
            Err(_) => {
                drop(store);
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

    async fn lease(&self, mut ask: Ask) -> Result<Vec<Leased>> {
        self.store.open()?;
        if ask.queues.len() == 1 {
            // That is the same, and those who ask for the same are served together.
            ask.pick = Pick::First;
        }
        if let Some(named) = ask.job {
            return lend::lend(&self.store, &self.desks, named, ask).await;
        }
        let now = self.store.clock.now().wall;
        for queue in &ask.queues {
            self.desk_of(queue).name(queue, now);
        }
        self.asked.tell(&self.store, &ask.queues);
        if let [desk] = self.desks.as_slice() {
            return desk.lease(&self.store, ask, false).await;
        }
        let until = self.store.clock.now().steady.plus(ask.wait);
        loop {
            if let Some(leased) = self.lease_where_known(&ask).await? {
                return Ok(leased);
            }
            ask.wait = until.since(self.store.clock.now().steady);
        }
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
        self.add_own(&mut infos);
        Ok(infos)
    }

    async fn reachable_queues(&self) -> Result<QueueList> {
        let mut list = partial::queues(&self.store).await?;
        self.add_own(&mut list.queues);
        Ok(list)
    }

    async fn change(&self, change: Change) -> Result<()> {
        let Change::Queue(queue, config) = change else {
            return schedules::change(&self.store, change).await;
        };
        spread::allow(&self.store, &queue, &config)?;
        let shard = self.store.shard_of(&queue);
        let now = catch_up(&self.store, shard).await?;
        let config = config.kept_from(now);
        if config.shards.is_some_and(|shards| shards > 1) {
            return spread::change(&self.store, &queue, &config).await;
        }
        let settings = Settings {
            config: config.clone(),
            ..Settings::default()
        };
        loop {
            let mut call = self.store.call(&script::CONFIGURE, shard);
            call.arg(queue.as_str()).arg(settings.pack());
            return match number(self.store.run(call).await?)? {
                0 => Ok(()),
                3 => spread::change(&self.store, &queue, &config).await,
                4 if forget::make_room(&self.store, shard, 1).await? > 0 => continue,
                4 => Err(forget::too_many()),
                _ => spread::regroup(&self.store, shard, &queue).await,
            };
        }
    }

    async fn forgotten(&self) -> Result<Books> {
        forget::books(&self.store).await
    }

    async fn catalog(&self) -> Result<Catalog> {
        schedules::catalog(&self.store).await
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        schedules::publish(&self.store, message).await
    }

    async fn passages(&self, departure: Departure) -> Result<Passages> {
        adopt::passages(&self.store, &departure).await
    }

    async fn depart(&self, queue: QueueName, jobs: Vec<Leaving>) -> Result<Vec<Result<()>>> {
        adopt::depart(&self.store, &queue, jobs).await
    }

    async fn adopt(&self, adoption: Adoption) -> Result<Adopted> {
        adopt::adopt(&self.store, adoption).await
    }

    async fn audit(&self) -> Result<Audit> {
        audit::audit(&self.store).await
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.store.notices.watch(&self.store)
    }

    fn health(&self) -> Result<()> {
        partial::health(&self.store, &self.desks)
    }

    fn outages(&self) -> Vec<Outage> {
        partial::outages(&self.store, &self.desks)
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
