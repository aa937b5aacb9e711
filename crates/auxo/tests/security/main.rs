//! Tokens, TLS and the audit log, on the real binary.
#![cfg(unix)]

mod beanstalk;
mod door;
mod grpc;
mod owner;
mod server;
mod tokens;
