//! A process under load is killed with -9 again and again, and a checker that knows every answer looks at what is left.
//!
//! `scripts/prove crash` does so more often. The process to be killed is this test itself, started again with
//! `AUXO_CRASH_DIR`; it reports progress through a pipe, and that tells the parent when to strike.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use auxo_conformance::bench::run;
use auxo_conformance::checker::{FinalState, Outcome, Rules, check};
use auxo_conformance::history::{History, Op, Recorder};
use auxo_conformance::rounds;
use auxo_conformance::workload::Workload;
use auxo_core::engine::Engine;
use auxo_embedded::{Embedded, Options};

const TEST: &str = "a_process_killed_at_any_moment_loses_nothing_and_repeats_nothing";
const ROUNDS: u64 = 50;

/// Small segments: some are sealed, checkpointed and recycled in every round.
fn open(dir: &Path) -> Embedded {
    let options = Options {
        segment_size: 256 << 10,
        ..Options::default()
    };
    Embedded::open(&dir.join("store"), options).expect("the store opens after a kill")
}

#[test]
fn a_process_killed_at_any_moment_loses_nothing_and_repeats_nothing() {
    match std::env::var_os("AUXO_CRASH_DIR") {
        Some(dir) => work_until_killed(PathBuf::from(dir)),
        None => kill_and_check(),
    }
}

fn work_until_killed(dir: PathBuf) {
    let engine = Arc::new(open(&dir));
    let recorder = Arc::new(Recorder::append_to(&dir.join("history")).expect("a history"));
    recorder.mark(Op::Killed);
    let mut notices = engine.watch();
    std::thread::spawn(move || {
        // One byte for each transition; how many there are does not matter, only that they come.
        while notices.blocking_recv().is_ok() {
            std::io::stdout()
                .write_all(b".")
                .expect("the parent listens");
            std::io::stdout().flush().expect("the parent listens");
        }
    });
    let load = Workload {
        seed: recorder.started(),
        ..Workload::default()
    };
    load.run(engine, recorder, &AtomicBool::new(false));
}

fn kill_and_check() {
    let rounds = rounds::or(ROUNDS);
    let dir = tempfile::tempdir().expect("a directory");
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..rounds {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        kill_after(dir.path(), 20 + dice % 1500);
        let engine = open(dir.path());
        let audit = run(engine.audit()).expect("an audit");
        assert_eq!(audit.problems, Vec::<String>::new(), "round {round}");
        run(engine.close()).expect("the store closes");
    }
    let history = History::read(&dir.path().join("history")).expect("a history");
    let engine = open(dir.path());
    let end = run(FinalState::read(&engine)).expect("everything that is left");
    let rules = Rules {
        min_accepted: 50 * rounds,
        min_restarts: rounds - 1,
        ..Rules::default()
    };
    let verdict = check(&history, &end, &rules);
    println!("{rounds} kills\n{verdict}");
    assert_eq!(verdict.outcome, Outcome::Pass);
}

/// Starts the load and kills its process when it has come this far.
fn kill_after(dir: &Path, transitions: u64) {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", TEST, "--nocapture"])
        .env("AUXO_CRASH_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process to be killed");
    let mut progress = child.stdout.take().expect("its output").take(transitions);
    std::io::copy(&mut progress, &mut std::io::sink()).expect("progress");
    child.kill().expect("a kill");
    child.wait().expect("a dead process");
}
