//! Copying what is whole out of a damaged store.
//!
//! Every record of every segment is looked at on its own, also behind damage. The newest record of each job that nothing
//! says has ended goes into a new store; what could not be read is listed. The damaged store is only read.

mod source;

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use auxo_core::contents::Contents;
use auxo_core::time::Now;
use auxo_core::{Code, Error, QueueName, Result};
use hashbrown::HashMap;

use self::source::Source;
use crate::clock::Boot;
use crate::damage::Trouble;
use crate::dice::Dice;
use crate::disk::{Disk, RealDisk};
use crate::machine::{Machine, Settings, Survey};
use crate::mark::{self, Found, Mark, Marked};
use crate::options::{MOST_QUEUES, Options};
use crate::record::{self, Position, Record, Stored};
use crate::segment::{HEADER, Header, log_name, parse_name, read_header};

/// The kinds that a record can have.
const KINDS: RangeInclusive<u8> = 1..=20;

/// The longest record that is searched for behind damage: sixteen times the largest payload that a server takes.
const LONGEST: usize = 16 << 20;

/// What a salvage found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many jobs were copied, by queue.
    pub copied: Vec<(QueueName, u64)>,
    /// What could not be read, as sentences that name file and byte, and settings that could not be copied. Jobs that lay there are
    /// lost.
    pub lost: Vec<String>,
    /// Jobs that were finished may be among the copied ones, because the part that says so is damaged.
    pub may_repeat: bool,
}

/// Copies what is whole in the store in `from` into a new store in `to`, which must not have anything yet.
pub fn salvage(from: &Path, to: &Path) -> Result<Report> {
    // Opening the target makes and locks it, so what can be refused is refused before.
    if !holds_store(from) {
        let message = format!("{} is not a data directory of auxo", from.display());
        return Err(Error::new(Code::NotFound, message));
    }
    if let (Ok(from), Ok(to)) = (from.canonicalize(), to.canonicalize())
        && from == to
    {
        let message = format!(
            "{} cannot be copied to itself; name a new directory",
            from.display()
        );
        return Err(Error::bad_request(message));
    }
    let source = Source::open(from)?;
    let target: Arc<dyn Disk> = Arc::new(RealDisk::open(to)?);
    salvage_disks(&source, target, Options::default().segment_size)
}

fn holds_store(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    Contents::of(names) == Contents::Store
}

/// The same on any disks, into segments of this size.
pub fn salvage_disks(
    source: &dyn Disk,
    target: Arc<dyn Disk>,
    segment_size: u64,
) -> Result<Report> {
    let taken = target
        .list()
        .map_err(|error| Error::from(Trouble::io("", error)))?;
    if !taken.is_empty() {
        return Err(Error::new(
            Code::Conflict,
            "the directory to copy to is not empty; name a new one",
        ));
    }
    let mut report = Report::default();
    let survey = Survey::read(source, &mut report.lost)?;
    let complete = survey.is_some();
    let mut wreck = Wreck {
        survey: survey.unwrap_or_default(),
        ..Wreck::default()
    };
    wreck.synced = wreck.survey.position();
    let names = source
        .list()
        .map_err(|error| Error::from(Trouble::io("", error)))?;
    let numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| parse_name(name, "log"))
        .collect();
    for number in &numbers {
        wreck.search(source, *number, &mut report.lost)?;
    }
    let mark = wreck.read_mark(source, &mut report.lost);
    wreck.judge_ends(&mut report.lost);
    // A checkpoint that cannot be read leaves open which segments were given up before it.
    let first = match (complete, wreck.survey.position().segment) {
        (true, 0) => 1,
        (true, first) => first,
        (false, _) => numbers.first().copied().unwrap_or(wreck.synced.segment),
    };
    wreck.judge_missing(&numbers, first, &mut report.lost);
    let begun = wreck.synced > Position::default() || wreck.has_records || !complete;
    if let (Found::Cut(at), true) = (mark, begun) {
        report.lost.push(format!(
            "file {} at byte {at}: the file is missing or cut short, so nothing tells whether the log has lost its end",
            mark::NAME
        ));
    }
    // Whatever is lost may have held the end of a job that was copied.
    report.may_repeat = !complete || !report.lost.is_empty();
    wreck.rebuild(target, segment_size, &mut report)?;
    Ok(report)
}

/// What was found in the segments.
#[derive(Default)]
struct Wreck {
    survey: Survey,
    /// The newest record of each job, unless it has ended.
    /// With its queue, if the log names it: the number may be another queue's later.
    jobs: HashMap<u64, Option<(Stored, Option<QueueName>)>>,
    /// The newest attempt of each job that was leased.
    attempts: HashMap<u64, u32>,
    queues: HashMap<u32, QueueName>,
    others: Vec<Record>,
    /// The last boot of the machine that the log names behind the checkpoint.
    boot: Option<Boot>,
    /// Up to here the log was on the disk, by all that says so.
    synced: Position,
    /// Where the records of each segment end that was not sealed; at 0 if its header is damaged.
    ends: Vec<Position>,
    has_records: bool,
}

impl Wreck {
    /// What the mark says of how far the log was synced.
    fn read_mark(&mut self, disk: &dyn Disk, lost: &mut Vec<String>) -> Found {
        let found = Mark::read(disk).unwrap_or_else(|trouble| {
            lost.push(trouble.to_string());
            Found::Torn
        });
        let marked = found
            .marked()
            .map_or(Position::default(), |mark| mark.synced);
        self.synced = self.synced.max(marked);
        found
    }

    /// Segments that end before they may.
    fn judge_ends(&self, lost: &mut Vec<String>) {
        let Position { segment, offset } = self.synced;
        for end in &self.ends {
            let name = log_name(end.segment);
            let known = *end < self.synced || self.survey.expects(end.segment, end.offset);
            match (known, end.offset) {
                // A file that was being made when the power went: there is nothing in it that was ever promised.
                (false, _) => {}
                (true, 0) => lost.push(format!(
                    "file {name}: its header is damaged, so none of its records can be trusted"
                )),
                (true, from) => lost.push(format!(
                    "file {name} from byte {from}: damaged or cut off (the log was synced to segment {segment} byte {offset})"
                )),
            }
        }
    }

    /// Segments that are not there, of those that the checkpoint lists and of those from `first` on.
    fn judge_missing(&self, numbers: &[u32], first: u32, lost: &mut Vec<String>) {
        let listed = self.survey.segments();
        for number in listed.filter(|number| *number < first && !numbers.contains(number)) {
            lost.push(format!("file {}: the file is missing", log_name(number)));
        }
        let mut next = first;
        let last = self.synced.segment;
        let there = numbers.iter().copied().filter(|number| *number >= first);
        for number in there
            .take_while(|number| *number <= last)
            .chain([last.saturating_add(1)])
        {
            match number.saturating_sub(next) {
                0 => {}
                1 => lost.push(format!("file {}: the file is missing", log_name(next))),
                _ => lost.push(format!(
                    "files {} to {}: the files are missing",
                    log_name(next),
                    log_name(number - 1)
                )),
            }
            next = number.saturating_add(1);
        }
    }

    /// Takes what is whole in a segment. Fails for one of another format.
    fn search(
        &mut self,
        disk: &dyn Disk,
        number: u32,
        lost: &mut Vec<String>,
    ) -> std::result::Result<(), Trouble> {
        let name = log_name(number);
        let (bytes, salt) = match read(disk, number) {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.ends.push(Position {
                    segment: number,
                    offset: 0,
                });
                return Ok(());
            }
            Err(trouble @ Trouble::OtherFormat { .. }) => return Err(trouble),
            Err(trouble) => {
                lost.push(trouble.to_string());
                return Ok(());
            }
        };
        let own = salt;
        let (mut salt, mut at, mut ord) = (salt, HEADER as usize, 0);
        let mut gap: Option<usize> = None;
        let mut whole = true;
        let mut sealed = false;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let found = if gap.is_none() || plausible(rest) {
                record::unframe(rest, at as u32, salt, own)
            } else {
                None
            };
            let Some(body) = found else {
                gap.get_or_insert(at);
                at += 1;
                continue;
            };
            if let Some(from) = gap.take() {
                lost.push(format!(
                    "file {name} from byte {from} to byte {at}: damaged"
                ));
                whole = false;
            }
            self.has_records = true;
            if let Some(record) = record::decode(body) {
                match record {
                    Record::Open { salt: new } => salt = new,
                    Record::Commit { synced, .. } => self.synced = self.synced.max(synced),
                    _ => {}
                }
                sealed |= record == Record::Seal;
                let is_put = matches!(record, Record::Put(_));
                if let Record::Boot(boot) = &record
                    && !self.survey.covers(number, at as u32)
                {
                    self.boot = Some(boot.clone());
                }
                // Behind damage the records cannot be counted, so the checkpoint's word on each is of no use there.
                let ended = is_put && whole && self.survey.ended(number, ord, at as u32);
                ord += u32::from(is_put);
                if !ended {
                    self.take(record);
                }
            }
            at += record::HEAD + body.len();
        }
        if !sealed {
            self.ends.push(Position {
                segment: number,
                offset: gap.unwrap_or(at) as u32,
            });
        }
        Ok(())
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Put(put) => {
                let queue = self.queues.get(&put.job.queue).cloned();
                self.jobs.insert(put.job.id.0, Some((put.job, queue)));
            }
            Record::Forget(number) => drop(self.queues.remove(&number)),
            Record::Ack(ids) => ids
                .into_iter()
                .for_each(|id| drop(self.jobs.insert(id.0, None))),
            Record::Remove(remove) => drop(self.jobs.insert(remove.id.0, None)),
            Record::Lease(lease) => {
                for item in &lease.items {
                    self.attempts.insert(item.id.0, item.attempt);
                }
            }
            Record::Queue {
                number, ref name, ..
            } => {
                self.queues.insert(number, name.clone());
                self.others.push(record);
            }
            Record::Subscribe(_)
            | Record::Unsubscribe { .. }
            | Record::Schedule(_)
            | Record::Unschedule(_) => {
                self.others.push(record);
            }
            Record::Tick { .. }
            | Record::Extend { .. }
            | Record::Flag(_)
            | Record::Commit { .. }
            | Record::Open { .. }
            // What is salvaged is another store.
            | Record::Identity(_)
            | Record::Note { .. }
            // It was taken already, if it is newer than the checkpoint.
            | Record::Boot(_)
            | Record::Spend { .. }
            | Record::Seal => {}
        }
    }

    /// Puts everything into a new store.
    fn rebuild(
        mut self,
        target: Arc<dyn Disk>,
        segment_size: u64,
        report: &mut Report,
    ) -> Result<()> {
        let settings = Settings {
            segment_size,
            node: Arc::from("salvage"),
            // Queues that were forgotten since the checkpoint come back, and those whose name is lost get a new one.
            max_queues: MOST_QUEUES,
            pave: false,
        };
        let mut machine = Machine::open(target.clone(), settings, Dice::system())?;
        // In the same boot of the machine the steady clock goes on, whatever the wall clock shows.
        machine.set_boot(self.boot.take().or_else(|| self.survey.boot().cloned()));
        let now = Now::at(self.survey.stamp().max(1));
        for (number, name) in self.survey.queues() {
            self.queues.entry(number).or_insert(name);
        }
        let mut others = std::mem::take(&mut self.others);
        others.retain(|record| match record {
            Record::Queue { number, name, .. } => self.queues.get(number) == Some(name),
            _ => true,
        });
        machine.import_setup(&self.survey, others, now, &mut report.lost)?;
        let mut copied: HashMap<QueueName, u64> = HashMap::new();
        let mut ids: Vec<u64> = self.jobs.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(Some((mut job, queue))) = self.jobs.remove(&id) else {
                continue;
            };
            let lost_name = || QueueName::new(&format!("salvaged.{}", job.queue));
            let name = match queue.as_ref().or(self.queues.get(&job.queue)) {
                Some(name) => name.clone(),
                None => lost_name()?,
            };
            job.attempt = job
                .attempt
                .max(self.attempts.get(&id).copied().unwrap_or(0));
            machine.import(&name, job, now)?;
            *copied.entry(name).or_default() += 1;
            write_out(&mut machine, &*target, now)?;
        }
        machine.finish(now);
        write_out(&mut machine, &*target, now)?;
        machine.sync_files()?;
        mark_clean(&*target, machine.written)?;
        report.copied = copied.into_iter().collect();
        report.copied.sort();
        Ok(())
    }
}

/// Whether a record may begin here. The search behind damage asks at every byte, and a checksum over megabytes at each
/// would take hours.
fn plausible(bytes: &[u8]) -> bool {
    let (Some(len), Some(kind)) = (record::frame_len(bytes), bytes.get(record::HEAD)) else {
        return false;
    };
    KINDS.contains(kind) && len <= bytes.len() && len <= LONGEST
}

/// Does what the machine asks for, at once.
fn write_out(machine: &mut Machine, disk: &dyn Disk, now: Now) -> Result<()> {
    let out = std::mem::take(&mut machine.out);
    for write in out.writes {
        let written = write.file.write_at(u64::from(write.offset), &write.bytes);
        written.map_err(|error| {
            Error::new(
                Code::Unavailable,
                format!("cannot write the new store: {error}"),
            )
        })?;
        machine.written = write.end;
    }
    for task in out.tasks {
        let done = task.run(disk);
        machine.done(done, now);
    }
    match machine.broken() {
        Some(error) => Err(error.clone()),
        None => Ok(()),
    }
}

/// Notes that the new store ends here in good order.
fn mark_clean(disk: &dyn Disk, end: Position) -> Result<()> {
    let marked = Marked {
        synced: end,
        clean: true,
    };
    Mark::open(disk)
        .and_then(|mark| mark.write(marked).and_then(|()| mark.sync()))
        .map_err(|error| Error::from(Trouble::io(mark::NAME, error)))
}

/// A segment's bytes and salt, or `None` when its header is not good.
fn read(disk: &dyn Disk, number: u32) -> std::result::Result<Option<(Vec<u8>, u32)>, Trouble> {
    let name = log_name(number);
    let io = |error| Trouble::io(&name, error);
    let file = disk.open(&name).map_err(io)?;
    let Header::Good { salt } = read_header(&*file, number)? else {
        return Ok(None);
    };
    let mut bytes = vec![0; usize::try_from(file.len().map_err(io)?).unwrap_or(usize::MAX)];
    let read = file.read_at(0, &mut bytes).map_err(io)?;
    bytes.truncate(read);
    Ok(Some((bytes, salt)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_searched_for_only_where_its_kind_and_length_can_be_true() {
        let head = |len: u32, kind: u8, there: usize| {
            let mut bytes = [len.to_le_bytes(), [0; 4]].concat();
            bytes.push(kind);
            bytes.resize(there, 0);
            plausible(&bytes)
        };
        assert!(head(100, 1, 108) && head(100, 15, 200));
        assert!(!head(100, 0, 108) && !head(100, 30, 108), "the kind");
        assert!(
            !head(100, 1, 107) && !head(u32::MAX, 1, 108),
            "what is left"
        );
        assert!(!head(17 << 20, 1, 20 << 20), "the longest record");
        assert!(!plausible(&[]) && !plausible(&[0; 8]));
    }
}
