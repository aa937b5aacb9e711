//! Auxo's gRPC API.
//!
//! `proto/auxo/v1/auxo.proto` says what there is, for people. [`v1`] is the code made from it, which is committed so that
//! nobody needs a compiler of protocol buffers to build Auxo; a test makes it anew and compares (`BLESS=1 cargo test -p
//! auxo-proto` writes it). The other modules turn its messages into the queue's own values and back, both ways in one place:
//! a server reads what a client writes. What cannot be read is a `bad_request` that names the field.

mod jobs;
mod setup;
mod status;
mod store;
mod value;
mod work;

pub use jobs::{pushes, query, which};
pub use setup::{change_queue, schedule_change, side};
pub use status::{CODE, JOB, error_of, grpc_code, status_of};
pub use store::{adoption, forgotten};
pub use value::{read_all, result};
pub use work::{leased_for_work, settles};

/// The messages and services of `auxo.v1`.
#[allow(missing_docs)]
#[allow(clippy::all)]
#[allow(rustdoc::all)]
pub mod v1 {
    include!("generated/auxo.v1.rs");
}

/// The compiled `.proto` file, for those who ask a server what it offers.
pub const DESCRIPTOR: &[u8] = include_bytes!("generated/auxo.v1.bin");
