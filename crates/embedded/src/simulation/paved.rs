//! Zeros in front of the log, where somebody waits for syncs.

use std::io::ErrorKind;

use auxo_core::engine::{Ask, Outcome, Pick, Settle};
use auxo_core::job::JobSpec;
use auxo_core::time::Now;
use auxo_core::{NewJob, QueueName};
use bytes::Bytes;

use super::store::Store;
use crate::disk::SimDisk;
use crate::disk::sim::Op as DiskOp;
use crate::machine::{Op, Reply};
use crate::options::Sync;

const SEGMENT: u64 = 64 << 10;

fn now() -> Now {
    Now::at(1_700_000_000_000)
}

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn push_op() -> Op {
    let spec = JobSpec {
        payload: Bytes::from(vec![7; 500]),
        ..JobSpec::default()
    };
    let queue = queue();
    Op::Push(vec![NewJob { queue, spec }])
}

fn push(store: &mut Store) {
    store.round(now(), vec![(1, push_op())]);
    store.settle(now()).unwrap();
}

/// Takes the oldest job and ends it.
fn finish(store: &mut Store) {
    let ask = Ask {
        queues: vec![queue()],
        job: None,
        pick: Pick::First,
        max: 1,
        wait: std::time::Duration::ZERO,
        ttr: None,
        worker: "w".into(),
    };
    let leased = store.round(now(), vec![(1, Op::Lease(ask))]);
    let Some(Ok(Reply::Lease(leased))) =
        leased.answers.into_iter().map(|answer| answer.reply).next()
    else {
        panic!("no lease");
    };
    let outcome = Outcome::Ack { result: None };
    let token = leased[0].token;
    store.round(
        now(),
        vec![(2, Op::Settle(vec![Settle { token, outcome }]))],
    );
    store.settle(now()).unwrap();
}

/// The writes to a file, each with its beginning and its end.
fn writes(store: &Store, file: &str) -> Vec<(u64, u64)> {
    let operations = store.disk.log();
    let of_file = operations
        .iter()
        .filter(|operation| operation.op == DiskOp::Write && &*operation.file == file);
    of_file
        .map(|write| (write.offset, write.offset + write.len))
        .collect()
}

/// How many of the log's writes went where something was written before, and how many did not.
fn onto(writes: &[(u64, u64)]) -> (usize, usize) {
    let (mut paved, mut onto) = (0, (0, 0));
    for (_, end) in writes {
        match *end <= paved {
            true => onto.0 += 1,
            false => onto.1 += 1,
        }
        paved = paved.max(*end);
    }
    onto
}

#[test]
fn a_new_segment_is_written_before_the_log_comes_to_it() {
    let mut store = Store::open(SimDisk::new(), SEGMENT, Sync::Always, 1).unwrap();
    while store.written.segment == 1 {
        push(&mut store);
    }
    let (behind, ahead) = onto(&writes(&store, "0000000001.log"));
    // The first few are before anybody could know that it pays. All others that are ahead are zeros.
    assert!(behind > 90, "{behind} of {} writes", behind + ahead);
}

#[test]
fn a_segment_that_was_one_before_is_not_written_twice() {
    let mut store = Store::open(SimDisk::new(), SEGMENT, Sync::Always, 1).unwrap();
    while store.written.segment < 6 {
        push(&mut store);
        finish(&mut store);
    }
    let operations = store.disk.log();
    let mut renamed = operations.iter().filter(|one| one.op == DiskOp::Rename);
    let renamed = renamed.any(|one| one.file.ends_with(".log"));
    assert!(renamed, "no segment was used again");
    let (behind, _) = onto(&writes(&store, "0000000005.log"));
    assert_eq!(behind, 0);
}

#[test]
fn where_nobody_waits_for_syncs_nothing_is_written_twice() {
    let mut store = Store::open(SimDisk::new(), SEGMENT, Sync::Os, 1).unwrap();
    while store.written.segment == 1 {
        push(&mut store);
    }
    let (behind, _) = onto(&writes(&store, "0000000001.log"));
    assert_eq!(behind, 0);
}

/// A store whose first zeros cannot be laid.
fn store_that_cannot_pave(why: ErrorKind) -> Store {
    let mut store = Store::open(SimDisk::new(), SEGMENT, Sync::Always, 1).unwrap();
    store.round(now(), vec![(1, push_op())]);
    store.sync().unwrap();
    store.disk.fail(DiskOp::Write, 1, why);
    store.settle(now()).unwrap();
    store
}

#[test]
fn a_disk_without_room_for_zeros_is_still_good_for_the_log() {
    let mut store = store_that_cannot_pave(ErrorKind::StorageFull);
    while store.written.segment == 1 {
        let round = store.round(now(), vec![(1, push_op())]);
        assert_eq!(round.broken, None);
        store.settle(now()).unwrap();
    }
    let writes = writes(&store, "0000000001.log");
    let tries = writes.iter().filter(|(begin, end)| end - begin > 10_000);
    assert_eq!(tries.count(), 1);
}

#[test]
fn a_disk_that_fails_under_zeros_has_failed() {
    let mut store = store_that_cannot_pave(ErrorKind::Other);
    let round = store.round(now(), vec![(1, push_op())]);
    let error = round.broken.expect("the store has stopped");
    assert!(error.message().contains("0000000001.log"), "{error}");
}

#[test]
fn what_is_much_at_once_is_not_written_twice() {
    let size = 4 << 20;
    let mut store = Store::open(SimDisk::new(), size, Sync::Always, 1).unwrap();
    while u64::from(store.written.offset) < size / 2 {
        let Op::Push(mut jobs) = push_op() else {
            unreachable!("a push")
        };
        jobs[0].spec.payload = Bytes::from(vec![7; 100_000]);
        store.round(now(), vec![(1, Op::Push(jobs))]);
        store.settle(now()).unwrap();
    }
    let (behind, _) = onto(&writes(&store, "0000000001.log"));
    assert_eq!(behind, 0);
}
