//! The queue on Redis or Valkey.
//!
//! Every transition of a job is one script in `src/scripts`, and runs as one step inside of Redis. What a script stores where
//! is told in [`keys`].

pub mod keys;
mod link;
mod script;
pub mod url;

pub use link::Link;
pub use url::StoreUrl;
