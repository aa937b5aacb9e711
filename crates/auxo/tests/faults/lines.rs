//! `auxo push --lines` through a server that goes away in the middle.

use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use auxo::core::Engine;
use auxo::core::engine::Query;

use crate::raw::ask;
use crate::server::{PATIENCE, Server};
use crate::shell;
use crate::started::Started;

const LINES: u64 = 12_000;
/// The input comes in this many parts, so that some is left when the server is killed.
const PARTS: u64 = 3;

/// `seq 1 LINES | auxo push q --lines …`, where each part but the first waits for a signal.
fn push(server: &Server, args: &[&str]) -> (Started, Sender<()>) {
    let (output, mut input) = std::io::pipe().unwrap();
    let mut command = shell::auxo();
    command
        .args(["push", "q", "--lines", "--server", &server.url()])
        .args(args)
        .stdin(output);
    let started = Started::new(command);
    let (next, told) = channel();
    std::thread::spawn(move || {
        for part in 0..PARTS {
            let (from, to) = (LINES * part / PARTS, LINES * (part + 1) / PARTS);
            let lines: String = (from + 1..=to).map(|line| format!("{line}\n")).collect();
            // A command that has given up does not read to the end.
            let _ = input.write_all(lines.as_bytes());
            // Who has let go of it waits for nothing.
            let _ = told.recv();
        }
    });
    (started, next)
}

/// Waits until so many lines are jobs.
async fn until_accepted(server: &Server, lines: u64) {
    let began = Instant::now();
    loop {
        let (_, queue) = ask(server.address, "GET", "/v1/queues/q", "").await;
        if queue["books"]["accepted"].as_u64() >= Some(lines) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{queue}");
    }
}

/// The payloads of all jobs, sorted.
async fn payloads(server: &Server) -> Vec<u64> {
    let client = server.client();
    let mut query = Query {
        limit: 1000,
        ..Query::default()
    };
    let mut all = Vec::new();
    loop {
        let page = client.list(query.clone()).await.unwrap();
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<u64>().unwrap();
        all.extend(page.jobs.iter().map(|job| number(&job.payload)));
        query.cursor = page.next;
        if query.cursor.is_none() {
            all.sort_unstable();
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_go_on_by_themselves_when_a_killed_server_is_back_and_none_is_lost_or_doubled() {
    let mut server = Server::start();
    let (mut command, next) = push(&server, &[]);
    for part in 1..PARTS {
        until_accepted(&server, LINES * part / PARTS - LINES / 6).await;
        server.kill();
        next.send(()).unwrap();
        command.says("the server is away; trying again for 1m");
        server.again();
        command.says("the server is back after ");
    }
    drop(next);
    let ran = command.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary = format!("{LINES} pushed, ");
    assert!(ran.out.starts_with(&summary), "{ran:?}");
    assert!(!ran.out.contains("there already"), "{ran:?}");
    let expected: Vec<u64> = (1..=LINES).collect();
    assert!(payloads(&server).await == expected, "lost or doubled");
    server.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_gave_up_says_how_to_go_on_and_what_was_there_is_not_doubled() {
    let mut server = Server::start();
    let (command, next) = push(&server, &["--patience", "100ms"]);
    until_accepted(&server, LINES / 6).await;
    server.kill();
    drop(next);
    let ran = command.finish();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains(" unanswered, "), "{ran:?}");
    let pushed: u64 = ran.out.split(' ').next().unwrap().parse().unwrap();
    let keys = ran.err.split("--keys ").nth(1).expect("what to do");
    let keys = keys.split(',').next().unwrap();
    server.again();
    let there = payloads(&server).await;
    assert!(there.len() as u64 >= pushed, "answered and missing");
    let (command, _) = push(&server, &["--keys", keys]);
    let ran = command.finish();
    assert_eq!(ran.code, 0, "{ran:?}");
    let summary = format!(
        "{} pushed, {} there already, ",
        LINES - there.len() as u64,
        there.len()
    );
    assert!(ran.out.starts_with(&summary), "{summary}: {ran:?}");
    let expected: Vec<u64> = (1..=LINES).collect();
    assert!(payloads(&server).await == expected, "lost or doubled");
    server.audit();
}
