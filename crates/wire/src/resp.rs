//! Disque's commands over RESP, the protocol of Redis.
//!
//! A request is an array of bulk strings, or a line of words as a person types it; a reply is written in version 2 or 3 of the
//! protocol. What is wrong with a command is answered in its turn, in the words of Disque 1.0 where it has some, and the
//! connection goes on; what is wrong with the framing is answered and ends it, for nobody can tell where the next request
//! begins. Beside Disque's commands there are those that every client of Redis sends when it connects, and `AUXO.…` for
//! what Disque has no words for.

mod args;
mod command;
mod decode;
mod id;
mod inline;
mod parse;
mod reply;
#[cfg(test)]
mod tests;

pub use command::{
    AddJob, ClientCommand, Command, CommandQuestion, GetJob, Hello, JScan, Muting, Pause, QScan,
};
pub use decode::{Broken, Decoder, Item};
pub use id::{Id, Life};
pub use parse::{COMMANDS, Spec};
pub use reply::{Reply, Version, array, bulk, number};

/// The most bytes of a line that is no array.
pub const INLINE: usize = 64 << 10;

/// The most arguments of a request.
pub const ARGUMENTS: usize = 10_000;

/// How much longer than the largest job an argument may be: such a job is refused, and the connection goes on.
pub const SLACK: usize = 4 << 10;
