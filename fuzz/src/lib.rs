//! What the targets share: how decoders are fed, and what must be true whatever they were fed.
//!
//! A target in `fuzz_targets` says which inputs there are; what is checked of them stands here, because several have it in
//! common. A property that does not hold panics, and the fuzzer keeps the input.

pub mod beanstalk;
pub mod doc;
pub mod files;
pub mod grpc;
pub mod json;
/// Whom a file belongs to: the reader of tokens looks at that.
#[allow(dead_code)]
#[path = "../../crates/server/src/owner.rs"]
mod owner;
pub mod pieces;
pub mod refusal;
pub mod resp;
pub mod room;
pub mod store;
