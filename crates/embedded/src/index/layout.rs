//! Where everything lies in an index file: the header page, and the summary that is kept in memory.

use super::bloom::Bloom;
use super::directory::Directory;
use super::page::{self, CONTENT, PAGE, Page, get_u32, get_u64};
use crate::damage::Trouble;
use crate::disk::{DiskFile, read_exact_at};
use crate::format::FORMAT;

const MAGIC: &[u8; 8] = b"AUXOINDX";

pub(super) const ENTRY_SIZE: usize = 24;
pub(super) const PLACE_SIZE: usize = 16;
pub(super) const PER_PAGE_ENTRIES: u32 = (CONTENT / ENTRY_SIZE) as u32;
pub(super) const PER_PAGE_PLACES: u32 = (CONTENT / PLACE_SIZE) as u32;

/// More of a kind than this are refused; so no sum of positions or page numbers can overflow.
pub(super) const MOST: u32 = 1 << 30;

/// What the first page says. Page numbers are written too, for people with a hex editor, and must be those that follow
/// from the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub segment: u64,
    pub entries: u32,
    pub ids: u32,
    pub keys: u32,
    pub streams: u32,
    pub directory_len: u32,
    pub id_bounds: Option<(u64, u64)>,
}

/// A run of pages with sorted places: 8 bytes of key, record number, offset.
#[derive(Clone, Copy, Debug)]
pub(super) struct Section {
    pub page: u32,
    pub count: u32,
}

impl Header {
    #[inline]
    pub fn entry_page(&self, pos: u32) -> u32 {
        1 + pos / PER_PAGE_ENTRIES
    }

    pub fn id_places(&self) -> Section {
        let page = 1 + self.entries.div_ceil(PER_PAGE_ENTRIES);
        let count = self.ids;
        Section { page, count }
    }

    pub fn key_places(&self) -> Section {
        let page = self.id_places().page + self.ids.div_ceil(PER_PAGE_PLACES);
        let count = self.keys;
        Section { page, count }
    }

    pub fn summary_page(&self) -> u32 {
        self.key_places().page + self.keys.div_ceil(PER_PAGE_PLACES)
    }

    pub fn pages(&self) -> u32 {
        self.summary_page() + self.summary_len().div_ceil(CONTENT as u64) as u32
    }

    fn summary_len(&self) -> u64 {
        16 * u64::from(self.entries.div_ceil(PER_PAGE_ENTRIES))
            + 8 * u64::from(self.ids.div_ceil(PER_PAGE_PLACES))
            + 8 * u64::from(self.keys.div_ceil(PER_PAGE_PLACES))
            + u64::from(self.directory_len)
            + Bloom::len(self.keys)
    }

    pub fn page(&self) -> Page {
        let mut page = [0; PAGE];
        let (least, greatest) = self.id_bounds.unwrap_or_default();
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            page[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(MAGIC);
        put(&FORMAT.to_le_bytes());
        put(&(PAGE as u32).to_le_bytes());
        put(&self.segment.to_le_bytes());
        put(&least.to_le_bytes());
        put(&greatest.to_le_bytes());
        for number in [
            self.entries,
            self.ids,
            self.keys,
            self.streams,
            self.directory_len,
            1,
            self.id_places().page,
            self.key_places().page,
            self.summary_page(),
            self.pages(),
        ] {
            put(&number.to_le_bytes());
        }
        page::seal(&mut page, self.segment, 0);
        page
    }

    pub fn read(file: &dyn DiskFile, name: &str, segment: u64) -> Result<Header, Trouble> {
        let damaged = |what: String| Err(Trouble::damaged(name, 0, what));
        let mut page = [0; PAGE];
        read_exact_at(file, name, 0, &mut page)?;
        if &page[..8] != MAGIC {
            return damaged("not an index file".into());
        }
        let found = get_u64(&page, 16);
        page::verify(&page, name, found, 0)?;
        let version = get_u32(&page, 8);
        if version != FORMAT {
            return damaged(format!(
                "index format {version}, but this program reads format {FORMAT}"
            ));
        }
        if found != segment {
            return damaged(format!(
                "the index of segment {found} in the place of that of {segment}"
            ));
        }
        let header = Header::parse(&page);
        let most = header.entries.max(header.ids).max(header.keys);
        if most > MOST || header.streams > header.entries || header.page() != page {
            return damaged("the header contradicts itself".into());
        }
        header.check_length(file, name)?;
        Ok(header)
    }

    fn parse(page: &Page) -> Header {
        let ids = get_u32(page, 44);
        Header {
            segment: get_u64(page, 16),
            entries: get_u32(page, 40),
            ids,
            keys: get_u32(page, 48),
            streams: get_u32(page, 52),
            directory_len: get_u32(page, 56),
            id_bounds: (ids > 0).then(|| (get_u64(page, 24), get_u64(page, 32))),
        }
    }

    fn check_length(&self, file: &dyn DiskFile, name: &str) -> Result<(), Trouble> {
        let len = file.len().map_err(|error| Trouble::io(name, error))?;
        let due = page::offset(self.pages());
        if len != due {
            let what = format!("the file has {len} bytes, but should have {due}");
            return Err(Trouble::damaged(name, len.min(due), what));
        }
        Ok(())
    }
}

/// What is kept in memory of an index: the first key of each page, the streams, and the filter of keys.
pub(super) struct Summary {
    pub entry_fences: Box<[(u64, u64)]>,
    pub id_fences: Box<[u64]>,
    pub key_fences: Box<[u64]>,
    pub directory: Directory,
    pub bloom: Bloom,
}

impl Summary {
    pub fn read(file: &dyn DiskFile, name: &str, header: &Header) -> Result<Summary, Trouble> {
        let bytes = read_content(file, name, header)?;
        let mut rest = &bytes[..];
        let mut take = |len: usize| {
            let (taken, left) = rest.split_at(len);
            rest = left;
            taken
        };
        let entry_fences = take(16 * header.entries.div_ceil(PER_PAGE_ENTRIES) as usize);
        let entry_fences = entry_fences.chunks_exact(16);
        let id_fences = take(8 * header.ids.div_ceil(PER_PAGE_PLACES) as usize);
        let key_fences = take(8 * header.keys.div_ceil(PER_PAGE_PLACES) as usize);
        let directory = take(header.directory_len as usize).into();
        let directory = Directory::parse(directory, header.streams, header.entries)
            .map_err(|what| Trouble::damaged(name, page::offset(header.summary_page()), what))?;
        Ok(Summary {
            entry_fences: entry_fences
                .map(|fence| (get_u64(fence, 0), get_u64(fence, 8)))
                .collect(),
            id_fences: numbers(id_fences),
            key_fences: numbers(key_fences),
            directory,
            bloom: Bloom::parse(take(Bloom::len(header.keys) as usize)),
        })
    }
}

fn numbers(bytes: &[u8]) -> Box<[u64]> {
    let numbers = bytes.chunks_exact(8);
    numbers.map(|number| get_u64(number, 0)).collect()
}

/// The content of the summary's pages, joined; at least as long as the header says.
fn read_content(file: &dyn DiskFile, name: &str, header: &Header) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::with_capacity(header.summary_len() as usize + CONTENT);
    let mut page = [0; PAGE];
    for number in header.summary_page()..header.pages() {
        read_exact_at(file, name, page::offset(number), &mut page)?;
        page::verify(&page, name, header.segment, number)?;
        bytes.extend_from_slice(&page[..CONTENT]);
    }
    Ok(bytes)
}
