//! beanstalkd's protocol over the same queue: a tube is a queue, a reserved job a leased one, a buried one dead.
//!
//! `session` has what a connection knows and does, `gather` joins requests that were sent one behind the other into few
//! calls, `tubes` knows which tubes connections have in use, and `stats` tells about jobs, tubes and the server.

mod counts;
mod gather;
mod held;
mod reserve;
mod session;
mod stats;
#[cfg(test)]
mod tests;
mod tubes;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use auxo_wire::beanstalk::{Decoder, Http};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, AsyncWrite};

use self::counts::Counts;
use self::session::{End, Session};
use self::tubes::Tubes;
use crate::app::App;
use crate::line::{LARGE, Line, Times};

/// What all connections share.
#[derive(Default)]
pub struct Shared {
    tubes: Tubes,
    counts: Counts,
}

/// Who is at the other end, as far as that is known.
pub struct Peer {
    /// What the connection is called.
    pub name: String,
    /// From where it comes; a socket in the file system has no address.
    pub from: Option<IpAddr>,
    /// The subject of its certificate.
    pub subject: Option<String>,
}

/// How many requests that were sent one behind the other are looked at together.
const PIPELINE: usize = 1000;

/// Answers the requests of one connection, and releases what it still holds at the end.
pub async fn converse<S>(socket: S, peer: Peer, app: Arc<App>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let times = Times {
        request: app.settings.body_time,
        stall: app.settings.stall_time,
    };
    let mut line = Line::new(socket, times);
    let mut session = Session::new(app, peer);
    let talk = AssertUnwindSafe(talk(&mut line, &mut session)).catch_unwind();
    match talk.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a beanstalk connection ended"),
        Err(_) => tracing::error!("a beanstalk connection panicked; the others go on"),
    }
    session.let_go().await;
    line.close().await;
}

async fn talk<S>(line: &mut Line<S>, session: &mut Session) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let app = session.app.clone();
    let mut decoder = Decoder::new(app.service.limits().payload);
    let mut items = VecDeque::new();
    // Room for a large body that is on its way.
    let mut room = None;
    // Asked for once: to register anew with every request costs as much as to understand it.
    let mut stopped = pin!(app.stopped());
    loop {
        while items.len() < PIPELINE {
            match decoder.decode(&mut line.input) {
                Ok(Some(item)) => items.push_back(item),
                Ok(None) => break,
                Err(Http) => {
                    app.metrics.browser();
                    tracing::warn!("closed a beanstalk connection that speaks HTTP");
                    return Ok(());
                }
            }
        }
        if items.is_empty() {
            line.understood(decoder.is_amid());
            line.flush().await?;
            if line.is_over() {
                return Ok(());
            }
            let missing = decoder.missing(&line.input);
            if missing <= LARGE {
                room = None;
            } else if room.is_none() {
                room = Some(app.room_for_body(missing).await?);
            }
            tokio::select! {
                biased;
                filled = line.fill(missing) => filled?,
                () = &mut stopped => return Ok(()),
            }
            continue;
        }
        line.completed();
        if let End::Closed = session.serve(line, &mut items).await? {
            return line.flush().await;
        }
        if line.output.len() >= LARGE {
            line.flush().await?;
        }
        line.give_way().await;
    }
}
