//! JSON over HTTP: any bytes, taken for each request and each answer that there is.

#![no_main]

use auxo_fuzz::json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    json::requests(body);
    json::answers(body);
});
