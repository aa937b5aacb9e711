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
mod operate;
mod salvage;
mod serve;
#[path = "../common/server.rs"]
mod server;
mod settle;
mod snapshots;
#[path = "../common/started.rs"]
mod started;
mod topics;
mod usage;
mod work;
mod work_post;
