//! The command line as a user meets it: each test runs the real binary on a data directory or a
//! server of its own.

#[macro_use]
mod shell;

mod follow;
mod jobs;
mod lines;
mod manual;
mod mask;
mod migrate;
mod operate;
mod salvage;
mod serve;
mod settle;
mod snapshots;
mod store;
mod topics;
mod usage;
mod work;
mod work_post;
