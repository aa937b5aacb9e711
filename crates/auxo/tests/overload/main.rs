//! Hostile and overloading clients against the real `auxo serve`: what they cost it is read from the system. Where no process
//! is needed the same ideas are tested in `crates/server/tests/http`.
//!
//! Linux only: memory, processor time and descriptors are read from `/proc`.
#![cfg(target_os = "linux")]

mod client;
mod deaf;
mod door;
mod idle;
mod large;
mod queues;
mod secrets;
mod server;
#[path = "../cli/shell.rs"]
#[allow(dead_code, reason = "the tests of the command line use the rest")]
mod shell;
#[path = "../cli/started.rs"]
#[allow(dead_code, reason = "the tests of the command line use the rest")]
mod started;
mod storm;
mod waiting;
