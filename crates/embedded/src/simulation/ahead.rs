//! An index file must not be ahead of the log on the disk.

use auxo_core::engine::{Action, Mode, Order, Target, Which};
use auxo_core::job::JobSpec;
use auxo_core::time::Now;
use auxo_core::{JobId, NewJob, QueueName};
use bytes::Bytes;

use super::compare::ask;
use super::store::Store;
use crate::disk::SimDisk;
use crate::machine::{Op, Reply};
use crate::options::Sync;
use crate::segment::index_name;

const SEGMENT: u64 = 8 << 10;

fn push(store: &mut Store, now: Now) -> JobId {
    let spec = JobSpec {
        payload: Bytes::from(vec![7; 500]),
        ..JobSpec::default()
    };
    let queue = QueueName::new("q").unwrap();
    let mut round = store.round(now, vec![(1, Op::Push(vec![NewJob { queue, spec }]))]);
    match round.answers.pop().expect("an answer").reply {
        Ok(Reply::Push(pushed)) => pushed[0].as_ref().unwrap().id,
        _ => panic!("another answer"),
    }
}

fn delete(store: &mut Store, ids: Vec<JobId>, now: Now) {
    let order = Order {
        target: Target::Jobs(ids),
        action: Action::Delete,
        mode: Mode::Act,
    };
    store.round(now, vec![(2, Op::Steer(order))]);
}

#[test]
fn a_job_whose_removal_is_lost_is_found_though_the_index_was_made_after_it() {
    let now = Now::at(1_700_000_000_000);
    let mut store = Store::open(SimDisk::new(), SEGMENT, Sync::Always, 1).unwrap();
    // The first segment is sealed with so little left that it gets no index.
    let mut first: Vec<JobId> = (0..12).map(|_| push(&mut store, now)).collect();
    let kept = first.split_off(10);
    delete(&mut store, first, now);
    while store.written.segment == 1 {
        store.settle(now).unwrap();
        push(&mut store, now);
    }
    store.settle(now).unwrap();
    let index = index_name(1);
    assert!(store.disk.content(&index).is_none());
    // From here on nothing is synced: a job goes, and the next seal brings the index of the straggler.
    delete(&mut store, vec![kept[0]], now);
    while store.written.segment == 2 {
        // The next segment's file is made meanwhile.
        store.maintain();
        push(&mut store, now);
    }
    for _ in 0..10 {
        if store.disk.content(&index).is_none() {
            store.maintain();
        }
    }
    assert!(store.disk.content(&index).is_some(), "the index is made");
    let mut store = Store::open(store.disk.crash_losing_all(), SEGMENT, Sync::Always, 2).unwrap();
    let found = match ask(&mut store, Op::Find(Which::Id(kept[0])), now) {
        Reply::Find(found) => found.is_some(),
        _ => panic!("another answer"),
    };
    // Either the removal is on the disk, or the job is there and everything about it.
    let listed = match ask(&mut store, Op::Queues(None), now) {
        Reply::Queues(queues) => queues[0].counts.ready,
        _ => panic!("another answer"),
    };
    let page = super::compare::list(&mut store, now, 100);
    assert_eq!(page.contains(&kept[0]), found);
    assert_eq!(page.len() as u64, listed);
    match ask(&mut store, Op::Audit, now) {
        Reply::Audit(audit) => assert_eq!(audit.problems, Vec::<String>::new()),
        _ => panic!("another answer"),
    }
}
