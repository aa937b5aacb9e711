//! Threads for connections whose requests are small and many, with a runtime of one thread each.
//!
//! Where a request takes a few microseconds, what costs is not the request but threads that wake each other for it: a runtime
//! of several threads hands tasks from one to the next, and each hand-over is two system calls and often another core that has to
//! wake up. A connection here stays with its thread. What several connections have sent is read in one go, their calls go to the engine
//! together, and their answers come from there in one go and go out one behind the other. Half of the cores have such a thread; the
//! others are for HTTP, where a request is more work, for the disk, and for the clients if they are here.

use std::cell::Cell;
use std::io;
use std::num::NonZero;
use std::thread;

use auxo_core::errand;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The threads.
pub struct Lanes {
    lanes: Vec<Lane>,
    next: Cell<usize>,
}

struct Lane {
    runtime: Handle,
    /// The thread ends when this is gone.
    _open: oneshot::Sender<()>,
}

impl Lanes {
    /// As many as this machine is good for.
    pub fn start() -> io::Result<Lanes> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let lanes = (0..cores.div_ceil(2)).map(|_| Lane::start());
        Ok(Lanes {
            lanes: lanes.collect::<io::Result<_>>()?,
            next: Cell::new(0),
        })
    }

    /// The thread for another connection: each in turn.
    pub fn next(&self) -> &Handle {
        let next = self.next.get();
        self.next.set((next + 1) % self.lanes.len());
        &self.lanes[next].runtime
    }
}

impl Lane {
    fn start() -> io::Result<Lane> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (open, closed) = oneshot::channel();
        thread::Builder::new()
            .name("auxo-lane".to_owned())
            .spawn(move || {
                runtime.spawn(errand::run());
                // Nothing is ever sent: it ends when the other side is dropped.
                let _ = runtime.block_on(closed);
            })?;
        Ok(Lane {
            runtime: handle,
            _open: open,
        })
    }
}
