//! Moves between stores, in the simplest form.

use std::hash::{DefaultHasher, Hash, Hasher};

use auxo_core::engine::Cursor;
use auxo_core::job::DeadReason;
use auxo_core::life::State;
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passage, Passages, Step};
use auxo_core::time::{Base, Due, Now, Timestamp};
use auxo_core::{Error, JobId, QueueName, Result, refusal};

use super::record::{Phase, Record};
use super::{Mint, Model};

/// How a move into a queue stands.
#[derive(Clone, Debug)]
pub(super) struct Note {
    run: u64,
    last: Vec<Leaving>,
}

impl Model {
    /// Jobs of a queue that are not leased, whole, by age.
    pub fn passages(
        &mut self,
        departure: &Departure,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Result<Passages> {
        self.advance(now, mint);
        let after = match &departure.cursor {
            None => None,
            Some(Cursor(text)) => {
                let id = text.parse::<JobId>();
                Some(id.map_err(|_| Error::bad_request("the cursor is not one of mine"))?)
            }
        };
        let ids = self.ids(|job| {
            let behind = after.is_none_or(|after| job.id > after);
            behind && job.queue == departure.queue && job.lease().is_none()
        });
        let limit = departure.limit as usize;
        let shown = &ids[..ids.len().min(limit)];
        let more = ids.len() > limit;
        Ok(Passages {
            store: "the model".to_owned(),
            jobs: shown
                .iter()
                .map(|id| passage(&self.jobs[id], now))
                .collect(),
            next: shown
                .last()
                .filter(|_| more)
                .map(|id| Cursor(id.to_string())),
        })
    }

    /// Removes jobs that are at another store now.
    pub fn depart(
        &mut self,
        queue: &QueueName,
        jobs: &[Leaving],
        now: Now,
        mint: &mut dyn Mint,
    ) -> Vec<Result<()>> {
        self.advance(now, mint);
        let each = jobs.iter().map(|leaving| {
            let id = leaving.id;
            let found = self.jobs.get(&id).filter(|job| job.queue == *queue);
            let job = found.ok_or_else(|| refusal::no_job(id))?;
            if job.lease().is_some() {
                return Err(refusal::leased(id));
            }
            if leaving.version.is_some_and(|known| known != version(job)) {
                return Err(refusal::not_as_it_was(id));
            }
            let done = matches!(job.phase, Phase::Done { .. });
            self.jobs.remove(&id);
            let line = self.line(queue);
            line.accepted -= 1;
            line.done -= u64::from(done);
            Ok(())
        });
        each.collect()
    }

    /// Takes a part of a move.
    pub fn adopt(&mut self, adoption: Adoption, now: Now, mint: &mut dyn Mint) -> Result<Adopted> {
        self.advance(now, mint);
        let Adoption {
            queue,
            store,
            run,
            step,
        } = adoption;
        let key = (queue.clone(), store.clone());
        let note = self.notes.get(&key).cloned();
        let leaving = self.leaving.get(&queue).cloned();
        let stands = |note: Option<Note>| Adopted {
            last: note.map(|note| note.last),
            leaving: leaving.clone(),
            results: Vec::new(),
        };
        let elsewhere = match (&step, &leaving) {
            (Step::Begin | Step::Jobs(_), Some(to)) => Some(to),
            (Step::Leave, Some(to)) if *to != store => Some(to),
            _ => None,
        };
        if let Some(to) = elsewhere {
            return Err(refusal::leaving(&queue, to));
        }
        match (step, note) {
            (Step::Leave, note) => {
                self.line(&queue);
                self.leaving.insert(queue, store.clone());
                Ok(Adopted {
                    leaving: Some(store),
                    ..stands(note)
                })
            }
            (Step::Stay, note) if leaving.as_ref() == Some(&store) => {
                self.leaving.remove(&queue);
                Ok(Adopted {
                    leaving: None,
                    ..stands(note)
                })
            }
            (Step::Stay, note) => Ok(stands(note)),
            (Step::Look, note) => Ok(stands(note)),
            (Step::End, None) => Ok(stands(None)),
            (Step::Begin, note) => {
                self.line(&queue);
                let last = note.map(|note| note.last).unwrap_or_default();
                let note = Note { run, last };
                self.notes.insert(key, note.clone());
                Ok(stands(Some(note)))
            }
            (Step::End, Some(note)) if note.run == run => {
                self.notes.remove(&key);
                Ok(stands(None))
            }
            (Step::Jobs(jobs), Some(note)) if note.run == run && jobs.is_empty() => {
                Ok(stands(Some(note)))
            }
            (Step::Jobs(jobs), Some(note)) if note.run == run => {
                let own: Vec<bool> = self.own_ids(&jobs, now);
                let mut results = Vec::new();
                let mut last = Vec::new();
                for (passage, own) in jobs.into_iter().zip(own) {
                    let leaving = passage.leaving();
                    let result = self.adopt_one(&queue, passage, own, now, mint);
                    if result.is_ok() {
                        last.push(leaving);
                    }
                    results.push(result);
                }
                let note = Note { run, last };
                self.notes.insert(key, note.clone());
                Ok(Adopted {
                    results,
                    ..stands(Some(note))
                })
            }
            (Step::Jobs(_) | Step::End, _) => Err(refusal::another_run(&queue)),
        }
    }

    /// Which of the jobs can keep their ids.
    fn own_ids(&self, jobs: &[Passage], now: Now) -> Vec<bool> {
        let mut taken: Vec<JobId> = Vec::new();
        let own = jobs.iter().map(|passage| {
            let id = passage.job.id;
            let free = !self.jobs.contains_key(&id) && !taken.contains(&id);
            taken.push(id);
            free && id.may_keep(now.wall)
        });
        own.collect()
    }

    fn adopt_one(
        &mut self,
        queue: &QueueName,
        passage: Passage,
        own: bool,
        now: Now,
        mint: &mut dyn Mint,
    ) -> Result<JobId> {
        let key = passage.job.key.clone();
        let key = key.filter(|_| passage.holds_key(now.wall));
        if let Some((key, holder)) =
            key.and_then(|key| Some((key.clone(), self.key_holder(queue, &key, now)?)))
        {
            if !passage.is_shadow(now.wall) {
                let state = self.jobs[&holder].state(now);
                return Err(refusal::duplicate_key(&key, queue, holder, state));
            }
            // Nothing but the key is left of it, and somebody else sees to that.
            let line = self.line(queue);
            line.accepted += 1;
            line.done += 1;
            return Ok(holder);
        }
        let id = match own {
            true => passage.job.id,
            false => mint.id(queue, now),
        };
        mint.known(id);
        let record = record(id, queue, passage, now);
        let line = self.line(queue);
        line.accepted += 1;
        line.done += u64::from(matches!(record.phase, Phase::Done { .. }));
        self.jobs.insert(id, record);
        Ok(id)
    }
}

fn passage(job: &Record, now: Now) -> Passage {
    Passage {
        job: job.view(now),
        front: job.front && matches!(job.phase, Phase::Waiting),
        due: job.due.base,
        expires: job.expires.map_or(Base::Wall, |due| due.base),
        version: version(job),
    }
}

fn version(job: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    for moment in &job.timeline {
        (moment.at, moment.event).hash(&mut hasher);
    }
    (job.attempt, job.failures, job.vanished, job.timeline.len()).hash(&mut hasher);
    hasher.finish()
}

fn record(id: JobId, queue: &QueueName, passage: Passage, now: Now) -> Record {
    let steady = |at: Timestamp| {
        now.on_steady(Due {
            at,
            base: Base::Wall,
        })
    };
    let job = &passage.job;
    let ended_at = job.ended_at.unwrap_or_default();
    let phase = match (job.state, passage.kept()) {
        (State::Done, Some((kept, held))) => Phase::Done {
            ended_at,
            kept_until: steady(kept),
            key_until: steady(held),
            result: job.result.clone(),
        },
        (State::Dead, _) => Phase::Dead {
            reason: job.dead.unwrap_or(DeadReason::Failed),
            ended_at,
        },
        _ => Phase::Waiting,
    };
    Record {
        id,
        queue: queue.clone(),
        spec: passage.spec(),
        due: passage.due_at(now),
        front: passage.front,
        expires: passage.expires_at(now),
        created_at: job.created_at,
        attempt: job.attempt,
        failures: job.failures,
        vanished: job.vanished,
        last_error: job.last_error.clone(),
        progress: job.progress.clone(),
        timeline: job.timeline.clone(),
        phase,
    }
}
