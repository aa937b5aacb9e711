//! Little-endian fields in a byte buffer. Reading never panics: what does not fit is `None`.

use std::time::Duration;

use auxo_core::time::{Base, Due, Timestamp, millis};
use bytes::Bytes;

use crate::record::Place;

/// Appends fields.
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn blob(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend_from_slice(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    pub fn span(&mut self, span: Duration) {
        self.u64(millis(span));
    }

    /// A moment and its clock; the clock is the top bit, which no moment needs.
    pub fn due(&mut self, due: Due) {
        let top = match due.base {
            Base::Steady => 0,
            Base::Wall => WALL,
        };
        self.u64(due.at.0 & !WALL | top);
    }

    pub fn place(&mut self, place: Place) {
        self.u32(place.segment);
        self.u32(place.ord);
        self.u32(place.offset);
    }

    pub fn option<T>(&mut self, value: &Option<T>, write: impl FnOnce(&mut Self, &T)) {
        match value {
            None => self.u8(0),
            Some(value) => {
                self.u8(1);
                write(self, value);
            }
        }
    }
}

const WALL: u64 = 1 << 63;

/// Takes fields off the front.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)
            .and_then(|b| b.try_into().ok())
            .map(u64::from_le_bytes)
    }

    pub fn slice(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    pub fn blob(&mut self) -> Option<Bytes> {
        self.slice().map(Bytes::copy_from_slice)
    }

    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.slice()?).ok()
    }

    pub fn span(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_millis)
    }

    pub fn time(&mut self) -> Option<Timestamp> {
        self.u64().map(Timestamp)
    }

    pub fn due(&mut self) -> Option<Due> {
        let raw = self.u64()?;
        let base = if raw & WALL == 0 {
            Base::Steady
        } else {
            Base::Wall
        };
        Some(Due {
            at: Timestamp(raw & !WALL),
            base,
        })
    }

    pub fn place(&mut self) -> Option<Place> {
        Some(Place {
            segment: self.u32()?,
            ord: self.u32()?,
            offset: self.u32()?,
        })
    }

    pub fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.u8()? {
            0 => Some(None),
            1 => read(self).map(Some),
            _ => None,
        }
    }

    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let len = self.u32()?;
        // A damaged length must not make us ask for gigabytes: an item takes at least a byte.
        let mut list = Vec::with_capacity((len as usize).min(self.0.len()));
        for _ in 0..len {
            list.push(read(self)?);
        }
        Some(list)
    }
}
