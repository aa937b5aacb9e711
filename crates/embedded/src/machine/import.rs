//! What a salvage needs from the machine: reading a checkpoint beside its store, and taking whole jobs in.

use auxo_core::engine::Change;
use auxo_core::text::one_line;
use auxo_core::time::Now;
use auxo_core::{Error, QueueName, Result};

use super::checkpoint::Listed;
use super::upkeep::CHECKPOINT;
use super::{Machine, Settings, Step};
use crate::clock::Boot;
use crate::damage::Trouble;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::format::FORMAT;
use crate::log::Log;
use crate::record::{From, Kept, Position, Record, Stored};
use crate::snapshot;

/// What a checkpoint says, without opening the store it belongs to.
#[derive(Default)]
pub struct Survey {
    position: Position,
    segments: Vec<Listed>,
    queues: Vec<(u32, (QueueName, auxo_core::queue::QueueConfig))>,
    setup: Vec<Record>,
    stamp: u64,
    boot: Option<Boot>,
}

impl Survey {
    /// Reads the checkpoint; `None` when it is damaged. A store that never had one has an empty survey. Fails for one of another
    /// format.
    pub fn read(disk: &dyn Disk, lost: &mut Vec<String>) -> Step<Option<Survey>> {
        let body = match snapshot::read(disk, CHECKPOINT) {
            Ok(None) => return Ok(Some(Survey::default())),
            Ok(Some((FORMAT, body))) => body,
            Ok(Some((format, _))) => {
                let file = CHECKPOINT.into();
                return Err(Trouble::OtherFormat { file, format });
            }
            Err(trouble) => {
                lost.push(trouble.to_string());
                return Ok(None);
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
            return Ok(None);
        };
        let subscriptions = machine.subscriptions.into_values().map(Record::Subscribe);
        let schedules = machine
            .schedules
            .into_values()
            .map(|schedule| Record::Schedule(Box::new(schedule)));
        Ok(Some(Survey {
            position: loaded.position,
            segments: loaded.segments,
            queues: machine
                .queues
                .numbers()
                .map(|number| {
                    let queue = &machine.queues[number as usize];
                    (number, (queue.name.clone(), queue.config.clone()))
                })
                .collect(),
            setup: subscriptions.chain(schedules).collect(),
            stamp: machine.stamp.0,
            boot: machine.boot,
        }))
    }

    /// Whether what was recorded here is in the checkpoint.
    pub fn covers(&self, segment: u32, offset: u32) -> bool {
        Position { segment, offset } < self.position
    }

    /// Whether the checkpoint says that a job record is no longer current.
    pub fn ended(&self, segment: u32, ord: u32, offset: u32) -> bool {
        let before = self.covers(segment, offset);
        match self.segments.iter().find(|listed| listed.number == segment) {
            Some(listed) => before && !listed.live.get(ord),
            // Given up before the checkpoint.
            None => before,
        }
    }

    /// Whether the checkpoint says that there are records at this offset of a segment.
    pub fn expects(&self, segment: u32, offset: u32) -> bool {
        self.segments
            .iter()
            .any(|listed| listed.number == segment && listed.len > offset)
    }

    /// The records from here on are not in the checkpoint, and what lies before was synced for it.
    pub fn position(&self) -> Position {
        self.position
    }

    pub fn segments(&self) -> impl Iterator<Item = u32> + '_ {
        self.segments.iter().map(|listed| listed.number)
    }

    pub fn queues(&self) -> impl Iterator<Item = (u32, QueueName)> + '_ {
        self.queues
            .iter()
            .map(|(number, (name, _))| (*number, name.clone()))
    }

    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Where the steady clock stood in the boot of the machine that was the last one then.
    pub fn boot(&self) -> Option<&Boot> {
        self.boot.as_ref()
    }
}

impl Machine {
    /// Takes in queues' settings, subscriptions and schedules: those of the checkpoint, then those recorded since. Says in `lost`
    /// which of them it could not take.
    pub fn import_setup(
        &mut self,
        survey: &Survey,
        others: Vec<Record>,
        now: Now,
        lost: &mut Vec<String>,
    ) -> Result<()> {
        let queues = survey
            .queues
            .iter()
            .map(|(_, (name, config))| Change::Queue(name.clone(), config.clone()));
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
            let what = match &change {
                Change::Queue(name, _) => Some(format!("the settings of queue {name}")),
                Change::Subscribe(new) => {
                    let (name, topic) = (one_line(&new.name), one_line(&new.topic));
                    Some(format!("the subscription {name} of topic {topic}"))
                }
                Change::Schedule(new) => Some(format!("the schedule {}", one_line(&new.name))),
                // Something to be removed that is not there is as it should be.
                _ => None,
            };
            let changed = self.change(change, now).map_err(Error::from)?;
            if let (Err(error), Some(what)) = (changed, what) {
                lost.push(format!("{what} could not be copied: {error}"));
            }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use auxo_core::queue::QueueConfig;

    use super::*;
    use crate::disk::SimDisk;

    #[test]
    fn what_is_refused_of_the_settings_is_named_as_lost() {
        let settings = Settings {
            segment_size: 64 << 10,
            node: Arc::from(""),
            max_queues: 1,
            pave: false,
        };
        let disk = Arc::new(SimDisk::new());
        let mut machine = Machine::open(disk, settings, Dice::seeded(1)).expect("a new store");
        let queue = |number, name| Record::Queue {
            number,
            name: QueueName::new(name).expect("a good name"),
            config: QueueConfig::default(),
        };
        let records = vec![
            queue(0, "first"),
            queue(1, "second"),
            Record::Unschedule("gone".into()),
        ];
        let mut lost = Vec::new();
        let survey = Survey::default();
        let imported = machine.import_setup(&survey, records, Now::at(1), &mut lost);
        imported.expect("an import");
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert!(lost[0].contains("settings of queue second"), "{lost:?}");
        assert_eq!(machine.queues.len(), 1);
    }
}
