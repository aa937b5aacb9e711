//! Zeros in front of the log.
//!
//! A sync of bytes that were written before is one write to the disk. Where the space was only reserved, the file system must note
//! with each sync that there is something in it now, and that is another write: such a sync took 1.7 times as long. A file that
//! was a segment before has been written all over. One that is new is written with zeros, a little ahead of the log, if somebody
//! waits for syncs.
//!
//! Whoever lays zeros is another thread than the one that writes the log, and must never lay them on what is written. So each
//! write first says how far it goes, and zeros are laid behind that only, while nobody can say so.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::DiskFile;

/// How much is laid at once: for so long a write may have to wait.
const PIECE: usize = 64 << 10;

/// A new file that is written from its beginning to its end.
pub struct Road {
    file: Arc<dyn DiskFile>,
    ends: Mutex<Ends>,
}

#[derive(Clone, Copy, Default)]
struct Ends {
    /// Up to where was written, or is just being written.
    written: u64,
    /// Up to where there are zeros.
    paved: u64,
}

impl Ends {
    fn furthest(self) -> u64 {
        self.written.max(self.paved)
    }
}

impl Road {
    /// A file that nothing was written to.
    pub fn new(file: Arc<dyn DiskFile>) -> Arc<Road> {
        Arc::new(Road {
            file,
            ends: Mutex::default(),
        })
    }

    /// Up to where a sync finds what was written before, or will have.
    pub fn paved(&self) -> u64 {
        self.lock().furthest()
    }

    /// Lays zeros up to there, and syncs them.
    pub fn pave(&self, end: u64) -> io::Result<()> {
        let zeros = [0; PIECE];
        loop {
            let mut ends = self.lock();
            let from = ends.furthest();
            if from >= end {
                break;
            }
            let length = (end - from).min(PIECE as u64);
            self.file.write_at(from, &zeros[..length as usize])?;
            ends.paved = from + length;
        }
        self.file.sync()
    }

    fn lock(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DiskFile for Road {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut ends = self.lock();
        ends.written = ends.written.max(offset + bytes.len() as u64);
        drop(ends);
        self.file.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::disk::{Disk, RealDisk};

    fn road(dir: &tempfile::TempDir) -> Arc<Road> {
        let disk = RealDisk::open(dir.path()).unwrap();
        let file = disk.create("road").unwrap();
        file.allocate(1 << 20).unwrap();
        Road::new(file)
    }

    #[test]
    fn zeros_are_laid_behind_what_is_written_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let road = road(&dir);
        road.write_at(0, b"first").unwrap();
        road.pave(100_000).unwrap();
        assert_eq!(road.paved(), 100_000);
        road.write_at(5, b"second").unwrap();
        road.pave(100_000).unwrap();
        road.pave(8).unwrap();
        let mut bytes = [1; 12];
        road.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"firstsecond\0");
        road.write_at(100_000, &[7; 10]).unwrap();
        assert_eq!(road.paved(), 100_010);
    }

    #[test]
    fn a_writer_and_who_lays_zeros_in_front_of_it_do_not_meet() {
        let dir = tempfile::tempdir().unwrap();
        let road = road(&dir);
        let paver = road.clone();
        let paving = thread::spawn(move || {
            for end in (0..1 << 20).step_by(10_000) {
                paver.pave(end).unwrap();
            }
        });
        let group = [7; 1009];
        let groups = (1 << 20) / group.len();
        for place in 0..groups {
            road.write_at((place * group.len()) as u64, &group).unwrap();
        }
        paving.join().unwrap();
        let mut bytes = vec![0; groups * group.len()];
        road.read_at(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
}
