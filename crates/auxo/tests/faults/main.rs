//! What goes wrong around a server: kills, signals, cut and lame networks, failing disks, wrong clocks; and several servers on
//! one Redis. The server is the real binary over a real directory unless a test needs a disk that fails on demand.

#[path = "../common/command.rs"]
mod command;
#[path = "../../../redis/tests/servers/mod.rs"]
mod redis;
#[allow(dead_code, reason = "the tests of the command line use the rest")]
#[path = "../common/started.rs"]
mod started;

mod by_hand;
mod load;
mod proxy;
mod raw;
mod server;
mod tale;
mod worker;

mod bytes;
mod clocks;
mod cuts;
mod disk;
mod kills;
mod lines;
mod migrate;
mod partial;
mod several;
mod stop;
