//! The command line as a user meets it: each test runs the real binary on a data directory of its own.

mod follow;
mod jobs;
mod lines;
mod manual;
mod operate;
mod salvage;
mod serve;
mod settle;
mod shell;
mod started;
mod topics;
mod usage;
mod work;
mod work_post;
