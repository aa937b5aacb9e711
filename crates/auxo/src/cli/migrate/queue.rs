//! The move of one queue. Every step can be the last before the process is killed; what the next one needs to know then is at the
//! two stores.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use auxo::core::engine::{Change, Cursor};
use auxo::core::passage::{Adopted, Adoption, Departure, Leaving, Passage, Step};
use auxo::core::queue::QueueConfig;
use auxo::core::refusal;
use auxo::core::service::Service;
use auxo::{Code, Error, JobId, QueueInfo, QueueName, Result};
use tokio::time::sleep;

use super::super::failure::Failure;
use super::ends::{Ends, Names};
use super::schedules;
use super::tally::{Column, Left, Moved, Tally};

/// How many jobs are read at once, and how many go in one step.
const JOBS: u32 = 1000;
/// After how many bytes of payloads a step has enough.
const BYTES: usize = 2 << 20;
/// So few jobs can come in during a walk that whoever pushes need not go on while they are moved.
const FEW: u64 = 1000;
/// How often a queue that does not get shorter is walked through.
const WALKS: u32 = 5;
/// How long to wait before looking again whether leases have ended.
const LOOK: Duration = Duration::from_millis(200);

pub struct Move<'a> {
    from: &'a Service,
    to: &'a Service,
    names: &'a Names,
    queue: QueueName,
    /// Whether other moves of the queue that were broken off are given up.
    abandon: bool,
    /// Whether anything has changed by this move.
    begun: bool,
    run: u64,
    /// Jobs that stay, whatever is tried.
    stay: BTreeSet<JobId>,
    moved: Moved,
    tally: &'a mut Tally,
    /// When something last went well.
    well: Instant,
}

impl<'a> Move<'a> {
    pub fn new(
        ends: &'a Ends,
        names: &'a Names,
        queue: QueueName,
        abandon: bool,
        tally: &'a mut Tally,
    ) -> Self {
        Move {
            from: ends.from.service(),
            to: ends.to.service(),
            names,
            moved: Moved::new(queue.clone()),
            queue,
            abandon,
            begun: false,
            run: 0,
            stay: BTreeSet::new(),
            tally,
            well: Instant::now(),
        }
    }

    /// Moves the queue. When a store does not answer, the move begins anew from what the stores know, for as long as that is
    /// worth it.
    pub async fn run(&mut self, patience: Duration) -> Result<Moved> {
        let mut pause = Duration::from_millis(50);
        loop {
            let error = match self.whole().await {
                Ok(()) => return Ok(self.moved.clone()),
                Err(error) => error,
            };
            let away = matches!(
                error.code(),
                Code::Unavailable | Code::UnknownOutcome | Code::RateLimited
            );
            if !away || self.well.elapsed() > patience {
                return Err(error);
            }
            self.tally.say(&self.queue, error.message());
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Why the move did not come to its end, and how to go on.
    pub fn failure(&self, error: Error) -> Failure {
        match self.begun {
            false => Failure::Refused(error),
            true => Failure::Hinted(
                error,
                "the queue is paused at the source: repeat the command to go on, or exchange --from and --to to go back",
            ),
        }
    }

    async fn whole(&mut self) -> Result<()> {
        self.run = random()?;
        let info = self.look(self.from).await?;
        let Some(info) = info else {
            let text = format!("queue {} is not at the source any more", self.queue);
            return Err(Error::new(Code::NotFound, text));
        };
        self.end_opposite().await?;
        let look = self.adopt(Step::Look).await?;
        let fresh = look.last.is_none();
        if fresh && self.is_over(&info).await? {
            // A schedule may have had to stay when the jobs went, or a run was killed while it carried one.
            let kept = schedules::carry(self.from, self.to, &self.queue, false).await?;
            self.moved.schedules.extend(kept);
            self.leave(Step::Stay).await?;
            self.moved.verified = true;
            return Ok(());
        }
        let mut config = info.config.clone();
        if self.abandon {
            if self.give_up().await? {
                // It was that move which paused the queue.
                (config.paused_in, config.paused_out) = (false, false);
            }
        } else if let Some(store) = look.leaving {
            return Err(refusal::leaving(&self.queue, &store));
        }
        let there = self.look(self.to).await?.and_then(|to| to.config.shards);
        if fresh && there.is_some_and(|shards| shards > 1) {
            return Err(refusal::spread(&self.queue));
        }
        self.leave(Step::Leave).await?;
        self.begun = true;
        if fresh {
            // The settings are the source's, pauses and all, so they go first: later they are those of a queue that moves.
            let config = QueueConfig {
                // Jobs come to a queue in one shard; it is spread when they are there.
                shards: None,
                ..config.clone()
            };
            self.to
                .change(Change::Queue(self.queue.clone(), config))
                .await?;
            schedules::subscribe(self.from, self.to, &self.queue).await?;
        }
        let begun = self.adopt(Step::Begin).await?;
        self.settle_last(begun.last.unwrap_or_default()).await?;
        let kept = schedules::carry(self.from, self.to, &self.queue, fresh).await?;
        self.moved.schedules.extend(kept);
        let accepted = self.look(self.to).await?.map_or(0, |to| to.books.accepted);
        let before = self.moved.jobs();
        self.empty(&config).await?;
        self.verify(accepted, self.moved.jobs() - before).await?;
        if self.moved.left.is_empty() {
            self.spread(config.shards).await?;
            self.adopt(Step::End).await?;
            self.leave(Step::Stay).await?;
        }
        Ok(())
    }

    /// Tells the source where its jobs go.
    async fn leave(&self, step: Step) -> Result<Adopted> {
        let to = self.names.to.clone();
        self.from.adopt(self.part(to, step)).await
    }

    fn part(&self, store: String, step: Step) -> Adoption {
        Adoption {
            queue: self.queue.clone(),
            store,
            run: self.run,
            step,
        }
    }

    /// Whatever other moves left the queue for, at the source or at the target, they are over. Says whether the source had one.
    async fn give_up(&self) -> Result<bool> {
        let mut gave_up = [false; 2];
        for (at, (end, other)) in [(self.from, &self.names.to), (self.to, &self.names.from)]
            .into_iter()
            .enumerate()
        {
            let look = end.adopt(self.part(other.clone(), Step::Look)).await?;
            if let Some(store) = look.leaving.filter(|store| store != other) {
                end.adopt(self.part(store, Step::Stay)).await?;
                gave_up[at] = true;
            }
        }
        Ok(gave_up[0])
    }

    /// Spreads the queue as it was at the source, if the target has so many shards.
    async fn spread(&mut self, shards: Option<u16>) -> Result<()> {
        let to = self.look(self.to).await?.map(|to| to.config);
        let Some(config) = to.filter(|config| config.shards != shards) else {
            return Ok(());
        };
        let config = QueueConfig { shards, ..config };
        let spread = self.to.change(Change::Queue(self.queue.clone(), config));
        match spread.await {
            Err(error) if error.code() == Code::Conflict => {
                self.moved.unspread = Some(error.to_string());
                Ok(())
            }
            other => other,
        }
    }

    /// A move in the other direction may have been broken off: then the source has jobs that are still at the target as well, and
    /// would be there twice. That move ends here.
    async fn end_opposite(&self) -> Result<()> {
        let part = |step| self.from.adopt(self.part(self.names.to.clone(), step));
        if part(Step::Look).await?.last.is_some() {
            let last = part(Step::Begin).await?.last.unwrap_or_default();
            for departed in self.to.depart(self.queue.clone(), last).await? {
                match departed {
                    Err(error) if error.code() != Code::NotFound => return Err(error),
                    _ => {}
                }
            }
            part(Step::End).await?;
        }
        let from = self.names.from.clone();
        self.to.adopt(self.part(from, Step::Stay)).await.map(drop)
    }

    /// Whether the queue was moved before: it is as a move leaves it, and it is at the target.
    async fn is_over(&self, info: &QueueInfo) -> Result<bool> {
        let paused = info.config.paused_in && info.config.paused_out;
        if !paused || info.books.live > 0 || self.look(self.to).await?.is_none() {
            return Ok(false);
        }
        let mut cursor = None;
        loop {
            let page = self.from.passages(self.departure(cursor)).await?;
            match page.next {
                _ if !page.jobs.is_empty() => return Ok(false),
                None => return Ok(true),
                next => cursor = next,
            }
        }
    }

    async fn look(&self, service: &Service) -> Result<Option<QueueInfo>> {
        let found = service.queues(Some(vec![self.queue.clone()])).await?;
        Ok(found.into_iter().next())
    }

    async fn adopt(&mut self, step: Step) -> Result<Adopted> {
        let from = self.names.from.clone();
        let adopted = self.to.adopt(self.part(from, step)).await?;
        self.well = Instant::now();
        Ok(adopted)
    }

    fn departure(&self, cursor: Option<Cursor>) -> Departure {
        Departure {
            queue: self.queue.clone(),
            cursor,
            limit: JOBS,
        }
    }

    /// An earlier run may have been killed between the two halves of a step: what the target took in last is to leave the source.
    async fn settle_last(&mut self, last: Vec<Leaving>) -> Result<()> {
        if last.is_empty() {
            return Ok(());
        }
        let departed = self.from.depart(self.queue.clone(), last.clone()).await?;
        for (leaving, departed) in last.into_iter().zip(departed) {
            match departed {
                Ok(()) => self.moved.caught_up += 1,
                Err(error) if error.code() == Code::NotFound => {}
                // Which job it is at the target nobody knows any more.
                Err(error) if error.code() == Code::Conflict => {
                    self.stays(leaving.id, None, &error);
                }
                // Whether it has left is not known: the note must not be overwritten before it is.
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn stays(&mut self, id: JobId, key: Option<String>, why: &Error) {
        if self.stay.insert(id) {
            self.moved.left.push(Left {
                id,
                key,
                why: why.clone(),
            });
        }
    }

    /// Moves all there is: first while pushes come in, then what came meanwhile. Who pushes all the time would otherwise be followed
    /// for ever, so pushes are paused as soon as little is left, and after some walks in any case.
    async fn empty(&mut self, config: &QueueConfig) -> Result<()> {
        let mut closed = QueueConfig {
            paused_out: true,
            ..config.clone()
        };
        self.pause(&closed).await?;
        let mut walks = 0;
        loop {
            let found = self.walk().await?;
            walks += 1;
            if self.until_more().await? {
                continue;
            }
            match closed.paused_in {
                true if found == 0 => return Ok(()),
                true => {}
                false if found > FEW && walks < WALKS => {}
                false => {
                    closed.paused_in = true;
                    self.pause(&closed).await?;
                }
            }
        }
    }

    async fn pause(&self, config: &QueueConfig) -> Result<()> {
        let change = Change::Queue(self.queue.clone(), config.clone());
        self.from.change(change).await
    }

    /// Waits while workers still have jobs of the source, until there is something to move again. Says whether any had one.
    async fn until_more(&mut self) -> Result<bool> {
        let mut waited = false;
        loop {
            let info = self.look(self.from).await?;
            let counts = info.map(|info| info.counts).unwrap_or_default();
            self.well = Instant::now();
            let movable = counts.scheduled + counts.ready + counts.dead + counts.done;
            if counts.leased == 0 || movable > self.stay.len() as u64 {
                return Ok(waited || counts.leased > 0);
            }
            waited = true;
            self.tally.wait_for(&self.queue, counts.leased);
            sleep(LOOK).await;
        }
    }

    /// Moves what a walk through the queue finds; says how many jobs that were.
    async fn walk(&mut self) -> Result<u64> {
        let (mut cursor, mut found) = (None, 0);
        loop {
            let page = self.from.passages(self.departure(cursor)).await?;
            let mut jobs = page.jobs;
            jobs.retain(|passage| !self.stay.contains(&passage.job.id));
            found += jobs.len() as u64;
            while !jobs.is_empty() {
                let rest = jobs.split_off(enough(&jobs));
                self.batch(jobs).await?;
                jobs = rest;
            }
            match page.next {
                None => return Ok(found),
                next => cursor = next,
            }
        }
    }

    /// The one step of it all: the target takes jobs in, then they leave the source.
    async fn batch(&mut self, jobs: Vec<Passage>) -> Result<()> {
        let shown: Vec<_> = jobs.iter().map(Column::of).collect();
        let leaving: Vec<Leaving> = jobs.iter().map(Passage::leaving).collect();
        let keys: Vec<_> = jobs.iter().map(|passage| passage.job.key.clone()).collect();
        let adopted = self.adopt(Step::Jobs(jobs)).await?;
        let mut there = Vec::new();
        for (place, result) in adopted.results.into_iter().enumerate() {
            match result {
                Ok(id) => there.push((place, id)),
                Err(why) => self.stays(leaving[place].id, keys[place].clone(), &why),
            }
        }
        let jobs = there.iter().map(|(place, _)| leaving[*place]).collect();
        let departed = self.from.depart(self.queue.clone(), jobs).await?;
        let mut changed = Vec::new();
        for ((place, id), departed) in there.into_iter().zip(departed) {
            match departed {
                Ok(()) => self.moved.count(shown[place]),
                Err(why) if matches!(why.code(), Code::Conflict | Code::NotFound) => {
                    changed.push((leaving[place].id, id, why));
                }
                // Whether it has left is not known. The note at the target is, and the move begins anew from there.
                Err(error) => return Err(error),
            }
        }
        if !changed.is_empty() {
            // Another run that has begun meanwhile may have let them depart: then they have moved.
            self.adopt(Step::Jobs(Vec::new())).await?;
        }
        for (id, there, why) in changed {
            self.take_back(id, there, &why).await?;
        }
        self.tally.progress(&self.moved);
        Ok(())
    }

    /// Somebody changed or removed the job at the source in between. What went to the target is not that job any more, and is
    /// taken back; what is still at the source is found by the next walk.
    async fn take_back(&mut self, id: JobId, there: JobId, why: &Error) -> Result<()> {
        let leaving = Leaving {
            id: there,
            version: None,
        };
        for taken in self.to.depart(self.queue.clone(), vec![leaving]).await? {
            match taken {
                Ok(()) => {}
                Err(error) if !matches!(error.code(), Code::Conflict | Code::NotFound) => {
                    return Err(error);
                }
                Err(_) if why.code() == Code::Conflict => {
                    let text = format!("{}, and a worker at the target was quicker", why.message());
                    self.stays(id, None, &Error::new(Code::Conflict, text));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// The source has nothing but what had to stay, and the target has at least what came.
    async fn verify(&mut self, accepted: u64, moved: u64) -> Result<()> {
        let left = self.look(self.from).await?.map(|info| info.counts);
        let left = left.unwrap_or_default();
        let left = left.scheduled + left.ready + left.leased + left.dead + left.done;
        if left > self.stay.len() as u64 {
            let text = format!("queue {} has {left} jobs at the source again", self.queue);
            return Err(Error::new(Code::Conflict, text));
        }
        let now = self.look(self.to).await?.map_or(0, |to| to.books.accepted);
        if now < accepted + moved {
            let text = format!(
                "queue {} has {now} jobs in the books of the target, where {} were to be",
                self.queue,
                accepted + moved
            );
            return Err(Error::new(Code::Internal, text));
        }
        self.moved.verified = true;
        Ok(())
    }
}

/// How many of the jobs go in one step: at least one, and not more bytes than need be.
fn enough(jobs: &[Passage]) -> usize {
    let mut bytes = 0;
    let fits = jobs.iter().take(JOBS as usize).take_while(|passage| {
        let before = bytes;
        bytes += passage.job.payload.len() + passage.job.result.as_ref().map_or(0, |r| r.len());
        before < BYTES
    });
    fits.count().max(1)
}

fn random() -> Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::new(Code::Unavailable, format!("no randomness: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}
