//! The protocols whose requests come one behind the other, Disque's and beanstalkd's: what clients cost that are slow, deaf or
//! strange, and what those get who are not allowed to.
//!
//! Clients block, so each test has a runtime with threads of its own for the server.

mod bench;
#[path = "../grpc/brittle.rs"]
#[allow(dead_code, reason = "the tests of gRPC use the rest")]
mod brittle;
mod deaf;
mod half_close;
mod identity;
mod names;
mod numbers;
mod panics;
mod rights;
mod slow;
mod tubes;
