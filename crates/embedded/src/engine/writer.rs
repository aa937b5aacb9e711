//! The writer thread: groups of records go to the files, and answers go out when that is done.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use auxo_core::{Code, Error, Result};
use tokio::sync::oneshot;

use super::inbox::Inbox;
use super::{maintain, spawn};
use crate::disk::{Disk, DiskFile};
use crate::log::Write;
use crate::machine::{After, Machine, Reply, Task};
use crate::mark::{Mark, Marked};
use crate::options::Sync;
use crate::record::Position;

/// An answer that waits for the disk.
pub struct Waiting {
    pub caller: oneshot::Sender<Result<Reply>>,
    pub reply: Result<Reply>,
    pub after: After,
}

/// The outcome of one round of the core thread.
pub struct Batch {
    pub writes: Vec<Write>,
    pub waiting: Vec<Waiting>,
    pub tasks: Vec<Task>,
    /// What may be let into the inbox when this is written.
    pub units: usize,
}

/// The core thread's side.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
    maintenance: Option<thread::JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    written: AtomicU64,
    synced: AtomicU64,
}

#[derive(Default)]
struct Queue {
    batches: VecDeque<Batch>,
    closing: bool,
    failed: Option<Error>,
}

impl Writer {
    pub fn start(
        disk: Arc<dyn Disk>,
        sync: Sync,
        inbox: Arc<Inbox>,
        machine: &Machine,
    ) -> Result<Writer> {
        let unmarked =
            |error: io::Error| Error::new(Code::Unavailable, format!("file mark: {error}"));
        let mark = Mark::open(&*disk).map_err(unmarked)?;
        // Not clean any more, before anything is written.
        mark.write(Marked {
            synced: machine.synced,
            clean: false,
        })
        .and_then(|()| mark.sync())
        .map_err(unmarked)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            bell: Condvar::new(),
            written: AtomicU64::new(pack(machine.written)),
            synced: AtomicU64::new(pack(machine.synced)),
        });
        let (tasks, queue) = mpsc::channel();
        let maintenance_inbox = inbox.clone();
        let maintenance = spawn("auxo-maintenance", move || {
            maintain(queue, disk, maintenance_inbox)
        })?;
        let back = Back {
            shared: shared.clone(),
            sync,
            inbox,
            mark,
            tasks,
            dirty: Vec::new(),
            end: machine.synced,
        };
        let thread = spawn("auxo-writer", move || back.run())?;
        Ok(Writer {
            shared,
            thread: Some(thread),
            maintenance: Some(maintenance),
        })
    }

    pub fn send(&self, batch: Batch) {
        if batch.writes.is_empty()
            && batch.waiting.is_empty()
            && batch.tasks.is_empty()
            && batch.units == 0
        {
            return;
        }
        self.shared.lock().batches.push_back(batch);
        self.shared.bell.notify_one();
    }

    /// Up to where the log is in the files.
    pub fn written(&self) -> Position {
        unpack(self.shared.written.load(Ordering::Acquire))
    }

    /// Up to where the log is on the disk.
    pub fn synced(&self) -> Position {
        unpack(self.shared.synced.load(Ordering::Acquire))
    }

    /// Writes and syncs the rest, and ends both threads.
    pub fn close(mut self, machine: &Machine) -> Result<()> {
        self.shared.lock().closing = true;
        self.shared.bell.notify_one();
        for thread in [self.thread.take(), self.maintenance.take()]
            .into_iter()
            .flatten()
        {
            let _ = thread.join();
        }
        let failed = self.shared.lock().failed.clone();
        match failed.or_else(|| machine.broken().cloned()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

fn pack(position: Position) -> u64 {
    u64::from(position.segment) << 32 | u64::from(position.offset)
}

fn unpack(packed: u64) -> Position {
    Position {
        segment: (packed >> 32) as u32,
        offset: packed as u32,
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer thread's side.
struct Back {
    shared: Arc<Shared>,
    sync: Sync,
    inbox: Arc<Inbox>,
    mark: Mark,
    tasks: mpsc::Sender<Task>,
    /// Files with writes that are not synced, oldest first.
    dirty: Vec<Arc<dyn DiskFile>>,
    /// Up to where was written.
    end: Position,
}

impl Back {
    fn run(mut self) {
        let mut last_sync = Instant::now();
        loop {
            let (batches, closing) = self.take(last_sync);
            if self.shared.lock().failed.is_some() {
                self.refuse(batches);
            } else if let Err((error, batches)) = self.round(batches, &mut last_sync, closing) {
                self.fail(error);
                self.refuse(batches);
            }
            if closing && self.shared.lock().batches.is_empty() {
                return;
            }
        }
    }

    /// Waits for batches, or until an interval sync is due.
    fn take(&self, last_sync: Instant) -> (Vec<Batch>, bool) {
        let idle = |queue: &mut Queue| queue.batches.is_empty() && !queue.closing;
        let queue = self.shared.lock();
        let mut queue = match self.sync {
            Sync::Interval(interval) if !self.dirty.is_empty() => {
                let wait = interval
                    .saturating_sub(last_sync.elapsed())
                    .max(Duration::from_micros(1));
                self.shared
                    .bell
                    .wait_timeout_while(queue, wait, idle)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
            _ => self
                .shared
                .bell
                .wait_while(queue, idle)
                .unwrap_or_else(PoisonError::into_inner),
        };
        (queue.batches.drain(..).collect(), queue.closing)
    }

    /// Writes, answers, syncs, answers. On an error the batches whose callers have no answer yet come back.
    fn round(
        &mut self,
        mut batches: Vec<Batch>,
        last_sync: &mut Instant,
        closing: bool,
    ) -> std::result::Result<(), (io::Error, Vec<Batch>)> {
        for batch in &batches {
            if let Err(error) = self.write(batch) {
                return Err((error, batches));
            }
        }
        self.shared.written.store(pack(self.end), Ordering::Release);
        let units: usize = batches
            .iter_mut()
            .map(|batch| std::mem::take(&mut batch.units))
            .sum();
        self.inbox.release(units);
        let always = self.sync == Sync::Always;
        let mut must_sync = closing;
        for batch in &mut batches {
            let waiting = std::mem::take(&mut batch.waiting);
            for one in waiting {
                if always && one.after == After::Synced {
                    must_sync = true;
                    batch.waiting.push(one);
                } else {
                    self.inbox.answer(one.caller, one.reply);
                }
            }
        }
        if let Sync::Interval(interval) = self.sync {
            must_sync |= last_sync.elapsed() >= interval;
        }
        if must_sync {
            if let Err(error) = self.sync_all(closing) {
                return Err((error, batches));
            }
            *last_sync = Instant::now();
        }
        for batch in batches {
            for one in batch.waiting {
                self.inbox.answer(one.caller, one.reply);
            }
            for task in batch.tasks {
                // The maintenance thread ends when this one does.
                let _ = self.tasks.send(task);
            }
        }
        Ok(())
    }

    fn write(&mut self, batch: &Batch) -> io::Result<()> {
        for write in &batch.writes {
            write.file.write_at(u64::from(write.offset), &write.bytes)?;
            if !self
                .dirty
                .last()
                .is_some_and(|last| Arc::ptr_eq(last, &write.file))
            {
                self.dirty.push(write.file.clone());
            }
            self.end = write.end;
        }
        Ok(())
    }

    fn sync_all(&mut self, clean: bool) -> io::Result<()> {
        let nothing = self.dirty.is_empty();
        for file in self.dirty.drain(..) {
            file.sync()?;
        }
        self.shared.synced.store(pack(self.end), Ordering::Release);
        if !nothing || clean {
            self.mark.write(Marked {
                synced: self.end,
                clean,
            })?;
        }
        if clean {
            self.mark.sync()?;
        }
        Ok(())
    }

    /// The first error is the last: what the disk did with the bytes is not known, and trying again could hide that.
    fn fail(&mut self, error: io::Error) {
        let message = format!(
            "the disk failed and the store has stopped: {error}; restart it when the disk is well again"
        );
        let error = Error::new(Code::Unavailable, message);
        self.shared.lock().failed = Some(error.clone());
        self.inbox.broken(error);
    }

    /// Whether these were done is not known, and that is the answer.
    fn refuse(&self, batches: Vec<Batch>) {
        for batch in batches {
            self.inbox.release(batch.units);
            for one in batch.waiting {
                let message =
                    "the disk failed while this was being written: it may or may not have happened";
                let reply = match one.reply {
                    Ok(_) => Err(Error::new(Code::UnknownOutcome, message)),
                    refused => refused,
                };
                let _ = one.caller.send(reply);
            }
        }
    }
}
