//! JSON over HTTP: documents of fields that there are, with values that they might have.

#![no_main]

use auxo_fuzz::doc::Doc;
use auxo_fuzz::{grpc, json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|doc: Doc| {
    let body = doc.text();
    json::requests(body.as_bytes());
    json::answers(body.as_bytes());
    grpc::same_as_json(body.as_bytes());
});
