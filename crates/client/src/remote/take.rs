//! Leasing: the one call that waits, and whose answer must not be lost between the server and a caller who has left.
//!
//! The call runs in a task of its own. When its caller drops it, the task hangs up and still looks at what comes: nothing, if
//! the server noticed in time and kept the jobs; or jobs, which are then released at once instead of at their deadline.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Ask, Outcome, Settle};
use auxo_core::job::Leased;
use auxo_core::json::{parse, write};
use auxo_core::{Code, Error, Result};
use bytes::Bytes;
use hyper::Method;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::link::{Call, Effect, Link};

/// A lease that is waited for.
struct Taking {
    link: Arc<Link>,
    answer: oneshot::Receiver<Result<Vec<Leased>>>,
    /// Dropped with the rest, which tells the task that nobody waits any more.
    _caller: watch::Sender<()>,
}

/// Asks for jobs.
pub(super) async fn take(link: &Arc<Link>, ask: &Ask) -> Result<Vec<Leased>> {
    let (caller, waiting) = watch::channel(());
    let (answer, answered) = oneshot::channel();
    let call = Call {
        caller: Some(waiting),
        ..Call::new(Method::POST, "/v1/lease", Effect::Once)
            .body(write::body(&write::ask(ask)))
            .time(ask.wait.saturating_add(link.settings.answer_time))
    };
    let server = link.clone();
    tokio::spawn(async move {
        let leased = server.ask(call, parse::leases).await;
        if let Err(Ok(unwanted)) = answer.send(leased) {
            give_back(&server, &unwanted).await;
        }
    });
    let mut taking = Taking {
        link: link.clone(),
        answer: answered,
        _caller: caller,
    };
    (&mut taking.answer).await.unwrap_or_else(|_| {
        let message = "the task of this call ended before it had an answer";
        Err(Error::new(Code::UnknownOutcome, message))
    })
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.answer.close();
        // What arrived and was not taken.
        if let Ok(Ok(unwanted)) = self.answer.try_recv()
            && let Ok(runtime) = Handle::try_current()
        {
            let link = self.link.clone();
            runtime.spawn(async move { give_back(&link, &unwanted).await });
        }
    }
}

/// Releases jobs that nobody took. If that fails they come back at their deadline.
async fn give_back(link: &Link, unwanted: &[Leased]) {
    for jobs in unwanted.chunks(super::batch::MOST_ITEMS) {
        let release = |leased: &Leased| {
            let outcome = Outcome::Release {
                priority: None,
                delay: None,
            };
            let token = leased.token;
            write::body(&write::settle(&Settle { token, outcome }))
        };
        let items: Vec<Bytes> = jobs.iter().map(release).collect();
        let call = Call::new(Method::POST, "/v1/settle", Effect::Once)
            .body(super::batch::list(&items))
            .time(Duration::from_secs(10));
        // A closed handle gives back as well, so this does not ask whether it is open.
        let _ = link.send(call).await;
    }
}
