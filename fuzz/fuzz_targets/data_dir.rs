//! A data directory whose files were changed, cut, lost, mixed up, or are those of an earlier day: it is refused, or what it shows
//! was once pushed. What is whole can be copied out of it.

#![no_main]

use arbitrary::Arbitrary;
use auxo_fuzz::store::{self, Image, Images, Trust, images};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    killed: bool,
    salvage: bool,
    damage: Vec<Damage>,
}

/// Files are meant by their place in the list of all.
#[derive(Arbitrary, Debug)]
enum Damage {
    Flip {
        file: u8,
        at: u32,
        bit: u8,
    },
    Set {
        file: u8,
        at: u32,
        bytes: Vec<u8>,
    },
    Zero {
        file: u8,
        at: u32,
        length: u16,
    },
    Cut {
        file: u8,
        at: u32,
    },
    Grow {
        file: u8,
        bytes: Vec<u8>,
    },
    Delete {
        file: u8,
    },
    Swap {
        one: u8,
        other: u8,
    },
    Block {
        from: u8,
        from_at: u16,
        to: u8,
        to_at: u16,
    },
    Earlier {
        file: u8,
    },
}

const BLOCK: usize = 512;

fn named(image: &Image, place: u8) -> Option<String> {
    let place = usize::from(place) % image.len().max(1);
    image.keys().nth(place).cloned()
}

fn change(image: &mut Image, file: u8, change: impl FnOnce(&mut Vec<u8>)) {
    if let Some(name) = named(image, file) {
        change(image.get_mut(&name).expect("a file"));
    }
}

/// Bytes from a place on that is somewhere in the file.
fn from(bytes: &mut [u8], at: u32) -> &mut [u8] {
    let length = bytes.len().max(1);
    bytes.get_mut(at as usize % length..).unwrap_or_default()
}

impl Damage {
    fn apply(self, image: &mut Image) {
        match self {
            Damage::Flip { file, at, bit } => change(image, file, |all| {
                if let Some(byte) = from(all, at).first_mut() {
                    *byte ^= 1 << (bit % 8);
                }
            }),
            Damage::Set { file, at, bytes } => change(image, file, |all| {
                let to = from(all, at).iter_mut();
                to.zip(bytes).for_each(|(to, byte)| *to = byte);
            }),
            Damage::Zero { file, at, length } => change(image, file, |all| {
                let zeroed = from(all, at).iter_mut().take(length.into());
                zeroed.for_each(|byte| *byte = 0);
            }),
            Damage::Cut { file, at } => change(image, file, |all| {
                all.truncate(at as usize % (all.len() + 1));
            }),
            Damage::Grow { file, bytes } => change(image, file, |all| all.extend(bytes)),
            Damage::Delete { file } => {
                let name = named(image, file);
                name.map(|name| image.remove(&name));
            }
            Damage::Swap { one, other } => {
                if let (Some(one), Some(other)) = (named(image, one), named(image, other)) {
                    let content = image[&one].clone();
                    let content = image.insert(other, content).unwrap_or_default();
                    image.insert(one, content);
                }
            }
            Damage::Block {
                from,
                from_at,
                to,
                to_at,
            } => {
                let mut block = Vec::new();
                change(image, from, |all| {
                    let start = usize::from(from_at) * BLOCK % all.len().max(1);
                    block = all[start..all.len().min(start + BLOCK)].to_vec();
                });
                change(image, to, |all| {
                    let start = usize::from(to_at) * BLOCK % all.len().max(1);
                    let to = all.get_mut(start..).unwrap_or_default().iter_mut();
                    to.zip(block).for_each(|(to, byte)| *to = byte);
                });
            }
            Damage::Earlier { file } => {
                if let Some(name) = named(image, file)
                    && let Some(content) = images().early.get(&name)
                {
                    image.insert(name, content.clone());
                }
            }
        }
    }
}

fuzz_target!(|input: Input| {
    let mut image = match input.killed {
        true => images().killed.clone(),
        false => images().closed.clone(),
    };
    for damage in input.damage {
        damage.apply(&mut image);
    }
    if input.salvage {
        store::salvage(&Images::on_disk(&image));
    }
    store::look(&Images::on_disk(&image), Trust::Shown);
});
