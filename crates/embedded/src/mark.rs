//! How far the log is known to be on the disk, in a file of its own.
//!
//! The log notes in each group how far it was synced before that group. That leaves the last group of a run open: if it
//! does not check out, was it torn by a power cut, or damaged later? The mark is written after each sync and answers that.
//! It is not synced itself, so it may lag behind but never runs ahead.

use std::io;
use std::sync::Arc;

use crate::codec::{Reader, Writer};
use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile};
use crate::record::Position;

const NAME: &str = "mark";
const MAGIC: &[u8; 8] = b"AUXOMARK";
const LEN: usize = 24;

/// The open mark file.
pub struct Mark(Arc<dyn DiskFile>);

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marked {
    /// Everything before this was on the disk.
    pub synced: Position,
    /// The log ended here, and its writer stopped in good order.
    pub clean: bool,
}

impl Mark {
    /// Opens the file, and makes it if need be.
    pub fn open(disk: &dyn Disk) -> io::Result<Mark> {
        match disk.open(NAME) {
            Ok(file) => Ok(Mark(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = disk.create(NAME)?;
                file.allocate(LEN as u64)?;
                file.sync()?;
                disk.sync_dir()?;
                Ok(Mark(file))
            }
            Err(error) => Err(error),
        }
    }

    pub fn write(&self, marked: Marked) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        let mut w = Writer(&mut bytes);
        w.u32(marked.synced.segment);
        w.u32(marked.synced.offset);
        w.u32(u32::from(marked.clean));
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        self.0.write_at(0, &bytes)
    }

    pub fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    /// What the mark says; `None` when it says nothing that checks out, which is as if there were none.
    pub fn read(disk: &dyn Disk) -> Result<Option<Marked>, Trouble> {
        let io = |error| Trouble::io(NAME, error);
        let file = match disk.open(NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io(error)),
        };
        let mut bytes = [0; LEN];
        let read = file.read_at(0, &mut bytes).map_err(io)?;
        Ok(if read == LEN { parse(&bytes) } else { None })
    }
}

fn parse(bytes: &[u8; LEN]) -> Option<Marked> {
    let (content, crc) = bytes.split_at(LEN - 4);
    (crc32c::crc32c(content).to_le_bytes() == crc && content.starts_with(MAGIC)).then_some(())?;
    let mut r = Reader(&content[MAGIC.len()..]);
    let synced = Position {
        segment: r.u32()?,
        offset: r.u32()?,
    };
    Some(Marked {
        synced,
        clean: r.u32()? == 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    #[test]
    fn a_torn_mark_is_no_mark() {
        let disk = SimDisk::new();
        assert_eq!(Mark::read(&disk).unwrap(), None);
        let mark = Mark::open(&disk).unwrap();
        assert_eq!(Mark::read(&disk).unwrap(), None);
        let marked = Marked {
            synced: Position {
                segment: 3,
                offset: 77,
            },
            clean: true,
        };
        mark.write(marked).unwrap();
        assert_eq!(Mark::read(&disk).unwrap(), Some(marked));
        disk.flip_bit("mark", 12, 3).unwrap();
        assert_eq!(Mark::read(&disk).unwrap(), None);
    }
}
