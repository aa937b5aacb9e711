//! A disk that refuses, fills up or fails, a directory that is taken, a clock that is wrong.

mod kept;
mod trace;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use auxo_conformance::bench::run;
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Ask, Outcome, Pick, Retry, Settle};
use auxo_core::job::{JobSpec, Leased};
use auxo_core::{Code, Engine, NewJob, Result};
use auxo_embedded::disk::SimDisk;
use auxo_embedded::disk::sim::{Op, Rng};
use auxo_embedded::{Embedded, Options};
use trace::{START, Trace, contents, open, queue};

fn job(len: usize) -> NewJob {
    let payload = vec![b'x'; len].into();
    NewJob {
        queue: queue(),
        spec: JobSpec {
            payload,
            ..JobSpec::default()
        },
    }
}

async fn push(engine: &Embedded, len: usize) -> Result<()> {
    engine.push(vec![job(len)]).await?.remove(0).map(drop)
}

async fn lease(engine: &Embedded, max: u32) -> Vec<Leased> {
    let ask = Ask {
        queues: vec![queue()],
        job: None,
        pick: Pick::First,
        max,
        wait: Duration::ZERO,
        ttr: None,
        worker: "w".into(),
    };
    engine.lease(ask).await.expect("a lease")
}

async fn settle(engine: &Embedded, leased: &Leased, outcome: Outcome) -> Result<()> {
    engine
        .settle(vec![Settle {
            token: leased.token,
            outcome,
        }])
        .await?
        .remove(0)
        .map(drop)
}

fn ack() -> Outcome {
    Outcome::Ack { result: None }
}

/// The operation fails for the `nth` time: from then on nothing is answered with success, and what was is still there.
fn stops_at_the_first_error(op: Op, most: u64) {
    for nth in 1..=most {
        let disk = SimDisk::new();
        let (trace, failed) = run(async {
            let engine = open(&disk).expect("a new store");
            disk.fail(op, nth, io::ErrorKind::Other);
            let mut trace = Trace::default();
            trace.run(&engine, &mut Rng::new(nth), 400).await;
            let failed = engine.health().is_err();
            if failed {
                for _ in 0..3 {
                    let refused = push(&engine, 10)
                        .await
                        .expect_err("no success after the error");
                    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
                }
                assert!(
                    engine.close().await.is_err(),
                    "closing a broken store is no success"
                );
            }
            (trace, failed)
        });
        assert!(failed, "the {nth}th {op:?} was never made");
        let engine = open(&disk.crash(nth)).expect("the store opens when the disk is well again");
        run(kept::check(&trace, &engine));
    }
}

#[test]
fn after_a_failed_sync_nothing_is_promised_and_nothing_promised_is_lost() {
    stops_at_the_first_error(Op::Sync, 50);
}

#[test]
fn after_a_failed_write_nothing_is_promised_and_nothing_promised_is_lost() {
    stops_at_the_first_error(Op::Write, 50);
}

#[test]
fn after_a_failed_sync_of_the_directory_nothing_is_promised_and_nothing_promised_is_lost() {
    stops_at_the_first_error(Op::SyncDir, 10);
}

#[test]
fn a_full_disk_refuses_pushes_and_nothing_else_and_heals_by_itself() {
    run(async {
        let disk = SimDisk::new();
        disk.set_capacity(Some(1 << 20));
        let clock = ManualClock::at(START);
        let options = Options {
            segment_size: 64 << 10,
            clock: Some(clock.clone()),
            ..Options::default()
        };
        let engine = Embedded::on(Arc::new(disk.clone()), options).expect("a new store");
        let mut pushed = 0;
        let refused = loop {
            match push(&engine, 1000).await {
                Ok(()) => pushed += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.code(), Code::QueueFull);
        assert!(refused.message().contains("disk is full"), "{refused}");
        assert!(pushed > 400, "{pushed}");
        let outages = engine.outages();
        assert_eq!(outages.len(), 1, "{outages:?}");
        assert_eq!(outages[0].part, "pushes");
        // Everything that does not take jobs in goes on: leases, failures, acks.
        let mut settled = 0;
        loop {
            let leased = lease(&engine, 1).await;
            let Some(one) = leased.first() else { break };
            let again = Outcome::Fail {
                error: "later".into(),
                delay: Some(Duration::ZERO),
                retry: Retry::Policy,
            };
            let outcome = if settled % 10 == 0 && one.job.failures == 0 {
                again
            } else {
                ack()
            };
            settle(&engine, one, outcome)
                .await
                .expect("a full disk lets leases end");
            settled += 1;
        }
        assert!(settled > pushed);
        engine.health().expect("a full disk is not a broken one");
        // With its segments empty the store has room again, without a restart.
        clock.advance(Duration::from_secs(5));
        push(&engine, 1000).await.expect("room again");
        assert_eq!(engine.outages(), []);
        let shown = contents(&engine).await.expect("a whole store");
        assert_eq!(shown.len(), 1);
        engine.close().await.expect("the store closes");
    });
}

#[test]
fn space_that_comes_back_is_used_without_a_restart() {
    run(async {
        let disk = SimDisk::new();
        disk.set_capacity(Some(1 << 20));
        let clock = ManualClock::at(START);
        let options = Options {
            segment_size: 64 << 10,
            clock: Some(clock.clone()),
            ..Options::default()
        };
        let engine = Embedded::on(Arc::new(disk.clone()), options).expect("a new store");
        while push(&engine, 1000).await.is_ok() {}
        disk.set_capacity(None);
        clock.advance(Duration::from_secs(5));
        // The disk is asked again in the background; the push after that succeeds.
        let mut tries = 0;
        while push(&engine, 1000).await.is_err() {
            tries += 1;
            clock.advance(Duration::from_secs(1));
            assert!(tries < 10_000, "the store did not notice the space");
            tokio::task::yield_now().await;
        }
        engine.close().await.expect("the store closes");
    });
}

#[test]
fn a_second_process_is_told_who_has_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = Embedded::open(dir.path(), Options::default()).expect("the first");
    let refused = Embedded::open(dir.path(), Options::default())
        .err()
        .expect("the second is refused");
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(
        refused.message().contains(&*dir.path().to_string_lossy()),
        "{refused}"
    );
    drop(first);
    Embedded::open(dir.path(), Options::default()).expect("the directory is free again");
}

#[test]
fn a_path_that_cannot_be_a_store_is_refused_in_words() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, "not a directory").expect("a file");
    for path in [
        file.clone(),
        file.join("below"),
        std::path::PathBuf::from("/proc/auxo"),
    ] {
        let refused = Embedded::open(&path, Options::default())
            .err()
            .expect("refused");
        assert!(
            refused.message().contains(&*path.to_string_lossy()),
            "{refused}"
        );
    }
    assert_eq!(std::fs::read(&file).expect("a file"), b"not a directory");
}

#[test]
fn a_wall_clock_behind_the_store_gives_rising_ids_and_tokens() {
    let disk = SimDisk::new();
    // Opened again, the steady clock goes on where it was; the wall clock is behind it.
    let at = |behind: u64| {
        let clock = ManualClock::at(START);
        clock.step_wall_back(Duration::from_secs(behind));
        let options = Options {
            clock: Some(clock),
            ..Options::default()
        };
        Embedded::on(Arc::new(disk.clone()), options).expect("the store opens")
    };
    run(async {
        let engine = at(0);
        push(&engine, 1).await.expect("a push");
        push(&engine, 1).await.expect("a push");
        let before = lease(&engine, 1).await.remove(0);
        engine.close().await.expect("the store closes");
        let engine = at(86_400);
        let after = lease(&engine, 1).await.remove(0);
        assert!(after.token.counter > before.token.counter);
        let pushed = engine
            .push(vec![job(1)])
            .await
            .expect("a push")
            .remove(0)
            .expect("a push");
        assert!(pushed.id > before.job.id.max(after.job.id));
        engine.close().await.expect("the store closes");
    });
}
