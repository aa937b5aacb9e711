//! Disque's commands over RESP, on the same queue.
//!
//! A job that was handed out is a leased one, `RETRY` is the time to run, `NACK` a failure, and a job of Disque's is tried again
//! for as long as it lives. `session` has what a connection knows, `gather` joins commands that were sent one behind the
//! other into few calls, `get` waits for jobs, and the other files answer a family of commands each. docs/DISQUE.md says
//! what differs from Disque and why.

mod about;
mod cursors;
mod gather;
mod get;
mod held;
mod jobs;
mod own;
mod queues;
mod rights;
mod session;
mod show;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use auxo_wire::resp::{Broken, Decoder};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout_at;

use self::cursors::Cursors;
use self::session::{End, Session};
use crate::app::App;
use crate::auth::{Stranger, Visitor};
use crate::line::{LARGE, Line, Times};

/// What all connections share.
#[derive(Default)]
pub struct Shared {
    /// Connections that there ever were; the last one's number.
    connections: AtomicU64,
    /// Connections that are open.
    open: AtomicU64,
    /// Commands that were asked for.
    commands: AtomicU64,
    /// Connections that wait for a job.
    waiting: AtomicU64,
    cursors: Cursors,
}

/// Both ends of a connection, and what is behind it.
pub struct Ends {
    /// The other side.
    pub peer: SocketAddr,
    /// This side.
    pub local: SocketAddr,
    /// How many copies of a job there are when it is answered.
    pub copies: u16,
    /// Whether the other side has shown who it is.
    pub visitor: Visitor,
}

/// How many commands that were sent one behind the other are looked at together.
const PIPELINE: usize = 1000;

/// How many commands a connection keeps room for.
const KEPT: usize = 16;

/// Answers the commands of one connection. What it still holds at the end comes back when its time is over, as in Disque.
pub async fn converse<S>(socket: S, ends: Ends, app: Arc<App>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let times = Times {
        request: app.settings.body_time,
        stall: app.settings.stall_time,
    };
    let mut line = Line::new(socket, times);
    let mut session = Session::new(app, ends);
    let talk = AssertUnwindSafe(talk(&mut line, &mut session)).catch_unwind();
    match talk.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a RESP connection ended"),
        Err(_) => tracing::error!("a RESP connection panicked; the others go on"),
    }
    line.close().await;
}

async fn talk<S>(line: &mut Line<S>, session: &mut Session) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let app = session.app.clone();
    let stranger = session.ends.visitor.stranger.clone();
    let mut decoder = Decoder::new(app.service.limits().payload, session.copies);
    let mut items = VecDeque::new();
    let mut broken = None;
    // Room for a large argument that is on its way.
    let mut room = None;
    // Asked for once: to register anew with every request costs as much as to understand it.
    let mut stopped = pin!(app.stopped());
    loop {
        while broken.is_none() && items.len() < PIPELINE {
            match decoder.decode(&mut line.input) {
                Ok(Some(item)) => {
                    items.push_back(item);
                }
                Ok(None) => break,
                Err(error) => broken = Some(error),
            }
        }
        if !items.is_empty() {
            line.completed();
            if let End::Closed = session.serve(line, &mut items).await? {
                return line.flush().await;
            }
            if line.output.len() >= LARGE {
                line.flush().await?;
            }
            line.give_way().await;
            continue;
        }
        if let Some(broken) = broken {
            say_why(&app, &broken);
            if let Some(reply) = broken.reply() {
                session.say(&reply, &mut line.output);
            }
            return line.flush().await;
        }
        // A connection at rest has no room for commands that it may never send again.
        items.shrink_to(KEPT);
        // Nothing is taken out of a command before all of it is there.
        line.understood(false);
        line.flush().await?;
        if line.is_over() {
            return Ok(());
        }
        let missing = decoder.missing();
        // A stranger gets no room for what it only says that it will send.
        if missing <= LARGE || !stranger.is_known() {
            room = None;
        } else if room.is_none() {
            room = Some(app.room_for_body(missing).await?);
        }
        tokio::select! {
            biased;
            filled = fill(line, missing, &stranger) => filled?,
            () = &mut stopped => return Ok(()),
        }
    }
}

/// Reads more. Who has not shown who it is gets little, and not for long.
async fn fill<S>(line: &mut Line<S>, missing: usize, stranger: &Stranger) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(until) = stranger.until() else {
        return line.fill(missing).await;
    };
    // All that came before was looked at: it did not say who it is.
    let left = stranger.left();
    if left == 0 {
        let why = "too much from a client that does not say who it is";
        return Err(io::Error::other(why));
    }
    let before = line.input.len();
    let late = |_| io::Error::other("the client does not say who it is");
    let filled = timeout_at(until, line.fill_at_most(left));
    filled.await.map_err(late)??;
    stranger.took(line.input.len() - before);
    Ok(())
}

/// Says why a connection is closed.
fn say_why(app: &App, broken: &Broken) {
    match broken {
        Broken::Http => {
            app.metrics.browser();
            tracing::warn!("closed a RESP connection that speaks HTTP");
        }
        Broken::Protocol(what) => tracing::debug!(what, "closed a RESP connection"),
    }
}
