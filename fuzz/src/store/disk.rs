//! A disk in memory. That of the engine's own tests remembers what a power cut would take, which takes time; here tries per
//! second count. A file that was given room and not written takes none.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auxo_embedded::disk::{Disk, DiskFile};

/// The disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<BTreeMap<String, Arc<File>>>>);

#[derive(Default)]
struct File(Mutex<Content>);

#[derive(Clone, Default)]
struct Content {
    bytes: Vec<u8>,
    /// What lies behind the bytes is zeros.
    len: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryDisk {
    /// Puts a file there.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let len = bytes.len();
        let content = Mutex::new(Content { bytes, len });
        lock(&self.0).insert(name.to_owned(), Arc::new(File(content)));
    }

    /// The content of a file.
    pub fn content(&self, name: &str) -> Option<Vec<u8>> {
        let file = lock(&self.0).get(name)?.clone();
        let content = lock(&file.0);
        let mut bytes = content.bytes.clone();
        bytes.resize(content.len, 0);
        Some(bytes)
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.0).keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = Arc::new(File::default());
        lock(&self.0).insert(name.to_owned(), file.clone());
        Ok(file)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        match lock(&self.0).get(name) {
            Some(file) => Ok(file.clone()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = lock(&self.0);
        let file = files.remove(from).ok_or(ErrorKind::NotFound)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match lock(&self.0).remove(name) {
            Some(_) => Ok(()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }
}

impl DiskFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let content = lock(&self.0);
        let start = usize::try_from(offset).map_or(content.len, |at| at.min(content.len));
        let count = buf.len().min(content.len - start);
        let written = content.bytes.get(start..).unwrap_or_default();
        let there = written.len().min(count);
        buf[..there].copy_from_slice(&written[..there]);
        buf[there..count].fill(0);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut content = lock(&self.0);
        let start = usize::try_from(offset).map_err(|_| ErrorKind::StorageFull)?;
        let end = start
            .checked_add(bytes.len())
            .ok_or(ErrorKind::StorageFull)?;
        if content.bytes.len() < end {
            content.bytes.resize(end, 0);
        }
        content.bytes[start..end].copy_from_slice(bytes);
        content.len = content.len.max(end);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let mut content = lock(&self.0);
        content.len = usize::try_from(len).map_err(|_| ErrorKind::StorageFull)?;
        let len = content.len;
        content.bytes.truncate(len);
        Ok(())
    }
}
