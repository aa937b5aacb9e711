//! Leasing: the one call that waits, and whose answer must not be lost between the server and a caller who has left.
//!
//! The call runs in a task of its own. When its caller drops it, the task tells the server to stop waiting, and still looks at
//! what comes: nothing, if the server heard in time and kept the jobs; or jobs, which are then released at once instead of
//! at their deadline. How a server is told differs: over HTTP the task hangs up, over gRPC it closes its side of the stream.

use std::future::Future;
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

use super::batch::{MOST_ITEMS, list};
use super::link::{Call, Effect, Link};

/// How long jobs are given back for. Then they come back by themselves, at their deadline.
pub(crate) const GIVING_BACK: Duration = Duration::from_secs(10);

/// A way to a server that lends jobs.
pub(crate) trait Lender: Send + Sync + 'static {
    /// Asks for jobs. When `caller` ends, nobody waits for them any more.
    fn borrow(
        &self,
        ask: &Ask,
        caller: watch::Receiver<()>,
    ) -> impl Future<Output = Result<Vec<Leased>>> + Send;

    /// Ends leases, as many as go in one call, also when the handle is closed already.
    fn settle(&self, items: &[Settle]) -> impl Future<Output = ()> + Send;
}

/// A lease that is waited for.
struct Taking<L: Lender> {
    lender: Arc<L>,
    answer: oneshot::Receiver<Result<Vec<Leased>>>,
    /// Dropped with the rest, which tells the task that nobody waits any more.
    _caller: watch::Sender<()>,
}

/// Asks for jobs.
pub(crate) async fn take<L: Lender>(lender: &Arc<L>, ask: Ask) -> Result<Vec<Leased>> {
    let (caller, waiting) = watch::channel(());
    let (answer, answered) = oneshot::channel();
    let server = lender.clone();
    tokio::spawn(async move {
        let leased = server.borrow(&ask, waiting).await;
        if let Err(Ok(unwanted)) = answer.send(leased) {
            give_back(&*server, &unwanted).await;
        }
    });
    let mut taking = Taking {
        lender: lender.clone(),
        answer: answered,
        _caller: caller,
    };
    (&mut taking.answer).await.unwrap_or_else(|_| {
        let message = "the task of this call ended before it had an answer";
        Err(Error::new(Code::UnknownOutcome, message))
    })
}

impl<L: Lender> Drop for Taking<L> {
    fn drop(&mut self) {
        self.answer.close();
        // What arrived and was not taken.
        if let Ok(Ok(unwanted)) = self.answer.try_recv()
            && let Ok(runtime) = Handle::try_current()
        {
            let lender = self.lender.clone();
            runtime.spawn(async move { give_back(&*lender, &unwanted).await });
        }
    }
}

/// Releases jobs that nobody took. If that fails they come back at their deadline.
async fn give_back<L: Lender>(lender: &L, unwanted: &[Leased]) {
    for jobs in unwanted.chunks(MOST_ITEMS) {
        let release = |leased: &Leased| Settle {
            token: leased.token,
            outcome: Outcome::Release {
                priority: None,
                delay: None,
            },
        };
        let items: Vec<Settle> = jobs.iter().map(release).collect();
        lender.settle(&items).await;
    }
}

impl Lender for Link {
    async fn borrow(&self, ask: &Ask, caller: watch::Receiver<()>) -> Result<Vec<Leased>> {
        let call = Call {
            caller: Some(caller),
            ..Call::new(Method::POST, "/v1/lease", Effect::Once)
                .body(write::body(&write::ask(ask)))
                .time(ask.wait.saturating_add(self.settings.answer_time))
        };
        self.ask(call, parse::leases).await
    }

    async fn settle(&self, items: &[Settle]) {
        let items = items.iter().map(|item| write::body(&write::settle(item)));
        let items: Vec<Bytes> = items.collect();
        let call = Call::new(Method::POST, "/v1/settle", Effect::Once)
            .body(list(&items))
            .time(GIVING_BACK);
        // Whether it worked or not, the jobs are the server's.
        let _ = self.send(call).await;
    }
}
