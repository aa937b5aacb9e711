//! A disk in memory that loses power, fills up and fails on demand. **For tests**, here and in other crates.
//!
//! For every file it keeps what is safe and the writes since the last sync; for the directory the same. A power cut
//! ([`SimDisk::crash`]) then decides by seed what reached the platter: each unsynced write whole, not at all, or any
//! subset of its 512-byte sectors; each new, changed or removed name or not; all in any combination. That is harsher
//! than journaling file systems are, and as harsh as the standard allows. Everything is deterministic: the same calls
//! and the same seed give the same disk.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

mod names;
mod node;
mod rng;
#[cfg(test)]
mod tests;

use names::Names;
use node::Node;
pub use rng::Rng;
use rng::Survival;

/// How many of the latest operations the log remembers.
const LOG: usize = 100_000;

/// A kind of operation, as counted, logged and made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// [`Disk::create`].
    Create,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::remove`].
    Remove,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// [`DiskFile::write_at`].
    Write,
    /// [`DiskFile::sync`].
    Sync,
    /// [`DiskFile::allocate`].
    Allocate,
    /// [`DiskFile::read_at`]: can be made to fail, but changes nothing and is therefore neither counted nor logged.
    Read,
}

/// One operation that changed the disk, or tried to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was done.
    pub op: Op,
    /// To which file: the name it was opened or created under; empty for the directory.
    pub file: Arc<str>,
    /// From which byte on; 0 where that means nothing.
    pub offset: u64,
    /// How many bytes, or the new length for [`Op::Allocate`].
    pub len: u64,
}

/// A simulated disk. Clones are handles on the same disk. The images that [`crash`](SimDisk::crash) and its like return
/// are disks of their own, free of faults, and the original goes on undisturbed: many ends can be tried from one state.
#[derive(Clone, Debug, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    names: Names,
    operations: u64,
    reads: u64,
    log: VecDeque<Operation>,
    faults: Vec<Fault>,
    /// The number of operations after which the power is off.
    power_until: Option<u64>,
    capacity: Option<u64>,
}

#[derive(Debug)]
struct Fault {
    op: Op,
    left: u64,
    kind: io::ErrorKind,
}

/// What a crash leaves behind.
impl SimDisk {
    /// An empty disk without limits.
    pub fn new() -> SimDisk {
        SimDisk::default()
    }

    /// The disk after a power cut now, `seed` choosing what of the unsynced survives.
    pub fn crash(&self, seed: u64) -> SimDisk {
        self.image(|names| names.after_power_cut(&mut Survival::by_seed(seed)))
    }

    /// The disk after a power cut now in which nothing unsynced survives.
    pub fn crash_losing_all(&self) -> SimDisk {
        self.image(|names| names.after_power_cut(&mut Survival::none()))
    }

    /// The disk as the next process finds it after `kill -9`: everything written is there, and what was not synced is
    /// no safer than before.
    pub fn kill(&self) -> SimDisk {
        self.image(Names::copy)
    }

    fn image(&self, names: impl FnOnce(&Names) -> Names) -> SimDisk {
        let state = self.lock();
        SimDisk(Arc::new(Mutex::new(State {
            names: names(&state.names),
            capacity: state.capacity,
            ..State::default()
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Switches for faults, and looks behind the scenes.
impl SimDisk {
    /// Lets `operations` more operations happen and fails every call after them, reads included, as if the power went.
    /// Take the image with [`crash`](SimDisk::crash) afterwards.
    pub fn crash_at(&self, operations: u64) {
        let mut state = self.lock();
        state.power_until = Some(state.operations + operations);
    }

    /// Makes the `nth` operation of this kind from now on fail, once; 1 is the next. A failed write leaves a part of
    /// its bytes. After a failed sync a later one succeeds without making the writes before it safe, as Linux does.
    pub fn fail(&self, op: Op, nth: u64, kind: io::ErrorKind) {
        let left = nth.max(1);
        self.lock().faults.push(Fault { op, left, kind });
    }

    /// Limits the bytes in all files together; what would grow beyond fails with `StorageFull`.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock().capacity = bytes;
    }

    /// How many bytes all files have together.
    pub fn used(&self) -> u64 {
        self.lock().names.used()
    }

    /// How many operations happened so far.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// How many reads there were so far; they are not among the operations.
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// The latest operations, the oldest first.
    pub fn log(&self) -> Vec<Operation> {
        self.lock().log.iter().cloned().collect()
    }

    /// The content of a file as a reader sees it now.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        self.lock().names.get(name).ok().map(|node| node.content())
    }

    /// Changes a file behind the engine's back, on the platter: for damage of every kind. The file counts as synced.
    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.lock().names.get(name)?.damage(change);
        Ok(())
    }

    /// Flips one bit of a file; a byte beyond its end is `InvalidInput`.
    pub fn flip_bit(&self, name: &str, byte: u64, bit: u8) -> io::Result<()> {
        let mut flipped = false;
        self.damage(name, |bytes| {
            if let Some(byte) = bytes.get_mut(byte as usize) {
                *byte ^= 1 << (bit % 8);
                flipped = true;
            }
        })?;
        match flipped {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Cuts a file off at `len`.
    pub fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        self.damage(name, |bytes| bytes.truncate(len as usize))
    }

    /// Makes a file vanish for good.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        self.lock().names.delete(name)
    }
}

impl State {
    /// Counts, logs, and lets a fault strike.
    fn begin(&mut self, op: Op, file: &Arc<str>, offset: u64, len: u64) -> io::Result<()> {
        self.check_power()?;
        self.operations += 1;
        if self.log.len() == LOG {
            self.log.pop_front();
        }
        self.log.push_back(Operation {
            op,
            file: file.clone(),
            offset,
            len,
        });
        self.strike(op)
    }

    fn check_power(&self) -> io::Result<()> {
        match self.power_until {
            Some(end) if self.operations >= end => Err(io::Error::other("simulated power cut")),
            _ => Ok(()),
        }
    }

    fn strike(&mut self, op: Op) -> io::Result<()> {
        let mut struck = None;
        self.faults.retain_mut(|fault| {
            if fault.op == op {
                fault.left -= 1;
            }
            if fault.left == 0 {
                struck = Some(fault.kind);
            }
            fault.left > 0
        });
        match struck {
            Some(kind) => Err(io::Error::new(kind, "simulated fault")),
            None => Ok(()),
        }
    }

    /// How long `node` may become when it wants to be `len` long.
    fn room(&self, node: &Node, len: u64) -> u64 {
        let Some(capacity) = self.capacity else {
            return len;
        };
        let now = node.len();
        len.min(now + capacity.saturating_sub(self.names.used()))
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.lock();
        state.check_power()?;
        Ok(state.names.list())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.lock();
        let name = Arc::from(name);
        state.begin(Op::Create, &name, 0, 0)?;
        let node = state.names.create(&name);
        let disk = self.clone();
        Ok(Arc::new(SimFile { disk, name, node }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let state = self.lock();
        state.check_power()?;
        let node = state.names.get(name)?.clone();
        let (disk, name) = (self.clone(), Arc::from(name));
        Ok(Arc::new(SimFile { disk, name, node }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.begin(Op::Rename, &Arc::from(from), 0, 0)?;
        state.names.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.lock();
        state.begin(Op::Remove, &Arc::from(name), 0, 0)?;
        state.names.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut state = self.lock();
        state.begin(Op::SyncDir, &Arc::from(""), 0, 0)?;
        state.names.sync();
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    name: Arc<str>,
    node: Arc<Node>,
}

impl DiskFile for SimFile {
    fn len(&self) -> io::Result<u64> {
        self.disk.lock().check_power()?;
        Ok(self.node.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.lock();
        state.check_power()?;
        state.reads += 1;
        state.strike(Op::Read)?;
        drop(state);
        Ok(self.node.read(offset, buf))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.check_power()?;
        let len = bytes.len() as u64;
        if let Err(error) = state.begin(Op::Write, &self.name, offset, len) {
            let part = Rng::new(state.operations).below(len + 1);
            self.node.write(offset, &bytes[..part as usize]);
            return Err(error);
        }
        let room = state.room(&self.node, offset + len).max(offset) - offset;
        self.node.write(offset, &bytes[..room as usize]);
        if room < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.check_power()?;
        if let Err(error) = state.begin(Op::Sync, &self.name, 0, 0) {
            self.node.fail_sync();
            return Err(error);
        }
        self.node.sync();
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.begin(Op::Allocate, &self.name, 0, len)?;
        if state.room(&self.node, len) < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.node.set_len(len);
        Ok(())
    }
}
