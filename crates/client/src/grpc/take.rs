//! Leasing: a stream whose sending side stays open while its caller waits.

use auxo_core::Result;
use auxo_core::engine::{Ask, Settle};
use auxo_core::job::Leased;
use auxo_proto::{read_all, result, v1};
use tokio::sync::watch;

use super::link::{Call, Link};
use crate::remote::link::Effect;
use crate::remote::take::{GIVING_BACK, Lender};

impl Lender for Link {
    async fn borrow(&self, ask: &Ask, caller: watch::Receiver<()>) -> Result<Vec<Leased>> {
        let call = Call {
            caller: Some(caller),
            ..Call::new(v1::LeaseRequest::from(ask), Effect::Once)
                .time(ask.wait.saturating_add(self.settings.answer_time))
        };
        let leases = self.ask(call).await?;
        match leases.jobs.is_empty() {
            // A handle that was closed has ended the wait itself.
            true => self.check_open().map(|()| Vec::new()),
            false => self.read(Effect::Once, read_all("jobs", leases.jobs)),
        }
    }

    async fn settle(&self, items: &[Settle]) {
        let items = result(items);
        let call = Call::new(v1::SettleRequest { items }, Effect::Once);
        // Whether it worked or not, the jobs are the server's.
        let _ = self.send(call.time(GIVING_BACK)).await;
    }
}
