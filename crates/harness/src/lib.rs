//! What tests of several crates share: real Redis servers, the real `auxo` binary, a network that can be cut, and small clients.
//!
//! It knows no engine and no type of Auxo, so that every crate can use it, in its unit tests as well. Tests only.

#![allow(missing_docs, reason = "a test reads the source")]

pub mod command;
pub mod http;
pub mod proxy;
pub mod redis;
pub mod reply;
pub mod server;
pub mod started;
