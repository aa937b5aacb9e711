//! A file of the simulated disk: what readers see, what is safe, and what lies between.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::rng::{Fate, Survival};

/// What a disk writes in one piece.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Node(Mutex<Content>);

#[derive(Clone, Debug, Default)]
struct Content {
    now: Vec<u8>,
    safe: Vec<u8>,
    unsynced: Vec<Unsynced>,
}

#[derive(Clone, Debug)]
struct Unsynced {
    change: Change,
    /// A sync failed after it: it may have reached the disk, but no later sync will see to that.
    given_up: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Node {
    pub fn copy(&self) -> Node {
        Node(Mutex::new(self.lock().clone()))
    }

    pub fn after_power_cut(&self, survival: &mut Survival) -> Node {
        let content = self.lock();
        let mut safe = content.safe.clone();
        for unsynced in &content.unsynced {
            match survival.fate() {
                Fate::Whole => unsynced.change.apply(&mut safe),
                Fate::Torn => unsynced.change.apply_torn(&mut safe, survival),
                Fate::Lost => {}
            }
        }
        Node(Mutex::new(Content {
            now: safe.clone(),
            safe,
            unsynced: Vec::new(),
        }))
    }

    pub fn len(&self) -> u64 {
        self.lock().now.len() as u64
    }

    pub fn content(&self) -> Vec<u8> {
        self.lock().now.clone()
    }

    pub fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let content = self.lock();
        let start = content.now.len().min(offset as usize);
        let from = &content.now[start..];
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        len
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.lock().change(Change::Write {
                offset: offset as usize,
                bytes: bytes.to_vec(),
            });
        }
    }

    pub fn set_len(&self, len: u64) {
        self.lock().change(Change::Length(len as usize));
    }

    pub fn sync(&self) {
        let mut content = self.lock();
        let Content { safe, unsynced, .. } = &mut *content;
        for unsynced in unsynced.drain(..).filter(|unsynced| !unsynced.given_up) {
            unsynced.change.apply(safe);
        }
    }

    pub fn fail_sync(&self) {
        for unsynced in &mut self.lock().unsynced {
            unsynced.given_up = true;
        }
    }

    pub fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let mut content = self.lock();
        change(&mut content.now);
        content.safe = content.now.clone();
        content.unsynced.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.unsynced.push(Unsynced {
            change,
            given_up: false,
        });
    }
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::Write { offset, bytes } => put(to, *offset, bytes),
            Change::Length(len) => to.resize(*len, 0),
        }
    }

    /// Applies some of the sectors. The new length may reach the disk without the bytes: they then read as zero.
    fn apply_torn(&self, to: &mut Vec<u8>, survival: &mut Survival) {
        let Change::Write { offset, bytes } = self else {
            // A length is one number: it changes or it does not.
            if survival.survives() {
                self.apply(to);
            }
            return;
        };
        let end = offset + bytes.len();
        if survival.survives() && to.len() < end {
            to.resize(end, 0);
        }
        let mut at = *offset;
        while at < end {
            let next = ((at / SECTOR + 1) * SECTOR).min(end);
            if survival.survives() {
                put(to, at, &bytes[at - offset..next - offset]);
            }
            at = next;
        }
    }
}

fn put(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    to[offset..end].copy_from_slice(bytes);
}
