//! A segment: one file of the log, with a bit for each job record that is still the current one.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::bits::Bits;
use crate::codec::{Reader, Writer};
use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile, once_failed_always_failed, read_exact_at};
use crate::format::FORMAT;
use crate::index::Index;
use crate::road::Road;

/// The bytes in front of a segment's first record.
pub const HEADER: u32 = 32;
const MAGIC: &[u8; 8] = b"AUXOLOG1";

/// One file of the log.
pub struct Segment {
    pub number: u32,
    pub file: Arc<dyn DiskFile>,
    /// Where the records end.
    pub len: u32,
    /// How many job records there are.
    pub count: u32,
    /// The job records that are current.
    pub live: Bits,
    /// Those of them that are leased: they are not in line.
    pub taken: Bits,
    pub live_count: u32,
    /// The bytes of the current job records.
    pub live_bytes: u64,
    /// From which offset on which salt holds; the first is the segment's own.
    pub salts: Vec<(u32, u32)>,
    /// How its records are found.
    pub finder: Finder,
}

/// How the job records of a segment are found by id.
pub enum Finder {
    /// In memory, while the segment is written and until its index file is.
    Memory(Recent),
    /// In its index file.
    File(Index),
}

/// The ids and offsets of the records of a segment that has no index file yet.
#[derive(Default)]
pub struct Recent {
    /// Offsets by record number.
    offsets: Vec<u32>,
    /// Ids that arrived in rising order, as those of new jobs do.
    rising: Vec<(u64, u32)>,
    /// The newest record of the others: jobs that were moved here from elsewhere.
    others: HashMap<u64, u32>,
}

impl Recent {
    pub fn add(&mut self, id: u64, ord: u32, offset: u32) {
        debug_assert_eq!(self.offsets.len(), ord as usize);
        self.offsets.push(offset);
        if self.rising.last().is_none_or(|(last, _)| *last < id) {
            self.rising.push((id, ord));
        } else {
            self.others.insert(id, ord);
        }
    }

    /// The newest record of this id, and its offset.
    pub fn find(&self, id: u64) -> Option<(u32, u32)> {
        let ord = self.others.get(&id).copied().or_else(|| {
            let at = self.rising.binary_search_by_key(&id, |(id, _)| *id).ok()?;
            Some(self.rising[at].1)
        })?;
        Some((ord, self.offsets[ord as usize]))
    }

    /// The offset of a record.
    pub fn offset(&self, ord: u32) -> u32 {
        self.offsets[ord as usize]
    }
}

pub fn log_name(number: u32) -> String {
    format!("{number:010}.log")
}

pub fn index_name(number: u32) -> String {
    format!("{number:010}.idx")
}

/// The number of a segment or index file.
pub fn parse_name(name: &str, extension: &str) -> Option<u32> {
    let digits = name.strip_suffix(extension)?.strip_suffix('.')?;
    (digits.len() == 10).then(|| digits.parse().ok()).flatten()
}

/// A file that is ready to become the next segment: named, headed and synced, so that activating it needs no I/O.
pub struct Blank {
    pub number: u32,
    pub salt: u32,
    pub file: Arc<dyn DiskFile>,
    /// The same file, if it is a new one.
    pub road: Option<Arc<Road>>,
}

impl Blank {
    /// Makes the file, out of an old one that is no longer needed if there is one: overwriting is cheaper than growing.
    pub fn make(
        disk: &dyn Disk,
        number: u32,
        salt: u32,
        size: u64,
        old: Option<&str>,
    ) -> std::io::Result<Blank> {
        let name = log_name(number);
        let file = match old {
            Some(old) => {
                disk.rename(old, &name)?;
                // The name must be safe before the header is: else a power cut could leave the new header under the old
                // name.
                disk.sync_dir()?;
                disk.open(&name)?
            }
            None => disk.create(&name)?,
        };
        let file = once_failed_always_failed(file);
        let road = old.is_none().then(|| Road::new(file.clone()));
        let file = road.clone().map_or(file, |road| road);
        if file.len()? < size {
            file.allocate(size)?;
        }
        file.write_at(0, &header(number, salt))?;
        file.sync()?;
        disk.sync_dir()?;
        Ok(Blank {
            number,
            salt,
            file,
            road,
        })
    }
}

/// How much of a segment is left when it is sealed: space for what must still be written when the disk is full and there is
/// no other segment to go on in.
pub fn spill(size: u64) -> u64 {
    size / 8
}

pub(crate) fn header(number: u32, salt: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER as usize);
    bytes.extend_from_slice(MAGIC);
    let mut w = Writer(&mut bytes);
    w.u32(FORMAT);
    w.u32(number);
    w.u32(salt);
    w.u64(0);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// What the header of a segment file says.
pub enum Header {
    Good {
        salt: u32,
    },
    /// Not a header of this segment: the file was being made when the power went, or it is damaged.
    Bad(&'static str),
}

pub fn read_header(file: &dyn DiskFile, number: u32) -> Result<Header, Trouble> {
    let mut bytes = [0; HEADER as usize];
    match read_exact_at(file, &log_name(number), 0, &mut bytes) {
        Err(trouble) if trouble.is_damage() => {
            return Ok(Header::Bad("the file is shorter than its header"));
        }
        other => other?,
    }
    let (content, crc) = bytes.split_at(HEADER as usize - 4);
    if crc32c::crc32c(content).to_le_bytes() != crc || &content[..MAGIC.len()] != MAGIC {
        return Ok(Header::Bad("this is not the header of a segment"));
    }
    let mut r = Reader(&content[MAGIC.len()..]);
    let (format, named, salt) = (r.u32(), r.u32(), r.u32());
    let format = format.unwrap_or_default();
    if format != FORMAT {
        let file = log_name(number);
        return Err(Trouble::OtherFormat { file, format });
    }
    Ok(if named == Some(number) {
        Header::Good {
            salt: salt.unwrap_or_default(),
        }
    } else {
        Header::Bad("the header belongs to another segment")
    })
}

impl Segment {
    pub fn new(number: u32, file: Arc<dyn DiskFile>, salt: u32) -> Segment {
        Segment {
            number,
            file,
            len: HEADER,
            count: 0,
            live: Bits::default(),
            taken: Bits::default(),
            live_count: 0,
            live_bytes: 0,
            salts: vec![(0, salt)],
            finder: Finder::Memory(Recent::default()),
        }
    }

    /// The salt the segment was made with.
    pub fn own_salt(&self) -> u32 {
        self.salts[0].1
    }

    /// The salt of a record at this offset.
    pub fn salt_at(&self, offset: u32) -> u32 {
        let after = self.salts.partition_point(|(from, _)| *from <= offset);
        self.salts[after.saturating_sub(1)].1
    }

    /// Whether the record is current and in line.
    pub fn in_line(&self, ord: u32) -> bool {
        self.live.get(ord) && !self.taken.get(ord)
    }

    /// Counts a new current record.
    pub fn add(&mut self, weight: u32) -> u32 {
        let ord = self.count;
        self.count += 1;
        self.live.set(ord);
        self.live_count += 1;
        self.live_bytes += u64::from(weight);
        ord
    }

    /// Notes that a record is no longer current; answers whether it was.
    pub fn kill(&mut self, ord: u32, weight: u32) -> bool {
        let was = self.live.clear(ord);
        self.taken.clear(ord);
        if was {
            self.live_count -= 1;
            self.live_bytes = self.live_bytes.saturating_sub(u64::from(weight));
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::SimDisk;

    #[test]
    fn a_header_is_only_good_for_its_own_segment() {
        let disk = SimDisk::new();
        let blank = Blank::make(&disk, 7, 99, 4096, None).unwrap();
        assert!(matches!(
            read_header(&*blank.file, 7).unwrap(),
            Header::Good { salt: 99 }
        ));
        assert!(matches!(
            read_header(&*blank.file, 8).unwrap(),
            Header::Bad(_)
        ));
        let again = Blank::make(&disk, 8, 100, 4096, Some(&log_name(7))).unwrap();
        assert!(matches!(
            read_header(&*again.file, 8).unwrap(),
            Header::Good { salt: 100 }
        ));
        assert_eq!(disk.list().unwrap(), [log_name(8)]);
    }

    #[test]
    fn the_newest_record_of_an_id_is_found() {
        let mut recent = Recent::default();
        for (ord, id) in [5, 9, 7, 9].into_iter().enumerate() {
            recent.add(id, ord as u32, 100 + ord as u32);
        }
        assert_eq!(recent.find(5), Some((0, 100)));
        assert_eq!(recent.find(7), Some((2, 102)));
        assert_eq!(recent.find(9), Some((3, 103)));
        assert_eq!(recent.find(6), None);
    }

    #[test]
    fn names_are_read_back_and_others_are_left_alone() {
        assert_eq!(parse_name(&log_name(12), "log"), Some(12));
        assert_eq!(parse_name(&index_name(12), "idx"), Some(12));
        for other in ["12.log", "0000000012.log.tmp", "0000000012log", "lock"] {
            assert_eq!(parse_name(other, "log"), None, "{other}");
        }
    }
}
