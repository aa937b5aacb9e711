//! The command line as a user meets it: each test runs the real binary on a data directory or a
//! server of its own.

#[macro_use]
mod shell;

#[path = "../common/command.rs"]
mod command;
mod follow;
mod jobs;
mod lines;
mod manual;
mod mask;
mod migrate;
mod operate;
mod salvage;
mod serve;
#[path = "../common/server.rs"]
mod server;
#[path = "../../../redis/tests/servers/mod.rs"]
mod servers;
mod settle;
mod snapshots;
#[allow(dead_code, reason = "the tests of faults use the rest")]
#[path = "../common/started.rs"]
mod started;
mod store;
mod topics;
mod usage;
mod work;
mod work_post;
