//! Checkpoints that check out, and say what they should not: single numbers of a true one are changed. The store is refused, or
//! opened and used.

#![no_main]

use arbitrary::Arbitrary;
use auxo_embedded::snapshot;
use auxo_fuzz::store::{self, Images, Trust, images};
use libfuzzer_sys::fuzz_target;

const NAME: &str = "checkpoint";

#[derive(Arbitrary, Debug)]
struct Input {
    salvage: bool,
    changes: Vec<Change>,
}

#[derive(Arbitrary, Debug)]
enum Change {
    Byte(u16, u8),
    Number(u16, u32),
    Long(u16, u64),
    Cut(u16),
    Insert(u16, Vec<u8>),
    /// All of it, from here on.
    Any(u16, Vec<u8>),
}

impl Change {
    fn apply(self, body: &mut Vec<u8>) {
        let place = |at: u16, body: &[u8]| usize::from(at) % (body.len() + 1);
        let mut set = |at: u16, bytes: &[u8]| {
            let start = place(at, body);
            let to = body[start..].iter_mut();
            to.zip(bytes).for_each(|(to, byte)| *to = *byte);
        };
        match self {
            Change::Byte(at, to) => set(at, &[to]),
            Change::Number(at, to) => set(at, &to.to_le_bytes()),
            Change::Long(at, to) => set(at, &to.to_le_bytes()),
            Change::Cut(at) => body.truncate(place(at, body)),
            Change::Insert(at, bytes) => {
                let at = place(at, body);
                body.splice(at..at, bytes);
            }
            Change::Any(at, bytes) => {
                body.truncate(place(at, body));
                body.extend(bytes);
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let disk = Images::on_disk(&images().killed);
    let (version, mut body) = snapshot::read(&disk, NAME)
        .expect("a whole file")
        .expect("a checkpoint");
    for change in input.changes {
        change.apply(&mut body);
    }
    snapshot::write(&disk, NAME, version, &body).expect("a file");
    if input.salvage {
        store::salvage(&disk);
    }
    store::look(&disk, Trust::Nothing);
});
