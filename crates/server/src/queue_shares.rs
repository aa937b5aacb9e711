//! How many queues one token may make.
//!
//! A store keeps a limited number of queues. A push makes the queue that it names, and so do settings, so without a share a token
//! for `a.*` could use up all names, and no other client could make a queue. The server remembers the queues that each token with
//! rights in some queues has pushed to or made by settings. When a token has its share of them, its pushes to queues that do not
//! exist are refused, and so are settings and schedules of them; existing queues can be used. Queues that are gone leave the share.
//!
//! Each server counts for itself, in memory, from its start. A call whose right the token has everywhere is not counted: such a
//! token is trusted with all queues.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use auxo_core::queue::MAX_QUEUES;
use auxo_core::{Code, Error, NewJob, QueueName, Result, Service, Timestamp};

use crate::auth::Identity;

/// How often the queues that still exist are read at most. What was counted less long ago may be on its way to the store.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// The queues that each token used.
#[derive(Debug)]
pub struct QueueShares {
    /// How many queues a token may have.
    share: usize,
    hasher: RandomState,
    /// By the id of the token, hashes of queue names and when each was counted.
    used: Mutex<HashMap<Box<str>, HashMap<u64, Timestamp>>>,
    /// Held while the queues that still exist are read. When that was done last.
    pruned_at: tokio::sync::Mutex<Option<Timestamp>>,
}

impl QueueShares {
    /// A share of so many queues for each token.
    pub fn new(share: usize) -> QueueShares {
        QueueShares {
            share,
            hasher: RandomState::new(),
            used: Mutex::default(),
            pruned_at: tokio::sync::Mutex::default(),
        }
    }

    /// Refuses the jobs that would make a queue beyond the token's share. If the store cannot say which queues exist, only jobs for
    /// queues beyond the share are refused.
    pub async fn check(&self, service: &Service, identity: &Identity, jobs: &mut [Result<NewJob>]) {
        let Some(token) = identity.id() else {
            return;
        };
        let over = self.count(token, queues_of(jobs), service.now());
        if over.is_empty() {
            return;
        }
        let (over, failure) = match self.refused(service, token, &over).await {
            Ok(refused) => (refused, None),
            Err(error) => (over, Some(error)),
        };
        for job in jobs {
            if let Some(queue) = (job.as_ref().ok())
                .map(|job| &job.queue)
                .filter(|queue| over.contains(*queue))
            {
                let refusal = || self.refusal(identity, queue);
                *job = Err(failure.clone().unwrap_or_else(refusal));
            }
        }
    }

    /// Refuses a call that would make this queue beyond the token's share.
    pub async fn check_queue(
        &self,
        service: &Service,
        identity: &Identity,
        queue: &QueueName,
    ) -> Result<()> {
        let Some(token) = identity.id() else {
            return Ok(());
        };
        let over = self.count(token, std::iter::once(queue), service.now());
        if over.is_empty() || self.refused(service, token, &over).await?.is_empty() {
            return Ok(());
        }
        Err(self.refusal(identity, queue))
    }

    /// Those of the queues beyond a token's share that do not exist, and for which there is still no room when queues that are
    /// gone have left it.
    async fn refused(
        &self,
        service: &Service,
        token: &str,
        over: &HashSet<QueueName>,
    ) -> Result<HashSet<QueueName>> {
        let existing = service.queues(Some(over.iter().cloned().collect())).await?;
        let existing: HashSet<QueueName> = existing.into_iter().map(|info| info.name).collect();
        let new = || over.iter().filter(|queue| !existing.contains(*queue));
        if new().next().is_none() {
            return Ok(HashSet::new());
        }
        self.prune(service).await?;
        Ok(self.count(token, new(), service.now()))
    }

    /// Counts queues that a token uses, and answers with those for which its share has no room.
    fn count<'a>(
        &self,
        token: &str,
        queues: impl Iterator<Item = &'a QueueName>,
        now: Timestamp,
    ) -> HashSet<QueueName> {
        let mut used = self.lock();
        if !used.contains_key(token) {
            used.insert(token.into(), HashMap::new());
        }
        let own = used.get_mut(token).expect("it was just made");
        let mut over = HashSet::new();
        for queue in queues {
            let hash = self.hasher.hash_one(queue.as_str());
            if own.contains_key(&hash) {
                continue;
            }
            if own.len() < self.share {
                own.insert(hash, now);
            } else {
                over.insert(queue.clone());
            }
        }
        over
    }

    /// Forgets queues that no longer exist, unless that was done a moment ago.
    async fn prune(&self, service: &Service) -> Result<()> {
        // Another call is doing it.
        let Ok(mut pruned_at) = self.pruned_at.try_lock() else {
            return Ok(());
        };
        let now = service.now();
        // After the clock was set back, nobody knows how long ago it was.
        let is_recent = |at: Timestamp| now >= at && now.since(at) < PRUNE_INTERVAL;
        if pruned_at.is_some_and(is_recent) {
            return Ok(());
        }
        let queues = service.reachable_queues().await?.queues;
        // The next tick of a schedule makes its queue.
        let schedules = service.catalog().await?.schedules;
        let names = queues.iter().map(|info| &info.name);
        let names = names.chain(schedules.iter().map(|schedule| &schedule.queue));
        let existing = names.map(|name| self.hasher.hash_one(name.as_str()));
        let existing: HashSet<u64> = existing.collect();
        self.lock().retain(|_, own| {
            own.retain(|queue, counted| existing.contains(queue) || is_recent(*counted));
            !own.is_empty()
        });
        *pruned_at = Some(now);
        Ok(())
    }

    fn refusal(&self, identity: &Identity, queue: &QueueName) -> Error {
        let (name, share) = (identity.name(), self.share);
        let message = format!(
            "queue {queue} does not exist, and the token {name} has its share of {share} queues, of the {MAX_QUEUES} that a store \
             keeps: use a queue that exists, or try again when unused queues are forgotten, an hour after their last use"
        );
        Error::new(Code::TooLarge, message)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, HashMap<u64, Timestamp>>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The queues of a batch. Most batches have one: a queue that is named again and again is named once.
fn queues_of(jobs: &[Result<NewJob>]) -> impl Iterator<Item = &QueueName> {
    let queues = jobs.iter().flatten().map(|job| &job.queue);
    let mut last = None;
    queues.filter(move |queue| last.replace(*queue) != Some(*queue))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use auxo_core::{Engine, JobSpec, Limits, ManualClock};
    use auxo_embedded::disk::SimDisk;
    use auxo_embedded::{Embedded, Options};

    use super::*;
    use crate::auth::{Token, Tokens};

    struct Bench {
        shares: QueueShares,
        engine: Arc<Embedded>,
        service: Service,
        clock: Arc<ManualClock>,
        identity: Arc<Identity>,
    }

    fn bench(share: usize) -> Bench {
        let clock = ManualClock::at(1_700_000_000_000);
        let options = Options {
            clock: Some(clock.clone()),
            ..Options::default()
        };
        let engine = Arc::new(Embedded::on(Arc::new(SimDisk::new()), options).unwrap());
        let allow = vec!["push:a.*".parse().unwrap()];
        let (token, secret) = Token::new("t", allow, Timestamp(0), None).unwrap();
        let identity = Tokens::default()
            .with(token)
            .find(secret.reveal(), Timestamp(1));
        Bench {
            shares: QueueShares::new(share),
            service: Service::with_clock(engine.clone(), Limits::default(), clock.clone()),
            engine,
            clock,
            identity: identity.unwrap(),
        }
    }

    impl Bench {
        async fn check(&self, queues: &[&str]) -> Vec<Option<Code>> {
            let job = |name: &&str| {
                Ok(NewJob {
                    queue: QueueName::new(name).unwrap(),
                    spec: JobSpec::default(),
                })
            };
            let mut jobs: Vec<Result<NewJob>> = queues.iter().map(job).collect();
            let checked = self.shares.check(&self.service, &self.identity, &mut jobs);
            checked.await;
            let code = |job: &Result<NewJob>| job.as_ref().err().map(Error::code);
            jobs.iter().map(code).collect()
        }
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_asked_refuses_only_jobs_beyond_the_share() {
        let bench = bench(1);
        bench.engine.close().await.unwrap();
        let unavailable = Some(Code::Unavailable);
        assert_eq!(
            bench.check(&["a.1", "a.2", "a.1"]).await,
            [None, unavailable, None]
        );
    }

    #[tokio::test]
    async fn queues_that_are_gone_leave_the_share_also_when_the_clock_was_set_back() {
        let bench = bench(1);
        let full = Some(Code::TooLarge);
        // Its push may still be on its way to the store.
        assert_eq!(bench.check(&["a.1"]).await, [None]);
        assert_eq!(bench.check(&["a.2"]).await, [full]);
        // The queues never came to be: a look at the store frees their place.
        bench.clock.advance(PRUNE_INTERVAL);
        assert_eq!(bench.check(&["a.2"]).await, [None]);
        assert_eq!(bench.check(&["a.3"]).await, [full]);
        bench.clock.step_wall_back(Duration::from_secs(3600));
        assert_eq!(bench.check(&["a.3"]).await, [None]);
    }
}
