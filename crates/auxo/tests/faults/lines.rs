//! `auxo push --lines` through a server that goes away in the middle.

use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use auxo::core::Engine;
use auxo::core::engine::Query;
use serde_json::Value;

use crate::raw::ask;
use crate::server::{PATIENCE, Server};
use auxo_harness::command::{self, Ran};
use auxo_harness::proxy::{Lane, Plan, Proxy};
use auxo_harness::started::Started;

const LINES: u64 = 12_000;
/// The input comes in this many parts, so that some is left when the server is killed.
const PARTS: u64 = 3;

/// `seq 1 LINES | auxo push q --lines …`, where each part but the first waits for a signal.
fn push(server: &Server, args: &[&str]) -> (Started, Sender<()>) {
    let (output, mut input) = std::io::pipe().unwrap();
    let mut command = command::auxo();
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
    let mut all = in_their_order(server).await;
    all.sort_unstable();
    all
}

/// The payloads of all jobs, in the order of the jobs.
async fn in_their_order(server: &Server) -> Vec<u64> {
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
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_go_on_by_themselves_when_a_killed_server_is_back_and_none_is_lost_or_doubled() {
    let mut server = Server::start();
    let (mut command, next) = push(&server, &[]);
    for part in 1..PARTS {
        // The first batch of the part; the others are still to come.
        until_accepted(&server, LINES * (part - 1) / PARTS + 1).await;
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
    let there = in_their_order(&server).await;
    assert!(there == expected, "lost, doubled or out of order");
    server.audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_on_a_server_that_answers_at_once_keep_their_order() {
    let server = Server::with(&["--sync", "os"]);
    let (command, next) = push(&server, &[]);
    drop(next);
    assert_eq!(command.finish().code, 0);
    let there = in_their_order(&server).await;
    let wrong: Vec<_> = there.windows(2).filter(|two| two[0] > two[1]).collect();
    assert!(wrong.is_empty(), "out of order: {wrong:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_gave_up_says_how_to_go_on_and_what_was_there_is_not_doubled() {
    let mut server = Server::start();
    let (command, next) = push(&server, &["--patience", "100ms"]);
    until_accepted(&server, 1).await;
    server.kill();
    drop(next);
    let ran = command.finish();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains(" unanswered, "), "{ran:?}");
    let pushed: u64 = ran.out.split(' ').next().unwrap().parse().unwrap();
    server.again();
    let there = payloads(&server).await;
    assert!(there.len() as u64 >= pushed, "answered and missing");
    let (command, _) = push(&server, &["--keys", keys(&ran)]);
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

/// Pushes through a network that treats each connection, counted from 1, as `plan` says.
async fn push_through(
    server: &Server,
    plan: impl Fn(u32) -> Plan + Send + 'static,
    args: &[&str],
    input: &str,
) -> Ran {
    let mut connections = 0;
    let plan = move || {
        connections += 1;
        plan(connections)
    };
    let proxy = Proxy::new(server.address, plan).await;
    let mut command = command::auxo();
    let url = format!("http://{}", proxy.address);
    command.args(["push", "q", "--server", &url]).args(args);
    command::finish(command, input.as_bytes())
}

/// As often as the client tries by itself.
const TRIES: u32 = 4;

fn resets_at(bytes: Option<usize>) -> Lane {
    Lane {
        reset_at: bytes,
        ..Lane::default()
    }
}

/// Pushes through a network that loses the first answers.
async fn push_unheard(server: &Server, args: &[&str], input: &str) -> Ran {
    let plan = |connection| Plan {
        down: resets_at((connection <= TRIES).then_some(0)),
        ..Plan::default()
    };
    push_through(server, plan, args, input).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_whose_answers_got_lost_count_as_pushed_and_those_with_keys_of_their_own_are_named() {
    let server = Server::start();
    let ran = push_unheard(&server, &["--lines"], "1\n2\n").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("2 pushed, "), "{ran:?}");
    assert!(!ran.out.contains("there already"), "{ran:?}");
    assert!(ran.err.contains("the server is away"), "{ran:?}");
    let objects = "{\"payload\":3}\n{\"payload\":4,\"key\":\"mine\"}\n";
    let ran = push_unheard(&server, &["--objects"], objects).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.starts_with("1 pushed, 1 refused, "), "{ran:?}");
    assert!(ran.err.contains("line 2: duplicate_key: "), "{ran:?}");
    assert!(ran.err.contains("perhaps by this line itself"), "{ran:?}");
    assert_eq!(payloads(&server).await, [1, 2, 3, 4]);
}

const FAT: u64 = 1000;

/// Pushes one batch that the client cuts into three requests, through a network that breaks within the second.
async fn push_fat(server: &Server, args: &[&str]) -> Ran {
    let value = "v".repeat(900);
    let headers: Vec<String> = (0..12).map(|n| format!("--header=h{n}={value}")).collect();
    let headers = headers.iter().map(String::as_str);
    let args: Vec<&str> = args.iter().copied().chain(headers).collect();
    let plan = |connection| Plan {
        up: resets_at(match connection {
            // A request has at most 4 MiB.
            1 => Some(6 << 20),
            connection => (connection <= TRIES).then_some(0),
        }),
        ..Plan::default()
    };
    let lines: String = (1..=FAT).map(|line| format!("{line}\n")).collect();
    push_through(server, plan, &args, &lines).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_batch_that_was_answered_in_part_the_rest_is_pushed_again() {
    let server = Server::start();
    let ran = push_fat(&server, &["--lines"]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.starts_with("1000 pushed, "), "{ran:?}");
    assert!(!ran.out.contains("there already"), "{ran:?}");
    assert!(ran.err.contains("the server is away"), "{ran:?}");
    assert!(ran.err.contains("the server is back"), "{ran:?}");
    let expected: Vec<u64> = (1..=FAT).collect();
    assert!(payloads(&server).await == expected, "lost or doubled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_batch_that_was_answered_in_part_the_rest_is_unanswered_when_patience_ends() {
    let server = Server::start();
    let ran = push_fat(&server, &["--lines", "--json", "--patience", "0s"]).await;
    assert_eq!(ran.code, 1, "{ran:?}");
    let summary: Value = serde_json::from_str(ran.out.lines().next().unwrap()).unwrap();
    let pushed = summary["pushed"].as_u64().unwrap();
    assert!((1..FAT).contains(&pushed), "{summary}");
    assert_eq!(summary["refused"], 0, "{summary}");
    assert_eq!(summary["unanswered"], FAT - pushed, "{summary}");
    assert!(ran.err.contains("--keys lines-"), "{ran:?}");
    let message = format!("lines {} to {FAT}: ", pushed + 1);
    assert!(ran.err.contains(&message), "{ran:?}");
}

/// The prefix that a command said to go on with.
fn keys(ran: &Ran) -> &str {
    let keys = ran.err.split("--keys ").nth(1);
    let keys = keys.unwrap_or_else(|| panic!("it does not say how to go on: {ran:?}"));
    keys.split(',').next().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_are_interrupted_say_how_to_go_on_and_none_is_doubled() {
    for signal in ["INT", "TERM"] {
        let server = Server::start();
        let (command, next) = push(&server, &[]);
        until_accepted(&server, LINES / PARTS).await;
        command.signal(signal);
        let ran = command.finish();
        drop(next);
        assert_eq!(ran.code, 1, "{ran:?}");
        assert!(ran.out.starts_with("4000 pushed, "), "{ran:?}");
        assert!(ran.err.contains("lines 1 to 4000 are"), "{ran:?}");
        let (command, _) = push(&server, &["--keys", keys(&ran)]);
        let ran = command.finish();
        assert_eq!(ran.code, 0, "{ran:?}");
        let summary = "8000 pushed, 4000 there already, ";
        assert!(ran.out.starts_with(summary), "{ran:?}");
        let expected: Vec<u64> = (1..=LINES).collect();
        assert!(payloads(&server).await == expected, "lost or doubled");
    }
}

/// A command that tries again to push its second part, and was told to end.
async fn interrupted_while_away() -> (Started, Sender<()>) {
    let mut server = Server::start();
    let (mut command, next) = push(&server, &[]);
    until_accepted(&server, LINES / PARTS).await;
    server.kill();
    next.send(()).unwrap();
    command.says("the server is away");
    command.signal("INT");
    command.says("a second signal ends at once");
    (command, next)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_away_is_waited_for_only_a_moment_after_a_signal() {
    let (command, _next) = interrupted_while_away().await;
    let ran = command.finish();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains("took too long"), "{ran:?}");
    assert!(ran.out.contains(" unanswered, "), "{ran:?}");
    assert!(keys(&ran).starts_with("lines-"), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_does_not_wait_for_a_server_that_is_away() {
    let (command, _next) = interrupted_while_away().await;
    command.signal("INT");
    let ran = command.finish();
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(!ran.err.contains("took too long"), "{ran:?}");
    assert!(ran.out.contains(" unanswered, "), "{ran:?}");
    assert!(keys(&ran).starts_with("lines-"), "{ran:?}");
}
