//! The unit of an index file: 4080 bytes of content, 12 of nothing, and a checksum that knows where it belongs.

use crate::damage::Trouble;

/// Bytes in a page.
pub(super) const PAGE: usize = 4096;
/// Bytes of content in a page: 170 entries or 255 places.
pub(super) const CONTENT: usize = 4080;
const CRC: usize = PAGE - 4;

pub(super) type Page = [u8; PAGE];

/// Segment and page number go into the checksum: a page of another file, or from another place, does not pass.
fn checksum(page: &[u8; PAGE], segment: u64, number: u32) -> u32 {
    let mut place = [0; 12];
    place[..8].copy_from_slice(&segment.to_le_bytes());
    place[8..].copy_from_slice(&number.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), &page[..CRC])
}

pub(super) fn seal(page: &mut Page, segment: u64, number: u32) {
    let crc = checksum(page, segment, number);
    page[CRC..].copy_from_slice(&crc.to_le_bytes());
}

pub(super) fn verify(page: &Page, name: &str, segment: u64, number: u32) -> Result<(), Trouble> {
    if get_u32(page, CRC) != checksum(page, segment, number) {
        let what = format!("page {number} of the index of segment {segment} has a wrong checksum");
        return Err(Trouble::damaged(name, offset(number), what));
    }
    Ok(())
}

/// Where a page begins in the file.
pub(super) fn offset(number: u32) -> u64 {
    u64::from(number) * PAGE as u64
}

#[inline]
pub(super) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

#[inline]
pub(super) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}
