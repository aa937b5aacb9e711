//! Records of the log: any bytes behind a good checksum. What is a record stays the same one when it is written again.

#![no_main]

use auxo_embedded::fuzzing;
use auxo_fuzz::room;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    // A length that stands in a record is no reason to ask for memory; what is there may be kept as something larger.
    let room = 200 * body.len() + (64 << 10);
    if let Some(written) = room::within(room, || fuzzing::record(body)) {
        assert_eq!(fuzzing::record(&written).as_ref(), Some(&written));
    }
});
