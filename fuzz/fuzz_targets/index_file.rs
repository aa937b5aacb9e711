//! Index files: pages that check out, and say what they should not.

#![no_main]

use arbitrary::Arbitrary;
use auxo_embedded::fuzzing;
use auxo_embedded::index::{Draft, Entry, Index, Pages, StreamKey};
use auxo_fuzz::room;
use auxo_fuzz::store::MemoryDisk;
use libfuzzer_sys::fuzz_target;

const PAGE: usize = 4096;
const NAME: &str = "0000000007.idx";

#[derive(Arbitrary, Debug)]
struct Input {
    records: Vec<Record>,
    /// Bytes of pages that are changed before the checksum is made anew.
    changes: Vec<(u8, u16, u8)>,
    numbers: Vec<(u8, u16, u32)>,
    /// How many pages there are, if that is to be changed.
    pages: Option<u8>,
    asked: Vec<(u32, u64)>,
}

#[derive(Arbitrary, Debug)]
struct Record {
    key: (u8, u8, u8, u8),
    time: u16,
    id: u16,
    hash: Option<u64>,
}

/// A whole index.
fn written(records: &[Record]) -> Vec<u8> {
    let disk = MemoryDisk::default();
    let records = || records.iter().zip(0_u32..);
    let entry = |(record, ord): (&Record, u32)| {
        let (queue, class, priority, group) = record.key;
        let key = StreamKey {
            queue: queue.into(),
            class,
            priority: priority.into(),
            group: group.into(),
        };
        let entry = Entry {
            time: record.time.into(),
            id: record.id.into(),
            ord,
            offset: 32 + ord,
        };
        (key, entry)
    };
    let draft = Draft {
        segment: 7,
        entries: records().map(entry).collect(),
        ids: records()
            .map(|(record, ord)| (record.id.into(), ord, 32 + ord))
            .collect(),
        keys: records()
            .filter_map(|(record, ord)| Some((record.hash?, ord, 32 + ord)))
            .collect(),
    };
    draft.write(&disk, NAME).expect("a file");
    disk.content(NAME).expect("a file")
}

fuzz_target!(|input: Input| {
    let mut file = written(&input.records);
    let whole = input.changes.is_empty() && input.numbers.is_empty() && input.pages.is_none();
    if let Some(pages) = input.pages {
        file.resize(usize::from(pages) * PAGE, 0);
    }
    let at = |page: u8, byte: u16, length: usize| {
        let pages = (length / PAGE).max(1);
        usize::from(page) % pages * PAGE + usize::from(byte) % PAGE
    };
    for (page, byte, to) in input.changes {
        let place = at(page, byte, file.len());
        if let Some(byte) = file.get_mut(place) {
            *byte = to;
        }
    }
    for (page, byte, number) in input.numbers {
        let place = at(page, byte & !3, file.len());
        if let Some(bytes) = file.get_mut(place..place + 4) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
    }
    for (page, number) in file.chunks_exact_mut(PAGE).zip(0..) {
        fuzzing::seal(page.try_into().expect("a page"), 7, number);
    }
    let size = file.len();
    let disk = MemoryDisk::default();
    disk.put(NAME, file);
    let opened = room::within(20 * size + (64 << 10), || Index::open(&disk, NAME, 7));
    let Ok(index) = opened else {
        assert!(!whole, "a whole index is refused");
        return;
    };
    let mut pages = Pages::new(4);
    let streams: Vec<_> = index.streams().collect();
    assert!(streams.is_sorted_by(|(one, _), (other, _)| one < other));
    let entries: usize = streams.iter().map(|(_, range)| range.len()).sum();
    assert_eq!(entries, index.entries() as usize);
    for (key, range) in streams.iter().take(20) {
        assert_eq!(index.range(key), *range);
        for (position, id) in &input.asked {
            let _ = index.lower_bound(range.clone(), (*position).into(), *id, &mut pages);
        }
    }
    for (position, id) in &input.asked {
        let _ = index.entry(*position, &mut pages);
        let _ = index.find_id(*id, &mut pages);
        let _ = index.find_key(*id, &mut pages);
    }
    for (record, ord) in input.records.iter().zip(0..).filter(|_| whole) {
        let found = index
            .find_id(record.id.into(), &mut pages)
            .expect("a whole index");
        assert!(found.contains(&(ord, 32 + ord)), "{found:?}");
    }
});
