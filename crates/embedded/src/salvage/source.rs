//! A directory that is only read: a damaged store may lie on a disk that was mounted read-only to keep it as it is.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use auxo_core::{Code, Error, Result};
use rustix::fs::{Mode, OFlags};

use crate::disk::{Disk, DiskFile};

const LOCK: &str = "lock";

/// The directory, locked together with other readers, as is the file `lock` in it if there is one: NFS tells no other host of the
/// lock of a directory.
pub struct Source {
    path: PathBuf,
    // Never read: the locks last as long as these are open.
    _locked: Vec<File>,
}

impl Source {
    pub fn open(path: &Path) -> Result<Source> {
        let refused = |what: &dyn std::fmt::Display| {
            let message = format!("data directory {} cannot be read: {what}", path.display());
            Error::new(Code::Unavailable, message)
        };
        let lock_shared = |file: File| match file.try_lock_shared() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(refused(
                &"another process has it open; stop that process first",
            )),
            Err(TryLockError::Error(error)) => Err(refused(&error)),
        };
        let dir = File::open(path).map_err(|error| refused(&error))?;
        let mut locked = vec![lock_shared(dir)?];
        match open_to_read(&path.join(LOCK)) {
            Ok(file) => locked.push(lock_shared(file)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(&error)),
        }
        Ok(Source {
            path: path.to_owned(),
            _locked: locked,
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_locks_are_shared_with_readers_and_refused_to_and_by_a_writer() {
        let dir = tempfile::tempdir().unwrap();
        // No process had it open: there is nothing but the directory to lock.
        drop(Source::open(dir.path()).unwrap());
        std::fs::write(dir.path().join(LOCK), "").unwrap();
        let source = Source::open(dir.path()).unwrap();
        drop(Source::open(dir.path()).unwrap());
        for held in [dir.path().join(LOCK), dir.path().to_owned()] {
            let held = File::open(held).unwrap();
            let refused = held.try_lock();
            assert!(matches!(refused, Err(TryLockError::WouldBlock)));
        }
        drop(source);
        for held in [dir.path().join(LOCK), dir.path().to_owned()] {
            let held = File::open(held).unwrap();
            held.try_lock().unwrap();
            let error = Source::open(dir.path()).err().unwrap();
            assert!(error.message().contains("another process"), "{error}");
        }
    }
}
