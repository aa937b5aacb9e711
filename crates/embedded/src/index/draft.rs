//! An index in the making: collected in any order while a segment is sealed, then sorted and written at once.

use std::io;

use super::bloom::Bloom;
use super::layout::{ENTRY_SIZE, Header, MOST, PER_PAGE_ENTRIES, PER_PAGE_PLACES, PLACE_SIZE};
use super::page::{self, CONTENT, PAGE};
use super::{Entry, StreamKey, directory};
use crate::disk::{self, Disk, DiskFile};

/// How many pages are written with one call.
const BATCH: usize = 256;

/// What an index will hold.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// The segment it is the index of.
    pub segment: u64,
    /// The entries of all streams.
    pub entries: Vec<(StreamKey, Entry)>,
    /// Of each record: job id, number, offset.
    pub ids: Vec<(u64, u32, u32)>,
    /// Of each record with a key: hash of the key, number, offset.
    pub keys: Vec<(u64, u32, u32)>,
}

impl Draft {
    /// Sorts and writes the index under this name. On return it is safe; until then no file of this name is touched.
    pub fn write(mut self, disk: &dyn Disk, name: &str) -> io::Result<()> {
        self.entries.sort_unstable();
        self.ids.sort_unstable();
        self.keys.sort_unstable();
        let (packed, streams) = directory::pack(self.streams());
        let header = Header {
            segment: self.segment,
            entries: count(self.entries.len())?,
            ids: count(self.ids.len())?,
            keys: count(self.keys.len())?,
            streams,
            directory_len: packed
                .len()
                .try_into()
                .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?,
            id_bounds: self.id_bounds(),
        };
        disk::replace(disk, name, |file| {
            let mut writer = Writer::new(file, self.segment);
            writer.page(&header.page()[..CONTENT])?;
            writer.records(&self.entries, ENTRY_SIZE, |&(_, entry), to| {
                to.extend_from_slice(&entry.time.to_le_bytes());
                put_place(to, (entry.id, entry.ord, entry.offset));
            })?;
            for places in [&self.ids, &self.keys] {
                writer.records(places, PLACE_SIZE, |&place, to| put_place(to, place))?;
            }
            for content in self.summary(packed).chunks(CONTENT) {
                writer.page(content)?;
            }
            writer.flush()
        })
    }

    /// Each stream with the number of its entries.
    fn streams(&self) -> impl Iterator<Item = (StreamKey, u32)> + '_ {
        let streams = self.entries.chunk_by(|a, b| a.0 == b.0);
        streams.map(|entries| (entries[0].0, entries.len() as u32))
    }

    fn id_bounds(&self) -> Option<(u64, u64)> {
        Some((self.ids.first()?.0, self.ids.last()?.0))
    }

    fn summary(&self, packed_directory: Vec<u8>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (_, first) in self.entries.iter().step_by(PER_PAGE_ENTRIES as usize) {
            bytes.extend_from_slice(&first.time.to_le_bytes());
            bytes.extend_from_slice(&first.id.to_le_bytes());
        }
        for places in [&self.ids, &self.keys] {
            for (first, _, _) in places.iter().step_by(PER_PAGE_PLACES as usize) {
                bytes.extend_from_slice(&first.to_le_bytes());
            }
        }
        bytes.extend(packed_directory);
        let hashes = self.keys.iter().map(|key| key.0);
        bytes.extend(Bloom::new(hashes).bytes());
        bytes
    }
}

fn count(len: usize) -> io::Result<u32> {
    match u32::try_from(len) {
        Ok(count) if count <= MOST => Ok(count),
        _ => Err(io::ErrorKind::FileTooLarge.into()),
    }
}

fn put_place(to: &mut Vec<u8>, (key, ord, offset): (u64, u32, u32)) {
    to.extend_from_slice(&key.to_le_bytes());
    to.extend_from_slice(&ord.to_le_bytes());
    to.extend_from_slice(&offset.to_le_bytes());
}

/// Writes pages one after the other, many at a time.
struct Writer<'f> {
    file: &'f dyn DiskFile,
    segment: u64,
    next: u32,
    batch: Vec<u8>,
}

impl<'f> Writer<'f> {
    fn new(file: &'f dyn DiskFile, segment: u64) -> Writer<'f> {
        Writer {
            file,
            segment,
            next: 0,
            batch: Vec::with_capacity(BATCH * PAGE),
        }
    }

    /// Writes as many records to a page as fit.
    fn records<T>(
        &mut self,
        records: &[T],
        size: usize,
        put: impl Fn(&T, &mut Vec<u8>),
    ) -> io::Result<()> {
        let mut content = Vec::with_capacity(CONTENT);
        for records in records.chunks(CONTENT / size) {
            content.clear();
            records.iter().for_each(|record| put(record, &mut content));
            self.page(&content)?;
        }
        Ok(())
    }

    fn page(&mut self, content: &[u8]) -> io::Result<()> {
        let mut page = [0; PAGE];
        page[..content.len()].copy_from_slice(content);
        page::seal(&mut page, self.segment, self.next);
        self.batch.extend_from_slice(&page);
        self.next += 1;
        match self.batch.len() < BATCH * PAGE {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let end = page::offset(self.next);
        self.file
            .write_at(end - self.batch.len() as u64, &self.batch)?;
        self.batch.clear();
        Ok(())
    }
}
