//! A disk that counts what passes through it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use auxo_embedded::disk::{Disk, DiskFile, RealDisk};

/// What was asked of a disk.
#[derive(Default)]
pub struct Counters {
    bytes: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

/// A reading of [`Counters`], or the difference of two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Io {
    pub bytes: u64,
    pub writes: u64,
    pub syncs: u64,
}

impl Counters {
    pub fn read(&self) -> Io {
        Io {
            bytes: self.bytes.load(Relaxed),
            writes: self.writes.load(Relaxed),
            syncs: self.syncs.load(Relaxed),
        }
    }
}

impl std::ops::Sub for Io {
    type Output = Io;

    fn sub(self, before: Io) -> Io {
        Io {
            bytes: self.bytes - before.bytes,
            writes: self.writes - before.writes,
            syncs: self.syncs - before.syncs,
        }
    }
}

/// The operating system's disk, counted.
pub struct CountedDisk {
    disk: RealDisk,
    counters: Arc<Counters>,
}

impl CountedDisk {
    pub fn open(path: &Path, counters: Arc<Counters>) -> crate::Result<Arc<CountedDisk>> {
        let disk = RealDisk::open(path)?;
        Ok(Arc::new(CountedDisk { disk, counters }))
    }

    fn counted(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(CountedFile {
            file,
            counters: self.counters.clone(),
        })
    }
}

impl Disk for CountedDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.counted(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.counted(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
}

struct CountedFile {
    file: Arc<dyn DiskFile>,
    counters: Arc<Counters>,
}

impl DiskFile for CountedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.counters.bytes.fetch_add(bytes.len() as u64, Relaxed);
        self.counters.writes.fetch_add(1, Relaxed);
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.counters.syncs.fetch_add(1, Relaxed);
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}
