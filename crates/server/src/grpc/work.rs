//! A worker's whole day in one call.
//!
//! ```text
//!  worker                                             server
//!    │ ── start{queues}, credit 3 ───────────────────> │ asks the queue for up to 3 jobs, and waits
//!    │ <───────────────────────────── jobs [a, b] ──── │ credit is 1 now
//!    │ ── settle [a: ack], credit 1, extend [b] ─────> │ one step for all settles that have arrived, one for extends
//!    │ <────── settled [a], extended [b], jobs [c] ─── │
//!    │ <─────────────────────────── cancelled [b] ──── │ somebody wants b to stop
//!    │ ── settle [b: release] ───────────────────────> │
//!    │ ── (closes its side) ─────────────────────────> │ gives back c, which is not settled, and ends
//! ```
//!
//! A stream is a task of its own that does four things at once: it reads, it waits for jobs, it settles, it extends. While one
//! call to the queue runs, what arrives for the next is gathered, so a busy stream makes few and large steps. It reads no
//! further while its answers are not taken, and sends no job without credit: a worker that does not read costs what it has
//! asked for and no more.
//!
//! What a stream holds when it ends is released: that is what tells it from leasing call by call, where a worker that is gone
//! is waited for until its deadlines. A stream whose token is revoked ends like any other.

mod held;
mod session;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use auxo_proto::v1;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tonic::Streaming;

use self::session::Session;
use super::outlet::{Outlet, Streamed, panicked};
use crate::app::App;
use crate::auth::Caller;

/// Messages that are made and not yet sent. While there are so many, answers gather.
const READY: usize = 2;

/// Begins a stream.
pub fn begin(
    app: Arc<App>,
    caller: Caller,
    inbound: Streaming<v1::WorkRequest>,
) -> Streamed<v1::WorkResponse> {
    let (outlet, answers) = mpsc::channel(READY);
    tokio::spawn(async move {
        let mut session = Session::new(app, caller, inbound, outlet.clone());
        let end = AssertUnwindSafe(session.run()).catch_unwind().await;
        // Before the worker is told that it is over: who hears the end knows that everything is back.
        session.give_back().await;
        if let Err(status) = end.unwrap_or_else(|_| Err(panicked())) {
            // A worker that is gone hears nothing.
            let _ = outlet.send(Err(status)).await;
        }
    });
    Outlet(answers).boxed()
}
