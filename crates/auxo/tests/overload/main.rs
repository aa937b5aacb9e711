//! Hostile and overloading clients against the real `auxo serve`: what they cost it is read from the system. Where no process
//! is needed the same ideas are tested in `crates/server/tests/http`.
//!
//! Linux only: memory, processor time and descriptors are read from `/proc`.
#![cfg(target_os = "linux")]

mod deaf;
mod door;
mod idle;
mod large;
mod port;
mod queues;
mod secrets;
mod server;
mod storm;
mod waiting;
