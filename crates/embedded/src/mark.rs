//! How far the log is known to be on the disk, in a file of its own.
//!
//! The log notes in each group how far it was synced before that group. That leaves the last group of a run open: if it
//! does not check out, was it torn by a power cut, or damaged later? The mark is written after each sync and answers that.
//! It is not synced itself, so it may lag behind but never runs ahead.
//!
//! The file is there, and as long as it ever gets, before anything is written to the log. A log with records and no mark has
//! lost the mark, and perhaps its own end: nothing else would tell.

use std::io;
use std::sync::Arc;

use crate::codec::{Reader, Writer};
use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile};
use crate::record::Position;

/// The name of the file.
pub const NAME: &str = "mark";
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

/// What there is of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It checks out.
    Whole(Marked),
    /// It was not written yet, or a power cut tore it. That is as good as none.
    Torn,
    /// The file has only so many bytes, or is not there. No crash does that to a store that has records.
    Cut(u64),
}

impl Found {
    /// What it says, if it says anything.
    pub fn marked(self) -> Option<Marked> {
        match self {
            Found::Whole(marked) => Some(marked),
            Found::Torn | Found::Cut(_) => None,
        }
    }
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

    /// Looks at the file.
    pub fn read(disk: &dyn Disk) -> Result<Found, Trouble> {
        let io = |error| Trouble::io(NAME, error);
        let file = match disk.open(NAME) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Cut(0)),
            Err(error) => return Err(io(error)),
        };
        let mut bytes = [0; LEN];
        let read = file.read_at(0, &mut bytes).map_err(io)?;
        if read < LEN {
            return Ok(Found::Cut(read as u64));
        }
        Ok(parse(&bytes).map_or(Found::Torn, Found::Whole))
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
        assert_eq!(Mark::read(&disk).unwrap(), Found::Cut(0));
        let mark = Mark::open(&disk).unwrap();
        assert_eq!(Mark::read(&disk).unwrap(), Found::Torn);
        let marked = Marked {
            synced: Position {
                segment: 3,
                offset: 77,
            },
            clean: true,
        };
        mark.write(marked).unwrap();
        assert_eq!(Mark::read(&disk).unwrap(), Found::Whole(marked));
        disk.flip_bit("mark", 12, 3).unwrap();
        assert_eq!(Mark::read(&disk).unwrap(), Found::Torn);
        disk.truncate("mark", 23).unwrap();
        assert_eq!(Mark::read(&disk).unwrap(), Found::Cut(23));
    }
}
