//! The workload finds nothing wrong with a good engine, and finds every planted bug, with real threads in real time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use auxo_conformance::ModelEngine;
use auxo_conformance::bench::run;
use auxo_conformance::broken::{Broken, Bug};
use auxo_conformance::checker::{FinalState, Kind, Outcome, Rules, Verdict, check};
use auxo_conformance::history::{Op, Phase, Recorder};
use auxo_conformance::workload::Workload;
use auxo_core::clock::ManualClock;
use auxo_core::engine::Engine;

/// The model's clock only moves by hand; this hand follows the real time.
fn in_real_time(clock: &ManualClock, work: impl FnOnce()) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = Instant::now();
            while !over.load(Ordering::Relaxed) {
                thread::park_timeout(Duration::from_millis(1));
                let passed = Duration::from_millis(last.elapsed().as_millis() as u64);
                last += passed;
                clock.advance(passed);
            }
        });
        work();
        over.store(true, Ordering::Relaxed);
    });
}

fn small(seed: u64) -> Workload {
    Workload {
        seed,
        producers: 2,
        workers: 3,
        ttr: Duration::from_millis(60),
        backlog: 60,
        pushes: 600,
        ..Workload::default()
    }
}

fn play(load: &Workload, bug: Option<Bug>, recorder: &Arc<Recorder>) -> Verdict {
    let clock = ManualClock::at(1_000_000);
    let model = ModelEngine::new(clock.clone());
    let engine: Arc<dyn Engine> = match bug {
        Some(bug) => Arc::new(Broken::new(model, bug)),
        None => Arc::new(model),
    };
    let never = AtomicBool::new(false);
    in_real_time(&clock, || {
        load.run(engine.clone(), recorder.clone(), &never);
    });
    let end = run(FinalState::read(&*engine)).expect("a listing");
    let rules = Rules {
        min_accepted: 400,
        ..Rules::default()
    };
    check(&recorder.history().expect("a history"), &end, &rules)
}

#[track_caller]
fn caught(bug: Bug, kind: Kind) {
    let verdict = play(&small(7), Some(bug), &Arc::new(Recorder::in_memory()));
    assert!(verdict.has(kind), "{bug:?}: {verdict}");
}

#[test]
fn a_good_engine_passes_and_every_operation_was_tried() {
    let recorder = Arc::new(Recorder::in_memory());
    let verdict = play(&small(1), None, &recorder);
    assert_eq!(verdict.outcome, Outcome::Pass, "{verdict}");
    assert!(verdict.counts.duplicated > 0, "{verdict}");
    let events = recorder.history().expect("a history").events;
    for op in Op::ALL {
        let fault = matches!(op, Op::Killed | Op::PowerCut);
        let tried = events.iter().any(|event| event.op == op);
        assert_eq!(tried, !fault, "{op:?}");
    }
    let refused = |op| {
        let refused = |event: &&auxo_conformance::history::Event| event.phase == Phase::Fail;
        events.iter().filter(refused).any(|event| event.op == op)
    };
    assert!(refused(Op::Ack), "no lease was lost");
    assert!(refused(Op::Push), "no key was taken");
}

#[test]
fn an_engine_that_does_not_check_tokens_is_caught() {
    caught(Bug::NoTokenCheck, Kind::Stale);
}

#[test]
fn an_engine_that_lends_a_job_twice_is_caught() {
    caught(Bug::DoubleLease(20), Kind::Overlap);
}

#[test]
fn an_engine_that_loses_a_push_is_caught() {
    caught(Bug::LosesPush(20), Kind::Lost);
}

#[test]
fn an_engine_that_delivers_early_is_caught() {
    caught(Bug::EarlyDelivery, Kind::Early);
}

#[test]
fn an_engine_that_forgets_an_ack_is_caught() {
    caught(Bug::ForgetsAck(20), Kind::Resurrected);
}

#[test]
fn lost_replies_accuse_nobody() {
    let recorder = Arc::new(Recorder::in_memory());
    let verdict = play(&small(5), Some(Bug::LostReply(10)), &recorder);
    assert_eq!(verdict.outcome, Outcome::Pass, "{verdict}");
    assert!(verdict.counts.recovered > 0, "{verdict}");
}

#[test]
fn a_stop_ends_an_endless_run() {
    let clock = ManualClock::at(1_000_000);
    let engine = Arc::new(ModelEngine::new(clock.clone()));
    let recorder = Arc::new(Recorder::in_memory());
    let load = Workload {
        pushes: u64::MAX,
        ..small(3)
    };
    let stop = AtomicBool::new(false);
    in_real_time(&clock, || {
        thread::scope(|scope| {
            scope.spawn(|| load.run(engine.clone(), recorder.clone(), &stop));
            while recorder.history().expect("a history").events.len() < 100 {
                thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    let end = run(FinalState::read(&*engine)).expect("a listing");
    let rules = Rules {
        min_accepted: 1,
        ..Rules::default()
    };
    let verdict = check(&recorder.history().expect("a history"), &end, &rules);
    assert_eq!(verdict.outcome, Outcome::Pass, "{verdict}");
}
