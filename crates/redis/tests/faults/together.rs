//! Several processes on one Redis, and nothing goes wrong.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use auxo_conformance::checker::{FinalState, Outcome, Rules, check};
use auxo_conformance::history::Recorder;
use auxo_conformance::several::Several;
use auxo_conformance::workload::Workload;
use auxo_core::Engine;

use crate::load::{Load, Plan, open};
use crate::tale::judge;
use auxo_harness::redis::Server;

const MEMORY_ONLY: &str = "?durability=none";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_do_every_job_exactly_once() {
    exactly_once(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_do_every_job_exactly_once() {
    exactly_once(4).await;
}

async fn exactly_once(processes: usize) {
    let server = Server::start(&[]);
    let mut load = Load::start(Plan {
        urls: vec![server.url(MEMORY_ONLY); processes],
        queues: 1,
        ttr: Duration::from_secs(60),
        pace: None,
    })
    .await;
    load.progress(5000).await;
    load.drain().await;
    println!("{processes} processes:");
    let verdict = judge(&load, 5000).await;
    assert_eq!(load.failures(), (0, 0));
    let counts = verdict.counts;
    assert_eq!((counts.duplicated, counts.recovered), (0, 0));
    assert_eq!(counts.delivered, counts.acked);
}

/// Workers that fail, give back, bury, hang, vanish and come too late; producers that kick and cancel.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_keep_every_promise_whatever_workers_do() {
    let server = Server::start(&[]);
    let mut engines = Vec::new();
    for _ in 0..4 {
        engines.push(open(&server.url(MEMORY_ONLY)).await);
    }
    let all = engines
        .iter()
        .map(|engine| engine.clone() as Arc<dyn Engine>);
    let several = Arc::new(Several::new(all.collect()));
    let recorder = Arc::new(Recorder::in_memory());
    let load = Workload {
        workers: 8,
        pushes: 12_000,
        goes_on_when_unavailable: true,
        ..Workload::default()
    };
    let run = {
        let (several, recorder) = (several.clone(), recorder.clone());
        move || load.run(several, recorder, &AtomicBool::new(false))
    };
    tokio::task::spawn_blocking(run).await.expect("a run");
    until_nothing_is_leased(several.as_ref()).await;
    let history = recorder.history().expect("a history");
    let end = FinalState::read(several.as_ref()).await.expect("the end");
    // The shortest have 50 ms, which on a busy machine is not always enough for an answer.
    let late = engines.iter().map(|engine| engine.late_leases()).sum();
    let rules = Rules {
        dropped: late,
        ..Rules::default()
    };
    let verdict = check(&history, &end, &rules);
    println!(
        "4 processes, 4 producers, 8 workers; {late} leases over before their answer came: {verdict}"
    );
    assert_eq!(verdict.outcome, Outcome::Pass);
    let audit = several.audit().await.expect("an audit");
    assert_eq!(audit.problems, Vec::<String>::new());
}

/// The last leases run out by themselves. While they do, who walks over all jobs may miss one that goes from one place to
/// another.
async fn until_nothing_is_leased(engine: &dyn Engine) {
    loop {
        let queues = engine.queues(None).await.expect("the queues");
        if queues.iter().all(|queue| queue.counts.leased == 0) {
            return;
        }
    }
}
