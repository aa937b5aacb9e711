//! The power goes at every operation on the disk, and at random ones, with everything or anything unsynced lost or torn.

mod kept;
mod trace;

use auxo_conformance::bench::run;
use auxo_core::Engine;
use auxo_embedded::disk::SimDisk;
use auxo_embedded::disk::sim::Rng;
use trace::{Trace, open};

const STEPS: usize = 150;

/// Runs a trace whose power goes after `stop` operations. Answers the disk as it was then, and the promises made by then.
fn run_until(stop: u64, seed: u64) -> (SimDisk, Trace) {
    let disk = SimDisk::new();
    disk.crash_at(stop);
    let mut trace = Trace::default();
    run(async {
        if let Ok(engine) = open(&disk) {
            trace.run(&engine, &mut Rng::new(seed), STEPS).await;
            // Closing fails when the power is gone, which is the point.
            let _ = engine.close().await;
        }
    });
    (disk, trace)
}

/// How many operations the whole trace makes.
fn operations(seed: u64) -> u64 {
    run_until(u64::MAX, seed).0.operations()
}

fn opens_with_everything_promised(disk: &SimDisk, trace: &Trace) -> usize {
    run(async {
        let engine = open(disk).unwrap_or_else(|error| panic!("does not open: {error}"));
        let kept = kept::check(trace, &engine).await;
        engine.close().await.expect("the store closes");
        kept
    })
}

#[test]
fn at_every_operation_of_a_trace_the_store_opens_and_nothing_is_lost() {
    let (mut cuts, mut kept) = (0, 0);
    for stop in 0..=operations(1) {
        let (disk, trace) = run_until(stop, 1);
        let torn = [disk.crash(stop), disk.crash(stop ^ 0xffff)];
        for image in [disk.crash_losing_all(), disk.kill()]
            .into_iter()
            .chain(torn)
        {
            cuts += 1;
            kept += opens_with_everything_promised(&image, &trace);
        }
    }
    println!("{cuts} power cuts at every operation: {kept} promises kept, 0 lost, 0 resurrected");
}

#[test]
fn at_two_thousand_random_moments_the_store_opens_and_nothing_is_lost() {
    let mut rng = Rng::new(2);
    let (mut cuts, mut kept) = (0, 0);
    while cuts < 2000 {
        let seed = rng.bits();
        let stop = 20 + rng.below(600);
        let (disk, trace) = run_until(stop, seed);
        for _ in 0..8 {
            cuts += 1;
            kept += opens_with_everything_promised(&disk.crash(rng.bits()), &trace);
        }
    }
    println!("{cuts} power cuts at random moments: {kept} promises kept, 0 lost, 0 resurrected");
}
