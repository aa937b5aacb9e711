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
use crate::damage::Trouble;
use crate::dice::Dice;
use crate::disk::{Disk, RealDisk};
use crate::machine::{Machine, Settings, Survey};
use crate::options::Options;
use crate::record::{self, Record, Stored};
use crate::segment::{HEADER, Header, log_name, parse_name, read_header};

/// The kinds that a record can have.
const KINDS: RangeInclusive<u8> = 1..=15;

/// The longest record that is searched for behind damage: sixteen times the largest payload that a server takes.
const LONGEST: usize = 16 << 20;

/// What a salvage found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many jobs were copied, by queue.
    pub copied: Vec<(QueueName, u64)>,
    /// What could not be read, as sentences that name file and byte. Jobs that lay there are lost.
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
    salvage_disks(&source, target)
}

fn holds_store(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    Contents::of(names) == Contents::Store
}

/// The same on any disks.
pub fn salvage_disks(source: &dyn Disk, target: Arc<dyn Disk>) -> Result<Report> {
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
    let survey = Survey::read(source, &mut report.lost);
    let complete = survey.is_some();
    let mut wreck = Wreck {
        survey: survey.unwrap_or_default(),
        ..Wreck::default()
    };
    let names = source
        .list()
        .map_err(|error| Error::from(Trouble::io("", error)))?;
    let numbers: Vec<u32> = names
        .iter()
        .filter_map(|name| parse_name(name, "log"))
        .collect();
    for number in &numbers {
        wreck.search(source, *number, &mut report.lost);
    }
    for number in wreck.survey.segments() {
        if !numbers.contains(&number) {
            report
                .lost
                .push(format!("file {}: the file is missing", log_name(number)));
        }
    }
    // Whatever is lost may have held the end of a job that was copied.
    report.may_repeat = !complete || !report.lost.is_empty();
    wreck.rebuild(target, &mut report)?;
    Ok(report)
}

/// What was found in the segments.
#[derive(Default)]
struct Wreck {
    survey: Survey,
    /// The newest record of each job, unless it has ended.
    jobs: HashMap<u64, Option<Stored>>,
    /// The newest attempt of each job that was leased.
    attempts: HashMap<u64, u32>,
    queues: HashMap<u32, QueueName>,
    others: Vec<Record>,
}

impl Wreck {
    fn search(&mut self, disk: &dyn Disk, number: u32, lost: &mut Vec<String>) {
        let name = log_name(number);
        let (bytes, salt) = match read(disk, number) {
            Ok(Some(found)) => found,
            // A file that was being made when the power went: there is nothing in it that was ever promised.
            Ok(None) if !self.survey.knows(number) => return,
            Ok(None) => {
                lost.push(format!(
                    "file {name}: its header is damaged, so none of its records can be trusted"
                ));
                return;
            }
            Err(trouble) => {
                lost.push(trouble.to_string());
                return;
            }
        };
        let own = salt;
        let (mut salt, mut at, mut ord) = (salt, HEADER as usize, 0);
        let mut gap: Option<usize> = None;
        let mut whole = true;
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
            if let Some(record) = record::decode(body) {
                if let Record::Open { salt: new } = record {
                    salt = new;
                }
                let is_put = matches!(record, Record::Put(_));
                // Behind damage the records cannot be counted, so the checkpoint's word on each is of no use there.
                let ended = is_put && whole && self.survey.ended(number, ord, at as u32);
                ord += u32::from(is_put);
                if !ended {
                    self.take(record);
                }
            }
            at += record::HEAD + body.len();
        }
        if let Some(from) = gap
            && self.survey.expects(number, from as u32)
        {
            lost.push(format!("file {name} from byte {from}: damaged"));
        }
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Put(put) => drop(self.jobs.insert(put.job.id.0, Some(put.job))),
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
            | Record::Seal => {}
        }
    }

    /// Puts everything into a new store.
    fn rebuild(mut self, target: Arc<dyn Disk>, report: &mut Report) -> Result<()> {
        let options = Options::default();
        let settings = Settings {
            segment_size: options.segment_size,
            node: Arc::from("salvage"),
            max_queues: options.max_queues,
            pave: false,
        };
        let mut machine = Machine::open(target.clone(), settings, Dice::system())?;
        let now = Now::at(self.survey.stamp().max(1));
        for (number, name) in self.survey.queues() {
            self.queues.entry(number).or_insert(name);
        }
        machine.import_setup(&self.survey, std::mem::take(&mut self.others), now)?;
        let mut copied: HashMap<QueueName, u64> = HashMap::new();
        let mut ids: Vec<u64> = self.jobs.keys().copied().collect();
        ids.sort_unstable();
        for id in ids {
            let Some(Some(mut job)) = self.jobs.remove(&id) else {
                continue;
            };
            let lost_name = || QueueName::new(&format!("salvaged.{}", job.queue));
            let name = match self.queues.get(&job.queue) {
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
        assert!(!head(100, 0, 108) && !head(100, 16, 108), "the kind");
        assert!(
            !head(100, 1, 107) && !head(u32::MAX, 1, 108),
            "what is left"
        );
        assert!(!head(17 << 20, 1, 20 << 20), "the longest record");
        assert!(!plausible(&[]) && !plausible(&[0; 8]));
    }
}
