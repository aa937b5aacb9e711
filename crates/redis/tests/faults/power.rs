//! Redis loses power while its log is synced once a second: what was not on the disk is cut off its end.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use auxo_conformance::bench::{ack, asking, code, named, plain, secs};
use auxo_core::engine::Settle;
use auxo_core::{Code, Engine, NewJob};

use crate::load::{Load, Plan, open};
use crate::servers::Server;
use crate::tale::count;

const ROUNDS: usize = 3;
/// For how long Redis puts off writing while a sync is under way, in microseconds.
const PUT_OFF: u64 = 2_000_000;
const EVERY_SECOND: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "everysec"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_syncs_every_second_loses_only_what_was_answered_since() {
    let mut server = Server::start(&EVERY_SECOND);
    let url = server.url("?timeout=2s");
    let mut load = Load::start(Plan {
        urls: vec![url.clone(), url],
        queues: 1,
        ttr: Duration::from_secs(1),
        pace: Some(Duration::from_millis(4)),
    })
    .await;
    let mut windows = Vec::new();
    let mut answered_within = 0;
    for _ in 0..ROUNDS {
        load.progress(300).await;
        let synced = log_size(&server);
        let (since, before, began) = (last_event(&load), load.pushed(), Instant::now());
        load.progress(400).await;
        tokio::task::block_in_place(|| server.kill());
        let window = began.elapsed();
        windows.push((since, last_event(&load)));
        answered_within += load.pushed() - before;
        println!("cut off what was written in the last {window:?}");
        tokio::task::block_in_place(|| {
            cut(&server, synced);
            server.restart();
        });
        load.progress(20).await;
    }
    load.drain().await;
    let plain = count(&load).await;
    println!("{answered_within} pushes were answered in what was cut off");
    let inside = |at: &u64| {
        let mut windows = windows.iter();
        windows.any(|(from, to)| from - PUT_OFF < *at && at <= to)
    };
    assert!(plain.lost.iter().all(inside), "lost from before the cut");
    assert!(
        plain.resurrected.iter().all(inside),
        "an ack from before the cut was forgotten"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_redis_forgot_ends_nothing_though_its_number_is_given_again() {
    let mut server = Server::start(&EVERY_SECOND);
    let (first, second) = (
        open(&server.url("?timeout=2s")).await,
        open(&server.url("?timeout=2s")).await,
    );
    let queue = named("q");
    let job = NewJob {
        queue: queue.clone(),
        spec: plain(),
    };
    first.push(vec![job]).await.unwrap()[0].as_ref().unwrap();
    let kept = log_size(&server);
    let ask = || asking(std::slice::from_ref(&queue), 1, secs(30));
    let forgotten = first.lease(ask()).await.unwrap().remove(0).token;
    tokio::task::block_in_place(|| {
        server.kill();
        cut(&server, kept);
        server.restart();
    });
    let held = second.lease(ask()).await.unwrap().remove(0).token;
    assert_eq!((forgotten.job, forgotten.counter), (held.job, held.counter));
    let end = async |token| {
        let outcome = ack();
        let answers = first.settle(vec![Settle { token, outcome }]).await;
        answers.and_then(|mut answers| answers.remove(0))
    };
    // The first settle may find a connection that is not yet known to be gone.
    let mut refused = end(forgotten).await;
    if matches!(&refused, Err(error) if error.code() != Code::LeaseLost) {
        refused = end(forgotten).await;
    }
    assert_eq!(code(refused), Code::LeaseLost);
    assert_eq!(end(held).await.unwrap().id, held.job);
    assert_eq!(first.audit().await.unwrap().problems, Vec::<String>::new());
}

/// Where Redis writes its changes.
fn log(server: &Server) -> PathBuf {
    server.file("appendonlydir/appendonly.aof.1.incr.aof")
}

fn log_size(server: &Server) -> u64 {
    std::fs::metadata(log(server)).expect("a log").len()
}

/// Loses everything behind a place.
fn cut(server: &Server, size: u64) {
    assert!(log_size(server) > size, "there is nothing to lose");
    let file = OpenOptions::new().write(true).open(log(server));
    file.expect("a log").set_len(size).expect("a shorter log");
}

/// When something was last recorded.
fn last_event(load: &Load) -> u64 {
    let history = load.recorder.history().expect("a history");
    history.events.last().expect("an event").at
}
