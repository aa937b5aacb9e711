//! Disque's port: any bytes. The first one says how they are cut.

#![no_main]

use auxo_fuzz::resp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((cut, bytes)) = bytes.split_first() {
        resp::check(bytes, &[*cut]);
    }
});
