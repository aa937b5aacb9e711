//! Zeros in front of the log.
//!
//! A sync of bytes that were written before is one write to the disk. Where the space was only reserved, the file system must note
//! with each sync that there is something in it now, and that is another write: such a sync took 1.7 times as long. A file that
//! was a segment before has been written all over. One that is new is written with zeros, a little ahead of the log, if somebody
//! waits for syncs.
//!
//! Whoever lays zeros is another thread than the one that writes the log, and must never lay them on what is written. So each
//! write first says how far it goes, and zeros are laid behind that only, while nobody can say so.
//!
//! A file system that copies what is written again gains nothing by it, and loses nothing that a segment which is used again would not
//! lose as well: there, space that was reserved is good for one write.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::DiskFile;

/// How much is laid at once: for so long a write may have to wait.
pub const PIECE: usize = 64 << 10;

/// A new file that is written from its beginning to its end.
pub struct Road {
    file: Arc<dyn DiskFile>,
    /// Up to where there is something: what was written, is just being written, or zeros.
    end: Mutex<u64>,
}

impl Road {
    /// A file that nothing was written to.
    pub fn new(file: Arc<dyn DiskFile>) -> Arc<Road> {
        Arc::new(Road {
            file,
            end: Mutex::default(),
        })
    }

    /// Up to where a sync finds what was written before, or will have.
    pub fn end(&self) -> u64 {
        *self.lock()
    }

    /// Lays zeros up to there, and syncs them if there were any to lay.
    pub fn pave(&self, upto: u64) -> io::Result<()> {
        let zeros = [0; PIECE];
        let mut laid = false;
        loop {
            let mut end = self.lock();
            if *end >= upto {
                break;
            }
            let length = (upto - *end).min(PIECE as u64);
            self.file.write_at(*end, &zeros[..length as usize])?;
            *end += length;
            laid = true;
        }
        if laid { self.file.sync() } else { Ok(()) }
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut end = self.lock();
        *end = (*end).max(offset + bytes.len() as u64);
        drop(end);
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
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    /// A file in memory. Who lays zeros says so, and waits until it may go on.
    struct Gated {
        bytes: Mutex<Vec<u8>>,
        laying: Mutex<mpsc::Sender<()>>,
        may: Mutex<mpsc::Receiver<()>>,
        syncs: AtomicUsize,
    }

    impl DiskFile for Gated {
        fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.lock().unwrap().len() as u64)
        }

        fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
            let bytes = self.bytes.lock().unwrap();
            buf.copy_from_slice(&bytes[offset as usize..][..buf.len()]);
            Ok(buf.len())
        }

        fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            if bytes.iter().all(|byte| *byte == 0) {
                self.laying.lock().unwrap().send(()).unwrap();
                self.may.lock().unwrap().recv().unwrap();
            }
            let mut all = self.bytes.lock().unwrap();
            all[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            self.syncs.fetch_add(1, SeqCst);
            Ok(())
        }

        fn allocate(&self, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    /// A road, when somebody begins to lay zeros, and how to let them.
    fn road() -> (Arc<Gated>, Arc<Road>, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((laying, laid), (go_on, may)) = (mpsc::channel(), mpsc::channel());
        let file = Arc::new(Gated {
            bytes: Mutex::new(vec![1; 1 << 20]),
            laying: Mutex::new(laying),
            may: Mutex::new(may),
            syncs: AtomicUsize::new(0),
        });
        (file.clone(), Road::new(file), laid, go_on)
    }

    #[test]
    fn zeros_are_laid_behind_what_is_written_and_nowhere_else() {
        let (file, road, _laid, go_on) = road();
        (0..10).for_each(|_| go_on.send(()).unwrap());
        road.write_at(0, b"first").unwrap();
        road.pave(100_000).unwrap();
        assert_eq!(road.end(), 100_000);
        road.write_at(5, b"second").unwrap();
        road.pave(100_000).unwrap();
        road.pave(8).unwrap();
        assert_eq!(file.syncs.load(SeqCst), 1);
        let mut bytes = [1; 12];
        road.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"firstsecond\0");
        road.write_at(100_000, &[7; 10]).unwrap();
        assert_eq!(road.end(), 100_010);
    }

    #[test]
    fn what_is_written_while_zeros_are_laid_there_is_not_lost() {
        let (_, road, laid, go_on) = road();
        let (paver, writer) = (road.clone(), road.clone());
        let paving = thread::spawn(move || paver.pave(PIECE as u64).unwrap());
        laid.recv().unwrap();
        assert!(road.end.try_lock().is_err(), "a writer need not wait");
        let writing = thread::spawn(move || writer.write_at(0, b"written").unwrap());
        go_on.send(()).unwrap();
        paving.join().unwrap();
        writing.join().unwrap();
        let mut bytes = [1; 8];
        road.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"written\0");
    }
}
