//! Jobs go out: leases, and those who wait for one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use auxo_core::engine::{Ask, Holds, Pick};
use auxo_core::job::{DeadReason, Leased};
use auxo_core::life::{Event, State};
use auxo_core::refusal::{self, Hold};
use auxo_core::time::{Base, Due, Now, millis};
use auxo_core::{JobId, QueueName, Result, Token};
use bytes::Bytes;

use super::line::{Head, Rank, Turn};
use super::settle::Ending;
use super::view::{self, steady};
use super::{After, Answer, Machine, Reply, Step, Ticket, Waiter};
use crate::damage::Trouble;
use crate::record::{Kept, Lease, LeaseItem, Place, Record, Stored, lease_millis};
use crate::segment::log_name;

/// An answer has room for so many jobs from the start.
const FIRST_ROOM: usize = 128;
/// Payloads up to this size share the memory of their answer.
const SMALL: usize = 4 << 10;

/// How many payload bytes one answer has at most, rounded up to a whole job.
const ANSWER: usize = 16 << 20;
/// How many expired jobs one look buries on its way.
const BURIALS: u32 = 256;

/// What was lent, and what its answer waits for.
type Lent = (Vec<Leased>, After);

impl Machine {
    /// Lends from the queue that the call picks; `None` when none has something. The answer waits for the
    /// record of the lease, and for the disk where a job was handed out for good.
    pub(super) fn lease(&mut self, ask: &Ask, now: Now) -> Step<Result<Option<Lent>>> {
        // Who waited longer comes first.
        self.serve_dirty(now)?;
        if let Some(named) = ask.job {
            let hold = match named.holds {
                Holds::Respect => self.hold(named.id, now)?,
                Holds::Bypass => None,
            };
            return match hold {
                Some(hold) => Ok(Err(refusal::held_back(named.id, hold))),
                None => self.lease_job(named.id, ask, now).map(Ok),
            };
        }
        let named = self.named(ask);
        for number in &named {
            self.queues[*number as usize].last_asked = Some(now.wall);
            self.touch(*number);
        }
        self.lease_picked(named, ask, now).map(Ok)
    }

    /// Those of the queues of a call that there are.
    fn named(&self, ask: &Ask) -> Vec<u32> {
        let numbers = ask.queues.iter().map(|name| self.by_name.get(name));
        numbers.flatten().copied().collect()
    }

    fn lease_picked(&mut self, named: Vec<u32>, ask: &Ask, now: Now) -> Step<Option<Lent>> {
        if ask.pick == Pick::MostUrgent {
            return self.lease_most_urgent(named, ask, now);
        }
        for number in named {
            if let Some(leased) = self.lease_from(number, None, ask, now)? {
                return Ok(Some(leased));
            }
        }
        Ok(None)
    }

    /// Lends from the queue whose next job comes first, up to where one of another queue does.
    fn lease_most_urgent(
        &mut self,
        mut named: Vec<u32>,
        ask: &Ask,
        now: Now,
    ) -> Step<Option<Lent>> {
        named.sort_unstable();
        // A queue that is named twice is no rival of itself.
        named.dedup();
        let (mut best, mut rival): (Option<(Rank, u32)>, Option<Rank>) = (None, None);
        for number in named {
            if self.lease_room(number, now) == 0 {
                continue;
            }
            let Some((head, _)) = self.next_due(number, Turn::Kept, now)? else {
                continue;
            };
            let (rank, first) = (head.rank(), best.map(|(rank, _)| rank));
            if first.is_none_or(|first| rank < first) {
                (best, rival) = (Some((rank, number)), first);
            } else if rival.is_none_or(|rival| rank < rival) {
                rival = Some(rank);
            }
        }
        match best {
            Some((_, number)) => self.lease_from(number, rival, ask, now),
            None => Ok(None),
        }
    }

    /// Lends the next jobs of a queue, as long as they come before their rival in another.
    fn lease_from(
        &mut self,
        number: u32,
        rival: Option<Rank>,
        ask: &Ask,
        now: Now,
    ) -> Step<Option<Lent>> {
        let room = self.lease_room(number, now).min(ask.max) as usize;
        let mut grabbed = self.nothing_grabbed();
        let mut bytes = 0;
        while grabbed.leased.len() < room && bytes < ANSWER {
            if let Some(rival) = rival
                && !self.is_before(number, rival, now)?
            {
                break;
            }
            let Some((head, job)) = self.next_due(number, Turn::Taken, now)? else {
                break;
            };
            if grabbed.leased.is_empty() {
                grabbed.leased.reserve(room.min(FIRST_ROOM));
                grabbed.items.reserve(room.min(FIRST_ROOM));
            }
            bytes += job.payload.len();
            self.grab(&mut grabbed, head.spot.place, job, ask, now);
        }
        Ok(self.hand_over(number, grabbed, ask, now))
    }

    /// Whether the next job of a queue comes before that of another.
    fn is_before(&mut self, number: u32, rival: Rank, now: Now) -> Step<bool> {
        let next = self.next_due(number, Turn::Kept, now)?;
        Ok(next.is_some_and(|(head, _)| head.rank() < rival))
    }

    /// Lends a job that was named, past its line and its queue's limits.
    fn lease_job(&mut self, id: JobId, ask: &Ask, now: Now) -> Step<Option<Lent>> {
        if self.leases.contains_key(&id.0) || self.no_room(0).is_some() {
            return Ok(None);
        }
        self.make_room(now)?;
        let Some((place, job)) = self.ready_job(id, now)? else {
            return Ok(None);
        };
        let (number, mut grabbed) = (job.queue, self.nothing_grabbed());
        self.grab(&mut grabbed, place, job, ask, now);
        Ok(self.hand_over(number, grabbed, ask, now))
    }

    /// What keeps the queue of a job from handing it out now. Nothing does if it is not there to be handed out at all.
    fn hold(&mut self, id: JobId, now: Now) -> Step<Option<Hold>> {
        if self.leases.contains_key(&id.0) || self.no_room(0).is_some() {
            return Ok(None);
        }
        let Some(place) = self.log.find_id(id.0)? else {
            return Ok(None);
        };
        let job = self.log.read(place)?;
        let is_waiting = job.kept == Kept::Waiting;
        if is_waiting && job.expires.is_some_and(|due| now.reached(due)) {
            return Ok(None);
        }
        Ok(match view::state(&job, now) {
            State::Scheduled => Some(Hold::NotDue),
            State::Dead if job.dead != Some(DeadReason::Expired) => Some(Hold::Dead),
            State::Ready => self.hold_of_queue(job.queue, now),
            _ => None,
        })
    }

    /// What keeps a queue from handing out a job that is ready.
    fn hold_of_queue(&mut self, number: u32, now: Now) -> Option<Hold> {
        let room = self.lease_room(number, now);
        let queue = &self.queues[number as usize];
        let most = queue.config.max_leased;
        if room > 0 {
            None
        } else if queue.config.holds_back(now.wall) {
            Some(Hold::Paused)
        } else if most.is_some_and(|most| queue.leased >= u64::from(most)) {
            Some(Hold::MaxLeased)
        } else {
            Some(Hold::Rate)
        }
    }

    fn nothing_grabbed(&self) -> Grab {
        Grab {
            items: Vec::new(),
            leased: Vec::new(),
            // Until the disk knows that a new process counts leases, it could let the next one count the same.
            after: if self.synced < self.opened {
                After::Synced
            } else {
                After::Written
            },
        }
    }

    /// Makes leases of what was grabbed of a queue.
    fn hand_over(&mut self, number: u32, mut grabbed: Grab, ask: &Ask, now: Now) -> Option<Lent> {
        if grabbed.leased.is_empty() {
            return None;
        }
        gather(&mut grabbed.leased);
        // Those with a lease are paid for with its record.
        let without = (grabbed.leased.len() - grabbed.items.len()) as u32;
        if without > 0 && self.queues[number as usize].config.rate.is_some() {
            self.log.append(&Record::Spend {
                queue: number,
                count: without,
                at: now.ceiling,
            });
            self.queues[number as usize].pay(without, now.ceiling);
        }
        self.seal_grab(number, &mut grabbed, ask, now);
        Some((grabbed.leased, grabbed.after))
    }

    /// How many jobs the queue's settings allow to be leased now.
    fn lease_room(&mut self, number: u32, now: Now) -> u32 {
        if self.no_room(0).is_some() {
            return 0;
        }
        let queue = &mut self.queues[number as usize];
        if queue.config.holds_back(now.wall) {
            return 0;
        }
        let free = queue
            .config
            .max_leased
            .map_or(u64::MAX, |max| u64::from(max).saturating_sub(queue.leased));
        let tokens = queue.tokens(now);
        tokens.min(u32::try_from(free).unwrap_or(u32::MAX))
    }

    /// The next due job of a queue. What has expired is buried on the way.
    fn next_due(&mut self, number: u32, turn: Turn, now: Now) -> Step<Option<(Head, Stored)>> {
        let mut buried = 0;
        loop {
            let Machine { queues, log, .. } = self;
            let Some(head) = queues[number as usize].lanes.due(log, now, turn)? else {
                return Ok(None);
            };
            let spot = head.spot;
            let job = self.log.lend(spot.place)?;
            let job = is_job(spot.id, spot.place, job)?;
            if job.expires.is_some_and(|due| now.reached(due)) {
                self.make_room(now)?;
                self.expire(spot.place, job, now);
                buried += 1;
                if buried == BURIALS {
                    // The rest is buried in turn with other work, and who waits is looked after then.
                    self.stir(number);
                    return Ok(None);
                }
                continue;
            }
            return Ok(Some((head, job)));
        }
    }

    /// Reads a job that an index pointed to.
    pub(super) fn read_spot(&mut self, id: u64, place: Place) -> Step<Stored> {
        let job = self.log.read(place)?;
        is_job(id, place, job)
    }

    fn grab(&mut self, grab: &mut Grab, place: Place, job: Stored, ask: &Ask, now: Now) {
        // Out of the line at once, so that the next look does not find it again.
        self.log.segment_mut(place.segment).taken.set(place.ord);
        let attempt = job.attempt + 1;
        let counter = self.counter + 1 + grab.items.len() as u64;
        if job.ttr.is_zero() {
            self.log.segment_mut(place.segment).taken.clear(place.ord);
            grab.after = After::Synced;
            let token = Token {
                job: job.id,
                counter: 0,
                nonce: 0,
            };
            let mut view = self.view(job.clone(), now);
            self.take(place, job, &ask.worker, now);
            view.attempt = attempt;
            view.state = State::Done;
            grab.leased.push(Leased {
                job: view,
                token,
                deadline: now.wall,
            });
            return;
        }
        let ttr = ask.ttr.unwrap_or(job.ttr);
        let item = LeaseItem {
            id: job.id,
            place,
            payload: job.payload.len() as u32,
            weight: job.weight,
            attempt,
            ttr: lease_millis(ttr),
            line: job.line(),
            plain: kept_after(&job, now).is_none(),
        };
        grab.items.push(item);
        let deadline = now.on_wall(steady(now.ceiling.0.saturating_add(millis(ttr))));
        let token = Token {
            job: job.id,
            counter,
            nonce: 0,
        };
        grab.leased.push(Leased {
            job: self.view(job, now),
            token,
            deadline,
        });
    }

    /// Writes the lease record of what was grabbed, and finishes the answers with it.
    fn seal_grab(&mut self, queue: u32, grab: &mut Grab, ask: &Ask, now: Now) {
        let nonce = self.dice.roll();
        if !grab.items.is_empty() {
            let lease = Lease {
                queue,
                worker: ask.worker.clone(),
                counter: self.counter + 1,
                nonce,
                at: now.ceiling,
                wall: now.wall,
                items: std::mem::take(&mut grab.items),
            };
            let record = Record::Lease(lease);
            self.log.append(&record);
            if let Record::Lease(lease) = &record {
                self.absorb_lease(lease);
            }
        }
        for leased in &mut grab.leased {
            leased.token.nonce = nonce;
            if let Some(held) = self.leases.get(&leased.job.id.0) {
                leased.job.state = State::Leased;
                leased.job.attempt = held.attempt;
                view::extend(&mut leased.job.timeline, held.moment());
                leased.job.holder = Some(auxo_core::job::Holder {
                    worker: held.worker.clone(),
                    deadline: leased.deadline,
                    cancel: false,
                });
            }
        }
        if self.watched {
            let jobs: Vec<_> = grab
                .leased
                .iter()
                .map(|leased| (leased.job.id, leased.job.state))
                .collect();
            for (id, state) in jobs {
                let event = if state == State::Done {
                    Event::Take
                } else {
                    Event::Lease
                };
                self.notice(queue, id, event, now, &ask.worker, "");
            }
        }
    }

    /// Lets a lease call wait.
    pub(super) fn wait(&mut self, ticket: Ticket, mut ask: Ask, now: Now) {
        let mut named = Vec::with_capacity(ask.queues.len());
        for name in ask.queues {
            // A queue that is named twice is waited for once.
            if !named.contains(&name) {
                named.push(name);
            }
        }
        ask.queues = named;
        self.arrivals += 1;
        let arrival = self.arrivals;
        for name in &ask.queues {
            match self.by_name.get(name).copied() {
                Some(number) => {
                    let waiters = &mut self.queues[number as usize].waiters;
                    waiters.insert(arrival, ticket);
                    self.stir(number);
                }
                // The queue is not made for the asking; who waits for it is told when it comes to be.
                None => {
                    let strangers = self.strangers.entry(name.clone()).or_default();
                    strangers.insert(arrival, ticket);
                }
            }
        }
        let until = now.steady.plus(ask.wait).0;
        self.wait_ends.insert((until, ticket));
        let waiter = Waiter {
            ask,
            until,
            arrival,
        };
        self.waiting.insert(ticket, waiter);
    }

    /// Stops waiting, without an answer.
    pub fn abandon(&mut self, ticket: Ticket) {
        let Some(waiter) = self.waiting.remove(&ticket) else {
            self.abandon_audit(ticket);
            return;
        };
        self.wait_ends.remove(&(waiter.until, ticket));
        for name in &waiter.ask.queues {
            match self.by_name.get(name).copied() {
                Some(number) => {
                    let waiters = &mut self.queues[number as usize].waiters;
                    waiters.remove(&waiter.arrival);
                    self.touch(number);
                }
                None => {
                    if let Some(tickets) = self.strangers.get_mut(name) {
                        tickets.remove(&waiter.arrival);
                        if tickets.is_empty() {
                            self.strangers.remove(name);
                        }
                    }
                }
            }
        }
    }

    /// A queue came to be: those who waited for it wait in it.
    pub(super) fn welcome(&mut self, name: &QueueName, number: u32) {
        if let Some(tickets) = self.strangers.remove(name) {
            self.queues[number as usize].waiters.extend(tickets);
            self.stir(number);
        }
    }

    /// Notes that something changed for those who wait in a queue.
    pub(super) fn stir(&mut self, number: u32) {
        if !std::mem::replace(&mut self.queues[number as usize].dirty, true) {
            self.dirty.push(number);
        }
    }

    /// Serves those who wait in queues where something changed, and sets the alarm of each. Who waits for several queues may
    /// take from one in which others have waited longer: so all of them are served in the order in which they came.
    pub(super) fn serve_dirty(&mut self, now: Now) -> Step<()> {
        let mut line = BinaryHeap::new();
        loop {
            while let Some(number) = self.dirty.pop() {
                let queue = &mut self.queues[number as usize];
                queue.dirty = false;
                let first = queue.waiters.first_key_value();
                line.push(Reverse((first.map_or(0, |(arrival, _)| *arrival), number)));
            }
            let Some(Reverse((arrival, number))) = line.pop() else {
                return Ok(());
            };
            let waiters = &self.queues[number as usize].waiters;
            match waiters.first_key_value().map(|(at, who)| (*at, *who)) {
                // The one who was first has been served elsewhere.
                Some((first, _)) if first > arrival => line.push(Reverse((first, number))),
                Some((_, ticket)) if self.serve(number, ticket, now)? => {
                    line.push(Reverse((arrival, number)));
                }
                _ => self.set_alarm(number, now),
            }
        }
    }

    /// Serves the first who waits in a queue; says whether there may be something for the next.
    fn serve(&mut self, number: u32, ticket: Ticket, now: Now) -> Step<bool> {
        let Some(waiter) = self.waiting.get(&ticket) else {
            self.queues[number as usize].waiters.pop_first();
            return Ok(true);
        };
        let ask = waiter.ask.clone();
        self.make_room(now)?;
        let lent = match ask.queues.len() {
            1 => self.lease_from(number, None, &ask, now)?,
            _ => self.lease_picked(self.named(&ask), &ask, now)?,
        };
        let Some((leased, after)) = lent else {
            return Ok(false);
        };
        self.abandon(ticket);
        self.out.answers.push(Answer {
            ticket,
            reply: Ok(Reply::Lease(leased)),
            after,
        });
        Ok(true)
    }

    fn set_alarm(&mut self, number: u32, now: Now) {
        let next = if self.queues[number as usize].waiters.is_empty() {
            None
        } else {
            self.next_look(number, now)
        };
        let queue = &mut self.queues[number as usize];
        if queue.alarm != next {
            if let Some(old) = queue.alarm {
                self.alarms.remove(&(old, number));
            }
            if let Some(new) = next {
                self.alarms.insert((new, number));
            }
            queue.alarm = next;
        }
    }

    /// When a queue that has nothing to give now should be looked at again. A limit that only an operation lifts needs no
    /// alarm.
    fn next_look(&mut self, number: u32, now: Now) -> Option<u64> {
        let room = self.lease_room(number, now);
        let full = self.no_room(0).is_some();
        let queue = &self.queues[number as usize];
        let free = queue
            .config
            .max_leased
            .is_none_or(|max| queue.leased < u64::from(max));
        if queue.config.paused_out || !free || full {
            return None;
        }
        let resumed = queue.config.pause_ends(now.wall).map_or(0, |at| {
            let base = Base::Wall;
            now.on_steady(Due { at, base }).0
        });
        let next = queue.lanes.next(now).map(|next| next.max(resumed));
        match room {
            0 => next.map(|next| next.max(queue.next_token(now).0)),
            _ => next,
        }
    }

    /// Delivered at most once: handed out and done in one step.
    fn take(&mut self, place: Place, job: Stored, worker: &Arc<str>, now: Now) {
        let attempt = job.attempt + 1;
        let ending = Ending {
            event: Event::Take,
            by: worker.clone(),
            result: None,
            attempt,
        };
        self.finish_job(place, job, None, ending, now);
    }
}

struct Grab {
    items: Vec<LeaseItem>,
    leased: Vec<Leased>,
    after: After,
}

/// Whether anything of a job is kept when it is done, and until when.
pub(super) fn kept_after(job: &Stored, now: Now) -> Option<(Kept, auxo_core::Timestamp)> {
    if !job.retention.is_zero() {
        Some((Kept::Done, now.steady.plus(job.retention)))
    } else if job.key.is_some() && !job.window.is_zero() {
        Some((Kept::Tomb, now.steady.plus(job.window)))
    } else {
        None
    }
}

/// Gives the payloads of an answer memory of their own, apart from the log's: the small ones one block together, because
/// an allocation each would cost more than the copy. Whoever keeps one of them keeps at most what came with it.
fn gather(leased: &mut [Leased]) {
    let small = |leased: &&mut Leased| leased.job.payload.len() <= SMALL;
    let size = leased
        .iter_mut()
        .filter(small)
        .map(|one| one.job.payload.len())
        .sum();
    let mut block = Vec::with_capacity(size);
    for one in leased.iter_mut().filter(small) {
        block.extend_from_slice(&one.job.payload);
    }
    let mut block = Bytes::from(block);
    for one in leased {
        let payload = &mut one.job.payload;
        *payload = if payload.len() <= SMALL {
            block.split_to(payload.len())
        } else {
            Bytes::copy_from_slice(payload)
        };
    }
}

/// The job that an index pointed to, if it is that.
fn is_job(id: u64, place: Place, job: Stored) -> Step<Stored> {
    if job.id.0 == id {
        return Ok(job);
    }
    let what = format!(
        "the index says that job {id} lies here, but it is job {}",
        job.id
    );
    Err(Trouble::damaged(
        log_name(place.segment),
        u64::from(place.offset),
        what,
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use auxo_core::clock::{Clock, ManualClock};
    use auxo_core::engine::Change;
    use auxo_core::queue::{QueueConfig, Rate};
    use auxo_core::{JobSpec, NewJob, Timestamp};

    use super::super::{Op, Settings};
    use super::*;
    use crate::dice::Dice;
    use crate::disk::SimDisk;

    fn name(name: &str) -> QueueName {
        QueueName::new(name).expect("a good name")
    }

    fn store() -> (Machine, Now) {
        let settings = Settings {
            segment_size: 64 << 10,
            node: Arc::from(""),
            max_queues: 10,
            pave: false,
        };
        let disk = Arc::new(SimDisk::new());
        let machine = Machine::open(disk, settings, Dice::seeded(1)).expect("a new store");
        (machine, ManualClock::at(1_700_000_000_000).now())
    }

    fn wait(machine: &mut Machine, ticket: Ticket, now: Now) {
        let ask = Ask {
            queues: vec![name("here"), name("not-yet")],
            job: None,
            pick: Pick::First,
            max: 1,
            wait: Duration::from_secs(60),
            ttr: None,
            worker: Arc::from(""),
        };
        machine.apply(ticket, Op::Lease(ask), now);
    }

    fn push(machine: &mut Machine, queue: &str, count: usize, now: Now) {
        let job = NewJob {
            queue: name(queue),
            spec: JobSpec::default(),
        };
        machine.apply(0, Op::Push(vec![job; count]), now);
    }

    #[test]
    fn a_queue_in_which_much_changes_is_looked_at_once() {
        let (mut machine, now) = store();
        let paused = QueueConfig {
            paused_out: true,
            ..QueueConfig::default()
        };
        machine.apply(0, Op::Change(Change::Queue(name("here"), paused)), now);
        wait(&mut machine, 1, now);
        push(&mut machine, "here", 1_000, now);
        assert_eq!(machine.dirty.len(), 1);
        machine.finish(now);
        assert_eq!(machine.dirty.len(), 0);
        // And once more when something changes again.
        push(&mut machine, "here", 1, now);
        assert_eq!(machine.dirty.len(), 1);
    }

    #[test]
    fn those_who_stop_waiting_leave_nothing_behind_and_the_others_keep_their_order() {
        let (mut machine, now) = store();
        let change = Change::Queue(name("here"), QueueConfig::default());
        machine.apply(0, Op::Change(change), now);
        for ticket in 1..=100 {
            // Tickets are names, not an order.
            wait(&mut machine, 1_000 - ticket, now);
        }
        for ticket in (1..=100).filter(|ticket| ticket % 10 != 0) {
            machine.abandon(1_000 - ticket);
        }
        assert_eq!(machine.queues[0].waiters.len(), 10);
        assert_eq!(machine.strangers[&name("not-yet")].len(), 10);
        machine.out.answers.clear();
        push(&mut machine, "not-yet", 5, now);
        push(&mut machine, "here", 5, now);
        machine.finish(now);
        let told: Vec<Ticket> = machine.out.answers.iter().map(|one| one.ticket).collect();
        let told: Vec<Ticket> = told.into_iter().filter(|ticket| *ticket != 0).collect();
        assert_eq!(told.len(), 10);
        let first: Vec<Ticket> = (1..=5).map(|n| 1_000 - 10 * n).collect();
        assert!(told[..5] == first[..], "{told:?}");
        assert!(
            machine
                .queues
                .iter_mut()
                .all(|queue| queue.waiters.is_empty())
        );
        assert!(machine.strangers.is_empty() && machine.waiting.is_empty());
    }

    /// Leases as many as the queue gives, one call after the other.
    fn drain(machine: &mut Machine, now: Now) -> u64 {
        let mut lent = 0;
        loop {
            let ask = Ask {
                queues: vec![name("here")],
                job: None,
                pick: Pick::First,
                max: 1,
                wait: Duration::ZERO,
                ttr: None,
                worker: Arc::from(""),
            };
            machine.out.answers.clear();
            machine.apply(1, Op::Lease(ask), now);
            match machine.out.answers.pop().map(|answer| answer.reply) {
                Some(Ok(Reply::Lease(leased))) if leased.len() == 1 => lent += 1,
                Some(Ok(Reply::Lease(_))) => return lent,
                _ => panic!("no answer to a lease"),
            }
        }
    }

    #[test]
    fn a_rate_holds_within_a_millisecond_that_has_begun_and_over_many_of_them() {
        let rate = Rate {
            count: 1_000,
            per: Duration::from_secs(1),
            burst: 10,
        };
        for ttr in [Duration::ZERO, Duration::from_secs(60)] {
            let (mut machine, start) = store();
            let config = QueueConfig {
                rate: Some(rate),
                ..QueueConfig::default()
            };
            machine.apply(0, Op::Change(Change::Queue(name("here"), config)), start);
            let job = NewJob {
                queue: name("here"),
                spec: JobSpec {
                    ttr,
                    ..JobSpec::default()
                },
            };
            machine.apply(0, Op::Push(vec![job; 500]), start);
            let mut lent = 0;
            for passed in 0..100 {
                // Of clients that call at once, one has read the clock before another whose call comes first.
                for behind in [0, 1, 0] {
                    let steady = Timestamp(start.steady.0 + passed - behind);
                    // A part of each millisecond is over, as it nearly always is.
                    let now = Now {
                        steady,
                        wall: steady,
                        ceiling: steady.plus(Duration::from_millis(1)),
                    };
                    lent += drain(&mut machine, now);
                    assert_eq!(lent, 10 + passed, "{ttr:?}");
                }
            }
        }
    }
}
