//! What a salvage needs from the machine: reading a checkpoint beside its store, and taking whole jobs in.

use auxo_core::time::Now;
use auxo_core::{Error, QueueName, Result};

use super::checkpoint::{self, Listed};
use super::upkeep::CHECKPOINT;
use super::{Machine, Settings};
use crate::damage::Trouble;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::log::Log;
use crate::record::{From, Kept, Position, Record, Stored};
use crate::snapshot;

/// What a checkpoint says, without opening the store it belongs to.
#[derive(Default)]
pub struct Survey {
    position: Position,
    segments: Vec<Listed>,
    queues: Vec<(QueueName, auxo_core::queue::QueueConfig)>,
    setup: Vec<Record>,
    stamp: u64,
}

impl Survey {
    /// Reads the checkpoint; `None` when it is damaged. A store that never had one has an empty survey.
    pub fn read(disk: &dyn Disk, lost: &mut Vec<String>) -> Option<Survey> {
        let body = match snapshot::read(disk, CHECKPOINT) {
            Ok(None) => return Some(Survey::default()),
            Ok(Some((checkpoint::VERSION, body))) => body,
            Ok(Some((version, _))) => {
                lost.push(format!(
                    "file {CHECKPOINT}: written as layout {version}, which this version cannot read"
                ));
                return None;
            }
            Err(trouble) => {
                lost.push(trouble.to_string());
                return None;
            }
        };
        let settings = Settings {
            segment_size: 0,
            node: "".into(),
            max_queues: u32::MAX,
            pave: false,
        };
        let nothing = std::sync::Arc::new(crate::disk::SimDisk::new());
        let mut machine = Machine::blank(Log::new(nothing, 0), settings, Dice::seeded(0));
        let Some(loaded) = machine.load_checkpoint(&body) else {
            lost.push(format!("file {CHECKPOINT}: the checkpoint cannot be read"));
            return None;
        };
        let subscriptions = machine.subscriptions.into_values().map(Record::Subscribe);
        let schedules = machine
            .schedules
            .into_values()
            .map(|schedule| Record::Schedule(Box::new(schedule)));
        Some(Survey {
            position: loaded.position,
            segments: loaded.segments,
            queues: machine
                .queues
                .into_iter()
                .map(|queue| (queue.name, queue.config))
                .collect(),
            setup: subscriptions.chain(schedules).collect(),
            stamp: machine.stamp.0,
        })
    }

    /// Whether the checkpoint says that a job record is no longer current.
    pub fn ended(&self, segment: u32, ord: u32, offset: u32) -> bool {
        let before = Position { segment, offset } < self.position;
        match self.segments.iter().find(|listed| listed.number == segment) {
            Some(listed) => before && !listed.live.get(ord),
            // Given up before the checkpoint.
            None => before,
        }
    }

    /// Whether the checkpoint lists this segment.
    pub fn knows(&self, segment: u32) -> bool {
        self.segments.iter().any(|listed| listed.number == segment)
    }

    /// Whether there must be records at this offset of a segment.
    pub fn expects(&self, segment: u32, offset: u32) -> bool {
        self.segments
            .iter()
            .any(|listed| listed.number == segment && listed.len > offset)
    }

    pub fn segments(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments.iter().map(|listed| listed.number)
    }

    pub fn queues(&self) -> impl Iterator<Item = (u32, QueueName)> + '_ {
        self.queues
            .iter()
            .enumerate()
            .map(|(number, (name, _))| (number as u32, name.clone()))
    }

    pub fn stamp(&self) -> u64 {
        self.stamp
    }
}

impl Machine {
    /// Takes in queues' settings, subscriptions and schedules: those of the checkpoint, then those recorded since.
    pub fn import_setup(&mut self, survey: &Survey, others: Vec<Record>, now: Now) -> Result<()> {
        use auxo_core::engine::Change;
        let queues = survey
            .queues
            .iter()
            .map(|(name, config)| Change::Queue(name.clone(), config.clone()));
        let mut changes: Vec<Change> = queues.collect();
        for record in survey.setup.iter().cloned().chain(others) {
            changes.push(match record {
                Record::Queue { name, config, .. } => Change::Queue(name, config),
                Record::Subscribe(subscription) => Change::Subscribe(subscription),
                Record::Unsubscribe { topic, name } => Change::Unsubscribe(topic, name),
                Record::Schedule(schedule) => Change::Schedule(*schedule),
                Record::Unschedule(name) => Change::Unschedule(name),
                _ => continue,
            });
        }
        for change in changes {
            // Something to be removed that is not there is as it should be.
            let _ = self.change(change, now).map_err(Error::from)?;
        }
        self.finish(now);
        Ok(())
    }

    /// Takes a whole job in as it is, except that nobody holds it.
    pub fn import(&mut self, queue: &QueueName, mut job: Stored, now: Now) -> Result<()> {
        self.make_room(now).map_err(Error::from)?;
        job.queue = self.queue_number(queue)?;
        let ended = matches!(job.kept, Kept::Done | Kept::Tomb);
        self.put(None, From::Nowhere, None, job);
        if !ended && self.log_is_long() {
            self.finish(now);
        }
        Ok(())
    }

    fn log_is_long(&self) -> bool {
        self.log.pending() > 1 << 20
    }

    /// Makes everything written so far safe.
    pub fn sync_files(&self) -> Result<()> {
        for segment in self.log.segments.values() {
            let synced = segment.file.sync();
            synced.map_err(|error| {
                Error::from(Trouble::io(crate::segment::log_name(segment.number), error))
            })?;
        }
        Ok(())
    }
}
