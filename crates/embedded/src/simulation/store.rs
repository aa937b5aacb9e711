//! The machine on a simulated disk, with the writer and the maintenance thread played by hand.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use auxo_core::event::Notice;
use auxo_core::time::Now;
use auxo_core::{Error, Result};

use crate::dice::Dice;
use crate::disk::{Disk, DiskFile, SimDisk};
use crate::log::Write;
use crate::machine::{After, Answer, Done, Machine, Op, Settings, Task, Ticket};
use crate::mark::{Mark, Marked};
use crate::options::Sync;
use crate::record::Position;
use crate::segment::HEADER;

/// An empty log ends here.
pub const START: Position = Position {
    segment: 1,
    offset: HEADER,
};

/// What is wrong with a store, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Answers that should wait for the sync go out when their records are written.
    AckBeforeSync,
}

/// A store that does one thing at a time.
pub struct Store {
    pub disk: SimDisk,
    face: Arc<dyn Disk>,
    pub machine: Machine,
    pub sync: Sync,
    pub bug: Option<Bug>,
    mark: Mark,
    /// Answers that wait for a sync.
    waiting: Vec<Ticket>,
    tasks: VecDeque<Task>,
    done: Vec<Done>,
    dirty: Vec<Arc<dyn DiskFile>>,
    /// Up to where the log is in the files, and on the disk.
    pub written: Position,
    pub synced: Position,
    /// The answers that callers have by now.
    pub released: Vec<Ticket>,
}

/// What one round of the machine brought.
pub struct Round {
    /// The answers, whether callers have them or not.
    pub answers: Vec<Answer>,
    pub notices: Vec<Notice>,
    /// Where the groups that it made end.
    pub ends: Vec<Position>,
    /// The machine gave up, and wrote nothing more.
    pub broken: Option<Error>,
    /// The disk failed while the groups were written.
    pub failed: Option<io::Error>,
}

impl Store {
    /// Opens what is on the disk, as the engine does.
    pub fn open(disk: SimDisk, segment_size: u64, sync: Sync, seed: u64) -> Result<Store> {
        let face = Arc::new(disk.clone());
        Store::open_behind(disk, face, segment_size, sync, seed)
    }

    /// The same, with another face between the store and its disk.
    pub fn open_behind(
        disk: SimDisk,
        face: Arc<dyn Disk>,
        segment_size: u64,
        sync: Sync,
        seed: u64,
    ) -> Result<Store> {
        let settings = Settings {
            segment_size,
            node: Arc::from("sim"),
            max_queues: 100,
            pave: sync == Sync::Always,
        };
        let mut machine = Machine::open(face.clone(), settings, Dice::seeded(seed))?;
        machine.watched = true;
        let failed = |error: io::Error| Error::new(auxo_core::Code::Unavailable, error.to_string());
        let mark = Mark::open(&*face).map_err(failed)?;
        let marked = Marked {
            synced: machine.synced,
            clean: false,
        };
        mark.write(marked)
            .and_then(|()| mark.sync())
            .map_err(failed)?;
        Ok(Store {
            written: machine.synced.max(START),
            synced: machine.synced.max(START),
            disk,
            face,
            machine,
            sync,
            bug: None,
            mark,
            waiting: Vec::new(),
            tasks: VecDeque::new(),
            done: Vec::new(),
            dirty: Vec::new(),
            released: Vec::new(),
        })
    }

    /// One round of the core thread.
    pub fn round(&mut self, now: Now, ops: Vec<(Ticket, Op)>) -> Round {
        let machine = &mut self.machine;
        machine.synced = self.synced;
        machine.written = self.written;
        machine.advance(now);
        for done in self.done.drain(..) {
            machine.done(done, now);
        }
        for (ticket, op) in ops {
            machine.apply(ticket, op, now);
        }
        machine.finish(now);
        let out = std::mem::take(&mut machine.out);
        let mut round = Round {
            answers: out.answers,
            notices: out.notices,
            ends: out.writes.iter().map(|write| write.end).collect(),
            broken: machine.broken().cloned(),
            failed: None,
        };
        // What a broken machine left half done dies with it.
        if round.broken.is_none() {
            round.failed = self.write(&out.writes).err();
        }
        if round.broken.is_none() && round.failed.is_none() {
            self.tasks.extend(out.tasks);
            for answer in &round.answers {
                match answer.after {
                    After::Synced if self.sync == Sync::Always => self.waiting.push(answer.ticket),
                    _ => self.released.push(answer.ticket),
                }
            }
            if self.bug == Some(Bug::AckBeforeSync) {
                self.released.extend(&self.waiting);
            }
        }
        round
    }

    fn write(&mut self, writes: &[Write]) -> io::Result<()> {
        for write in writes {
            write.file.write_at(u64::from(write.offset), &write.bytes)?;
            let last = self.dirty.last();
            if !last.is_some_and(|last| Arc::ptr_eq(last, &write.file)) {
                self.dirty.push(write.file.clone());
            }
            self.written = write.end;
        }
        Ok(())
    }

    /// One round of the sync thread.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.sync_all(false)?;
        self.released.append(&mut self.waiting);
        Ok(())
    }

    fn sync_all(&mut self, clean: bool) -> io::Result<()> {
        for file in self.dirty.drain(..) {
            file.sync()?;
        }
        self.synced = self.written;
        self.mark.write(Marked {
            synced: self.synced,
            clean,
        })?;
        if clean {
            self.mark.sync()?;
        }
        Ok(())
    }

    /// Lets the maintenance thread do one task.
    pub fn maintain(&mut self) {
        if let Some(task) = self.tasks.pop_front() {
            let done = task.run(&*self.face);
            self.done.push(done);
        }
    }

    /// Lets the other threads finish what they have, and what that brings.
    pub fn settle(&mut self, now: Now) -> io::Result<Vec<Round>> {
        let mut rounds = Vec::new();
        while !(self.waiting.is_empty() && self.tasks.is_empty() && self.done.is_empty()) {
            assert!(rounds.len() < 100, "the threads keep each other busy");
            self.sync()?;
            while !self.tasks.is_empty() {
                self.maintain();
            }
            rounds.push(self.round(now, Vec::new()));
        }
        Ok(rounds)
    }

    /// Stops in good order.
    pub fn close(&mut self) -> io::Result<()> {
        self.sync_all(true)
    }
}
