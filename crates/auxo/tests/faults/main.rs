//! What goes wrong around a server: kills, signals, cut and lame networks, failing disks, wrong clocks; and several servers on
//! one Redis. The server is the real binary over a real directory unless a test needs a disk that fails on demand.

mod by_hand;
mod load;
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
