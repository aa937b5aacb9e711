//! The lease of a job that is named.

use std::sync::Arc;

use auxo_core::engine::Ask;
use auxo_core::job::Leased;
use auxo_core::{JobId, Result};
use tokio::sync::oneshot;

use crate::bytes::Pack;
use crate::desk::{Desk, catch_up, give_back};
use crate::link::Value;
use crate::record::Shown;
use crate::script;
use crate::settle;
use crate::store::{Store, bytes, items, time};

/// Lends this very job, if nobody has it. If the call is given up meanwhile, the job goes back.
pub async fn lend(
    store: &Arc<Store>,
    desks: &[Arc<Desk>],
    id: JobId,
    ask: Ask,
) -> Result<Vec<Leased>> {
    let shard = settle::shard(store, id);
    let (store, desk) = (store.clone(), desks[usize::from(shard)].clone());
    let (answer, answered) = oneshot::channel();
    tokio::spawn(async move {
        let lent = lend_in(&store, shard, id, &ask).await;
        // Somebody must know when the lease ends.
        desk.look();
        if let Err(Ok(unwanted)) = answer.send(lent) {
            give_back(&store, unwanted).await;
        }
    });
    answered
        .await
        .unwrap_or_else(|_| Err(crate::desk::closed()))
}

async fn lend_in(store: &Arc<Store>, shard: u16, id: JobId, ask: &Ask) -> Result<Vec<Leased>> {
    catch_up(store, shard).await?;
    let mut how = Pack::default();
    how.flag(ask.ttr.is_some())
        .span(ask.ttr.unwrap_or_default())
        .raw(ask.worker.as_bytes());
    let mut call = store.call(&script::LEASE_JOB, shard);
    call.arg(id.0.to_be_bytes())
        .arg(how.0)
        .arg(store.random(8)?);
    read(store.run(call).await?)
}

fn read(answer: Value) -> Result<Vec<Leased>> {
    let mut parts = items(answer)?.into_iter();
    let now = time(parts.next().unwrap_or(Value::Nil))?;
    let parts: Vec<_> = parts.map(bytes).collect::<Result<_>>()?;
    let leased = parts.chunks_exact(3).map(|part| {
        let shown = Shown {
            id: &part[0],
            record: &part[1],
            life: &part[2],
            score: None,
        };
        shown.leased(now)
    });
    leased.collect()
}
