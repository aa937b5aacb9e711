//! Jobs come in: by push, by publishing to a topic, and by the tick of a schedule.

use std::collections::BTreeMap;
use std::sync::Arc;

use auxo_core::engine::{Accepted, Message, Pushed};
use auxo_core::job::{JobSpec, Moment, OnDuplicate, Ttl};
use auxo_core::life::{Event, State};
use auxo_core::time::{Base, Due, Now};
use auxo_core::{Code, Error, JobId, NewJob, QueueName, Result, refusal};

use super::view::{remember, state};
use super::{Machine, Step};
use crate::record::{self, From, Kept, Place, Stored, key_hash};

/// How many bytes one message may make in all its queues together.
const FAN_OUT: u64 = 64 << 20;

impl Machine {
    pub(super) fn push_all(&mut self, jobs: Vec<NewJob>, now: Now) -> Step<Vec<Result<Pushed>>> {
        let mut results = Vec::with_capacity(jobs.len());
        for job in jobs {
            self.make_room(now)?;
            results.push(self.push(&job.queue, job.spec, now)?);
        }
        Ok(results)
    }

    pub(super) fn push(
        &mut self,
        queue: &QueueName,
        spec: JobSpec,
        now: Now,
    ) -> Step<Result<Pushed>> {
        if let Some((place, existing)) = self.rival(queue, &spec, now)? {
            return Ok(self.push_again(place, existing, spec, now));
        }
        if let Err(error) = self.admits(queue, 1, spec.payload.len() as u64) {
            return Ok(Err(error));
        }
        let number = match self.queue_number(queue) {
            Ok(number) => number,
            Err(error) => return Ok(Err(error)),
        };
        let id = self.last_id.after(now.steady);
        let job = stored(id, number, spec, now);
        let pushed = pushed(&job, Accepted::New, now);
        // A queue without delayed jobs never has anything to count: keep it so.
        self.queues[number as usize]
            .lined(Base::Steady)
            .follow(now.steady.0);
        self.put(Some(Event::Push), From::Nowhere, None, job);
        self.notice(number, id, Event::Push, now, "", "");
        Ok(Ok(pushed))
    }

    /// The job that has the key of a push, if it has one and it is taken.
    fn rival(
        &mut self,
        queue: &QueueName,
        spec: &JobSpec,
        now: Now,
    ) -> Step<Option<(Place, Stored)>> {
        let (Some(key), Some(number)) = (&spec.key, self.by_name.get(queue).copied()) else {
            return Ok(None);
        };
        self.key_holder(number, &key.name, now)
    }

    /// The job that holds a key.
    pub(super) fn key_holder(
        &mut self,
        queue: u32,
        key: &str,
        now: Now,
    ) -> Step<Option<(Place, Stored)>> {
        for (place, job) in self.with_key(queue, key)? {
            let holds = match job.kept {
                Kept::Waiting | Kept::Dead => true,
                Kept::Done | Kept::Tomb => now.steady < job.key_until(),
            };
            if holds {
                return Ok(Some((place, job)));
            }
        }
        Ok(None)
    }

    /// Every job that is stored with a key, whether it still holds it or not.
    pub(super) fn with_key(&mut self, queue: u32, key: &str) -> Step<Vec<(Place, Stored)>> {
        let hash = key_hash(queue, key);
        let mut places = Vec::new();
        if let Some(recent) = self.recent_keys.get_mut(&hash) {
            recent.retain(|place| self.log.is_live(*place));
            places.extend_from_slice(recent);
        }
        places.extend(self.log.find_key(hash)?);
        let mut found = Vec::new();
        for place in places {
            let job = self.log.read(place)?;
            if job.queue == queue && job.key.as_deref() == Some(key) {
                found.push((place, job));
            }
        }
        Ok(found)
    }

    /// Answers a push whose key is taken.
    fn push_again(
        &mut self,
        place: Place,
        existing: Stored,
        spec: JobSpec,
        now: Now,
    ) -> Result<Pushed> {
        let id = existing.id;
        let state = if self.leases.contains_key(&id.0) {
            State::Leased
        } else {
            state(&existing, now)
        };
        let policy = spec
            .key
            .as_ref()
            .map(|key| key.on_duplicate)
            .unwrap_or_default();
        match policy {
            OnDuplicate::Return => Ok(Pushed {
                state,
                ..pushed(&existing, Accepted::Existing, now)
            }),
            OnDuplicate::Replace if matches!(state, State::Scheduled | State::Ready) => {
                let name = &self.queues[existing.queue as usize].name;
                self.admits(name, 0, growth(&spec, &existing))?;
                let mut job = stored(id, existing.queue, spec, now);
                job.created_at = existing.created_at;
                job.attempt = existing.attempt;
                job.failures = existing.failures;
                job.vanished = existing.vanished;
                job.last_error = existing.last_error.clone();
                job.timeline = existing.timeline.clone();
                let moment = Moment {
                    at: now.wall,
                    event: Event::Replace,
                    by: String::new(),
                    note: String::new(),
                };
                remember(&mut job.timeline, moment);
                let pushed = pushed(&job, Accepted::Replaced, now);
                self.rewrite(Event::Replace, &existing, place, job);
                self.notice(existing.queue, id, Event::Replace, now, "", "");
                Ok(pushed)
            }
            OnDuplicate::Reject | OnDuplicate::Replace => {
                let key = existing.key.as_deref().unwrap_or_default();
                let queue = &self.queues[existing.queue as usize].name;
                Err(refusal::duplicate_key(key, queue, id, state))
            }
        }
    }

    /// Whether a queue takes so many more jobs with so many more bytes. What replaces a job is none more, and may have
    /// more bytes or not.
    fn admits(&self, name: &QueueName, jobs: u64, bytes: u64) -> Result<()> {
        self.has_space()?;
        let Some(queue) = self
            .by_name
            .get(name)
            .map(|number| &self.queues[*number as usize])
        else {
            return Ok(());
        };
        if queue.config.paused_in {
            return Err(refusal::paused(name));
        }
        if let Some(max) = queue
            .config
            .max_jobs
            .filter(|max| jobs > 0 && queue.held() + jobs > *max)
        {
            return Err(refusal::too_many_jobs(name, queue.held(), max));
        }
        if let Some(max) = queue
            .config
            .max_bytes
            .filter(|max| (jobs > 0 || bytes > 0) && queue.bytes + bytes > *max)
        {
            return Err(refusal::too_many_bytes(name, queue.bytes, max));
        }
        Ok(())
    }

    /// Whether the disk has room for more jobs.
    pub(super) fn has_space(&self) -> Result<()> {
        if !self.takes_nothing() {
            return Ok(());
        }
        let message = "the disk is full: jobs can be leased and settled, but none taken in until there is space again";
        Err(Error::new(Code::QueueFull, message))
    }

    /// Puts a job into each matching queue: first everything that could be refused is looked at, then all is done.
    pub(super) fn publish(&mut self, message: Message, now: Now) -> Step<Result<Vec<Pushed>>> {
        let routing_key = message.routing_key.as_deref();
        let queues: Vec<QueueName> = self
            .subscriptions
            .range((message.topic.clone(), String::new())..)
            .take_while(|((topic, _), _)| *topic == message.topic)
            .filter(|(_, subscription)| subscription.wants(routing_key))
            .map(|(_, subscription)| subscription.queue.clone())
            .collect();
        if let Err(error) = self.may_publish(&queues, &message, now)? {
            return Ok(Err(error));
        }
        let mut pushed = Vec::with_capacity(queues.len());
        for queue in &queues {
            match self.push(queue, message.spec.clone(), now)? {
                Ok(one) => pushed.push(one),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(pushed))
    }

    fn may_publish(
        &mut self,
        queues: &[QueueName],
        message: &Message,
        now: Now,
    ) -> Step<Result<()>> {
        let spec = &message.spec;
        let mut new: Vec<&QueueName> = Vec::new();
        let mut replaced: Vec<(&QueueName, u64)> = Vec::new();
        for queue in queues {
            let policy = spec
                .key
                .as_ref()
                .map(|key| key.on_duplicate)
                .unwrap_or_default();
            let twice = spec.key.is_some() && new.contains(&queue);
            if twice && policy != OnDuplicate::Return {
                let message = format!(
                    "two subscriptions lead to queue {queue}, which can take a key only once"
                );
                return Ok(Err(Error::new(Code::Conflict, message)));
            }
            match self.rival(queue, spec, now)? {
                _ if twice => {}
                None => new.push(queue),
                Some((_, existing)) if policy == OnDuplicate::Return => drop(existing),
                Some((_, existing)) => {
                    let state = state(&existing, now);
                    let waits = !self.leases.contains_key(&existing.id.0)
                        && matches!(state, State::Scheduled | State::Ready);
                    if !(policy == OnDuplicate::Replace && waits) {
                        let message =
                            format!("the key is held in queue {queue} by job {}", existing.id);
                        return Ok(Err(
                            Error::new(Code::DuplicateKey, message).about(existing.id)
                        ));
                    }
                    replaced.push((queue, growth(spec, &existing)));
                }
            }
        }
        let missing = new
            .iter()
            .filter(|queue| !self.by_name.contains_key(**queue))
            .count();
        let (copies, each) = (new.len() + replaced.len(), weight(spec));
        if copies as u64 * each as u64 > FAN_OUT {
            let message = format!(
                "{copies} copies of {each} bytes are more than can be published in one step"
            );
            return Ok(Err(Error::new(Code::TooLarge, message)));
        }
        let bytes = spec.payload.len() as u64;
        let mut into: BTreeMap<&QueueName, u64> = BTreeMap::new();
        for queue in new {
            *into.entry(queue).or_default() += 1;
        }
        for (queue, copies) in into {
            if let Err(error) = self.admits(queue, copies, copies * bytes) {
                return Ok(Err(error));
            }
        }
        for (queue, bytes) in replaced {
            if let Err(error) = self.admits(queue, 0, bytes) {
                return Ok(Err(error));
            }
        }
        // Nothing else refuses the message: a queue that gives way does so for something.
        Ok(self.make_room_for_queues(missing))
    }
}

/// How many bytes more a queue has when the job is replaced.
fn growth(spec: &JobSpec, existing: &Stored) -> u64 {
    (spec.payload.len() as u64).saturating_sub(existing.payload.len() as u64)
}

/// How many bytes a job takes, about.
pub fn weight(spec: &JobSpec) -> usize {
    let headers: usize = spec.headers.iter().map(|(k, v)| k.len() + v.len()).sum();
    spec.payload.len() + headers + 256
}

fn pushed(job: &Stored, how: Accepted, now: Now) -> Pushed {
    Pushed {
        id: job.id,
        state: state(job, now),
        run_at: now.on_wall(job.due),
        how,
    }
}

fn stored(id: JobId, queue: u32, spec: JobSpec, now: Now) -> Stored {
    let expires = match spec.ttl {
        Ttl::None => None,
        Ttl::After(span) => Some(Due {
            at: now.ceiling.plus(span),
            base: Base::Steady,
        }),
        Ttl::At(at) => Some(Due {
            at,
            base: Base::Wall,
        }),
    };
    let (key, window) = match spec.key {
        Some(key) => (Some(key.name), key.window),
        None => (None, std::time::Duration::ZERO),
    };
    Stored {
        id,
        queue,
        kept: Kept::Waiting,
        kind: if spec.kind.is_empty() {
            record::empty()
        } else {
            Arc::from(spec.kind)
        },
        payload: spec.payload,
        headers: spec.headers,
        priority: spec.priority,
        due: spec.when.due(now),
        front: false,
        created_at: now.wall,
        ttr: spec.ttr,
        expires,
        max_attempts: spec.max_attempts,
        backoff: spec.backoff,
        key,
        window,
        group: spec.group,
        retention: spec.retention,
        attempt: 0,
        failures: 0,
        vanished: 0,
        last_error: None,
        dead: None,
        ended_at: None,
        until: auxo_core::Timestamp(0),
        progress: None,
        result: None,
        timeline: Vec::new(),
        weight: 0,
    }
}
