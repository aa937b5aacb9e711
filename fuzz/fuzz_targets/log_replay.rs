//! A log whose records check out one by one, and contradict each other: some are changed, lost, doubled, or in another order. The
//! store is refused, or opened and used.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use auxo_embedded::fuzzing;
use auxo_fuzz::store::{self, MemoryDisk, Trust, images};
use libfuzzer_sys::fuzz_target;

const NAME: &str = "0000000001.log";
/// The kinds of records that end a group and a segment; they are written anew.
const COMMIT: u8 = 13;
const SEAL: u8 = 15;

#[derive(Arbitrary, Debug)]
struct Input {
    salvage: bool,
    /// How many groups of the true log there are.
    groups: u8,
    changes: Vec<Change>,
}

/// Records are meant by their place.
#[derive(Arbitrary, Debug)]
enum Change {
    Byte(u16, u16, u8),
    Number(u16, u16, u32),
    Long(u16, u16, u64),
    Remove(u16),
    Double(u16),
    Swap(u16, u16),
    Insert(u16, Vec<u8>),
}

/// The records of a true log in their groups.
static GROUPS: LazyLock<Vec<Vec<Vec<u8>>>> = LazyLock::new(|| {
    let bodies = fuzzing::bodies(&images().early[NAME]);
    let groups = bodies.split(|body| body[0] == COMMIT);
    let kept = |group: &[Vec<u8>]| {
        group
            .iter()
            .filter(|body| body[0] != SEAL)
            .cloned()
            .collect()
    };
    groups.map(kept).collect()
});

impl Change {
    fn apply(self, log: &mut [Vec<Vec<u8>>]) {
        let count = log.iter().map(Vec::len).sum::<usize>().max(1);
        let find = |log: &[Vec<Vec<u8>>], at: u16| {
            let mut place = usize::from(at) % count;
            for (group, records) in log.iter().enumerate() {
                if place < records.len() {
                    return Some((group, place));
                }
                place -= records.len();
            }
            None
        };
        let set = |log: &mut [Vec<Vec<u8>>], at: u16, from: u16, bytes: &[u8]| {
            if let Some((group, place)) = find(log, at) {
                let body = &mut log[group][place];
                let start = usize::from(from) % body.len().max(1);
                let to = body.get_mut(start..).unwrap_or_default().iter_mut();
                to.zip(bytes).for_each(|(to, byte)| *to = *byte);
            }
        };
        match self {
            Change::Byte(at, from, to) => set(log, at, from, &[to]),
            Change::Number(at, from, to) => set(log, at, from, &to.to_le_bytes()),
            Change::Long(at, from, to) => set(log, at, from, &to.to_le_bytes()),
            Change::Remove(at) => {
                let found = find(log, at);
                found.map(|(group, place)| log[group].remove(place));
            }
            Change::Double(at) => {
                if let Some((group, place)) = find(log, at) {
                    let body = log[group][place].clone();
                    log[group].push(body);
                }
            }
            Change::Swap(one, other) => {
                if let (Some(one), Some(other)) = (find(log, one), find(log, other)) {
                    let body = log[one.0][one.1].clone();
                    let body = std::mem::replace(&mut log[other.0][other.1], body);
                    log[one.0][one.1] = body;
                }
            }
            Change::Insert(at, body) => {
                if let Some((group, place)) = find(log, at) {
                    log[group].insert(place, body);
                }
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let count = usize::from(input.groups) % (GROUPS.len() + 1);
    let mut log = GROUPS[..count].to_vec();
    for change in input.changes {
        change.apply(&mut log);
    }
    let disk = MemoryDisk::default();
    disk.put(NAME, fuzzing::segment(1, &log));
    if input.salvage {
        store::salvage(&disk);
    }
    store::look(&disk, Trust::Nothing);
});
