//! Auxo's built-in durable engine: one core thread, one segmented log.

pub mod damage;
pub mod disk;
pub mod index;
pub mod snapshot;
