//! A queue's rate with 32 clients, over a clean restart and a `kill -9`, by the store's own lease times.
//!
//! `scripts/prove rates` takes longer. The process to be killed is this test itself, started again with `AUXO_RATE_DIR`; it
//! writes a byte for each lease, and that tells the parent when to strike.

use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use auxo_conformance::rate;
use auxo_core::Engine;
use auxo_core::life::Event;
use auxo_embedded::{Embedded, Options};
use tokio::sync::broadcast::error::RecvError;

const TEST: &str = "a_rate_holds_in_every_window_over_a_restart_and_a_kill";

fn open(dir: &Path) -> Arc<Embedded> {
    let options = Options {
        // Checkpoints come in between.
        segment_size: 256 << 10,
        ..Options::default()
    };
    Arc::new(Embedded::open(dir, options).expect("the store opens"))
}

fn run<T>(case: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(case)
}

async fn lease(engine: &Arc<Embedded>, leases: usize) {
    let engine: Arc<dyn Engine> = engine.clone();
    rate::lease(&[engine], leases).await;
}

#[test]
fn a_rate_holds_in_every_window_over_a_restart_and_a_kill() {
    if let Some(dir) = std::env::var_os("AUXO_RATE_DIR") {
        return lease_until_killed(&PathBuf::from(dir));
    }
    for rate in rate::rates() {
        let dir = tempfile::tempdir().expect("a directory");
        let part = rate::part(rate);
        run(async {
            let engine = open(dir.path());
            // Twice as many as are needed: a process goes on until it is killed.
            rate::prepare(&*engine, rate, 8).await;
            lease(&engine, rate.burst as usize + part).await;
            engine.close().await.expect("the store closes");
        });
        run(async {
            let engine = open(dir.path());
            lease(&engine, part).await;
            engine.close().await.expect("the store closes");
        });
        kill_after(dir.path(), part as u64);
        run(async {
            let engine = open(dir.path());
            lease(&engine, part).await;
            let leases = rate::check(&*engine, rate).await;
            println!(
                "{} a second: {leases} leases, no window over the rate",
                rate.count
            );
            // A process that is killed may have told of leases that it had not written yet: nobody has those.
            assert!(leases >= rate.burst as usize + 3 * part, "{leases} leases");
        });
    }
}

fn lease_until_killed(dir: &Path) {
    run(async {
        let engine = open(dir);
        let mut notices = engine.watch();
        std::thread::spawn(move || {
            loop {
                match notices.blocking_recv() {
                    Ok(notice) if notice.event == Event::Lease => {
                        let mut out = std::io::stdout();
                        let said = out.write_all(b".").and_then(|()| out.flush());
                        said.expect("the parent listens");
                    }
                    // What it missed only makes the parent wait a little longer.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        });
        // More than there are jobs: the parent ends it.
        lease(&engine, usize::MAX).await;
    });
}

/// Starts the load in a process of its own, and kills it when it has made so many leases.
fn kill_after(dir: &Path, leases: u64) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", TEST, "--nocapture", "--quiet"])
        .env("AUXO_RATE_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process to be killed");
    let output = child.stdout.take().expect("its output");
    let made = BufReader::new(output).bytes().map_while(Result::ok);
    // The test's own words have none before the first lease.
    let made = made.filter(|byte| *byte == b'.').take(leases as usize);
    assert_eq!(made.count() as u64, leases, "the process ended early");
    child.kill().expect("a kill");
    child.wait().expect("a dead process");
}
