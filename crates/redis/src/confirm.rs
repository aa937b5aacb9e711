//! Leases that are handed out only when it is certain that they count.
//!
//! With `durability=replicated` the script that lends runs before anybody knows whether enough replicas will have the lease. So it
//! makes leases that are *pending*: if one ends before it is confirmed, its job goes back as if it had never been lent, and no
//! attempt is counted. When the replicas have it, it is confirmed, on the primary, and then handed out. If too few have it in
//! time, it is taken back. A process that dies in between leaves a pending lease behind, which ends by itself.
//!
//! A job that is delivered at most once is done when it is lent. It has no lease, and nothing to confirm: if too few replicas
//! have that, it is lost.

use std::sync::Arc;

use auxo_core::job::Leased;
use auxo_core::life::State;
use auxo_core::{Code, Error, Result};

use crate::bytes::Pack;
use crate::link::Unconfirmed;
use crate::script;
use crate::settle::{shard, token_of};
use crate::store::{Store, bytes};

/// For how many leases one script is asked, so that it does not take long.
const LEASES: usize = 50;

/// Whether a lease is to be made, or as if it had never been.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Confirm,
    TakeBack,
}

/// Whether leases are pending when they are made.
pub fn pending(store: &Store) -> bool {
    store.link.replicates()
}

/// Confirms what a script lent, or takes it back. What is left runs, and counts. Fails if too few replicas have it.
pub async fn confirm(
    store: &Arc<Store>,
    lent: &mut [Vec<Leased>],
    unconfirmed: Option<Unconfirmed>,
) -> Result<()> {
    if let Some(unconfirmed) = unconfirmed {
        let all: Vec<&Leased> = lent.iter().flatten().collect();
        // If that cannot be said now, the leases end by themselves.
        let _ = run(store, &all, Verdict::TakeBack).await;
        return Err(too_few(store, &all, unconfirmed));
    }
    if !pending(store) {
        return Ok(());
    }
    let leases: Vec<&Leased> = lent.iter().flatten().filter(|one| !is_done(one)).collect();
    if leases.is_empty() {
        return Ok(());
    }
    let runs = match run(store, &leases, Verdict::Confirm).await {
        Ok(runs) => runs,
        Err(error) => {
            take_back(store, lent.iter_mut().flat_map(std::mem::take).collect());
            return Err(error);
        }
    };
    let mut runs = runs.into_iter();
    // Those that were over before are left out.
    for some in &mut *lent {
        some.retain(|one| is_done(one) || runs.next().unwrap_or(false));
    }
    Ok(())
}

fn too_few(store: &Store, lent: &[&Leased], unconfirmed: Unconfirmed) -> Error {
    if lent.iter().any(|one| is_done(one)) {
        return unconfirmed.error;
    }
    let timeout = auxo_core::text::duration(store.link.timeout());
    let Unconfirmed {
        confirmed, asked, ..
    } = unconfirmed;
    let why = format!(
        "no job was leased: only {confirmed} of {asked} replicas confirmed it within {timeout}; see that all replicas are \
         connected and answer"
    );
    Error::new(Code::Unavailable, why)
}

/// Takes back what nobody was given, as if it had never been lent, in a task of its own.
pub fn take_back(store: &Arc<Store>, leases: Vec<Leased>) {
    if !leases.is_empty() {
        let store = store.clone();
        tokio::spawn(async move { give_back(&store, &leases).await });
    }
}

/// Takes back what nobody was given, as if it had never been lent. If Redis cannot be told now, the leases end by themselves.
pub async fn give_back(store: &Store, leases: &[Leased]) {
    let leases: Vec<&Leased> = leases.iter().filter(|one| !is_done(one)).collect();
    let _ = run(store, &leases, Verdict::TakeBack).await;
}

/// Says of each lease whether it runs. All are of one shard.
async fn run(store: &Store, leases: &[&Leased], verdict: Verdict) -> Result<Vec<bool>> {
    let mut all = Vec::with_capacity(leases.len());
    for some in leases.chunks(LEASES) {
        all.extend(run_some(store, some, verdict).await?);
    }
    Ok(all)
}

async fn run_some(store: &Store, leases: &[&Leased], verdict: Verdict) -> Result<Vec<bool>> {
    let Some(first) = leases.first() else {
        return Ok(Vec::new());
    };
    let mut call = store.call(&script::CONFIRM, shard(store, first.token.job));
    call.on_primary();
    call.arg(if verdict == Verdict::Confirm {
        "1"
    } else {
        "0"
    });
    for lease in leases {
        let mut pack = Pack::default();
        pack.u64(lease.token.job.0);
        token_of(&mut pack, lease.token);
        call.arg(pack.0);
    }
    let answer = bytes(store.run(call).await?)?;
    Ok(answer.iter().map(|runs| *runs == 1).collect())
}

/// A lease was over before its answer came.
pub fn too_late() -> Error {
    let why = "redis answered only when the lease was over; no job was leased";
    Error::new(Code::Unavailable, why)
}

/// Whether a job was done when it was lent.
pub fn is_done(leased: &Leased) -> bool {
    leased.job.state == State::Done
}
