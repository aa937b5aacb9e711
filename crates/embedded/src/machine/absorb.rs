//! Records: written, and taken in as recovery takes them in.

use std::cmp::Reverse;

use auxo_core::job::DeadReason;
use auxo_core::life::Event;
use auxo_core::queue::QueueConfig;
use auxo_core::time::{Base, Due, Timestamp};
use auxo_core::{JobId, QueueName, Result};
use bytes::Bytes;

use super::queue::Queue;
use super::{Held, Machine};
use crate::record::{From, Gone, Kept, Lease, Place, Previous, Put, Record, Remove, Stored};
use crate::segment::Finder;
use crate::stream::{Later, Spot};

impl Machine {
    /// Writes a job record and takes it in.
    pub(super) fn put(
        &mut self,
        event: Option<Event>,
        from: From,
        previous: Option<Previous>,
        job: Stored,
    ) -> Place {
        let put = Put {
            event,
            from,
            previous,
            job,
        };
        let offset = self.log.append_put(&put);
        let weight = self.log.position().offset - offset;
        self.absorb_put(&put, self.log.active, offset, weight)
    }

    /// Takes a job record in: it becomes the job's current one, and the one before is none any more.
    pub(super) fn absorb_put(
        &mut self,
        put: &Put,
        segment: u32,
        offset: u32,
        weight: u32,
    ) -> Place {
        let job = &put.job;
        let payload = job.payload.len() as u32;
        let place = self.admit(job, segment, offset, weight);
        if let Some(previous) = put.previous {
            self.count_before_it_goes(previous.place, put.from, job.queue, previous.payload);
            self.log
                .segment_mut(previous.place.segment)
                .kill(previous.place.ord, previous.weight);
        }
        if put.event.is_none() && put.from == From::Leased {
            // Compaction moved the record of a leased job.
            self.log.segment_mut(segment).taken.set(place.ord);
            if let Some(held) = self.leases.get_mut(&job.id.0) {
                held.place = place;
            }
            return place;
        }
        if put.from == From::Leased {
            self.leases.remove(&job.id.0);
        }
        self.last_id = self.last_id.max(job.id);
        let queue = &mut self.queues[job.queue as usize];
        if let Some(previous) = put.previous {
            queue.leave(put.from, previous.payload, previous.line);
        }
        let expired = job.dead == Some(DeadReason::Expired);
        queue.enter(put.from, job.kept, expired, payload, job.line());
        self.line_up(job, place);
        place
    }

    /// Gives a job record its number in the segment, and makes it findable by id and key.
    fn admit(&mut self, job: &Stored, segment: u32, offset: u32, weight: u32) -> Place {
        let file = self.log.segment_mut(segment);
        let ord = file.add(weight);
        if let Finder::Memory(recent) = &mut file.finder {
            recent.add(job.id.0, ord, offset);
        }
        let place = Place {
            segment,
            ord,
            offset,
        };
        if let Some(hash) = job.key_hash() {
            self.recent_keys.entry(hash).or_default().push(place);
        }
        place
    }

    /// Puts a job record into the lines it belongs in.
    pub(super) fn line_up(&mut self, job: &Stored, place: Place) {
        let id = job.id.0;
        match job.kept {
            Kept::Waiting => {
                self.join_line(job, place);
                if !self.queues[job.queue as usize].waiters.is_empty() {
                    self.stir(job.queue);
                }
                if let Some(expires) = job.expires {
                    let spot = Spot {
                        time: expires.at.0,
                        id,
                        place,
                    };
                    self.expiry[expires.base as usize].insert(spot, Later::No);
                }
            }
            Kept::Dead => {
                let time = job.ended_at.unwrap_or_default().0;
                self.recent_dead.insert((job.queue, time, id), place);
            }
            Kept::Done => {
                self.recent_done.insert((job.queue, job.until.0, id), place);
                self.keep.insert(
                    Spot {
                        time: job.until.0,
                        id,
                        place,
                    },
                    Later::No,
                );
            }
            Kept::Tomb => self.keep.insert(
                Spot {
                    time: job.until.0,
                    id,
                    place,
                },
                Later::No,
            ),
        }
    }

    /// Puts a waiting job into its queue's line.
    pub(super) fn join_line(&mut self, job: &Stored, place: Place) {
        let line = job.line();
        let queue = &mut self.queues[job.queue as usize];
        let fair = queue.config.fair;
        let group = if fair { job.group_hash() } else { 0 };
        let spot = Spot {
            time: line.at.0,
            id: job.id.0,
            place,
        };
        let later = if line.at > job.created_at {
            Later::Yes
        } else {
            Later::No
        };
        let lane = queue.lanes.line(job.priority, group, fair);
        lane.stream(line.base).insert(spot, later);
    }

    pub(super) fn remove(&mut self, remove: Remove) {
        self.log.append(&Record::Remove(remove));
        self.absorb_remove(&remove);
    }

    pub(super) fn absorb_remove(&mut self, remove: &Remove) {
        self.count_before_it_goes(remove.place, remove.from, remove.queue, remove.payload);
        self.log
            .segment_mut(remove.place.segment)
            .kill(remove.place.ord, remove.weight);
        if remove.from == From::Leased {
            self.leases.remove(&remove.id.0);
        }
        let queue = &mut self.queues[remove.queue as usize];
        queue.leave(remove.from, remove.payload, remove.line);
        queue.gone(remove.how, remove.from);
        self.touch(remove.queue);
    }

    pub(super) fn absorb_lease(&mut self, lease: &Lease) {
        self.queues[lease.queue as usize].pay(lease.items.len() as u32, lease.at);
        for (i, item) in lease.items.iter().enumerate() {
            let counter = lease.counter + i as u64;
            let deadline = lease.at.0.saturating_add(u64::from(item.ttr));
            self.log
                .segment_mut(item.place.segment)
                .taken
                .set(item.place.ord);
            self.queues[lease.queue as usize].lease(item.line);
            self.counter = self.counter.max(counter);
            self.deadlines.push(Reverse((deadline, item.id.0, counter)));
            let held = Held {
                place: item.place,
                queue: lease.queue,
                counter,
                nonce: lease.nonce,
                deadline,
                ttr: item.ttr,
                leased_at: lease.wall,
                worker: lease.worker.clone(),
                attempt: item.attempt,
                payload: item.payload,
                weight: item.weight,
                plain: item.plain,
                cancel: false,
                progress: None,
            };
            self.leases.insert(item.id.0, held);
        }
    }

    pub(super) fn absorb_ack(&mut self, id: JobId) {
        let Some(held) = self.leases.remove(&id.0) else {
            return;
        };
        self.count_before_it_goes(held.place, From::Leased, held.queue, held.payload);
        self.log
            .segment_mut(held.place.segment)
            .kill(held.place.ord, held.weight);
        let queue = &mut self.queues[held.queue as usize];
        queue.leave(
            From::Leased,
            held.payload,
            Due {
                at: Timestamp(0),
                base: Base::Steady,
            },
        );
        queue.books.done += 1;
        self.touch(held.queue);
    }

    pub(super) fn absorb_extend(
        &mut self,
        id: JobId,
        deadline: Timestamp,
        ttr: u32,
        progress: Option<Bytes>,
    ) {
        if let Some(held) = self.leases.get_mut(&id.0) {
            held.deadline = deadline.0;
            held.ttr = ttr;
            if progress.is_some() {
                held.progress = progress;
            }
            self.deadlines
                .push(Reverse((deadline.0, id.0, held.counter)));
        }
    }

    /// The number of a queue, which is made if need be and if there is room for another.
    pub(super) fn queue_number(&mut self, name: &QueueName) -> Result<u32> {
        if let Some(number) = self.by_name.get(name) {
            return Ok(*number);
        }
        self.make_room_for_queues(1)?;
        let number = self.queues.vacant();
        let config = QueueConfig::default();
        self.log.append(&Record::Queue {
            number,
            name: name.clone(),
            config: config.clone(),
        });
        self.absorb_queue(number, name.clone(), config);
        Ok(number)
    }

    /// Takes in a queue's settings; answers whether they are ones that change its lanes.
    pub(super) fn absorb_queue(
        &mut self,
        number: u32,
        name: QueueName,
        config: QueueConfig,
    ) -> bool {
        let turned = match self.queues.get_mut(number) {
            Some(queue) => {
                let turned = queue.config.fair != config.fair;
                if queue.config.rate != config.rate {
                    queue.bucket = None;
                }
                queue.config = config;
                turned
            }
            None => {
                self.by_name.insert(name.clone(), number);
                self.queues.insert(number, Queue::new(name.clone(), config));
                self.welcome(&name, number);
                false
            }
        };
        self.touch(number);
        turned
    }

    pub(super) fn gone_from(job: &Stored) -> From {
        match (job.kept, job.dead) {
            (Kept::Waiting, _) => From::Waiting,
            (Kept::Dead, Some(DeadReason::Expired)) => From::Expired,
            (Kept::Dead, _) => From::Dead,
            (Kept::Done, _) => From::Done,
            (Kept::Tomb, _) => From::Tomb,
        }
    }

    /// Removes a job that is not leased.
    pub(super) fn drop_job(&mut self, job: &Stored, place: Place, how: Gone) {
        self.remove(Remove {
            how,
            from: Machine::gone_from(job),
            queue: job.queue,
            id: job.id,
            place,
            payload: job.payload.len() as u32,
            weight: job.weight,
            line: job.line(),
        });
    }

    /// Replaces the record of a job that is not leased.
    pub(super) fn rewrite(
        &mut self,
        event: Event,
        before: &Stored,
        place: Place,
        job: Stored,
    ) -> Place {
        let previous = Previous {
            place,
            payload: before.payload.len() as u32,
            weight: before.weight,
            line: before.line(),
        };
        self.put(Some(event), Machine::gone_from(before), Some(previous), job)
    }
}
