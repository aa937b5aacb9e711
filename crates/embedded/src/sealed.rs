//! A sealed segment is read for its index: when it gets its index file, and when that file turns out to be damaged.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::bits::Bits;
use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile, SimDisk};
use crate::index::{Draft, Entry, Index, StreamKey};
use crate::machine::classes;
use crate::record::{self, HEAD};
use crate::segment::{HEADER, Segment, index_name, log_name};

/// How much of a sealed segment is read at once.
const PIECE: usize = 1 << 20;

/// An entry for no record: no segment has so many.
const NOWHERE: Entry = Entry {
    time: 0,
    id: 0,
    ord: u32::MAX,
    offset: 0,
};

/// What is needed to index a segment.
pub struct Sealed {
    pub number: u32,
    pub file: Arc<dyn DiskFile>,
    pub len: u32,
    pub salts: Vec<(u32, u32)>,
    pub live: Bits,
}

impl Sealed {
    pub fn of(segment: &Segment) -> Sealed {
        Sealed {
            number: segment.number,
            file: segment.file.clone(),
            len: segment.len,
            salts: segment.salts.clone(),
            live: segment.live.clone(),
        }
    }

    /// Reads the segment and writes its index file, with the records that are current.
    pub fn index(self, disk: &dyn Disk) -> std::result::Result<Index, Trouble> {
        let draft = self.draft()?;
        let name = index_name(self.number);
        draft
            .write(disk, &name)
            .map_err(|error| Trouble::io(&name, error))?;
        Index::open(disk, &name, u64::from(self.number))
    }

    /// Reads the segment and makes an index in memory that stands in for a damaged one.
    ///
    /// Whoever is in the middle of a stream of the damaged index remembers a position in it, so each stream keeps its
    /// length. What is not current any more is replaced by entries that lead nowhere and stand in front: a job can move
    /// to a later position by that, never to an earlier one that somebody has already passed.
    pub fn stand_in(&self, damaged: &Index) -> std::result::Result<Index, Trouble> {
        // Trouble with it, which cannot be, is not to be taken for trouble with a file.
        let name = format!("{} in memory", index_name(self.number));
        let mut draft = self.draft()?;
        let mut found: HashMap<StreamKey, u32> = HashMap::new();
        for (key, _) in &draft.entries {
            *found.entry(*key).or_default() += 1;
        }
        for (key, range) in damaged.streams() {
            let missing =
                (range.len() as u32).saturating_sub(found.get(&key).copied().unwrap_or(0));
            let nowhere = (0..missing).map(|_| (key, NOWHERE));
            draft.entries.extend(nowhere);
        }
        let memory = SimDisk::new();
        draft
            .write(&memory, &name)
            .map_err(|error| Trouble::io(&name, error))?;
        let index = Index::open(&memory, &name, u64::from(self.number))?;
        if !index.streams().eq(damaged.streams()) {
            let what = "the index is damaged, and what it kept in memory does not fit the segment";
            return Err(Trouble::damaged(name, 0, what));
        }
        Ok(index)
    }

    fn draft(&self) -> std::result::Result<Draft, Trouble> {
        let mut draft = Draft {
            segment: u64::from(self.number),
            entries: Vec::new(),
            ids: Vec::new(),
            keys: Vec::new(),
        };
        let name = log_name(self.number);
        // A piece at a time: a whole segment would be most of the memory the store takes.
        let (mut piece, mut start) = (Vec::new(), HEADER);
        let own = self.salts.first().map_or(0, |(_, salt)| *salt);
        let (mut offset, mut ord) = (HEADER, 0);
        while offset < self.len {
            let rest: &[u8] = piece.get((offset - start) as usize..).unwrap_or_default();
            let len = record::frame_len(rest);
            let left = (self.len - offset) as usize;
            if len.is_none_or(|len| len > rest.len()) && rest.len() < left {
                piece.resize(len.unwrap_or(0).max(PIECE).min(left), 0);
                crate::disk::read_exact_at(&*self.file, &name, u64::from(offset), &mut piece)?;
                start = offset;
                continue;
            }
            let bad = || {
                Trouble::damaged(
                    &name,
                    u64::from(offset),
                    "this is not the record that was written here",
                )
            };
            // Every record is checked, needed or not: one that is taken for another kind would shift the numbers of all
            // that follow, and jobs would be missing from the index.
            let after = self.salts.partition_point(|(from, _)| *from <= offset);
            let salt = self.salts[after.saturating_sub(1)].1;
            let body = record::unframe(rest, offset, salt, own).ok_or_else(bad)?;
            if record::is_job(body) {
                if self.live.get(ord) {
                    let job = record::decode_job(body, None).ok_or_else(bad)?;
                    classes::streams(&job, ord, offset, |key, entry| {
                        draft.entries.push((key, entry))
                    });
                    draft.ids.push((job.id.0, ord, offset));
                    draft
                        .keys
                        .extend(job.key_hash().map(|hash| (hash, ord, offset)));
                }
                ord += 1;
            }
            offset += (HEAD + body.len()) as u32;
        }
        Ok(draft)
    }
}
