//! Bytes that change on the disk while the store runs.

use std::time::Duration;

use auxo_core::engine::{Ask, Outcome, Pick, Settle};
use auxo_core::job::JobSpec;
use auxo_core::time::Now;
use auxo_core::{Code, NewJob, QueueName};
use bytes::Bytes;

use super::store::Store;
use crate::disk::SimDisk;
use crate::machine::{Op, Reply};
use crate::options::Sync;
use crate::record::HEAD;
use crate::segment::{HEADER, log_name};

const SEGMENT: u64 = 8 << 10;

fn queue() -> QueueName {
    QueueName::new("q").unwrap()
}

fn push() -> Op {
    let spec = JobSpec {
        payload: Bytes::from(vec![7; 500]),
        ..JobSpec::default()
    };
    let queue = queue();
    Op::Push(vec![NewJob { queue, spec }])
}

/// A store whose first job is done and whose first segment was sealed just now, its index not yet written.
fn sealed() -> (Store, Now) {
    let now = Now::at(1_700_000_000_000);
    let mut store = Store::open(SimDisk::new(), SEGMENT, Sync::Always, 1).unwrap();
    store.round(now, vec![(1, push())]);
    let ask = Ask {
        queues: vec![queue()],
        job: None,
        pick: Pick::First,
        max: 1,
        wait: Duration::ZERO,
        ttr: None,
        worker: "".into(),
    };
    let mut round = store.round(now, vec![(2, Op::Lease(ask))]);
    let Ok(Reply::Lease(leased)) = round.answers.remove(0).reply else {
        panic!("a job is there");
    };
    let ack = Settle {
        token: leased[0].token,
        outcome: Outcome::Ack { result: None },
    };
    store.round(now, vec![(3, Op::Settle(vec![ack]))]);
    while store.written.segment == 1 {
        // The next segment's file is made meanwhile.
        store.maintain();
        store.round(now, vec![(4, push())]);
    }
    (store, now)
}

#[test]
fn a_record_that_is_taken_for_another_kind_does_not_shift_the_index() {
    let (mut whole, now) = sealed();
    whole.settle(now).unwrap();
    assert!(whole.machine.broken().is_none());
    assert!(whole.disk.content("0000000001.idx").is_some());

    let (mut store, now) = sealed();
    // The record with which the store was opened, which nobody needs any more, turns into that of a job.
    let kind = HEADER as usize + HEAD;
    let rot = |bytes: &mut Vec<u8>| bytes[kind] = 1;
    store.disk.damage(&log_name(1), rot).unwrap();
    store.settle(now).unwrap();
    let error = store.machine.broken().expect("the store stops");
    assert_eq!(error.code(), Code::Internal);
    assert!(
        error.message().contains("file 0000000001.log at byte 32"),
        "{error}"
    );
}
