//! A bounded cache of checked index pages, shared by all indexes.
//!
//! Leasing a backlog asks for one entry after the other, mostly from the page of the last question: that one is
//! remembered and costs a comparison. Others cost a hash lookup, absent ones a read and a checksum. When the cache is
//! full the clock hand takes a page that nobody asked for since it last passed.

use hashbrown::HashMap;

use super::page::{self, PAGE, Page};
use crate::damage::Trouble;
use crate::disk::{DiskFile, read_exact_at};

type Place = (u64, u32);

/// The cache. One thread uses it at a time; it grows to its capacity as pages are asked for.
pub struct Pages {
    capacity: usize,
    frames: Vec<Frame>,
    by_place: HashMap<Place, usize>,
    free: Vec<usize>,
    hand: usize,
    last: Option<(Place, usize)>,
}

struct Frame {
    /// None while the frame is in the list of free ones.
    place: Option<Place>,
    asked_for: bool,
    bytes: Box<Page>,
}

impl Pages {
    /// A cache of at most `capacity` pages of 4 KiB, and at least one.
    pub fn new(capacity: usize) -> Pages {
        Pages {
            capacity: capacity.max(1),
            frames: Vec::new(),
            by_place: HashMap::new(),
            free: Vec::new(),
            hand: 0,
            last: None,
        }
    }

    /// Drops the pages of a segment, because its index is gone or written anew.
    pub fn forget(&mut self, segment: u64) {
        self.last = None;
        for (number, frame) in self.frames.iter_mut().enumerate() {
            if let Some(place) = frame.place.take_if(|place| place.0 == segment) {
                self.by_place.remove(&place);
                self.free.push(number);
            }
        }
    }

    /// About how many bytes the cache takes.
    pub fn memory(&self) -> usize {
        let frames = self.frames.len() * (size_of::<Frame>() + PAGE);
        frames + self.by_place.capacity() * size_of::<(Place, usize)>()
    }

    #[inline]
    pub(super) fn get(
        &mut self,
        file: &dyn DiskFile,
        name: &str,
        segment: u64,
        number: u32,
    ) -> Result<&Page, Trouble> {
        let frame = match self.last {
            Some((place, frame)) if place == (segment, number) => frame,
            _ => self.look_up(file, name, (segment, number))?,
        };
        Ok(&self.frames[frame].bytes)
    }

    fn look_up(&mut self, file: &dyn DiskFile, name: &str, place: Place) -> Result<usize, Trouble> {
        let frame = match self.by_place.get(&place) {
            Some(&frame) => frame,
            None => self.load(file, name, place)?,
        };
        self.frames[frame].asked_for = true;
        self.last = Some((place, frame));
        Ok(frame)
    }

    fn load(&mut self, file: &dyn DiskFile, name: &str, place: Place) -> Result<usize, Trouble> {
        let number = self.vacate();
        let frame = &mut self.frames[number];
        let bytes = &mut frame.bytes;
        let loaded = read_exact_at(file, name, page::offset(place.1), &mut bytes[..])
            .and_then(|()| page::verify(bytes, name, place.0, place.1));
        if let Err(trouble) = loaded {
            self.free.push(number);
            return Err(trouble);
        }
        frame.place = Some(place);
        self.by_place.insert(place, number);
        Ok(number)
    }

    /// A frame that holds nothing and is in no list.
    fn vacate(&mut self) -> usize {
        if let Some(free) = self.free.pop() {
            return free;
        }
        if self.frames.len() < self.capacity {
            self.frames.push(Frame {
                place: None,
                asked_for: false,
                bytes: Box::new([0; PAGE]),
            });
            return self.frames.len() - 1;
        }
        // No frame is free, so all hold a page; after one round of the hand none is marked.
        loop {
            let number = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[number];
            if !std::mem::take(&mut frame.asked_for) {
                if let Some(place) = frame.place.take() {
                    self.by_place.remove(&place);
                }
                self.last = self.last.filter(|last| last.1 != number);
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::{Disk, SimDisk};

    const COUNT: u32 = 10;

    /// A file of sealed pages that begin with their number, for segment 1 and for segment 2.
    fn scratch() -> (SimDisk, [Arc<dyn DiskFile>; 2]) {
        let disk = SimDisk::new();
        let files = [1, 2].map(|segment| {
            let file = disk.create(&format!("{segment}")).unwrap();
            for number in 0..COUNT {
                let mut page = [0; PAGE];
                page[0] = number as u8;
                page::seal(&mut page, segment, number);
                file.write_at(page::offset(number), &page).unwrap();
            }
            file
        });
        (disk, files)
    }

    /// Asks for a page; false means that the disk had to be asked too.
    fn is_cached(disk: &SimDisk, file: &Arc<dyn DiskFile>, pages: &mut Pages, at: Place) -> bool {
        let before = disk.reads();
        let page = pages.get(&**file, "f", at.0, at.1).unwrap();
        assert_eq!(page[0], at.1 as u8);
        disk.reads() == before
    }

    #[test]
    fn a_page_is_read_once() {
        let (disk, [file, _]) = scratch();
        let mut pages = Pages::new(4);
        for at in [(1, 0), (1, 1)] {
            assert!(!is_cached(&disk, &file, &mut pages, at));
        }
        for at in [(1, 1), (1, 0), (1, 1)] {
            assert!(is_cached(&disk, &file, &mut pages, at));
        }
    }

    #[test]
    fn the_cache_stays_within_its_bounds_and_right() {
        let (disk, files) = scratch();
        let mut pages = Pages::new(3);
        let mut rng = crate::disk::sim::Rng::new(5);
        for _ in 0..1000 {
            let (segment, number) = (rng.below(2), rng.below(COUNT.into()) as u32);
            let file = &files[segment as usize];
            is_cached(&disk, file, &mut pages, (segment + 1, number));
            assert!(pages.frames.len() <= 3 && pages.by_place.len() <= 3);
        }
        assert_eq!(pages.by_place.len(), 3);
    }

    #[test]
    fn a_page_asked_for_again_and_again_outlives_a_scan() {
        let (disk, [file, _]) = scratch();
        let mut pages = Pages::new(4);
        is_cached(&disk, &file, &mut pages, (1, 0));
        for number in 1..COUNT {
            is_cached(&disk, &file, &mut pages, (1, number));
            let hot = is_cached(&disk, &file, &mut pages, (1, 0));
            // The hand may take it once, when every page was asked for since the last round.
            assert!(hot || number == 4, "lost at {number}");
        }
    }

    #[test]
    fn a_forgotten_segment_is_read_anew_and_the_other_is_not() {
        let (disk, files) = scratch();
        let mut pages = Pages::new(4);
        for at in [(1, 0), (2, 0), (1, 1)] {
            is_cached(&disk, &files[at.0 as usize - 1], &mut pages, at);
        }
        pages.forget(1);
        assert!(is_cached(&disk, &files[1], &mut pages, (2, 0)));
        assert!(!is_cached(&disk, &files[0], &mut pages, (1, 1)));
        assert!(!is_cached(&disk, &files[0], &mut pages, (1, 0)));
    }

    #[test]
    fn a_page_of_another_segment_or_place_is_damage_and_is_not_kept() {
        let (_disk, [file, _]) = scratch();
        let mut pages = Pages::new(1);
        let trouble = pages.get(&*file, "f", 2, 3).unwrap_err();
        assert!(trouble.is_damage());
        assert!(trouble.to_string().starts_with("file f at byte 12288: "));
        assert_eq!(pages.get(&*file, "f", 1, 3).unwrap()[0], 3);
        let mut page = *pages.get(&*file, "f", 1, 3).unwrap();
        file.write_at(page::offset(4), &page).unwrap();
        assert!(pages.get(&*file, "f", 1, 4).unwrap_err().is_damage());
        page::seal(&mut page, 1, 4);
        file.write_at(page::offset(4), &page).unwrap();
        assert_eq!(pages.get(&*file, "f", 1, 4).unwrap()[0], 3);
    }
}
