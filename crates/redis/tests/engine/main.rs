//! The engine on real servers: the contract on one, on several shards, on a cluster, through sentinels; and against the model.

mod acl;
mod asked;
mod checks;
mod damage;
mod emptied;
mod fairness;
mod full;
mod ids;
mod lost;
mod moves;
mod names;
mod neighbour;
mod partial;
mod random;
mod repair;
mod sets;
mod sharded;
mod single;
mod spread;
mod store;
mod ticks;
