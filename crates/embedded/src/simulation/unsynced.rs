//! A store that leaves syncing to the operating system: only checkpoints sync.

use auxo_core::job::JobSpec;
use auxo_core::time::Now;
use auxo_core::{NewJob, QueueName};
use bytes::Bytes;

use super::store::Store;
use crate::disk::SimDisk;
use crate::disk::sim::Op as DiskOp;
use crate::machine::Op;
use crate::options::Sync;

const SEGMENT: u64 = 16 << 10;

#[test]
fn a_checkpoint_syncs_what_was_written_since_the_last_one_and_no_more() {
    let now = Now::at(1_700_000_000_000);
    let mut store = Store::open(SimDisk::new(), SEGMENT, Sync::Os, 1).unwrap();
    while store.written.segment < 30 {
        let spec = JobSpec {
            payload: Bytes::from(vec![7; 500]),
            ..JobSpec::default()
        };
        let queue = QueueName::new("q").unwrap();
        store.round(now, vec![(1, Op::Push(vec![NewJob { queue, spec }]))]);
        store.settle(now).unwrap();
    }
    let of_the_third = |operation: &&crate::disk::sim::Operation| {
        operation.op == DiskOp::Sync && &*operation.file == "0000000003.log"
    };
    let syncs = store.disk.log().iter().filter(of_the_third).count();
    // When it is made, and twice each for its own index, the one after it, and their checkpoints.
    assert!((1..=6).contains(&syncs), "{syncs} syncs of one segment");
}
