//! Auxo's built-in durable engine: one state machine, one segmented log.
//!
//! [`Embedded`] is the engine. Below it, from the disk up: [`disk`] is all I/O, `log` appends and reads records, `machine`
//! is the queue itself as a deterministic state machine, and `engine` runs it on threads.

mod bits;
mod clock;
mod codec;
pub mod damage;
mod dice;
pub mod disk;
mod engine;
mod format;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
pub mod index;
mod log;
mod machine;
mod mark;
mod options;
mod record;
mod road;
mod salvage;
mod sealed;
mod segment;
#[cfg(test)]
mod simulation;
pub mod snapshot;
mod stream;

pub use clock::{MachineTime, TimeSource};
pub use engine::Embedded;
pub use options::{MOST_QUEUES, Options, Sync};
pub use salvage::{Report, salvage, salvage_disks};
