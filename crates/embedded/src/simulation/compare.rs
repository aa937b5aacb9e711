//! Everything that can be asked of a store, compared with the model.

use std::collections::{BTreeMap, BTreeSet};

use auxo_conformance::{Mint, Model};
use auxo_core::engine::{Query, Which};
use auxo_core::job::Job;
use auxo_core::life::State;
use auxo_core::time::Now;
use auxo_core::{JobId, QueueName};

use super::store::Store;
use crate::machine::{Op, Reply};

/// An odd size for pages, so that they end anywhere.
pub const PAGE: u32 = 37;

/// Compares everything that can be asked. Lists are read in pages of `limit`.
pub fn differences(
    store: &mut Store,
    model: &mut Model,
    known: &BTreeSet<JobId>,
    now: Now,
    limit: u32,
) -> std::result::Result<(), String> {
    let mint = &mut Nameless;
    let everything = Query {
        limit: u32::MAX,
        ..Query::default()
    };
    let page = model.list(&everything, now, mint).expect("a list");
    let mut expected: BTreeMap<JobId, Job> =
        page.jobs.into_iter().map(|job| (job.id, job)).collect();
    let mut listed = list(store, now, limit);
    listed.sort();
    if !listed.iter().eq(expected.keys()) {
        let expected = expected.keys();
        return Err(format!("listed are {listed:?}, not {expected:?}"));
    }
    for id in model.job_ids() {
        // Tombstones are not listed.
        if !expected.contains_key(&id) {
            expected.extend(model.find(&Which::Id(id), now, mint).map(|job| (id, job)));
        }
    }
    for id in known {
        let kept = find(store, Which::Id(*id), now);
        let expected = expected.get(id).cloned();
        if kept.clone().map(plain) != expected.clone().map(plain) {
            return Err(format!(
                "job {id} should be\n{:?}\nbut it is\n{:?}",
                expected.map(brief),
                kept.map(brief)
            ));
        }
    }
    let keys = expected.into_values();
    let keys: BTreeSet<_> = keys.filter_map(|job| Some((job.queue, job.key?))).collect();
    for (queue, key) in keys {
        let which = Which::Key(queue, key);
        let expected = model.find(&which, now, mint).map(|job| job.id);
        let kept = find(store, which.clone(), now);
        if kept.as_ref().map(|job| job.id) != expected {
            let expected = model.find(&which, now, mint).map(brief);
            return Err(format!(
                "{which:?} should lead to\n{expected:?}\nbut leads to\n{:?}",
                kept.map(brief)
            ));
        }
    }
    let Reply::Queues(mut queues) = ask(store, Op::Queues(None), now) else {
        return Err("another answer".into());
    };
    let mut expected = model.queues(None, now, mint);
    for queue in queues.iter_mut().chain(&mut expected) {
        // What only a running engine knows.
        queue.last_asked = None;
        queue.waiting = 0;
        queue.rate_wait = None;
    }
    if queues != expected {
        return Err(format!("queues are\n{queues:?}\nnot\n{expected:?}"));
    }
    let Reply::Catalog(catalog) = ask(store, Op::Catalog, now) else {
        return Err("another answer".into());
    };
    let expected = model.catalog(now, mint);
    if catalog != expected {
        return Err(format!("the catalog is\n{catalog:?}\nnot\n{expected:?}"));
    }
    let Reply::Audit(audit) = ask(store, Op::Audit, now) else {
        return Err("another answer".into());
    };
    let expected = model.audit(now, mint);
    if !audit.problems.is_empty() {
        return Err(format!("the audit says {:#?}", audit.problems));
    }
    let same = audit.queues == expected.queues && audit.forgotten == expected.forgotten;
    if !same || audit.jobs != expected.jobs {
        return Err(format!("the audit says {audit:?}, not {expected:?}"));
    }
    Ok(())
}

/// Whoever only looks makes no jobs.
pub struct Nameless;

impl Mint for Nameless {
    fn id(&mut self, _queue: &QueueName, _now: Now) -> JobId {
        panic!("the model has more to do than the store had")
    }

    fn token(&mut self, job: JobId) -> auxo_core::Token {
        panic!("nobody asked for job {job}")
    }

    fn dice(&mut self) -> u64 {
        0
    }
}

/// Asks the machine a question that changes nothing.
pub fn ask(store: &mut Store, op: Op, now: Now) -> Reply {
    store.machine.apply(0, op, now);
    // An audit of many jobs takes a while.
    while store.machine.out.answers.is_empty() {
        let more = store.machine.advance(now);
        assert!(more || !store.machine.out.answers.is_empty(), "no answer");
    }
    let answer = store.machine.out.answers.pop().expect("an answer");
    answer
        .reply
        .unwrap_or_else(|error| panic!("a question failed: {error}"))
}

fn find(store: &mut Store, which: Which, now: Now) -> Option<Job> {
    match ask(store, Op::Find(which), now) {
        Reply::Find(found) => found.map(|job| *job),
        _ => panic!("another answer"),
    }
}

/// All jobs, page by page.
pub fn list(store: &mut Store, now: Now, limit: u32) -> Vec<JobId> {
    let mut ids = Vec::new();
    let mut cursor = None;
    loop {
        let query = Query {
            cursor,
            limit,
            ..Query::default()
        };
        let Reply::List(page) = ask(store, Op::List(query), now) else {
            panic!("another answer");
        };
        ids.extend(page.jobs.into_iter().map(|job| job.id));
        match page.next {
            Some(next) => cursor = Some(next),
            None => return ids,
        }
    }
}

/// A job for a message.
fn brief(mut job: Job) -> Job {
    let payload = &job.payload;
    job.payload = format!("{} bytes, {:08x}", payload.len(), crc32c::crc32c(payload)).into();
    job
}

/// A job without what engines may word as they like. Of a tombstone only the name is promised.
fn plain(mut job: Job) -> Job {
    for moment in &mut job.timeline {
        moment.by.clear();
        moment.note.clear();
    }
    if job.state == State::Done && job.payload.is_empty() && job.result.is_none() {
        job.headers.clear();
        job.timeline.clear();
        job.last_error = None;
        job.progress = None;
    }
    job
}
