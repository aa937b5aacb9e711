//! The few things the engine asks of a disk, so that a test can put a failing one in its place.
//!
//! One [`Disk`] is one flat directory. Calls block. What a crash leaves behind is the contract: bytes are safe after [`DiskFile::sync`], names (created, renamed, removed) after
//! [`Disk::sync_dir`], and nothing else is. [`RealDisk`] is the operating system's, [`SimDisk`] loses power on demand.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::damage::Trouble;

mod real;
pub mod sim;

pub use real::RealDisk;
pub(crate) use real::read_at;
pub use sim::SimDisk;

/// One flat directory of files.
pub trait Disk: Send + Sync + 'static {
    /// The names of the plain files, sorted. The engine's lock file is not among them.
    fn list(&self) -> io::Result<Vec<String>>;
    /// A new and empty file. One that has this name is replaced: whoever has it open keeps the old content.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// The file with this name, for reading and writing; `NotFound` if there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives the file another name, in one step, in place of a file that had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes the file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns when the names made, changed and removed so far survive a power cut.
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file. After an error from a write the bytes it aimed at are unknown; after an error from [`sync`] no later
/// success says anything about the writes before it, so neither may be tried again.
///
/// [`sync`]: DiskFile::sync
#[allow(clippy::len_without_is_empty)] // the length is a question to the disk and may fail
pub trait DiskFile: Send + Sync {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Reads from `offset` on and tells how many bytes; fewer than asked only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all bytes at `offset`, growing the file if need be.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when content and length survive a power cut.
    fn sync(&self) -> io::Result<()>;
    /// Makes the file exactly `len` bytes long and reserves the space, so that a full disk says so now and not at a
    /// later write. Bytes that are new read as zero.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

/// The same file, but a failed sync is its last. The system tells of a failure once, to whoever asks first: where two
/// threads sync one file, the other one would be told that all is well.
pub fn once_failed_always_failed(file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
    Arc::new(Guarded {
        file,
        failed: Mutex::new(None),
    })
}

struct Guarded {
    file: Arc<dyn DiskFile>,
    failed: Mutex<Option<io::ErrorKind>>,
}

impl DiskFile for Guarded {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        // Held while syncing: a second sync must not overtake the news of the first.
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kind) = *failed {
            return Err(io::Error::new(kind, "an earlier sync of the file failed"));
        }
        let synced = self.file.sync();
        *failed = synced.as_ref().err().map(io::Error::kind);
        synced
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}

/// What a file is called until it is whole.
const UNFINISHED: &str = ".tmp";

/// Whether this is the name of a file that [`replace`] had not finished: left by a crash, to be removed at start.
pub fn is_unfinished(name: &str) -> bool {
    name.ends_with(UNFINISHED)
}

/// Writes a file so that after a crash at any moment the name shows the old content or the new, never a part. On return
/// the new one is safe. On an error the old one may still be there.
pub fn replace(
    disk: &dyn Disk,
    name: &str,
    fill: impl FnOnce(&dyn DiskFile) -> io::Result<()>,
) -> io::Result<()> {
    let unfinished = format!("{name}{UNFINISHED}");
    let written = disk.create(&unfinished).and_then(|file| {
        fill(&*file)?;
        file.sync()?;
        disk.rename(&unfinished, name)
    });
    if let Err(error) = written {
        // Best effort: on a full disk the half-written file must not keep the space. The next start tidies up anyway.
        let _ = disk.remove(&unfinished);
        return Err(error);
    }
    disk.sync_dir()
}

/// Fills `buf` from `offset` on; an end of file before that is damage, because the caller knows what must be there.
pub fn read_exact_at(
    file: &dyn DiskFile,
    name: &str,
    offset: u64,
    buf: &mut [u8],
) -> Result<(), Trouble> {
    let read = file
        .read_at(offset, buf)
        .map_err(|error| Trouble::io(name, error))?;
    if read < buf.len() {
        let what = format!("the file ends here, {} bytes early", buf.len() - read);
        return Err(Trouble::damaged(name, offset + read as u64, what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_replacing(disk: &SimDisk, bytes: &[u8]) -> io::Result<()> {
        replace(disk, "f", |file| file.write_at(0, bytes))
    }

    #[test]
    fn a_replaced_file_is_the_old_or_the_new_one_after_a_crash_at_any_moment() {
        let mut seen = [0, 0];
        for stop in 0..8 {
            for seed in 0..50 {
                let disk = SimDisk::new();
                write_replacing(&disk, &[1; 2000]).unwrap();
                disk.crash_at(stop);
                let finished = write_replacing(&disk, &[2; 2000]).is_ok();
                let content = disk.crash(seed).content("f").unwrap();
                assert!(content == [1; 2000] || content == [2; 2000]);
                assert!(!finished || content == [2; 2000], "what was safe is gone");
                seen[usize::from(content[0]) - 1] += 1;
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }

    #[test]
    fn a_failed_replacement_leaves_the_old_file_and_no_rubbish() {
        let disk = SimDisk::new();
        write_replacing(&disk, b"old").unwrap();
        disk.set_capacity(Some(10));
        let error = write_replacing(&disk, b"far too much").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.list().unwrap(), ["f"]);
        assert_eq!(disk.content("f").unwrap(), b"old");
    }

    #[test]
    fn after_a_failed_sync_a_guarded_file_never_says_that_all_is_well() {
        let disk = SimDisk::new();
        let file = once_failed_always_failed(disk.create("f").unwrap());
        file.write_at(0, b"abc").unwrap();
        disk.fail(sim::Op::Sync, 1, io::ErrorKind::Other);
        assert!(file.sync().is_err());
        assert!(file.sync().is_err());
    }

    #[test]
    fn a_read_past_the_end_is_damage_that_names_where_the_file_ends() {
        let disk = SimDisk::new();
        write_replacing(&disk, b"abc").unwrap();
        let file = disk.open("f").unwrap();
        let trouble = read_exact_at(&*file, "f", 1, &mut [0; 4]).unwrap_err();
        assert_eq!(
            trouble.to_string(),
            "file f at byte 3: the file ends here, 2 bytes early"
        );
    }
}
