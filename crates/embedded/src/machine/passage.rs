//! Jobs that leave for another store, and jobs that come from one.
//!
//! What one step takes in must lie in one group of records with the note of it: so everything that could fail is read first,
//! then all is written, and no new segment begins in between.

use auxo_core::engine::Query;
use auxo_core::job::{Moment, TIMELINE_LENGTH};
use auxo_core::life::{Event, State};
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passage, Passages, Step as Part};
use auxo_core::time::{Base, Due, Now, Timestamp};
use auxo_core::{JobId, QueueName, Result, refusal};
use hashbrown::HashSet;

use super::list::Tombs;
use super::settle::strip;
use super::view::state;
use super::{Machine, Step};
use crate::record::{From, Gone, Kept, Note, Record, Stored, Way};

/// What is to become of a job that wants in.
enum Plan {
    Refuse(auxo_core::Error),
    /// With its own id, or with a new one.
    Keep(Box<Stored>, Id),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Id {
    Own,
    New,
}

impl Machine {
    /// Jobs of a queue that are not leased, whole.
    pub(super) fn passages(&mut self, departure: &Departure, now: Now) -> Step<Result<Passages>> {
        let store = self.own_name();
        let mut query = Query {
            cursor: departure.cursor.clone(),
            limit: departure.limit,
            ..Query::default()
        };
        query.filter.queue = Some(departure.queue.clone());
        query.filter.states = vec![State::Scheduled, State::Ready, State::Dead, State::Done];
        let mut jobs = Vec::new();
        let next = self.walk(&query, Tombs::Shown, now, |machine, job, _| {
            jobs.push(machine.passage(job, now));
            jobs.len()
        })?;
        Ok(next.map(|next| Passages { store, jobs, next }))
    }

    fn passage(&self, job: Stored, now: Now) -> Passage {
        Passage {
            front: job.front,
            due: job.due.base,
            expires: job.expires.map_or(Base::Wall, |due| due.base),
            version: version(&job),
            job: self.view(job, now),
        }
    }

    /// What this store is known by. It is made up when it is first asked for.
    fn own_name(&mut self) -> String {
        if self.identity.is_empty() {
            let name = format!("{:016x}{:016x}", self.dice.roll(), self.dice.roll());
            self.log.append(&Record::Identity(name.clone()));
            self.identity = name;
        }
        self.identity.clone()
    }

    pub(super) fn depart_all(
        &mut self,
        queue: &QueueName,
        jobs: Vec<Leaving>,
        now: Now,
    ) -> Step<Vec<Result<()>>> {
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs {
            self.make_room(now)?;
            results.push(self.depart(queue, job)?);
        }
        Ok(results)
    }

    fn depart(&mut self, queue: &QueueName, leaving: Leaving) -> Step<Result<()>> {
        let id = leaving.id;
        let Some(place) = self.log.find_id(id.0)? else {
            return Ok(Err(refusal::no_job(id)));
        };
        let job = self.log.read(place)?;
        if self.by_name.get(queue) != Some(&job.queue) {
            return Ok(Err(refusal::no_job(id)));
        }
        if self.leases.contains_key(&id.0) {
            return Ok(Err(refusal::leased(id)));
        }
        if leaving.version.is_some_and(|known| known != version(&job)) {
            return Ok(Err(refusal::not_as_it_was(id)));
        }
        if let Some(error) = self.no_room(0) {
            return Ok(Err(error));
        }
        self.drop_job(&job, place, Gone::Moved);
        Ok(Ok(()))
    }

    pub(super) fn adopt(&mut self, adoption: Adoption, now: Now) -> Step<Result<Adopted>> {
        let (queue, step) = (adoption.queue, adoption.step);
        let known = self.by_name.get(&queue).copied();
        let from = Way::From(adoption.store.clone());
        let note = known.and_then(|number| self.notes.get(&(number, from.clone())).cloned());
        let to = known.and_then(|number| self.leaves_for(number));
        let elsewhere = match (&step, &to) {
            (Part::Begin | Part::Jobs(_), Some(to)) => Some(to),
            (Part::Leave, Some(to)) if *to != adoption.store => Some(to),
            _ => None,
        };
        if let Some(to) = elsewhere {
            return Ok(Err(refusal::leaving(&queue, to)));
        }
        let stands = |note: Option<Note>| Adopted {
            last: note.map(|note| note.last),
            leaving: to.clone(),
            results: Vec::new(),
        };
        let run = adoption.run;
        let (jobs, over) = match step {
            Part::Look => return Ok(Ok(stands(note))),
            Part::End if note.is_none() => return Ok(Ok(stands(None))),
            Part::End => (Vec::new(), true),
            Part::Jobs(jobs) => (jobs, false),
            Part::Begin | Part::Leave => {
                let number = match self.queue_number(&queue) {
                    Ok(number) => number,
                    Err(error) => return Ok(Err(error)),
                };
                if step == Part::Leave {
                    let last = Vec::new();
                    let way = Way::To(adoption.store.clone());
                    self.write_note(number, way, Some(Note { run, last }));
                    return Ok(Ok(Adopted {
                        leaving: Some(adoption.store),
                        ..stands(note)
                    }));
                }
                let last = note.map(|note| note.last).unwrap_or_default();
                let note = Note { run, last };
                self.write_note(number, from, Some(note.clone()));
                return Ok(Ok(stands(Some(note))));
            }
            Part::Stay => {
                let goes = to.as_ref() == Some(&adoption.store);
                if let Some(number) = known.filter(|_| goes) {
                    self.write_note(number, Way::To(adoption.store), None);
                }
                return Ok(Ok(Adopted {
                    leaving: to.clone().filter(|_| !goes),
                    ..stands(note)
                }));
            }
        };
        let note = note.filter(|note| note.run == run);
        let (Some(number), Some(note)) = (known, note) else {
            return Ok(Err(refusal::another_run(&queue)));
        };
        if over {
            self.write_note(number, from, None);
            return Ok(Ok(stands(None)));
        }
        if jobs.is_empty() {
            return Ok(Ok(stands(Some(note))));
        }
        if let Err(error) = self.has_space() {
            return Ok(Err(error));
        }
        let plans = self.plan(number, &jobs, now)?;
        let (results, last) = self.take_in(jobs, plans, now);
        let note = Note { run, last };
        self.write_note(number, from, Some(note.clone()));
        self.stir(number);
        Ok(Ok(Adopted {
            results,
            ..stands(Some(note))
        }))
    }

    /// The store that jobs of a queue go to.
    fn leaves_for(&self, queue: u32) -> Option<String> {
        let first = (queue, Way::To(String::new()));
        match self.notes.range(first..).next() {
            Some(((number, Way::To(store)), _)) if *number == queue => Some(store.clone()),
            _ => None,
        }
    }

    fn write_note(&mut self, queue: u32, way: Way, note: Option<Note>) {
        self.log.append(&Record::Note {
            queue,
            way: way.clone(),
            note: note.clone(),
        });
        self.absorb_note(queue, way, note);
    }

    pub(super) fn absorb_note(&mut self, queue: u32, way: Way, note: Option<Note>) {
        match note {
            Some(note) => drop(self.notes.insert((queue, way), note)),
            None => drop(self.notes.remove(&(queue, way))),
        }
        self.touch(queue);
    }

    /// Reads what must be known of each job before any is written.
    fn plan(&mut self, queue: u32, jobs: &[Passage], now: Now) -> Step<Vec<Plan>> {
        let (mut ids, mut keys) = (HashSet::new(), HashSet::new());
        let mut plans = Vec::with_capacity(jobs.len());
        for passage in jobs {
            let mut job = stored(passage, queue, now);
            if let Some(key) = passage
                .job
                .key
                .clone()
                .filter(|_| passage.holds_key(now.wall))
            {
                let holder = self.key_holder(queue, &key, now)?;
                if holder.is_some() || keys.contains(&key) {
                    if job.kept != Kept::Tomb {
                        plans.push(Plan::Refuse(self.taken(
                            queue,
                            &key,
                            holder.map(|(_, job)| job),
                            now,
                        )));
                        continue;
                    }
                    // Nothing but the key is left of it, and somebody else sees to that.
                    job.key = None;
                    job.until = now.steady;
                }
                keys.insert(key);
            }
            let own = job.id;
            // What is above all ids that were given is not there.
            let there = own <= self.last_id && self.log.find_id(own.0)?.is_some();
            let id = match own.may_keep(now.wall) && !there && ids.insert(own.0) {
                true => Id::Own,
                false => Id::New,
            };
            plans.push(Plan::Keep(Box::new(job), id));
        }
        Ok(plans)
    }

    /// Why a job cannot come in whose key is taken.
    fn taken(&self, queue: u32, key: &str, holder: Option<Stored>, now: Now) -> auxo_core::Error {
        let name = &self.queues[queue as usize].name;
        let Some(holder) = holder else {
            // Two of one batch: whoever made it took them from two places.
            return auxo_core::Error::new(
                auxo_core::Code::DuplicateKey,
                format!("key {key:?} in queue {name} is there twice"),
            );
        };
        let state = match self.leases.contains_key(&holder.id.0) {
            true => State::Leased,
            false => state(&holder, now),
        };
        refusal::duplicate_key(key, name, holder.id, state)
    }

    fn take_in(
        &mut self,
        jobs: Vec<Passage>,
        plans: Vec<Plan>,
        now: Now,
    ) -> (Vec<Result<JobId>>, Vec<Leaving>) {
        let own = plans.iter().filter_map(|plan| match plan {
            Plan::Keep(job, Id::Own) => Some(job.id),
            _ => None,
        });
        // New ids lie behind all that come along.
        let mut newest = own.fold(self.last_id, JobId::max);
        let mut results = Vec::with_capacity(jobs.len());
        let mut last = Vec::with_capacity(jobs.len());
        for (passage, plan) in jobs.into_iter().zip(plans) {
            let (mut job, id) = match plan {
                Plan::Refuse(error) => {
                    results.push(Err(error));
                    continue;
                }
                Plan::Keep(job, id) => (job, id),
            };
            if id == Id::New {
                newest = newest.after(now.steady);
                job.id = newest;
            }
            results.push(Ok(job.id));
            last.push(passage.leaving());
            self.put(None, From::Nowhere, None, *job);
        }
        (results, last)
    }
}

/// A job of another store as this one keeps it.
fn stored(passage: &Passage, queue: u32, now: Now) -> Stored {
    let job = passage.job.clone();
    let steady = |at: Timestamp| {
        now.on_steady(Due {
            at,
            base: Base::Wall,
        })
    };
    let (kept, until) = match (job.state, passage.kept()) {
        (State::Dead, _) => (Kept::Dead, Timestamp(0)),
        (State::Done, Some((retained, _))) if retained > now.wall => (Kept::Done, steady(retained)),
        (State::Done, Some((_, held))) => (Kept::Tomb, steady(held)),
        _ => (Kept::Waiting, Timestamp(0)),
    };
    let mut timeline = job.timeline;
    if timeline
        .first()
        .is_some_and(|first| first.event == Event::Push)
    {
        timeline.remove(0);
    }
    timeline.truncate(TIMELINE_LENGTH - 1);
    let mut stored = Stored {
        id: job.id,
        queue,
        kept,
        kind: job.kind,
        payload: job.payload,
        headers: job.headers,
        priority: job.priority,
        due: passage.due_at(now),
        front: passage.front,
        created_at: job.created_at,
        ttr: job.ttr,
        expires: passage.expires_at(now),
        max_attempts: job.max_attempts,
        backoff: job.backoff,
        window: match job.key {
            Some(_) => job.key_window,
            None => Default::default(),
        },
        key: job.key,
        group: job.group,
        retention: job.retention,
        attempt: job.attempt,
        failures: job.failures,
        vanished: job.vanished,
        last_error: job.last_error,
        dead: job.dead,
        ended_at: job.ended_at,
        until,
        progress: job.progress,
        result: job.result,
        timeline,
        weight: 0,
    };
    if kept == Kept::Tomb {
        strip(&mut stored);
    }
    stored
}

/// What a state of a job is known by: every move of a job is in its timeline or its counts.
fn version(job: &Stored) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |number: u64| {
        for byte in number.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    add(job.kept as u64);
    for count in [job.attempt, job.failures, job.vanished, job.priority] {
        add(u64::from(count));
    }
    for Moment { at, event, .. } in &job.timeline {
        add(at.0);
        add(*event as u64);
    }
    add(job.timeline.len() as u64);
    add(job.payload.len() as u64);
    hash
}
