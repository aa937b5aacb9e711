//! Every planted bug is caught, and an engine without one is not accused.

use std::sync::Arc;
use std::time::Duration;

use auxo_conformance::ModelEngine;
use auxo_conformance::bench::{ack, asking, fail, ms, plain, queue, release, run, text};
use auxo_conformance::broken::{Broken, Bug};
use auxo_conformance::checker::{FinalState, Kind, Outcome, Rules, Verdict, check};
use auxo_conformance::history::Recorder;
use auxo_conformance::witness::Witness;
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Engine, Settle};
use auxo_core::job::Leased;
use auxo_core::time::When;
use auxo_core::{JobSpec, NewJob};

const TTR: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

/// Two workers and a producer, in turns, by a clock that is moved by hand.
struct Shop {
    clock: Arc<ManualClock>,
    producer: Witness,
    workers: [Witness; 2],
    /// Who will settle what, and after how many ticks.
    held: Vec<(usize, Leased, u32)>,
    leases: u32,
}

impl Shop {
    async fn push(&self, number: u64) {
        let when = match number % 3 {
            0 => When::After(ms(500)),
            _ => When::Now,
        };
        let spec = JobSpec {
            payload: text(&format!("payload {number}")),
            when,
            ttr: TTR,
            ..plain()
        };
        let queue = queue();
        let pushed = self.producer.push(vec![NewJob { queue, spec }]).await;
        pushed.expect("a batch").remove(0).expect("a push");
    }

    /// Each worker takes a job, everybody whose work is over settles, and time passes.
    async fn tick(&mut self) {
        for worker in [0, 1] {
            let ask = asking(&[queue()], 1, Duration::ZERO);
            for leased in self.workers[worker].lease(ask).await.expect("a lease") {
                self.leases += 1;
                // Some are so slow that they lose the lease and settle all the same.
                let slow = self.leases.is_multiple_of(7);
                let ticks = if slow { 15 } else { 2 };
                self.held.push((worker, leased, ticks));
            }
        }
        self.clock.advance(TICK);
        let mut held = Vec::new();
        for (worker, leased, ticks) in std::mem::take(&mut self.held) {
            match ticks - 1 {
                0 => self.settle(worker, leased).await,
                left => held.push((worker, leased, left)),
            }
        }
        self.held = held;
    }

    async fn settle(&self, worker: usize, leased: Leased) {
        let outcome = match leased.token.counter % 10 {
            3 => fail("no"),
            6 => release(),
            _ => ack(),
        };
        let token = leased.token;
        // A refusal is an answer too: the checker decides whether it was right.
        let _ = self.workers[worker].settle(Settle { token, outcome }).await;
    }
}

fn verdict(bug: Option<Bug>) -> Verdict {
    let clock = ManualClock::at(1_000_000);
    let model = ModelEngine::new(clock.clone());
    let engine: Arc<dyn Engine> = match bug {
        Some(bug) => Arc::new(Broken::new(model, bug)),
        None => Arc::new(model),
    };
    let recorder = Arc::new(Recorder::in_memory());
    let witness = |process| Witness::new(engine.clone(), recorder.clone(), process);
    let mut shop = Shop {
        clock,
        producer: witness(1),
        workers: [witness(2), witness(3)],
        held: Vec::new(),
        leases: 0,
    };
    run(async {
        for number in 0..60 {
            shop.push(number).await;
            shop.tick().await;
        }
        let end = FinalState::read(&*engine).await.expect("a listing");
        let rules = Rules {
            min_accepted: 60,
            ..Rules::default()
        };
        check(&recorder.history().expect("a history"), &end, &rules)
    })
}

#[track_caller]
fn caught(bug: Bug, kind: Kind) {
    let verdict = verdict(Some(bug));
    assert_eq!(verdict.outcome, Outcome::Violated);
    assert!(verdict.has(kind), "{verdict}");
}

#[test]
fn an_engine_without_a_bug_passes() {
    let verdict = verdict(None);
    assert_eq!(verdict.outcome, Outcome::Pass, "{verdict}");
    assert!(verdict.counts.duplicated > 0, "{verdict}");
}

#[test]
fn an_engine_that_does_not_check_tokens_is_caught() {
    caught(Bug::NoTokenCheck, Kind::Stale);
}

#[test]
fn an_engine_that_lends_a_job_twice_is_caught() {
    caught(Bug::DoubleLease(10), Kind::Overlap);
}

#[test]
fn an_engine_that_loses_a_push_is_caught() {
    caught(Bug::LosesPush(10), Kind::Lost);
}

#[test]
fn an_engine_that_delivers_early_is_caught() {
    caught(Bug::EarlyDelivery, Kind::Early);
}

#[test]
fn an_engine_that_forgets_an_ack_is_caught() {
    caught(Bug::ForgetsAck(10), Kind::Resurrected);
}
