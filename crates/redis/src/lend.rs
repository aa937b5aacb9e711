//! The lease of a job that is named.

use std::sync::Arc;

use auxo_core::engine::{Ask, Holds, NamedJob};
use auxo_core::job::Leased;
use auxo_core::refusal::{self, Hold};
use auxo_core::time::Timestamp;
use auxo_core::{Code, Error, JobId, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::bytes::Pack;
use crate::confirm;
use crate::desk::{Desk, catch_up};
use crate::link::Value;
use crate::record::{Shown, garbled};
use crate::script;
use crate::settle;
use crate::store::{Store, bytes, items, time};

/// Lends this very job, if nobody has it. If the call is given up meanwhile, the job goes back.
pub async fn lend(
    store: &Arc<Store>,
    desks: &[Arc<Desk>],
    named: NamedJob,
    ask: Ask,
) -> Result<Vec<Leased>> {
    let shard = settle::shard(store, named.id);
    let (store, desk) = (store.clone(), desks[usize::from(shard)].clone());
    let (answer, answered) = oneshot::channel();
    let (waits, timeout) = (store.clone(), store.link.timeout());
    tokio::spawn(async move {
        let lent = lend_in(&store, shard, named, &ask).await;
        // Somebody must know when the lease ends.
        desk.look();
        if let Err(Ok(unwanted)) = answer.send(lent) {
            confirm::give_back(&store, &unwanted).await;
        }
    });
    let answered = tokio::time::timeout(timeout, answered).await;
    match answered {
        Ok(answer) => answer.unwrap_or_else(|_| Err(crate::desk::closed())),
        Err(_) => Err(undone(named, crate::desk::silent(&waits))),
    }
}

async fn lend_in(
    store: &Arc<Store>,
    shard: u16,
    named: NamedJob,
    ask: &Ask,
) -> Result<Vec<Leased>> {
    catch_up(store, shard).await?;
    let mut how = Pack::default();
    let pending = if confirm::pending(store) { 2 } else { 0 };
    let respect = if named.holds == Holds::Respect { 4 } else { 0 };
    how.u8(u8::from(ask.ttr.is_some()) + pending + respect)
        .span(ask.ttr.unwrap_or_default())
        .raw(ask.worker.as_bytes());
    let mut call = store.call(&script::LEASE_JOB, shard);
    call.arg(named.id.0.to_be_bytes())
        .arg(how.0)
        .arg(store.random(8)?);
    let sent = Instant::now();
    let done = store.run_at_all(call).await?;
    let (now, leased) = read(done.answer, named.id)?;
    let (granted, mut lent) = (!leased.is_empty(), [leased]);
    let confirmed = confirm::confirm(store, &mut lent, done.unconfirmed).await;
    confirmed.map_err(|error| undone(named, error))?;
    let [leased] = lent;
    let now = now.plus(sent.elapsed());
    let over = |one: &Leased| !confirm::is_done(one) && one.deadline <= now;
    if granted && leased.is_empty() || !store.told && leased.iter().any(over) {
        confirm::take_back(store, leased);
        return Err(confirm::too_late());
    }
    Ok(leased)
}

/// The lease is taken back, but not what was done for it before.
fn undone(named: NamedJob, error: Error) -> Error {
    if named.holds == Holds::Respect {
        return error;
    }
    let why = format!(
        "{}; if the job was dead or not due, it is ready now",
        error.message()
    );
    Error::new(Code::UnknownOutcome, why)
}

/// When the script ran, and what it lent.
fn read(answer: Value, id: JobId) -> Result<(Timestamp, Vec<Leased>)> {
    let mut parts = items(answer)?.into_iter();
    let now = time(parts.next().unwrap_or(Value::Nil))?;
    let parts: Vec<_> = parts.map(bytes).collect::<Result<_>>()?;
    if let [word] = parts.as_slice() {
        return Err(refusal::held_back(id, hold(word)?));
    }
    let leased = parts.chunks_exact(3).map(|part| {
        let shown = Shown {
            id: &part[0],
            record: &part[1],
            life: &part[2],
            score: None,
        };
        shown.leased(now)
    });
    Ok((now, leased.collect::<Result<_>>()?))
}

/// What keeps a job back, as the script says it.
fn hold(word: &[u8]) -> Result<Hold> {
    Ok(match word {
        b"due" => Hold::NotDue,
        b"dead" => Hold::Dead,
        b"paused" => Hold::Paused,
        b"leases" => Hold::MaxLeased,
        b"rate" => Hold::Rate,
        _ => return Err(garbled("an unknown reason to hold a job back")),
    })
}
