//! A directory that is only read: a damaged store may lie on a disk that was mounted read-only to keep it as it is.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auxo_core::{Code, Error, Result};
use rustix::fs::{Mode, OFlags};

use crate::disk::{Disk, DiskFile};

const LOCK: &str = "lock";

/// The directory. Where there is a lock file it is held, together with other readers; where there is none, no process has
/// the store open.
pub struct Source {
    path: PathBuf,
    // Never read: the lock lasts as long as the open file.
    _lock: Option<File>,
}

impl Source {
    pub fn open(path: &Path) -> Result<Source> {
        let refused = |what: &dyn std::fmt::Display| {
            let message = format!("data directory {} cannot be read: {what}", path.display());
            Error::new(Code::Unavailable, message)
        };
        let lock = match open_to_read(&path.join(LOCK)) {
            Ok(lock) => Some(lock),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refused(&error)),
        };
        match lock.as_ref().map(File::try_lock_shared) {
            None | Some(Ok(())) => Ok(Source {
                path: path.to_owned(),
                _lock: lock,
            }),
            Some(Err(TryLockError::WouldBlock)) => Err(refused(
                &"another process has it open; stop that process first",
            )),
            Some(Err(TryLockError::Error(error))) => Err(refused(&error)),
        }
    }
}

/// Opens a file, but none that a link leads to.
fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

fn only_read<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "a salvage only reads",
    ))
}

impl Disk for Source {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK
                && entry.file_type()?.is_file()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(SourceFile(open_to_read(&self.path.join(name))?)))
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        only_read()
    }

    fn rename(&self, _from: &str, _to: &str) -> io::Result<()> {
        only_read()
    }

    fn remove(&self, _name: &str) -> io::Result<()> {
        only_read()
    }

    fn sync_dir(&self) -> io::Result<()> {
        only_read()
    }
}

struct SourceFile(File);

impl DiskFile for SourceFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        crate::disk::read_at(&self.0, offset, buf)
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        only_read()
    }

    fn sync(&self) -> io::Result<()> {
        only_read()
    }

    fn allocate(&self, _len: u64) -> io::Result<()> {
        only_read()
    }
}
