//! beanstalkd's protocol, as its version 1.12 and later speak it.
//!
//! A request is a line that ends in CR LF, and for `put` a body behind it. What is wrong with a line is answered in its turn
//! and the connection goes on, as beanstalkd does it, down to its odd corners: `reservex` is badly formed and not unknown,
//! `kick 5abc` kicks five, and who asks to wait for `abc` seconds does not wait. Two things are different on purpose. A CR
//! that no LF follows does not hide the end of its line, and a line that can only come from a browser ends the connection
//! ([`Http`]).

mod decode;
mod line;
mod reply;
#[cfg(test)]
mod tests;

use auxo_core::QueueName;
use bytes::Bytes;

pub use decode::{Decoder, Http, Item};
pub(crate) use decode::{refuse_http, refuse_long_http};
pub use reply::Reply;

/// The most bytes that a line may have, its CR LF included. A longer one is passed over and answered as badly formed.
pub const LINE: usize = 224;

/// What a client asks for. Times are in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new job for the tube in use.
    Put {
        /// Zero is most urgent.
        priority: u32,
        /// How long until it is ready.
        delay: u32,
        /// How long a worker may take, at least 1.
        ttr: u32,
        /// The job.
        body: Bytes,
    },
    /// A job of a watched tube, however long it takes.
    Reserve,
    /// A job of a watched tube; `None` waits as long as it takes.
    ReserveWithTimeout(Option<u32>),
    /// This very job.
    ReserveJob(u64),
    /// The job is done, or not wanted any more.
    Delete(u64),
    /// The job goes back into its tube.
    Release {
        /// Which.
        id: u64,
        /// Its new priority.
        priority: u32,
        /// How long until it is ready again.
        delay: u32,
    },
    /// The job is put aside until somebody kicks it.
    Bury {
        /// Which.
        id: u64,
        /// Its new priority.
        priority: u32,
    },
    /// The worker needs more time.
    Touch(u64),
    /// Puts go into this tube from now on.
    Use(QueueName),
    /// Jobs may come from this tube, too.
    Watch(QueueName),
    /// Jobs may not come from this tube any more.
    Ignore(QueueName),
    /// Shows a job.
    Peek(u64),
    /// Shows the next job that is ready in the tube in use.
    PeekReady,
    /// Shows the job in the tube in use that becomes ready next.
    PeekDelayed,
    /// Shows the job in the tube in use that would be kicked next.
    PeekBuried,
    /// Makes at most this many jobs of the tube in use ready: buried ones or, if there are none, delayed ones.
    Kick(u32),
    /// Makes this job ready.
    KickJob(u64),
    /// Tells about a job.
    StatsJob(u64),
    /// Tells about a tube.
    StatsTube(QueueName),
    /// Tells about the server.
    Stats,
    /// Names all tubes.
    ListTubes,
    /// Names the tube in use.
    ListTubeUsed,
    /// Names the watched tubes.
    ListTubesWatched,
    /// Hands out nothing of this tube for a time.
    PauseTube(QueueName, u32),
    /// Ends the connection.
    Quit,
}
