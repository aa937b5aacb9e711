//! The audit: everything is read and counted again, and every difference is named.

use auxo_core::engine::Audit;
use auxo_core::job::DeadReason;
use auxo_core::queue::Books;
use auxo_core::time::Now;
use hashbrown::HashMap;

use super::{Machine, Step, classes};
use crate::record::{Kept, Place, Stored};
use crate::segment::Finder;

/// What was counted for one queue.
#[derive(Clone, Copy, Default)]
struct Tally {
    waiting: u64,
    leased: u64,
    dead: u64,
    expired: u64,
    done: u64,
    bytes: u64,
    /// Jobs that the queue's lines lead to.
    in_line: u64,
    /// Jobs that the queue has counted as being in line.
    lined: u64,
}

impl Machine {
    pub(super) fn audit(&mut self, _now: Now) -> Step<Audit> {
        let mut audit = Audit::default();
        let mut tallies = vec![Tally::default(); self.queues.len()];
        for number in self.log.segments.keys().copied().collect::<Vec<_>>() {
            for place in self.current(number, &mut audit.problems)? {
                let job = self.log.read(place)?;
                audit.jobs += 1;
                self.check_findable(&job, place, &mut audit.problems)?;
                match tallies.get_mut(job.queue as usize) {
                    Some(tally) => tally.count(&job, self.leases.contains_key(&job.id.0)),
                    None => audit
                        .problems
                        .push(format!("job {} is in a queue that does not exist", job.id)),
                }
            }
        }
        self.check_leases(&mut audit.problems);
        self.count_lines(&mut tallies)?;
        for (number, tally) in tallies.iter().enumerate() {
            let name = self.queues[number].name.clone();
            let books = self.compare(number, tally, &mut audit.problems);
            audit.queues.push((name, books));
        }
        audit.queues.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(audit)
    }

    /// The current records of a segment, as its finder knows them.
    fn current(&mut self, number: u32, problems: &mut Vec<String>) -> Step<Vec<Place>> {
        let segment = self.log.segment(number);
        let mut places = Vec::with_capacity(segment.live_count as usize);
        match &segment.finder {
            Finder::Memory(recent) => places.extend(
                (0..segment.count)
                    .filter(|ord| segment.live.get(*ord))
                    .map(|ord| Place {
                        segment: number,
                        ord,
                        offset: recent.offset(ord),
                    }),
            ),
            Finder::File(index) => {
                let classes = [
                    classes::LINE,
                    classes::LINE + 1,
                    classes::DEAD,
                    classes::DONE,
                    classes::KEEP,
                ];
                let ranges: Vec<_> = index
                    .streams()
                    .filter(|(key, _)| classes.contains(&key.class))
                    .map(|(_, range)| range)
                    .collect();
                let mut met = crate::bits::Bits::default();
                for at in ranges.into_iter().flatten() {
                    let place = self.log.entry(number, at)?.place;
                    // A retained job is in two of these streams.
                    if self.log.is_live(place) && met.set(place.ord) {
                        places.push(place);
                    }
                }
            }
        }
        let found = places.len() as u32;
        let expected = self.log.segment(number).live_count;
        if found != expected {
            problems.push(format!(
                "segment {number}: {expected} records are current, but the index leads to {found}"
            ));
        }
        Ok(places)
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

    /// Counts the jobs that the lines lead to: a job that is in no line would never run.
    fn count_lines(&mut self, tallies: &mut [Tally]) -> Step<()> {
        for (number, tally) in tallies.iter_mut().enumerate() {
            let Machine { queues, log, .. } = self;
            for lined in queues[number].lined {
                tally.lined = tally.lined.saturating_add(lined.ready);
                tally.lined = tally.lined.saturating_add(lined.later);
            }
            for lane in queues[number].lanes.values() {
                for line in lane.lines() {
                    tally.in_line += line.steady.count(log)? + line.wall.count(log)?;
                }
            }
        }
        Ok(())
    }

    fn compare(&self, number: usize, tally: &Tally, problems: &mut Vec<String>) -> Books {
        let queue = &self.queues[number];
        let name = &queue.name;
        let mut check = |what: &str, kept: u64, counted: u64| {
            if kept != counted {
                problems.push(format!("queue {name}: {what} should be {counted} by the stored jobs, the books say {kept}"));
            }
        };
        check("live", queue.books.live, tally.waiting + tally.leased);
        check("leased", queue.leased, tally.leased);
        check("dead", queue.books.dead, tally.dead);
        check("expired", queue.books.expired, tally.expired);
        check("retained", queue.done, tally.done);
        check("payload bytes", queue.bytes, tally.bytes);
        check("ready and scheduled", tally.lined, tally.waiting);
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
            ..queue.books
        };
        if !books.balanced() {
            problems.push(format!(
                "queue {name}: accepted {} is not the sum of {books:?}",
                books.accepted
            ));
        }
        books
    }
}

impl Tally {
    fn count(&mut self, job: &Stored, leased: bool) {
        match (job.kept, job.dead) {
            (Kept::Waiting, _) if leased => self.leased += 1,
            (Kept::Waiting, _) => self.waiting += 1,
            (Kept::Dead, Some(DeadReason::Expired)) => self.expired += 1,
            (Kept::Dead, _) => self.dead += 1,
            (Kept::Done, _) => self.done += 1,
            (Kept::Tomb, _) => {}
        }
        if matches!(job.kept, Kept::Waiting | Kept::Dead) {
            self.bytes += job.payload.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use auxo_core::clock::{Clock, ManualClock};
    use auxo_core::{JobSpec, NewJob, QueueName};

    use super::super::{Op, Settings};
    use super::*;
    use crate::dice::Dice;
    use crate::disk::SimDisk;

    /// What the audit finds in a store with three jobs after something was done to it.
    fn problems_after(harm: impl FnOnce(&mut Machine)) -> Vec<String> {
        let settings = Settings {
            segment_size: 64 << 10,
            node: Arc::from(""),
            max_queues: 10,
        };
        let disk = Arc::new(SimDisk::new());
        let mut machine = Machine::open(disk, settings, Dice::seeded(1)).expect("a new store");
        let now = ManualClock::at(1_700_000_000_000).now();
        let job = NewJob {
            queue: QueueName::new("q").expect("a good name"),
            spec: JobSpec::default(),
        };
        machine.apply(1, Op::Push(vec![job; 3]), now);
        harm(&mut machine);
        machine.audit(now).expect("an audit").problems
    }

    #[test]
    fn a_sound_store_has_no_problems() {
        assert_eq!(problems_after(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_number_of_current_records_is_named_and_the_audit_goes_on() {
        let problems = problems_after(|machine| {
            let active = machine.log.active;
            machine.log.segment_mut(active).live_count += 1;
        });
        assert_eq!(problems.len(), 1, "{problems:?}");
        let said = "4 records are current, but the index leads to 3";
        assert!(problems[0].contains(said), "{problems:?}");
    }

    #[test]
    fn a_wrong_count_is_named_though_the_lines_are_right() {
        let problems = problems_after(|machine| machine.queues[0].lined[0].ready += 1);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let said = "ready and scheduled should be 3 by the stored jobs, the books say 4";
        assert!(problems[0].contains(said), "{problems:?}");
    }

    #[test]
    fn a_line_that_leads_nowhere_is_named_though_the_counts_are_right() {
        let problems = problems_after(|machine| machine.queues[0].lanes.clear());
        assert_eq!(problems.len(), 1, "{problems:?}");
        let said = "3 jobs wait, but its lines lead to 0";
        assert!(problems[0].contains(said), "{problems:?}");
    }
}
