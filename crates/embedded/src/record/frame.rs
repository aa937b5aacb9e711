//! How a record lies in a segment: length, checksum, body.

use bytes::Bytes;

use super::{Put, Record, encode, encode_put, kind};
use crate::codec::Writer;

/// Length and checksum in front of a record.
pub const HEAD: usize = 8;

/// Appends records to a buffer that will lie at `base` in a segment.
pub struct Framer {
    buf: Vec<u8>,
    base: u32,
    salt: u32,
}

impl Framer {
    pub fn new(base: u32, salt: u32) -> Framer {
        Framer {
            buf: Vec::new(),
            base,
            salt,
        }
    }

    /// Where the next record will begin.
    pub fn position(&self) -> u32 {
        self.base + self.buf.len() as u32
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buf
    }

    pub fn base(&self) -> u32 {
        self.base
    }

    /// Changes the salt for the records to come.
    pub fn set_salt(&mut self, salt: u32) {
        self.salt = salt;
    }

    /// Hands out what was appended and goes on behind it. A copy of just the right size, because it is kept for a while:
    /// the buffer itself, which grew to fit the largest group, stays here.
    pub fn take(&mut self) -> Bytes {
        self.base = self.position();
        let bytes = Bytes::copy_from_slice(&self.buf);
        self.buf.clear();
        self.buf.shrink_to(1 << 20);
        bytes
    }

    /// Appends a record; answers its offset.
    pub fn append(&mut self, record: &Record) -> u32 {
        self.frame(|w| encode(record, w))
    }

    /// Appends a job record without boxing it first.
    pub fn append_put(&mut self, put: &Put) -> u32 {
        self.frame(|w| {
            w.u8(kind::PUT);
            encode_put(put, w);
        })
    }

    /// Appends a body, whatever is in it.
    #[cfg(feature = "fuzzing")]
    pub fn append_body(&mut self, body: &[u8]) {
        self.frame(|w| w.0.extend_from_slice(body));
    }

    fn frame(&mut self, body: impl FnOnce(&mut Writer)) -> u32 {
        let start = self.buf.len();
        let offset = self.position();
        self.buf.extend_from_slice(&[0; HEAD]);
        body(&mut Writer(&mut self.buf));
        let len = (self.buf.len() - start - HEAD) as u32;
        let crc = checksum(self.salt, offset, &self.buf[start + HEAD..]);
        self.buf[start..start + 4].copy_from_slice(&len.to_le_bytes());
        self.buf[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
        offset
    }
}

fn checksum(salt: u32, offset: u32, body: &[u8]) -> u32 {
    crc32c::crc32c_append(salt ^ offset.rotate_left(16), body)
}

/// The body of the record at the start of `bytes`, if there is a whole one that checks out. `Open` records are salted with
/// the segment's own salt, so that they are found whatever came before.
pub fn unframe(bytes: &[u8], offset: u32, salt: u32, segment_salt: u32) -> Option<&[u8]> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let crc = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    let body = bytes.get(HEAD..HEAD.checked_add(len)?)?;
    let first = *body.first()?;
    let salt = if first == kind::OPEN {
        segment_salt
    } else {
        salt
    };
    (checksum(salt, offset, body) == crc).then_some(body)
}

/// The body of the record at the start of bytes that never left the memory: there is nothing to check.
pub fn unframe_own(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(HEAD..frame_len(bytes)?)
}

/// The body at the start of `bytes` of a record whose salt is not known: only its length is trusted. For reading a record
/// through a checksum that was verified when the log was opened or written, use [`unframe`].
pub fn frame_len(bytes: &[u8]) -> Option<usize> {
    let len = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    HEAD.checked_add(len)
}

/// Whether a commit or an open record may begin here, by its length and kind.
pub fn is_mark(bytes: &[u8]) -> bool {
    let Some(head) = bytes.get(..HEAD + 1) else {
        return false;
    };
    let len = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    matches!(
        (len, head[HEAD]),
        (COMMIT_LEN, kind::COMMIT) | (OPEN_LEN, kind::OPEN)
    )
}

/// The lengths of these two.
const COMMIT_LEN: u32 = 21;
const OPEN_LEN: u32 = 5;
