//! The audit: everything is read and counted again, and every difference is named.
//!
//! A large store takes seconds to read, and nobody shall wait for that. So the audit goes a piece at a time, between other
//! work, and its result is about the moment at which it began: then the books are copied, and of each segment the bits
//! that say which records are current and which of them are leased. A record that is replaced or removed before its turn
//! has come is counted when that happens, with what the books are told of it. All the others are still there when they
//! are read.

use std::collections::BTreeMap;

use auxo_core::engine::Audit;
use auxo_core::queue::Books;
use auxo_core::{Error, QueueName};
use hashbrown::HashMap;

use super::queue::Queue;
use super::{After, Answer, Machine, Reply, Step, Ticket};
use crate::bits::Bits;
use crate::record::{From, Place, Stored};
use crate::segment::{Finder, Segment};
use crate::stream::Spot;

/// What one piece may cost: entries passed, and bytes of records read. That is a few milliseconds.
const ENTRIES: u32 = 4096;
const BYTES: u64 = 4 << 20;

/// The audit that runs, and who wants one after it: they cannot be told of a moment before they asked.
#[derive(Default)]
pub struct Audits {
    running: Option<Running>,
    next: Vec<Ticket>,
}

/// An audit under way.
struct Running {
    tickets: Vec<Ticket>,
    queues: BTreeMap<u32, Copied>,
    forgotten: Books,
    segments: BTreeMap<u32, View>,
    /// The segment that is read, and how far it is.
    at: (u32, u32),
    jobs: u64,
    problems: Vec<String>,
}

/// What a queue's books and counts said at the beginning, and what was counted for it.
struct Copied {
    name: QueueName,
    books: Books,
    leased: u64,
    done: u64,
    bytes: u64,
    /// Jobs that the queue has counted as being in line.
    lined: u64,
    tombs: u64,
    tally: Tally,
}

#[derive(Clone, Copy, Default)]
struct Tally {
    waiting: u64,
    leased: u64,
    dead: u64,
    expired: u64,
    done: u64,
    tombs: u64,
    bytes: u64,
    /// Jobs that the queue's lines lead to.
    in_line: u64,
}

/// What a segment's bits said at the beginning.
struct View {
    /// The records that were current and were not counted yet.
    left: Bits,
    taken: Bits,
    expected: u32,
    found: u32,
    /// The segment was read to its end once. Its index may have been exchanged in the middle, so what is left then is
    /// looked for again.
    again: bool,
}

impl Machine {
    /// Begins an audit; answers its result if that did not take long.
    pub(super) fn audit(&mut self, ticket: Ticket) -> Step<Option<Audit>> {
        if self.audits.running.is_some() {
            self.audits.next.push(ticket);
            return Ok(None);
        }
        self.forget_all_unused(self.moment)?;
        let mut running = self.begin_audit(vec![ticket]);
        if self.audit_piece(&mut running)? {
            return Ok(Some(running.finish()));
        }
        self.audits.running = Some(running);
        Ok(None)
    }

    /// Whether an audit is under way.
    pub(super) fn auditing(&self) -> bool {
        self.audits.running.is_some() || !self.audits.next.is_empty()
    }

    /// Does the next piece of the audit under way.
    pub(super) fn go_on_auditing(&mut self) -> Step<()> {
        let mut running = match self.audits.running.take() {
            Some(running) => running,
            None if self.audits.next.is_empty() => return Ok(()),
            None => {
                let tickets = std::mem::take(&mut self.audits.next);
                self.begin_audit(tickets)
            }
        };
        let done = self.audit_piece(&mut running);
        if !matches!(done, Ok(true)) {
            self.audits.running = Some(running);
            return done.map(drop);
        }
        let tickets = std::mem::take(&mut running.tickets);
        let audit = running.finish();
        for ticket in tickets {
            self.out.answers.push(Answer {
                ticket,
                reply: Ok(Reply::Audit(audit.clone())),
                after: After::Nothing,
            });
        }
        Ok(())
    }

    /// Whoever asked for an audit does not wait any more.
    pub(super) fn abandon_audit(&mut self, ticket: Ticket) {
        self.audits.next.retain(|other| *other != ticket);
        if let Some(running) = &mut self.audits.running {
            running.tickets.retain(|other| *other != ticket);
            if running.tickets.is_empty() {
                self.audits.running = None;
            }
        }
    }

    /// Ends the audits without a result.
    pub(super) fn stop_audits(&mut self, error: &Error) {
        let Audits { running, next } = std::mem::take(&mut self.audits);
        let tickets = running.map(|running| running.tickets).unwrap_or_default();
        for ticket in tickets.into_iter().chain(next) {
            self.out.answers.push(Answer {
                ticket,
                reply: Err(error.clone()),
                after: After::Nothing,
            });
        }
    }

    /// A record is about to be no longer current: an audit that has not come to it counts it now.
    pub(super) fn count_before_it_goes(
        &mut self,
        place: Place,
        from: From,
        queue: u32,
        payload: u32,
    ) {
        let Some(running) = &mut self.audits.running else {
            return;
        };
        let Some(view) = running.segments.get_mut(&place.segment) else {
            return;
        };
        if view.left.clear(place.ord) {
            let from = view.state(place.ord, from);
            running.jobs += 1;
            view.found += 1;
            if let Some(copied) = running.queues.get_mut(&queue) {
                copied.tally.count(from, u64::from(payload));
                copied.tally.in_line += u64::from(from == From::Waiting);
            }
        }
    }

    fn begin_audit(&self, tickets: Vec<Ticket>) -> Running {
        let segments = self.log.segments.values();
        let segments: BTreeMap<u32, View> = segments
            .map(|segment| (segment.number, View::of(segment)))
            .collect();
        let mut running = Running {
            tickets,
            queues: self
                .queues
                .numbers()
                .map(|number| (number, Copied::of(&self.queues[number as usize])))
                .collect(),
            forgotten: self.forgotten,
            at: (segments.keys().next().copied().unwrap_or(0), 0),
            segments,
            jobs: 0,
            problems: Vec::new(),
        };
        self.check_leases(&mut running.problems);
        running
    }

    /// Reads a piece; answers whether it was the last.
    fn audit_piece(&mut self, running: &mut Running) -> Step<bool> {
        let (mut entries, mut bytes) = (0, 0);
        while entries < ENTRIES && bytes < BYTES {
            entries += 1;
            let (number, at) = running.at;
            let Some(view) = running.segments.get_mut(&number) else {
                return Ok(true);
            };
            let Some(place) = self.nth_record(number, at)? else {
                if !running.end_segment() {
                    return Ok(true);
                }
                continue;
            };
            running.at.1 += 1;
            if view.left.clear(place.ord) {
                view.found += 1;
                let taken = view.taken.get(place.ord);
                bytes += self.audit_job(running, place, taken)?;
            }
        }
        Ok(false)
    }

    /// The record at a position of a segment's finder; `None` behind the last.
    fn nth_record(&mut self, number: u32, at: u32) -> Step<Option<Place>> {
        let Some(segment) = self.log.segments.get(&number) else {
            // Given up since: nothing in it was current any more.
            return Ok(None);
        };
        match &segment.finder {
            Finder::Memory(recent) => Ok((at < segment.count).then(|| Place {
                segment: number,
                ord: at,
                offset: recent.offset(at),
            })),
            Finder::File(index) if at < index.entries() => {
                Ok(Some(self.log.entry(number, at)?.place))
            }
            Finder::File(_) => Ok(None),
        }
    }

    /// Reads a job and counts it; answers how much there was to read.
    fn audit_job(&mut self, running: &mut Running, place: Place, taken: bool) -> Step<u64> {
        let job = self.log.lend(place)?;
        running.jobs += 1;
        self.check_findable(&job, place, &mut running.problems)?;
        let from = match taken {
            true => From::Leased,
            false => Machine::gone_from(&job),
        };
        match running.queues.get_mut(&job.queue) {
            Some(copied) => {
                copied.tally.count(from, job.payload.len() as u64);
                let lined = from == From::Waiting && self.is_lined(&job, place);
                copied.tally.in_line += u64::from(lined);
            }
            None => running
                .problems
                .push(format!("job {} is in a queue that does not exist", job.id)),
        }
        Ok(u64::from(job.weight))
    }

    /// Whether a line leads to a waiting job, or did until it was leased: one that is in no line would never run.
    fn is_lined(&self, job: &Stored, place: Place) -> bool {
        if !self.log.in_line(place) {
            return true;
        }
        let queue = &self.queues[job.queue as usize];
        let group = if queue.config.fair {
            job.group_hash()
        } else {
            0
        };
        let lane = queue.lanes.get(job.priority);
        let Some(line) = lane.and_then(|lane| lane.line_of(group)) else {
            return false;
        };
        let at = job.line();
        line.of(at.base).leads_to(&Spot {
            time: at.at.0,
            id: job.id.0,
            place,
        })
    }

    fn check_findable(
        &mut self,
        job: &Stored,
        place: Place,
        problems: &mut Vec<String>,
    ) -> Step<()> {
        if self.log.find_id(job.id.0)? != Some(place) {
            problems.push(format!(
                "job {} is stored twice or not found by its id",
                job.id
            ));
        }
        if let Some(key) = &job.key
            && !self
                .with_key(job.queue, key)?
                .iter()
                .any(|(found, _)| *found == place)
        {
            problems.push(format!("job {} is not found by its key {key:?}", job.id));
        }
        Ok(())
    }

    fn check_leases(&self, problems: &mut Vec<String>) {
        let mut taken: HashMap<u32, u32> = HashMap::new();
        for (id, held) in &self.leases {
            *taken.entry(held.place.segment).or_default() += 1;
            let bits = self.log.segments.get(&held.place.segment);
            if !bits.is_some_and(|segment| {
                segment.live.get(held.place.ord) && segment.taken.get(held.place.ord)
            }) {
                problems.push(format!(
                    "job {id} is leased, but its record is not marked so"
                ));
            }
        }
        for segment in self.log.segments.values() {
            let leases = taken.get(&segment.number).copied().unwrap_or(0);
            if segment.taken.count() != leases {
                let (marked, number) = (segment.taken.count(), segment.number);
                problems.push(format!(
                    "segment {number} has {marked} records marked as leased, but {leases} leases"
                ));
            }
        }
    }
}

impl View {
    fn of(segment: &Segment) -> View {
        View {
            left: segment.live.clone(),
            taken: segment.taken.clone(),
            expected: segment.live_count,
            found: 0,
            again: false,
        }
    }

    /// Where a job was at the beginning, if its record says that it was there when that went: the record is the same, but
    /// it may have been leased since.
    fn state(&self, ord: u32, from: From) -> From {
        match from {
            From::Waiting | From::Leased if self.taken.get(ord) => From::Leased,
            From::Waiting | From::Leased => From::Waiting,
            other => other,
        }
    }
}

impl Running {
    /// Goes to the next segment, or once more through this one; answers whether there is one.
    fn end_segment(&mut self) -> bool {
        let (number, _) = self.at;
        if let Some(view) = self.segments.get_mut(&number) {
            if view.left.count() > 0 && !view.again {
                view.again = true;
                self.at.1 = 0;
                return true;
            }
            let View {
                found, expected, ..
            } = *view;
            if found != expected {
                self.problems.push(format!(
                    "segment {number}: {expected} records are current, but the index leads to {found}"
                ));
            }
        }
        let next = self.segments.range(number + 1..).next();
        self.at = next.map_or((u32::MAX, 0), |(number, _)| (*number, 0));
        self.at.0 != u32::MAX
    }

    fn finish(self) -> Audit {
        let Running {
            queues,
            forgotten,
            jobs,
            mut problems,
            ..
        } = self;
        if !forgotten.balanced() {
            problems.push(format!(
                "forgotten queues: accepted {} is not the sum of {forgotten:?}",
                forgotten.accepted
            ));
        }
        let mut queues: Vec<(QueueName, Books)> = queues
            .into_values()
            .map(|copied| copied.compare(&mut problems))
            .collect();
        queues.sort_by(|a, b| a.0.cmp(&b.0));
        Audit {
            queues,
            forgotten,
            jobs,
            problems,
        }
    }
}

impl Copied {
    fn of(queue: &Queue) -> Copied {
        let lined = queue.lined.iter();
        Copied {
            name: queue.name.clone(),
            books: queue.books,
            leased: queue.leased,
            done: queue.done,
            bytes: queue.bytes,
            lined: lined.fold(0, |sum, lined| {
                sum.saturating_add(lined.ready).saturating_add(lined.later)
            }),
            tombs: queue.tombs,
            tally: Tally::default(),
        }
    }

    /// The books as they were counted, and every difference to those that were kept.
    fn compare(self, problems: &mut Vec<String>) -> (QueueName, Books) {
        let Copied { name, tally, .. } = self;
        let mut check = |what: &str, kept: u64, counted: u64| {
            if kept != counted {
                problems.push(format!("queue {name}: {what} should be {counted} by the stored jobs, the books say {kept}"));
            }
        };
        check("live", self.books.live, tally.waiting + tally.leased);
        check("leased", self.leased, tally.leased);
        check("dead", self.books.dead, tally.dead);
        check("expired", self.books.expired, tally.expired);
        check("retained", self.done, tally.done);
        check("keys held", self.tombs, tally.tombs);
        check("payload bytes", self.bytes, tally.bytes);
        check("ready and scheduled", self.lined, tally.waiting);
        if tally.in_line != tally.waiting {
            let (found, waiting) = (tally.in_line, tally.waiting);
            problems.push(format!(
                "queue {name}: {waiting} jobs wait, but its lines lead to {found}"
            ));
        }
        let books = Books {
            live: tally.waiting + tally.leased,
            dead: tally.dead,
            expired: tally.expired,
            ..self.books
        };
        if !books.balanced() {
            problems.push(format!(
                "queue {name}: accepted {} is not the sum of {books:?}",
                books.accepted
            ));
        }
        (name, books)
    }
}

impl Tally {
    fn count(&mut self, from: From, payload: u64) {
        match from {
            From::Waiting => self.waiting += 1,
            From::Leased => self.leased += 1,
            From::Dead => self.dead += 1,
            From::Expired => self.expired += 1,
            From::Done => {
                self.done += 1;
                return;
            }
            From::Tomb => {
                self.tombs += 1;
                return;
            }
            From::Nowhere => return,
        }
        self.bytes += payload;
    }
}

#[cfg(test)]
mod tests;
