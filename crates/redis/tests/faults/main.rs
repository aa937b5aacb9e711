//! What goes wrong around Redis while it is used: kills, failovers, cut and slow connections, partitions, outages; and several
//! processes that share it. The servers are real, and so are the loads; an engine of its own stands for each process, unless a test
//! needs one that can be killed.

mod child;
mod load;
mod tale;

mod away;
mod clocks;
mod cluster_waits;
mod cut_off;
mod failovers;
mod hiccups;
mod kills;
mod lost_shards;
mod partitions;
mod power;
mod rates;
mod shards;
mod together;
mod unconfirmed;
mod wakes;
