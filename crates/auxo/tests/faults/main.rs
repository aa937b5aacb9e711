//! What goes wrong around a server: kills, signals, cut and lame networks, failing disks. The server is the real binary over
//! a real directory unless a test needs a disk that fails on demand.

#[path = "../common/command.rs"]
mod command;
#[allow(dead_code, reason = "the tests of the command line use the rest")]
#[path = "../common/started.rs"]
mod started;

mod by_hand;
mod load;
mod proxy;
mod raw;
mod server;
#[path = "../../../redis/tests/servers/mod.rs"]
mod servers;
mod tale;

mod bytes;
mod cuts;
mod disk;
mod kills;
mod lines;
mod migrate;
mod stop;
