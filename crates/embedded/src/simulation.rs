//! The whole engine in one thread, from one seed, on a disk that fails.
//!
//! [`store::Store`] drives a machine as the engine's threads do, step by step. [`load`] rolls the dice for what is asked of
//! it. [`oracle`] takes the same steps with the contract's model, and [`compare`] looks at everything in both. The log is
//! sequential, so a recovered store must be the model as it was at one of the ends of a group, and at none before the last
//! one that was promised; [`promises`] counts the jobs for which that was not so. The tests are in the other files; each prints what it counted.

mod compare;
mod load;
mod oracle;
mod promises;
mod store;

mod ahead;
mod full;
mod long_audit;
mod mend;
mod paved;
mod power;
mod rot;
mod seeds;
mod unsynced;
