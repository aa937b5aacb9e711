//! Big-endian fields in a byte buffer, as the scripts pack them. Reading never panics: what does not fit is `None`.

use std::time::Duration;

use auxo_core::time::{Timestamp, millis};

/// The largest number of six bytes; a time that far ahead is never.
const LAST: u64 = (1 << 48) - 1;

/// Appends fields.
#[derive(Default)]
pub struct Pack(pub Vec<u8>);

impl Pack {
    pub fn u8(&mut self, value: u8) -> &mut Pack {
        self.0.push(value);
        self
    }

    pub fn flag(&mut self, value: bool) -> &mut Pack {
        self.u8(value.into())
    }

    pub fn u16(&mut self, value: usize) -> &mut Pack {
        let value = u16::try_from(value).unwrap_or(u16::MAX);
        self.raw(&value.to_be_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Pack {
        self.raw(&value.to_be_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Pack {
        self.raw(&value.to_be_bytes())
    }

    /// Six bytes.
    pub fn time(&mut self, at: Timestamp) -> &mut Pack {
        self.raw(&at.0.min(LAST).to_be_bytes()[2..])
    }

    /// Six bytes.
    pub fn span(&mut self, span: Duration) -> &mut Pack {
        self.time(Timestamp(millis(span)))
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Pack {
        self.0.extend_from_slice(bytes);
        self
    }

    /// With one byte of length, which names of queues and workers fit into.
    pub fn short(&mut self, text: &str) -> &mut Pack {
        let text = &text.as_bytes()[..text.len().min(255)];
        self.u8(text.len() as u8).raw(text)
    }

    /// With four bytes of length.
    pub fn blob(&mut self, bytes: &[u8]) -> &mut Pack {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.u32(length).raw(bytes)
    }

    /// With two bytes of length.
    pub fn text(&mut self, text: &str) -> &mut Pack {
        let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
        self.u16(text.len()).raw(text)
    }
}

/// Takes fields off the front.
#[derive(Clone, Copy)]
pub struct Unpack<'a>(pub &'a [u8]);

impl<'a> Unpack<'a> {
    pub fn raw(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn number(&mut self, len: usize) -> Option<u64> {
        let bytes = self.raw(len)?;
        Some(bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b)))
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.raw(1).map(|b| b[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.number(2).map(|n| n as u16)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|n| n as u32)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.number(8)
    }

    pub fn time(&mut self) -> Option<Timestamp> {
        self.number(6).map(Timestamp)
    }

    pub fn span(&mut self) -> Option<Duration> {
        self.number(6).map(Duration::from_millis)
    }

    pub fn short(&mut self) -> Option<&'a str> {
        let len = self.number(1)?;
        std::str::from_utf8(self.raw(len as usize)?).ok()
    }

    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.text_bytes()?).ok()
    }

    /// With two bytes of length.
    pub fn text_bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number(2)?;
        self.raw(len as usize)
    }

    /// With four bytes of length.
    pub fn blob(&mut self) -> Option<&'a [u8]> {
        let len = self.number(4)?;
        self.raw(len as usize)
    }
}
