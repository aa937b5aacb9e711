//! The queue on Redis or Valkey.
//!
//! Every transition of a job is one script in `src/scripts`, and runs as one step inside of Redis. What a script stores where
//! is told in [`keys`].

mod adopt;
mod asked;
mod audit;
mod auditor;
mod bytes;
mod checks;
mod confirm;
mod desk;
mod engine;
mod forget;
mod gather;
pub mod keys;
mod lend;
mod link;
mod look;
mod make;
mod notices;
mod partial;
mod parts;
mod push;
mod record;
mod rest;
mod schedules;
mod script;
mod settings;
mod settle;
mod spot;
mod spread;
mod store;
pub mod url;

pub use checks::Setup;
pub use engine::{Options, RedisEngine};
pub use link::Link;
pub use url::StoreUrl;
