use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::disk::sim::Rng;
use crate::disk::{RealDisk, SimDisk};

const NAME: &str = "7.idx";
const SEGMENT: u64 = 7;

/// What an index must answer, kept in the plainest way.
struct Model {
    streams: BTreeMap<StreamKey, Vec<Entry>>,
    ids: BTreeMap<u64, Vec<(u32, u32)>>,
    keys: BTreeMap<u64, Vec<(u32, u32)>>,
}

impl Model {
    fn of(draft: &Draft) -> Model {
        let mut streams = BTreeMap::<_, Vec<_>>::new();
        for &(key, entry) in &draft.entries {
            streams.entry(key).or_default().push(entry);
        }
        streams.values_mut().for_each(|entries| entries.sort());
        let places = |from: &[(u64, u32, u32)]| {
            let mut places = BTreeMap::<_, Vec<_>>::new();
            for &(key, ord, offset) in from {
                places.entry(key).or_default().push((ord, offset));
            }
            places.values_mut().for_each(|places| places.sort());
            places
        };
        Model {
            streams,
            ids: places(&draft.ids),
            keys: places(&draft.keys),
        }
    }

    /// Asks the index for everything there is, and for some that is not. Each answer must be the right one or trouble;
    /// tells how often it was trouble.
    fn compare(&self, index: &Index, pages: &mut Pages) -> usize {
        let mut troubles = 0;
        let mut sort_out = |answer: Result<bool, Trouble>| match answer {
            Ok(right) => assert!(right, "a wrong answer"),
            Err(trouble) => {
                assert!(trouble.is_damage(), "{trouble}");
                troubles += 1;
            }
        };
        let listed: Vec<_> = index.streams().map(|(key, _)| key).collect();
        assert!(listed.iter().eq(self.streams.keys()));
        for (key, entries) in &self.streams {
            let range = index.range(key);
            assert_eq!(range.len(), entries.len());
            for (pos, entry) in range.clone().zip(entries) {
                sort_out(index.entry(pos, pages).map(|found| found == *entry));
                for (time, id) in [
                    (entry.time, entry.id),
                    (entry.time, entry.id.saturating_add(1)),
                    (entry.time.saturating_sub(1), u64::MAX),
                ] {
                    let before = entries.partition_point(|e| (e.time, e.id) < (time, id));
                    let found = index.lower_bound(range.clone(), time, id, pages);
                    sort_out(found.map(|found| found == range.start + before as u32));
                }
            }
        }
        for wanted in around(self.ids.keys()) {
            let places = self.ids.get(&wanted).map_or(&[][..], |places| places);
            sort_out(index.find_id(wanted, pages).map(|found| found == places));
        }
        for wanted in around(self.keys.keys()) {
            let places = self.keys.get(&wanted).map_or(&[][..], |places| places);
            sort_out(index.find_key(wanted, pages).map(|found| found == places));
        }
        let bounds = (self.ids.first_key_value()).zip(self.ids.last_key_value());
        assert_eq!(index.id_bounds(), bounds.map(|(a, b)| (*a.0, *b.0)));
        troubles
    }
}

/// The numbers themselves and their neighbours.
fn around<'a>(numbers: impl Iterator<Item = &'a u64>) -> impl Iterator<Item = u64> {
    numbers.flat_map(|&n| [n.wrapping_sub(1), n, n.wrapping_add(1)])
}

/// A draft by seed: few distinct values, so that equal times, ids and hashes occur and run over page borders.
fn draft(seed: u64, records: u64) -> Draft {
    let mut rng = Rng::new(seed);
    let mut draft = Draft {
        segment: SEGMENT,
        ..Draft::default()
    };
    let (streams, spread) = (1 + rng.below(40), 1 + rng.below(2 * records + 1));
    for ord in 0..records as u32 {
        let stream = rng.below(streams);
        let key = StreamKey {
            queue: (stream % 3) as u32,
            class: (stream % 2) as u8,
            priority: (stream % 5) as u32,
            group: stream / 5 * 0x1234_5678_9abc,
        };
        let offset = ord * 100;
        let entry = Entry {
            time: rng.below(spread),
            id: rng.below(spread),
            ord,
            offset,
        };
        draft.entries.push((key, entry));
        draft.ids.push((entry.id, ord, offset));
        if rng.below(3) == 0 {
            draft.keys.push((rng.below(spread) << 32, ord, offset));
        }
    }
    draft
}

fn written(draft: &Draft) -> SimDisk {
    let disk = SimDisk::new();
    draft.clone().write(&disk, NAME).unwrap();
    disk
}

/// How often a damaged file was noticed while it was opened or asked for everything.
fn notices(disk: &SimDisk, model: &Model) -> usize {
    match Index::open(disk, NAME, SEGMENT) {
        Ok(index) => model.compare(&index, &mut Pages::new(3)),
        Err(trouble) => {
            assert!(trouble.is_damage() && trouble.file() == NAME, "{trouble}");
            1
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_index_answers_like_the_plain_model(seed: u64, records in 0_u64..1500, cache in 0_usize..8) {
        let draft = draft(seed, records);
        let index = Index::open(&written(&draft), NAME, SEGMENT).unwrap();
        prop_assert_eq!(Model::of(&draft).compare(&index, &mut Pages::new(cache)), 0);
    }

    #[test]
    fn a_damaged_index_answers_rightly_or_not_at_all(seed: u64, records in 0_u64..800, flips in 1_usize..4) {
        let draft = draft(seed, records);
        let (disk, mut rng) = (written(&draft), Rng::new(seed));
        let len = disk.content(NAME).unwrap().len() as u64;
        for _ in 0..flips {
            disk.flip_bit(NAME, rng.below(len), rng.below(8) as u8).unwrap();
        }
        notices(&disk, &Model::of(&draft));
    }

    #[test]
    fn a_listing_begins_at_the_first_stream_not_before_the_key(seed: u64, queue in 0_u32..4, class in 0_u8..3) {
        let index = Index::open(&written(&draft(seed, 100)), NAME, SEGMENT).unwrap();
        let from = StreamKey { queue, class, ..StreamKey::default() };
        let all: Vec<_> = index.streams().skip_while(|(key, _)| *key < from).collect();
        prop_assert!(index.streams_from(&from).eq(all));
    }
}

#[test]
fn an_index_on_the_real_disk_answers_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let disk = RealDisk::open(dir.path()).unwrap();
    let draft = draft(12, 2000);
    draft.clone().write(&disk, NAME).unwrap();
    let index = Index::open(&disk, NAME, SEGMENT).unwrap();
    let troubles = Model::of(&draft).compare(&index, &mut Pages::new(5));
    assert_eq!((troubles, disk.list().unwrap()), (0, vec![NAME.to_owned()]));
}

#[test]
fn a_flipped_bit_in_any_page_is_noticed_by_who_reads_it() {
    let draft = draft(3, 900);
    let (disk, model) = (written(&draft), Model::of(&draft));
    let mut rng = Rng::new(1);
    let pages = disk.content(NAME).unwrap().len() / page::PAGE;
    assert!(pages > 10);
    for number in 0..pages as u32 {
        let (byte, bit) = (
            page::offset(number) + rng.below(page::PAGE as u64),
            rng.below(8) as u8,
        );
        disk.flip_bit(NAME, byte, bit).unwrap();
        assert!(notices(&disk, &model) > 0, "byte {byte}");
        disk.flip_bit(NAME, byte, bit).unwrap();
    }
    assert_eq!(notices(&disk, &model), 0);
}

#[test]
fn a_file_that_is_too_short_or_too_long_does_not_open() {
    let draft = draft(4, 400);
    let whole = written(&draft).content(NAME).unwrap().len() as u64;
    let mut rng = Rng::new(2);
    let cuts = (0..50).map(|_| rng.below(whole));
    for len in cuts.chain([0, 1, 4095, 4096, whole - 1, whole - 4096]) {
        let disk = written(&draft);
        disk.truncate(NAME, len).unwrap();
        assert!(Index::open(&disk, NAME, SEGMENT).err().unwrap().is_damage());
    }
    let disk = written(&draft);
    disk.damage(NAME, |bytes| bytes.resize(whole as usize + 4096, 0))
        .unwrap();
    assert!(Index::open(&disk, NAME, SEGMENT).is_err());
}

#[test]
fn swapped_pages_and_pages_of_another_segment_are_noticed() {
    let draft = draft(5, 900);
    let model = Model::of(&draft);
    let mut other = draft.clone();
    other.segment = 8;
    let other = written(&other).content(NAME).unwrap();
    let pages = other.len() / page::PAGE;
    for number in 0..pages {
        let at = number * page::PAGE..(number + 1) * page::PAGE;
        let disk = written(&draft);
        disk.damage(NAME, |bytes| {
            bytes[at.clone()].copy_from_slice(&other[at.clone()])
        })
        .unwrap();
        assert!(notices(&disk, &model) > 0, "page {number} of another file");
        let disk = written(&draft);
        let next = (number + 1) % pages * page::PAGE;
        disk.damage(NAME, |bytes| bytes.copy_within(at, next))
            .unwrap();
        assert!(notices(&disk, &model) > 0, "page {number} twice");
    }
}

#[test]
fn an_index_of_another_segment_or_format_says_so() {
    let disk = written(&draft(6, 10));
    let trouble = Index::open(&disk, NAME, 8).err().unwrap();
    assert_eq!(
        trouble.to_string(),
        "file 7.idx at byte 0: the index of segment 7 in the place of that of 8"
    );
    disk.damage(NAME, |bytes| {
        bytes[8] = 1;
        let mut page = [0; page::PAGE];
        page.copy_from_slice(&bytes[..page::PAGE]);
        page::seal(&mut page, SEGMENT, 0);
        bytes[..page::PAGE].copy_from_slice(&page);
    })
    .unwrap();
    let trouble = Index::open(&disk, NAME, SEGMENT).err().unwrap();
    assert!(trouble.to_string().contains("index format 1"), "{trouble}");
}

#[test]
fn an_absent_file_is_an_io_error() {
    let trouble = Index::open(&SimDisk::new(), NAME, SEGMENT).err().unwrap();
    assert!(!trouble.is_damage());
}

#[test]
fn a_position_beyond_the_end_is_trouble_and_no_panic() {
    let mut pages = Pages::new(2);
    for records in [0, 1, 170, 171] {
        let index = Index::open(&written(&draft(1, records)), NAME, SEGMENT).unwrap();
        let end = index.entries();
        assert!(index.entry(end, &mut pages).is_err());
        assert!(index.entry(u32::MAX, &mut pages).is_err());
        assert!(index.lower_bound(0..end + 1, 0, 0, &mut pages).is_err());
        assert_eq!(index.lower_bound(5..5, 0, 0, &mut pages).unwrap(), 5);
        pages.forget(SEGMENT);
    }
}

#[test]
fn an_absent_id_or_key_costs_no_read_and_a_present_one_few() {
    let mut draft = Draft::default();
    for ord in 0..50_000 {
        draft.ids.push((1000 + u64::from(ord) * 2, ord, ord));
        draft.keys.push((u64::from(ord) * 2, ord, ord));
    }
    let disk = written(&draft);
    let index = Index::open(&disk, NAME, 0).unwrap();
    let mut pages = Pages::new(1000);
    let mut reads_for = |ask: &mut dyn FnMut(&mut Pages)| {
        pages.forget(0);
        let before = disk.reads();
        ask(&mut pages);
        disk.reads() - before
    };
    for id in [0, 999, 101_000, u64::MAX] {
        let reads = reads_for(&mut |pages| assert_eq!(index.find_id(id, pages).unwrap(), []));
        assert_eq!(reads, 0);
    }
    let mut absent = 0;
    for key in (0..1000).map(|key| key * 2 + 1) {
        absent += reads_for(&mut |pages| assert_eq!(index.find_key(key, pages).unwrap(), []));
    }
    assert!(absent < 30, "{absent} reads for 1000 absent keys");
    for ord in (0..50_000_u32).step_by(501) {
        let (id, key) = (1000 + u64::from(ord) * 2, u64::from(ord) * 2);
        let here = [(ord, ord)];
        // One page, and the one before if the first of a page was asked for.
        let most = if ord % 255 == 0 { 2 } else { 1 };
        let reads = reads_for(&mut |pages| assert_eq!(index.find_id(id, pages).unwrap(), here));
        assert!((1..=most).contains(&reads), "{reads}");
        let reads = reads_for(&mut |pages| assert_eq!(index.find_key(key, pages).unwrap(), here));
        assert!((1..=most).contains(&reads), "{reads}");
    }
}

#[test]
fn a_lower_bound_reads_one_page_of_a_long_stream() {
    let mut draft = Draft::default();
    for ord in 0..50_000 {
        let (time, id, offset) = (u64::from(ord) * 2, 0, ord);
        let entry = Entry {
            time,
            id,
            ord,
            offset,
        };
        draft.entries.push((StreamKey::default(), entry));
    }
    let disk = written(&draft);
    let index = Index::open(&disk, NAME, 0).unwrap();
    let mut pages = Pages::new(1000);
    let before = disk.reads();
    let found = index.lower_bound(3..50_000, 66_665, 0, &mut pages);
    assert_eq!(found.unwrap(), 33_333);
    assert_eq!(disk.reads() - before, 1);
}

#[test]
fn memory_stays_small_beside_the_records() {
    let mut draft = draft(9, 100_000);
    draft.keys.clear();
    let index = Index::open(&written(&draft), NAME, SEGMENT).unwrap();
    assert!(index.memory() < 30_000, "{}", index.memory());
    draft.keys = draft.ids.clone();
    let index = Index::open(&written(&draft), NAME, SEGMENT).unwrap();
    assert!(index.memory() < 160_000, "{}", index.memory());
}

#[test]
fn after_a_crash_the_index_is_whole_or_absent() {
    let draft = draft(11, 600);
    let model = Model::of(&draft);
    let mut seen = [0; 2];
    for stop in 0..8 {
        for seed in 0..10 {
            let disk = SimDisk::new();
            disk.crash_at(stop);
            let done = draft.clone().write(&disk, NAME).is_ok();
            let disk = disk.crash(seed);
            let whole = disk.content(NAME).is_some();
            assert!(whole || !done);
            assert!(!whole || notices(&disk, &model) == 0);
            seen[usize::from(whole)] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0);
}
