//! Groups of records go to the files, and answers go out when that is done.
//!
//! Whoever has the core writes itself: a write is a copy into the operating system's cache, which costs less than waking
//! another thread to do it, and what waits only for that, such as a lease, is answered at once and not behind a sync. Syncs
//! are slow and have a thread of their own; while it makes one, the next answers collect for the next.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use auxo_core::{Code, Error, Result};

use super::company::Company;
use super::inbox::{Caller, Inbox};
use super::{OnPanic, maintain, spawn};
use crate::disk::{Disk, DiskFile};
use crate::log::Write;
use crate::machine::{After, Machine, Reply, Task};
use crate::mark::{Mark, Marked};
use crate::options::Sync;
use crate::record::Position;

/// An answer that waits for the disk.
pub struct Waiting {
    pub caller: Caller,
    pub reply: Result<Reply>,
    pub after: After,
}

/// The outcome of one round of the core.
pub struct Batch {
    pub writes: Vec<Write>,
    pub waiting: Vec<Waiting>,
    pub tasks: Vec<Task>,
    /// What may be let into the inbox when this is written.
    pub units: usize,
}

/// The core's side.
pub struct Writer {
    shared: Arc<Shared>,
    sync: Sync,
    inbox: Arc<Inbox>,
    tasks: Option<mpsc::Sender<Task>>,
    /// Up to where was written.
    end: Position,
    thread: Option<thread::JoinHandle<()>>,
    maintenance: Option<thread::JoinHandle<()>>,
}

struct Shared {
    queue: Mutex<Queue>,
    bell: Condvar,
    synced: AtomicU64,
}

/// What the next sync is for.
#[derive(Default)]
struct Queue {
    /// Files with writes that are not synced, oldest first. A file that the log has given up needs no sync any more and
    /// is not kept for one.
    dirty: Vec<Weak<dyn DiskFile>>,
    /// Up to where was written.
    end: Position,
    waiting: Vec<Waiting>,
    /// The sync thread sleeps until it is woken.
    asleep: bool,
    /// It sleeps until so many wait for it.
    wanted: usize,
    closing: bool,
    /// The core is gone without having closed: the end is not a clean one.
    dropped: bool,
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
            queue: Mutex::new(Queue {
                end: machine.synced,
                ..Queue::default()
            }),
            bell: Condvar::new(),
            synced: AtomicU64::new(pack(machine.synced)),
        });
        let (tasks, queue) = mpsc::channel();
        let maintenance_inbox = inbox.clone();
        let maintenance = spawn("auxo-maintenance", move || {
            maintain(queue, disk, maintenance_inbox)
        })?;
        let syncer = Syncer {
            shared: shared.clone(),
            sync,
            inbox: inbox.clone(),
            mark,
            last: Instant::now(),
            company: Company::default(),
        };
        let (fallen, told) = (shared.clone(), inbox.clone());
        let thread = spawn("auxo-sync", move || {
            let _guard = OnPanic(|| {
                fail(
                    &fallen,
                    &told,
                    &io::Error::other("the sync thread panicked"),
                );
                refuse(std::mem::take(&mut fallen.lock().waiting));
            });
            syncer.run();
        })?;
        Ok(Writer {
            shared,
            sync,
            inbox,
            tasks: Some(tasks),
            end: machine.written,
            thread: Some(thread),
            maintenance: Some(maintenance),
        })
    }

    /// Writes a batch and answers who waits for no more than that.
    pub fn send(&mut self, batch: Batch) {
        let Batch {
            writes,
            mut waiting,
            tasks,
            units,
        } = batch;
        let failed = self.shared.lock().failed.is_some();
        if failed || !self.write(&writes) {
            self.inbox.release(units);
            refuse(waiting);
            return;
        }
        self.inbox.release(units);
        if self.sync == Sync::Always {
            let (later, now) = waiting
                .into_iter()
                .partition(|one| one.after == After::Synced);
            waiting = now;
            self.dirty(&writes, later);
        } else {
            self.dirty(&writes, Vec::new());
        }
        answer(&self.inbox, waiting);
        for task in tasks {
            // The maintenance thread ends when this one does.
            let _ = self.tasks.as_ref().map(|queue| queue.send(task));
        }
    }

    fn write(&mut self, writes: &[Write]) -> bool {
        for write in writes {
            if let Err(error) = write.file.write_at(u64::from(write.offset), &write.bytes) {
                fail(&self.shared, &self.inbox, &error);
                return false;
            }
            self.end = write.end;
        }
        true
    }

    /// Tells the sync thread what was written, and wakes it if there is something for it to do.
    fn dirty(&self, writes: &[Write], waiting: Vec<Waiting>) {
        if writes.is_empty() && waiting.is_empty() {
            return;
        }
        let mut queue = self.shared.lock();
        // The sync thread may have fallen since the write began, and would not answer any more.
        if queue.failed.is_some() {
            drop(queue);
            return refuse(waiting);
        }
        for write in writes {
            let known = queue
                .dirty
                .last()
                .is_some_and(|last| std::ptr::addr_eq(last.as_ptr(), Arc::as_ptr(&write.file)));
            if !known {
                queue.dirty.retain(|file| file.strong_count() > 0);
                queue.dirty.push(Arc::downgrade(&write.file));
            }
        }
        queue.end = self.end;
        queue.waiting.extend(waiting);
        let wanted = !queue.waiting.is_empty() || matches!(self.sync, Sync::Interval(_));
        let complete = queue.waiting.len() >= queue.wanted;
        if wanted && complete && std::mem::take(&mut queue.asleep) {
            drop(queue);
            self.shared.bell.notify_one();
        }
    }

    /// Up to where the log is in the files.
    pub fn written(&self) -> Position {
        self.end
    }

    /// Up to where the log is on the disk.
    pub fn synced(&self) -> Position {
        unpack(self.shared.synced.load(Ordering::Acquire))
    }

    /// Syncs the rest, and ends both threads.
    pub fn close(mut self, machine: &Machine) -> Result<()> {
        self.tasks = None;
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

impl Drop for Writer {
    /// Lets the sync thread go if nobody has closed it.
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.dropped = !queue.closing;
        queue.closing = true;
        drop(queue);
        self.shared.bell.notify_one();
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

/// The sync thread's side.
struct Syncer {
    shared: Arc<Shared>,
    sync: Sync,
    inbox: Arc<Inbox>,
    mark: Mark,
    last: Instant,
    company: Company,
}

impl Syncer {
    fn run(mut self) {
        let shared = self.shared.clone();
        loop {
            let queue = self.wait(&shared);
            let mut queue = self.complete(&shared, queue);
            let closing = queue.closing;
            if queue.failed.is_some() {
                // What is written is never synced again.
                queue.dirty.clear();
                let waiting = std::mem::take(&mut queue.waiting);
                drop(queue);
                refuse(waiting);
            } else {
                let dirty = std::mem::take(&mut queue.dirty);
                let (end, waiting) = (queue.end, std::mem::take(&mut queue.waiting));
                let clean = closing && !queue.dropped;
                drop(queue);
                self.round(dirty, end, waiting, clean);
            }
            if closing {
                return;
            }
        }
    }

    /// Waits until somebody waits for a sync, or an interval's sync is due.
    fn wait<'a>(&self, shared: &'a Shared) -> MutexGuard<'a, Queue> {
        let mut queue = shared.lock();
        loop {
            let due = match self.sync {
                Sync::Interval(interval) if !queue.dirty.is_empty() => {
                    Some(interval.saturating_sub(self.last.elapsed()))
                }
                _ => None,
            };
            if !queue.waiting.is_empty() || queue.closing || due == Some(Duration::ZERO) {
                queue.asleep = false;
                return queue;
            }
            queue = match due {
                Some(wait) => {
                    let waited = shared.bell.wait_timeout(queue, wait);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    queue.asleep = true;
                    let woken = shared.bell.wait(queue);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// Waits a little for others who are about to want a sync, if that pays.
    fn complete<'a>(
        &mut self,
        shared: &'a Shared,
        mut queue: MutexGuard<'a, Queue>,
    ) -> MutexGuard<'a, Queue> {
        if queue.closing || queue.failed.is_some() {
            return queue;
        }
        let there = queue.waiting.len();
        let Some((wanted, longest)) = self.company.wanted(there, self.last.elapsed()) else {
            return queue;
        };
        queue.wanted = wanted;
        let lacks = |queue: &mut Queue| {
            queue.asleep = !queue.closing && queue.waiting.len() < wanted;
            queue.asleep
        };
        let waited = shared.bell.wait_timeout_while(queue, longest, lacks);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        queue.asleep = false;
        queue.wanted = 0;
        self.company.waited(queue.waiting.len() >= wanted);
        queue
    }

    fn round(
        &mut self,
        dirty: Vec<Weak<dyn DiskFile>>,
        end: Position,
        waiting: Vec<Waiting>,
        clean: bool,
    ) {
        let began = Instant::now();
        if let Err(error) = self.sync_all(dirty, end, clean) {
            fail(&self.shared, &self.inbox, &error);
            return refuse(waiting);
        }
        self.last = Instant::now();
        let others = self.shared.lock().waiting.len();
        self.company
            .synced(self.last - began, waiting.len(), others);
        answer(&self.inbox, waiting);
    }

    fn sync_all(
        &mut self,
        dirty: Vec<Weak<dyn DiskFile>>,
        end: Position,
        clean: bool,
    ) -> io::Result<()> {
        for file in dirty.iter().filter_map(Weak::upgrade) {
            file.sync()?;
        }
        self.shared.synced.store(pack(end), Ordering::Release);
        if !dirty.is_empty() || clean {
            self.mark.write(Marked { synced: end, clean })?;
        }
        if clean {
            self.mark.sync()?;
        }
        Ok(())
    }
}

/// The first error is the last: what the disk did with the bytes is not known, and trying again could hide that.
fn fail(shared: &Shared, inbox: &Inbox, error: &io::Error) {
    let message = format!(
        "the disk failed and the store has stopped: {error}; restart it when the disk is well again"
    );
    let error = Error::new(Code::Unavailable, message);
    shared.lock().failed.get_or_insert(error.clone());
    inbox.broken(error);
}

/// Whether these were done is not known, and that is the answer.
fn refuse(waiting: Vec<Waiting>) {
    for one in waiting {
        let message =
            "the disk failed while this was being written: it may or may not have happened";
        let reply = match one.reply {
            Ok(_) => Err(Error::new(Code::UnknownOutcome, message)),
            refused => refused,
        };
        one.caller.refuse(reply);
    }
}

/// Gives answers. Those who wait on one thread get theirs together, so that it is woken once.
fn answer(inbox: &Arc<Inbox>, mut waiting: Vec<Waiting>) {
    while let Some(home) = waiting
        .iter()
        .find_map(|one| one.caller.far_home())
        .cloned()
    {
        let is_there = |one: &mut Waiting| {
            let home_of = one.caller.far_home();
            home_of.is_some_and(|there| Arc::ptr_eq(there, &home))
        };
        let bundle: Vec<Waiting> = waiting.extract_if(.., is_there).collect();
        let inbox = inbox.clone();
        if bundle.len() == 1 {
            answer_each(&inbox, bundle);
        } else {
            home.run(Box::new(move || answer_each(&inbox, bundle)));
        }
    }
    answer_each(inbox, waiting);
}

fn answer_each(inbox: &Inbox, waiting: Vec<Waiting>) {
    for one in waiting {
        inbox.answer(one.caller, one.reply);
    }
}

#[cfg(test)]
mod tests {
    use auxo_core::errand;
    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn callers_on_a_thread_that_runs_errands_are_told_by_that_thread_and_all_at_once() {
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let (waiting, mut answers): (Vec<_>, Vec<_>) = runtime.block_on(async {
            tokio::spawn(errand::run());
            tokio::task::yield_now().await;
            let caller = |_| {
                let (answer, told) = oneshot::channel();
                let one = Waiting {
                    caller: Caller::here(answer),
                    reply: Ok(Reply::Change),
                    after: After::Synced,
                };
                (one, told)
            };
            (0..3).map(caller).unzip()
        });
        let syncs = thread::spawn(move || answer(&Inbox::new(), waiting));
        syncs.join().expect("no panic");
        // The thread that has the answers has woken nobody; the one that the callers are on has not come to it yet.
        assert!(answers.iter_mut().all(|told| told.try_recv().is_err()));
        runtime.block_on(tokio::task::yield_now());
        for told in &mut answers {
            assert!(matches!(told.try_recv(), Ok(Ok(Reply::Change))));
        }
    }
}
