//! Leasing: the one call that waits, and whose answer must not be lost between the server and a caller who has left.
//!
//! The call runs in a task of its own. When its caller drops it, the task closes its side of the stream, which tells the server
//! to stop waiting, and still looks at what comes: nothing, if the server heard in time; or jobs, which are then released at
//! once instead of at their deadline.

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::{Ask, Outcome, Settle};
use auxo_core::job::Leased;
use auxo_core::{Code, Error, Result};
use auxo_proto::{read_all, v1};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::link::{Call, Link};
use crate::remote::batch::MOST_ITEMS;
use crate::remote::link::Effect;

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
        ..Call::new(v1::LeaseRequest::from(ask), Effect::Once)
            .time(ask.wait.saturating_add(link.settings.answer_time))
    };
    let server = link.clone();
    tokio::spawn(async move {
        let leased = match server.ask(call).await {
            // A handle that was closed has ended the wait itself.
            Ok(leases) if leases.jobs.is_empty() => server.check_open().map(|()| Vec::new()),
            Ok(leases) => server.read(Effect::Once, read_all("jobs", leases.jobs)),
            Err(error) => Err(error),
        };
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
    for jobs in unwanted.chunks(MOST_ITEMS) {
        let release = |leased: &Leased| {
            let outcome = Outcome::Release {
                priority: None,
                delay: None,
            };
            let token = leased.token;
            v1::Settle::from(&Settle { token, outcome })
        };
        let items = jobs.iter().map(release).collect();
        let call = Call::new(v1::SettleRequest { items }, Effect::Once);
        // A closed handle gives back as well, so this does not ask whether it is open.
        let _ = link.send(call.time(Duration::from_secs(10))).await;
    }
}
