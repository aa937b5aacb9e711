//! Commands about queues.

use auxo_core::engine::Change;
use auxo_core::queue::{QueueConfig, QueueInfo};
use auxo_core::{QueueName, Result, Timestamp};
use auxo_wire::resp::{Pause, QScan, Reply};

use super::session::Session;
use super::show::scanned;
use crate::auth::Caller;
use crate::calls;
use crate::trail::Move;

impl Session {
    async fn look(&self, queue: &QueueName) -> Result<Option<QueueInfo>> {
        let mut queues = self.app.service.queues(Some(vec![queue.clone()])).await?;
        Ok(queues.pop())
    }

    /// How many jobs of a queue can be handed out.
    pub(super) async fn ready(&self, queue: &QueueName) -> Result<u64> {
        let queue = self.look(queue).await?;
        Ok(queue.map_or(0, |queue| queue.counts.ready))
    }

    pub(super) async fn length(&self, queue: QueueName) -> Result<Reply> {
        self.ready(&queue).await.map(count)
    }

    /// Tells about a queue, in the order of Disque.
    pub(super) async fn stat(&self, queue: QueueName) -> Result<Reply> {
        let Some(queue) = self.look(&queue).await? else {
            return Ok(Reply::NullArray);
        };
        let now = self.app.service.now();
        let idle = queue.last_asked.map_or(0, |at| now.since(at).as_secs());
        let waiting = queue.counts.ready + queue.counts.scheduled;
        let fields = [
            ("name", Reply::text(queue.name.as_str())),
            ("len", count(queue.counts.ready)),
            // Nobody keeps when it was made.
            ("age", count(0)),
            ("idle", count(idle)),
            ("blocked", count(queue.waiting)),
            ("import-from", Reply::Array(Vec::new())),
            ("import-rate", count(0)),
            ("jobs-in", count(queue.books.accepted)),
            (
                "jobs-out",
                count(queue.books.accepted.saturating_sub(waiting)),
            ),
            (
                "pause",
                Reply::text(paused(&queue.config, self.app.service.now())),
            ),
        ];
        let pair = |(name, value)| [Reply::text(name), value];
        Ok(Reply::Array(fields.into_iter().flat_map(pair).collect()))
    }

    /// Names all queues, some at a time. Queues do not go away, so a place in the order of their names leaves none out.
    pub(super) async fn scan_queues(&self, scan: QScan) -> Result<Reply> {
        let queues = {
            let _alone = self.app.listing.lock().await;
            self.app.service.reachable_queues().await?.queues
        };
        let fits = |queue: &&QueueInfo| {
            let length = i64::try_from(queue.counts.ready).unwrap_or(i64::MAX);
            scan.minlen.is_none_or(|least| length >= least)
                && scan.maxlen.is_none_or(|most| length <= most)
                && scan.importrate.is_none_or(|rate| rate <= 0)
        };
        let begin = usize::try_from(scan.cursor).unwrap_or(usize::MAX);
        let begin = begin.min(queues.len());
        let end = match scan.all {
            true => queues.len(),
            false => queues.len().min(begin.saturating_add(scan.count as usize)),
        };
        let next = match end == queues.len() {
            true => 0,
            false => end as u64,
        };
        let named = queues[begin..end].iter().filter(fits);
        let named = named.map(|queue| Reply::text(queue.name.as_str()));
        Ok(scanned(next, named.collect()))
    }

    /// Stops or resumes a queue, and answers how it stands.
    pub(super) async fn pause(&self, pause: Pause, by: &Caller) -> Result<Reply> {
        let _alone = self.app.changing.lock().await;
        let queue = self.look(&pause.queue).await?;
        let is_new = queue.is_none();
        let mut config = queue.map(|queue| queue.config).unwrap_or_default();
        let before = (config.paused_in, config.paused_out);
        // A pause that ends by itself, which others can begin, is ended by any of these words, too.
        let changes = |set: &(bool, bool)| *set != before || config.paused_until.is_some();
        if let Some(set) = pause.set.filter(changes) {
            if is_new {
                calls::queues::check_share(&self.app, by, &pause.queue).await?;
            }
            (config.paused_in, config.paused_out) = set;
            config.paused_until = None;
            let call = match set {
                (false, false) => "resume",
                _ => "pause",
            };
            let what = Move::settings(call, &pause.queue, &config);
            let change = Change::Queue(pause.queue, config.clone());
            let change = self.app.service.change(change);
            let trail = &self.app.trail;
            trail.noted(by, what, change, |()| 1).await?;
        }
        Ok(Reply::Status(paused(&config, self.app.service.now())))
    }
}

fn paused(config: &QueueConfig, now: Timestamp) -> &'static str {
    match (config.paused_in, config.holds_back(now)) {
        (true, true) => "all",
        (true, false) => "in",
        (false, true) => "out",
        (false, false) => "none",
    }
}

fn count(count: u64) -> Reply {
    Reply::Number(i64::try_from(count).unwrap_or(i64::MAX))
}
