//! What a fuzzer needs of the files' layout: checksums keep nearly everything that it makes up away from the readers behind them.

use auxo_core::Timestamp;

use crate::record::{self, Framer, HEAD, Position, Record};
use crate::segment::{HEADER, header};

/// Reads a record's body and writes it again; `None` if it is none.
pub fn record(body: &[u8]) -> Option<Vec<u8>> {
    let record = record::decode(body)?;
    let mut framer = Framer::new(0, 0);
    framer.append(&record);
    Some(framer.bytes()[HEAD..].to_vec())
}

/// The bodies of the records in a segment file, as far as they check out.
pub fn bodies(file: &[u8]) -> Vec<Vec<u8>> {
    let own = file.get(16..20).and_then(|salt| salt.try_into().ok());
    let own = own.map_or(0, u32::from_le_bytes);
    let (mut salt, mut at, mut bodies) = (own, HEADER as usize, Vec::new());
    while let Some(body) = file
        .get(at..)
        .and_then(|rest| record::unframe(rest, at as u32, salt, own))
    {
        if let Some(Record::Open { salt: new }) = record::decode(body) {
            salt = new;
        }
        at += HEAD + body.len();
        bodies.push(body.to_vec());
    }
    bodies
}

/// A segment file of groups of records, all of which check out.
pub fn segment(number: u32, groups: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let salt = 7;
    let mut framer = Framer::new(HEADER, salt);
    for group in groups {
        group.iter().for_each(|body| framer.append_body(body));
        framer.append(&Record::Commit {
            count: group.len() as u32,
            synced: Position::default(),
            at: Timestamp(0),
        });
    }
    [&header(number, salt)[..], framer.bytes()].concat()
}

/// Gives a page of an index file the checksum that belongs to its content.
pub fn seal(page: &mut [u8; 4096], segment: u64, number: u32) {
    crate::index::seal(page, segment, number);
}
