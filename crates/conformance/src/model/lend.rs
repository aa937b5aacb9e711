//! Leases: who gets which job, and how a lease ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use auxo_core::bucket::Bucket;
use auxo_core::engine::{
    Ask, Extend, Extended, Holds, NamedJob, Outcome, Pick, Retry, Settle, Settled,
};
use auxo_core::job::{DeadReason, Leased};
use auxo_core::life::{Event, State};
use auxo_core::refusal::Hold;
use auxo_core::retry::{self, Verdict};
use auxo_core::time::{Now, When};
use auxo_core::{Code, Error, JobId, QueueName, Result, Token};

use super::record::{Lease, Phase, Record, on_wall};
use super::{Mint, Model, nobody};

impl Model {
    /// Lends the first due jobs of the queue that the call picks; never waits.
    pub fn lease(&mut self, ask: &Ask, now: Now, mint: &mut dyn Mint) -> Vec<Leased> {
        self.advance(now, mint);
        self.called(ask, now);
        self.offer(ask, now, mint)
    }

    /// Notes that a lease call named its queues.
    pub fn called(&mut self, ask: &Ask, now: Now) {
        for queue in &ask.queues {
            if let Some(line) = self.lines.get_mut(queue) {
                line.asked = Some(now.wall);
                line.used = now.steady;
            }
        }
    }

    /// Lends to a call, which may have waited, what there is for it now.
    pub fn offer(&mut self, ask: &Ask, now: Now, mint: &mut dyn Mint) -> Vec<Leased> {
        self.advance(now, mint);
        if let Some(NamedJob { id, .. }) = ask.job {
            let ready = self.made_ready(id, now);
            return Vec::from_iter(ready.then(|| self.lend(id, ask, now, mint)));
        }
        let chosen = match ask.pick {
            Pick::First => self.first(ask, now),
            Pick::MostUrgent => self.most_urgent(ask, now),
        };
        let lend = |id| self.lend(id, ask, now, mint);
        chosen.into_iter().map(lend).collect()
    }

    /// What holds back the job that a call names, if the call heeds that.
    pub fn hold(&mut self, ask: &Ask, now: Now, mint: &mut dyn Mint) -> Option<Hold> {
        self.advance(now, mint);
        let named = ask.job.filter(|named| named.holds == Holds::Respect)?;
        let job = self.jobs.get(&named.id)?;
        match (job.state(now), &job.phase) {
            (State::Ready, _) => {}
            (State::Scheduled, _) => return Some(Hold::NotDue),
            (_, Phase::Dead { reason, .. }) if *reason != DeadReason::Expired => {
                return Some(Hold::Dead);
            }
            _ => return None,
        }
        let queue = job.queue.clone();
        let leased = self.stored(&queue).filter(|job| job.lease().is_some());
        let leased = leased.count() as u64;
        let line = self.line(&queue);
        let is_full = line
            .config
            .max_leased
            .is_some_and(|most| leased >= most.into());
        if line.config.holds_back(now.wall) {
            Some(Hold::Paused)
        } else if is_full {
            Some(Hold::MaxLeased)
        } else if line.tokens(now) == 0 {
            Some(Hold::Rate)
        } else {
            None
        }
    }

    /// What the first queue that has any gives.
    fn first(&mut self, ask: &Ask, now: Now) -> Vec<JobId> {
        let mut offers = ask
            .queues
            .iter()
            .map(|queue| self.choose(queue, ask.max as usize, now));
        offers.find(|chosen| !chosen.is_empty()).unwrap_or_default()
    }

    /// What the queue gives whose next job is the most urgent, up to where the next job of another comes before.
    fn most_urgent(&mut self, ask: &Ask, now: Now) -> Vec<JobId> {
        let queues: BTreeSet<&QueueName> = ask.queues.iter().collect();
        let mut offers: Vec<Vec<JobId>> = queues
            .into_iter()
            .map(|queue| self.choose(queue, ask.max as usize, now))
            .filter(|chosen| !chosen.is_empty())
            .collect();
        let place = |id: &JobId| self.jobs[id].place(now);
        offers.sort_by_key(|chosen| place(&chosen[0]));
        let rival = offers.get(1).map(|chosen| place(&chosen[0]));
        let ahead = |id: &JobId| rival.as_ref().is_none_or(|rival| place(id) < *rival);
        let best = offers.into_iter().next().unwrap_or_default();
        best.into_iter().take_while(ahead).collect()
    }

    /// The jobs that are next in a queue, as many as it may hand out now.
    fn choose(&mut self, queue: &QueueName, max: usize, now: Now) -> Vec<JobId> {
        let leased = |job: &&Record| job.lease().is_some();
        let leased = self.stored(queue).filter(leased).count();
        let Some(line) = self.lines.get_mut(queue) else {
            return Vec::new();
        };
        let slots = line.config.max_leased.map_or(max, |most| {
            usize::try_from(most).map_or(max, |most| most.saturating_sub(leased))
        });
        let room = match line.config.holds_back(now.wall) {
            true => 0,
            false => max.min(slots).min(line.tokens(now)),
        };
        let fair = line.config.fair;
        let ready = |job: &&Record| job.state(now) == State::Ready;
        let mut ready: Vec<&Record> = self.stored(queue).filter(ready).collect();
        ready.sort_by_key(|job| job.place(now));
        if fair {
            ready = take_turns(ready, self.lines[queue].turns.clone(), room);
        }
        ready.into_iter().take(room).map(|job| job.id).collect()
    }

    fn lend(&mut self, id: JobId, ask: &Ask, now: Now, mint: &mut dyn Mint) -> Leased {
        let token = mint.token(id);
        let job = self.job(id);
        job.attempt += 1;
        let (queue, group) = (job.queue.clone(), job.spec.group.clone());
        let at_most_once = job.spec.ttr.is_zero();
        let length = match at_most_once {
            true => job.spec.ttr,
            false => ask.ttr.unwrap_or(job.spec.ttr),
        };
        let before = job.clone();
        if at_most_once {
            self.finish(id, Event::Take, None, now, &ask.worker);
        } else {
            self.step(id, Some(State::Ready), Event::Lease, now, &ask.worker, "");
        }
        let line = self.line(&queue);
        line.turn += 1;
        line.turns.insert(group, line.turn);
        if let Some(rate) = line.config.rate {
            let full = Bucket::full(rate, now.steady);
            let bucket = line.bucket.get_or_insert(full);
            bucket.take(rate, now.steady, 1);
        }
        let deadline = now.steady.plus(length);
        if let Some(job) = self.jobs.get_mut(&id).filter(|_| !at_most_once) {
            job.phase = Phase::Leased(Lease {
                token,
                worker: ask.worker.clone(),
                deadline,
                length,
                cancel: false,
            });
        }
        let mut job = self.jobs.get(&id).unwrap_or(&before).view(now);
        if at_most_once {
            // Handed out whole, whatever is kept of it.
            job.payload = before.spec.payload;
            job.state = State::Done;
        }
        Leased {
            job,
            token,
            deadline: on_wall(deadline, now),
        }
    }

    /// Ends leases.
    pub fn settle(
        &mut self,
        items: Vec<Settle>,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Vec<Result<Settled>> {
        self.advance(now, mint);
        let settle = |item: Settle| {
            self.held(item.token)?;
            Ok(self.settle_one(item.token.job, item.outcome, now, mint))
        };
        items.into_iter().map(settle).collect()
    }

    fn settle_one(
        &mut self,
        id: JobId,
        outcome: Outcome,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Settled {
        let worker = self.worker(id);
        match outcome {
            Outcome::Ack { result } => {
                self.finish(id, Event::Ack, result, now, &worker);
                return settled(id, State::Done);
            }
            Outcome::Fail {
                error,
                delay,
                retry,
            } => {
                let job = self.job(id);
                job.failures += 1;
                job.last_error = Some(error.clone());
                let verdict = retry::after_failure(
                    job.failures + job.vanished,
                    job.failures,
                    job.spec.max_attempts,
                    &job.spec.backoff,
                    mint.dice(),
                );
                match verdict {
                    Verdict::Retry(wait) if retry == Retry::Policy => {
                        let when = When::After(delay.unwrap_or(wait));
                        self.back(id, Event::Retry, Some(when), now, &worker, &error);
                    }
                    _ => self.end(id, Event::Fail, DeadReason::Failed, now, &worker, &error),
                }
            }
            Outcome::Release { priority, delay } => {
                let job = self.job(id);
                job.spec.priority = priority.unwrap_or(job.spec.priority);
                self.back(id, Event::Release, delay.map(When::After), now, &worker, "");
            }
            Outcome::Bury { error, priority } => {
                let job = self.job(id);
                job.spec.priority = priority.unwrap_or(job.spec.priority);
                let note = error.clone().unwrap_or_default();
                job.last_error = error.or(job.last_error.take());
                self.end(id, Event::Bury, DeadReason::Buried, now, &worker, &note);
            }
            Outcome::Snooze { delay } => {
                let when = Some(When::After(delay));
                self.back(id, Event::Snooze, when, now, &worker, "");
            }
        }
        let Some(job) = self.jobs.get(&id) else {
            return settled(id, State::Cancelled);
        };
        let state = job.state(now);
        Settled {
            id,
            state,
            run_at: (state != State::Dead).then(|| now.on_wall(job.due)),
        }
    }

    /// Takes back leases that their caller never got, as if they had never been.
    pub fn take_back(&mut self, leases: Vec<Leased>, now: Now, mint: &mut dyn Mint) {
        self.advance(now, mint);
        for token in leases.into_iter().map(|leased| leased.token) {
            if self.held(token).is_err() {
                continue;
            }
            let worker = self.worker(token.job);
            let job = self.job(token.job);
            job.attempt -= 1;
            job.timeline.pop_if(|last| last.event == Event::Lease);
            self.back(token.job, Event::Release, None, now, &worker, "");
            if let Some(job) = self.jobs.get_mut(&token.job) {
                job.timeline.pop_if(|last| last.event == Event::Release);
            }
        }
    }

    /// The end of a lease after which the job waits again, unless it was called off or its life is over. Without a new due
    /// time it goes back to its old place.
    fn back(
        &mut self,
        id: JobId,
        event: Event,
        when: Option<When>,
        now: Now,
        by: &str,
        note: &str,
    ) {
        if self.flagged(id) || self.job(id).expired(now) {
            return self.end(id, Event::Expire, DeadReason::Expired, now, by, note);
        }
        self.step(id, Some(State::Leased), event, now, by, note);
        let job = self.job(id);
        job.phase = Phase::Waiting;
        if let Some(when) = when {
            job.due = when.due(now);
            job.front = false;
        }
    }

    /// The end of a lease after which the job is dead, unless it was called off.
    fn end(&mut self, id: JobId, event: Event, reason: DeadReason, now: Now, by: &str, note: &str) {
        if self.flagged(id) {
            self.remove(id, Event::Cancel, now, by);
        } else {
            self.die(id, event, reason, now, by, note);
        }
    }

    /// A lease that nobody settled in time.
    pub(super) fn vanish(&mut self, id: JobId, now: Now) {
        let worker = self.worker(id);
        let job = self.job(id);
        job.vanished += 1;
        if retry::exhausted(job.failures + job.vanished, job.spec.max_attempts) {
            self.end(id, Event::Exhaust, DeadReason::Vanished, now, &worker, "");
        } else {
            self.back(id, Event::Vanish, None, now, &worker, "");
            if let Some(job) = self.jobs.get_mut(&id) {
                job.front = matches!(job.phase, Phase::Waiting);
            }
        }
    }

    /// Prolongs leases.
    pub fn extend(
        &mut self,
        items: Vec<Extend>,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Vec<Result<Extended>> {
        self.advance(now, mint);
        let extend = |item: Extend| {
            let lease = self.held(item.token)?;
            lease.length = item.ttr.unwrap_or(lease.length);
            lease.deadline = now.steady.plus(lease.length);
            let extended = Extended {
                id: item.token.job,
                deadline: on_wall(lease.deadline, now),
                cancel: lease.cancel,
            };
            let job = self.job(item.token.job);
            job.progress = item.progress.or(job.progress.take());
            Ok(extended)
        };
        items.into_iter().map(extend).collect()
    }

    /// The running lease that has exactly this token.
    fn held(&mut self, token: Token) -> Result<&mut Lease> {
        match self.jobs.get_mut(&token.job).map(|job| &mut job.phase) {
            Some(Phase::Leased(lease)) if lease.token == token => Ok(lease),
            _ => Err(Error::new(Code::LeaseLost, "the lease is over").about(token.job)),
        }
    }

    fn flagged(&self, id: JobId) -> bool {
        self.jobs[&id].lease().is_some_and(|lease| lease.cancel)
    }

    fn worker(&self, id: JobId) -> Arc<str> {
        let lease = self.jobs[&id].lease();
        lease.map_or_else(nobody, |lease| lease.worker.clone())
    }
}

fn settled(id: JobId, state: State) -> Settled {
    Settled {
        id,
        state,
        run_at: None,
    }
}

/// The first `count` jobs when groups take turns: of the most urgent priority first those whose worker vanished, then the
/// first job of the group whose last turn is longest ago.
fn take_turns(
    mut line: Vec<&Record>,
    mut turns: BTreeMap<Option<String>, u64>,
    count: usize,
) -> Vec<&Record> {
    let mut chosen = Vec::new();
    while chosen.len() < count
        && let Some(first) = line.first()
    {
        let (priority, front) = (first.spec.priority, first.front);
        let next = (0..line.len())
            .take_while(|i| line[*i].spec.priority == priority && line[*i].front == front)
            .min_by_key(|i| match front {
                true => 0,
                false => turns.get(&line[*i].spec.group).copied().unwrap_or(0),
            });
        let job = line.remove(next.unwrap_or(0));
        let newest = turns.values().max().copied().unwrap_or(0);
        turns.insert(job.spec.group.clone(), newest + 1);
        chosen.push(job);
    }
    chosen
}
