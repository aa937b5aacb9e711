//! Tokens, TLS and the audit log, on the real binary.
#![cfg(unix)]

mod beanstalk;
#[path = "../common/command.rs"]
mod command;
mod door;
mod grpc;
mod owner;
mod server;
mod tokens;
