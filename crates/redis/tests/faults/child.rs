//! A process of its own that uses the store: it can be killed, and its clock can be wrong.
//!
//! It is the test itself, started again. It does what it is told line by line, and answers each with one.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use auxo_conformance::bench::{ack, asking, later, named};
use auxo_core::engine::Settle;
use auxo_core::{Engine, NewJob};
use auxo_redis::RedisEngine;

use crate::load::open;

/// Where the store is, in a process that was started to use it.
const STORE: &str = "AUXO_FAULTS_STORE";
/// What answers begin with; the test harness prints lines of its own.
const ANSWER: &str = "answer: ";

/// A process that was started.
pub struct Process {
    child: Child,
    /// Until there are no more.
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this test again, as a process whose clock is right.
    pub fn start(test: &str, url: &str) -> Process {
        let exe = std::env::current_exe().expect("this test");
        Process::run(Command::new(exe), test, url)
    }

    /// Starts this test again with a clock that is wrong by so much, such as `+1h`.
    pub fn start_at(by: &str, test: &str, url: &str) -> Process {
        let mut command = Command::new("faketime");
        // Time that passes is right; only the clock on the wall is not.
        command.args(["--exclude-monotonic", "-f", by]);
        command.arg(std::env::current_exe().expect("this test"));
        Process::run(command, test, url)
    }

    fn run(mut command: Command, test: &str, url: &str) -> Process {
        let name = command.get_program().to_string_lossy().into_owned();
        command
            .args(["--exact", test, "--nocapture"])
            .env(STORE, url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let started = command.spawn();
        let mut child = started.unwrap_or_else(|error| {
            panic!("cannot start {name}: {error}. Install the package faketime, if it is that")
        });
        Process {
            orders: child.stdin.take(),
            answers: BufReader::new(child.stdout.take().expect("its output")).lines(),
            child,
        }
    }

    /// Tells it what to do.
    pub fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("its input");
        writeln!(orders, "{order}").expect("a process that listens");
    }

    /// The next answer, as numbers.
    pub fn answer(&mut self) -> Vec<u64> {
        let mut lines = self.answers.by_ref().map(|line| line.expect("a line"));
        let answer = lines.find_map(|line| {
            // The harness may have printed the beginning of the line.
            let (_, answer) = line.split_once(ANSWER)?;
            Some(answer.to_owned())
        });
        let answer = answer.expect("an answer");
        let numbers = answer.split_whitespace();
        numbers
            .map(|word| word.parse().expect("a number"))
            .collect()
    }

    /// Tells it what to do, and waits until it is done.
    pub fn ask(&mut self, order: &str) -> Vec<u64> {
        self.order(order);
        self.answer()
    }

    /// Kills it with -9.
    pub fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a dead process");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It ends when nobody tells it anything any more; but after a failure it may be busy.
        self.orders = None;
        if std::thread::panicking() {
            let _ = self.child.kill();
        }
        self.answers.by_ref().for_each(drop);
        let _ = self.child.wait();
    }
}

/// In a process that was started to use the store: does so until nobody tells it anything any more.
pub async fn is_one() -> bool {
    let Ok(url) = std::env::var(STORE) else {
        return false;
    };
    let engine = open(&url).await;
    let mut orders = std::io::stdin().lines();
    while let Some(Ok(order)) = tokio::task::block_in_place(|| orders.next()) {
        let words: Vec<&str> = order.split(' ').collect();
        let numbers = match words.as_slice() {
            ["clock"] => vec![wall()],
            ["push", queue, delay] => vec![push(&engine, queue, millis(delay)).await],
            ["take", queue, wait] => take(&engine, queue, millis(wait), false).await,
            ["work", queue, wait] => take(&engine, queue, millis(wait), true).await,
            _ => panic!("no such order: {order}"),
        };
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        println!("{ANSWER}{}", words.join(" "));
    }
    true
}

/// What the clock on the wall shows here.
pub fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a time after 1970").as_millis() as u64
}

fn millis(word: &str) -> Duration {
    Duration::from_millis(word.parse().expect("a number"))
}

/// Pushes a job. When it is due.
pub async fn push(engine: &RedisEngine, queue: &str, delay: Duration) -> u64 {
    let (queue, spec) = (named(queue), later(delay));
    let answers = engine.push(vec![NewJob { queue, spec }]).await.unwrap();
    answers[0].as_ref().unwrap().run_at.0
}

/// Waits for a job, and acks it if told. Nothing, or when it was granted, when it was due, and which attempt it is. A job that
/// is not acked is held for a second.
pub async fn take(engine: &RedisEngine, queue: &str, wait: Duration, done: bool) -> Vec<u64> {
    let ttr = Duration::from_secs(1);
    let mut ask = asking(&[named(queue)], 1, wait);
    ask.ttr = Some(ttr);
    let Some(leased) = engine.lease(ask).await.unwrap().pop() else {
        return Vec::new();
    };
    if done {
        let (token, outcome) = (leased.token, ack());
        let answers = engine
            .settle(vec![Settle { token, outcome }])
            .await
            .unwrap();
        answers[0].as_ref().unwrap();
    }
    let granted = leased.deadline.minus(ttr).0;
    vec![granted, leased.job.run_at.0, u64::from(leased.job.attempt)]
}
