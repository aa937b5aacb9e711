//! The index file of a sealed log segment: written once, read at random, never wholly in memory.
//!
//! A segment holds its records in the order of arrival. Its index answers the three questions asked later: which is the
//! next job of a stream ([`Index::range`], [`Index::entry`], [`Index::lower_bound`]), where is this job
//! ([`Index::find_id`]), and does this segment know this key ([`Index::find_key`]). The answers lie sorted in 4 KiB
//! pages, each with its own checksum, which pass through one bounded cache ([`Pages`]) that all indexes share.
//!
//! In memory stay, per index, the directory of streams, a filter of keys (10 bits each), and the first key of each page,
//! about a sixth of a byte per record: with it every lookup knows its page before it reads. Layout: docs/FORMAT.md,
//! "Index files".

use std::ops::Range;
use std::sync::Arc;

use crate::damage::Trouble;
use crate::disk::{Disk, DiskFile};

mod bloom;
mod directory;
mod draft;
mod layout;
mod page;
mod pages;
#[cfg(test)]
mod tests;

use bloom::Bloom;
use directory::Directory;
pub use draft::Draft;
use layout::{Header, PER_PAGE_ENTRIES, PER_PAGE_PLACES, Summary};
use page::{get_u32, get_u64};
pub use pages::Pages;

/// Gives a page the checksum that belongs to its content.
#[cfg(feature = "fuzzing")]
pub(crate) fn seal(page: &mut [u8; page::PAGE], segment: u64, number: u32) {
    page::seal(page, segment, number);
}

/// A line of records that are handed out in order. Streams are sorted by these fields in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamKey {
    /// The queue's number.
    pub queue: u32,
    /// What the records wait for; the meaning is the state machine's.
    pub class: u8,
    /// The priority, 0 first.
    pub priority: u32,
    /// The fairness group, 0 for none.
    pub group: u64,
}

/// One record in a stream. Within a stream entries are sorted by these fields in this order, so by time, then by id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Entry {
    /// When the record is due, or whatever else orders the stream.
    pub time: u64,
    /// The job's id.
    pub id: u64,
    /// The record's number in the segment.
    pub ord: u32,
    /// Where the record begins in the segment.
    pub offset: u32,
}

/// The index of one sealed segment.
pub struct Index {
    file: Arc<dyn DiskFile>,
    name: String,
    header: Header,
    /// Time and id of the first entry of each page.
    entry_fences: Box<[(u64, u64)]>,
    id_fences: Box<[u64]>,
    key_fences: Box<[u64]>,
    directory: Directory,
    bloom: Bloom,
}

impl Index {
    /// Opens an index file and checks all that it keeps in memory; the rest is checked page by page when it is read.
    /// If the cache has pages of an earlier file for this segment, [`Pages::forget`] them first.
    pub fn open(disk: &dyn Disk, name: &str, segment: u64) -> Result<Index, Trouble> {
        let file = disk.open(name).map_err(|error| Trouble::io(name, error))?;
        let header = Header::read(&*file, name, segment)?;
        let summary = Summary::read(&*file, name, &header)?;
        Ok(Index {
            file,
            name: name.to_owned(),
            header,
            entry_fences: summary.entry_fences,
            id_fences: summary.id_fences,
            key_fences: summary.key_fences,
            directory: summary.directory,
            bloom: summary.bloom,
        })
    }

    /// The segment this is the index of.
    pub fn segment(&self) -> u64 {
        self.header.segment
    }

    /// How many entries all streams have together.
    pub fn entries(&self) -> u32 {
        self.header.entries
    }

    /// All streams in order, each with the positions of its entries.
    pub fn streams(&self) -> impl Iterator<Item = (StreamKey, Range<u32>)> + '_ {
        self.directory.iter()
    }

    /// The streams from the first one that is not before `key`.
    pub fn streams_from(
        &self,
        key: &StreamKey,
    ) -> impl Iterator<Item = (StreamKey, Range<u32>)> + '_ {
        self.directory.iter_from(*key)
    }

    /// The positions of the stream's entries; empty if the segment has none.
    pub fn range(&self, key: &StreamKey) -> Range<u32> {
        match self.directory.iter_from(*key).next() {
            Some((found, range)) if found == *key => range,
            _ => 0..0,
        }
    }

    /// The entry at this position.
    #[inline]
    pub fn entry(&self, pos: u32, pages: &mut Pages) -> Result<Entry, Trouble> {
        if pos >= self.header.entries {
            return Err(self.beyond(pos));
        }
        let page = self.page(self.header.entry_page(pos), pages)?;
        Ok(entry_in(page, pos % PER_PAGE_ENTRIES))
    }

    /// The first position in `range`, which must lie within one stream, whose entry is not before (`time`, `id`); the
    /// end of the range if all are.
    pub fn lower_bound(
        &self,
        range: Range<u32>,
        time: u64,
        id: u64,
        pages: &mut Pages,
    ) -> Result<u32, Trouble> {
        if range.is_empty() {
            return Ok(range.end);
        }
        if range.end > self.header.entries {
            return Err(self.beyond(range.end - 1));
        }
        let (first, last) = (
            range.start / PER_PAGE_ENTRIES,
            (range.end - 1) / PER_PAGE_ENTRIES,
        );
        // Pages after the first begin with an entry of this stream, so their fences tell which one to look into.
        let later = &self.entry_fences[first as usize + 1..=last as usize];
        let ordinal = first + later.partition_point(|&fence| fence < (time, id)) as u32;
        let start = range.start.max(ordinal * PER_PAGE_ENTRIES);
        let end = range.end.min((ordinal + 1) * PER_PAGE_ENTRIES);
        let page = self.page(self.header.entry_page(start), pages)?;
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = entry_in(page, middle % PER_PAGE_ENTRIES);
            if (entry.time, entry.id) < (time, id) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Number and offset of all records of this job, usually none or one, in order.
    pub fn find_id(&self, id: u64, pages: &mut Pages) -> Result<Vec<(u32, u32)>, Trouble> {
        match self.id_bounds() {
            Some((least, greatest)) if (least..=greatest).contains(&id) => {
                self.find(id, &self.id_fences, self.header.id_places(), pages)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Number and offset of all records with this key hash, in order. For most absent keys the filter spares the read.
    pub fn find_key(&self, hash: u64, pages: &mut Pages) -> Result<Vec<(u32, u32)>, Trouble> {
        match self.bloom.may_contain(hash) {
            true => self.find(hash, &self.key_fences, self.header.key_places(), pages),
            false => Ok(Vec::new()),
        }
    }

    /// The least and the greatest id.
    pub fn id_bounds(&self) -> Option<(u64, u64)> {
        self.header.id_bounds
    }

    /// About how many bytes the index takes in memory, without its pages in the cache.
    pub fn memory(&self) -> usize {
        size_of::<Index>()
            + self.name.len()
            + size_of_val(&*self.entry_fences)
            + size_of_val(&*self.id_fences)
            + size_of_val(&*self.key_fences)
            + self.directory.memory()
            + self.bloom.memory()
    }

    /// All places of `wanted` in a section that is sorted by it and whose pages begin with `fences`.
    fn find(
        &self,
        wanted: u64,
        fences: &[u64],
        section: layout::Section,
        pages: &mut Pages,
    ) -> Result<Vec<(u32, u32)>, Trouble> {
        let mut found = Vec::new();
        // Equal ones may begin at the end of the page before the first whose fence is equal, and go on over several.
        let first = fences
            .partition_point(|&fence| fence < wanted)
            .saturating_sub(1);
        for (ordinal, &fence) in fences.iter().enumerate().skip(first) {
            if fence > wanted {
                break;
            }
            let count = section.count - ordinal as u32 * PER_PAGE_PLACES;
            let page = self.page(section.page + ordinal as u32, pages)?;
            collect(page, count.min(PER_PAGE_PLACES), wanted, &mut found);
        }
        Ok(found)
    }

    #[inline]
    fn page<'p>(&self, page: u32, pages: &'p mut Pages) -> Result<&'p page::Page, Trouble> {
        pages.get(&*self.file, &self.name, self.header.segment, page)
    }

    #[cold]
    fn beyond(&self, pos: u32) -> Trouble {
        let what = format!(
            "entry {pos} was asked for, but there are only {}",
            self.header.entries
        );
        Trouble::damaged(&*self.name, 0, what)
    }
}

#[inline]
fn entry_in(page: &page::Page, slot: u32) -> Entry {
    let at = slot as usize * layout::ENTRY_SIZE;
    Entry {
        time: get_u64(page, at),
        id: get_u64(page, at + 8),
        ord: get_u32(page, at + 16),
        offset: get_u32(page, at + 20),
    }
}

/// Takes the places of `wanted` from the first `count` of a sorted page.
fn collect(page: &page::Page, count: u32, wanted: u64, found: &mut Vec<(u32, u32)>) {
    let key = |slot: u32| get_u64(page, slot as usize * layout::PLACE_SIZE);
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = (low + high) / 2;
        if key(middle) < wanted {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while low < count && key(low) == wanted {
        let at = low as usize * layout::PLACE_SIZE;
        found.push((get_u32(page, at + 8), get_u32(page, at + 12)));
        low += 1;
    }
}
