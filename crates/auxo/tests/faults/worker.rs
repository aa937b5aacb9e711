//! A process of its own that pushes, leases and settles through several servers in turn, and can be killed.
//!
//! It is the test itself, started again. Before each call it tells the test what it is about to do, and afterwards what came of
//! it, and goes on when the test has written that down: so one history has the order of what all of them saw.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use auxo::Remote;
use auxo::core::Engine;
use auxo_conformance::history::{Event, Op, Phase, Recorder};
use auxo_conformance::several::Several;
use auxo_conformance::workload::Workload;
use tokio::sync::watch;

use crate::server::PATIENCE;

/// The servers, in a process that was started to use them, and its first number in the history.
const SERVERS: &str = "AUXO_FAULTS_SERVERS";
const NUMBER: &str = "AUXO_FAULTS_NUMBER";
/// What its events begin with; the test harness prints lines of its own.
const EVENT: &str = "event: ";
/// How many numbers a process may use up.
const NUMBERS: u32 = 10_000;
/// Shorter than a client's patience, so that it does not send a push again by itself: such a try would be in no history.
const KEY_WINDOW: Duration = Duration::from_secs(5);

/// The processes, and what they tell.
pub struct Crew {
    test: &'static str,
    servers: String,
    workers: Vec<Worker>,
    started: AtomicU32,
    floor: Arc<Floor>,
}

/// What those share who listen to them.
struct Floor {
    recorder: Arc<Recorder>,
    over: AtomicBool,
    /// How many jobs were pushed and how many were acked, as far as answers tell.
    pushed: watch::Sender<u64>,
    acked: watch::Sender<u64>,
}

struct Worker {
    child: Child,
    listener: JoinHandle<()>,
}

impl Crew {
    /// Starts so many processes that use these servers.
    pub fn start(test: &'static str, servers: &[String], size: usize) -> Crew {
        let mut crew = Crew {
            test,
            servers: servers.join(","),
            workers: Vec::new(),
            started: AtomicU32::new(0),
            floor: Arc::new(Floor {
                recorder: Arc::new(Recorder::in_memory()),
                over: AtomicBool::new(false),
                pushed: watch::Sender::new(0),
                acked: watch::Sender::new(0),
            }),
        };
        crew.workers = (0..size).map(|_| crew.another()).collect();
        crew
    }

    fn another(&self) -> Worker {
        let number = 1 + self.started.fetch_add(1, Relaxed) * NUMBERS;
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", self.test, "--nocapture"])
            .env(SERVERS, &self.servers)
            .env(NUMBER, number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (told, go) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        let floor = self.floor.clone();
        let listener = std::thread::spawn(move || listen(told, go, &floor));
        Worker { child, listener }
    }

    /// Kills one with -9, and puts another in its place.
    pub fn replace(&mut self, place: usize) {
        let another = self.another();
        let mut worker = std::mem::replace(&mut self.workers[place], another);
        worker.child.kill().unwrap();
        worker.end();
    }

    /// Waits for so many more jobs that are pushed and so many that are acked.
    pub async fn progress(&self, jobs: u64) {
        for counter in [&self.floor.pushed, &self.floor.acked] {
            let mut seen = counter.subscribe();
            let target = *seen.borrow() + jobs;
            let reached = seen.wait_for(|count| *count >= target);
            let reached = tokio::time::timeout(PATIENCE, reached).await;
            reached.expect("the work goes on").unwrap();
        }
    }

    /// A server was killed, and is up again.
    pub fn killed(&self) {
        self.floor.recorder.mark(Op::Killed);
    }

    /// Lets everybody finish what was begun.
    pub fn stop(self) -> Arc<Recorder> {
        self.floor.over.store(true, Relaxed);
        self.workers.into_iter().for_each(Worker::end);
        self.floor.recorder.clone()
    }
}

impl Worker {
    fn end(mut self) {
        self.listener.join().unwrap();
        self.child.wait().unwrap();
    }
}

/// Writes down what a process tells, until it is gone.
fn listen(told: ChildStdout, mut go: ChildStdin, floor: &Floor) {
    for line in BufReader::new(told).lines() {
        // The harness may have printed the beginning of the line.
        let Some(event) = line.as_ref().ok().and_then(|line| line.split_once(EVENT)) else {
            continue;
        };
        let event: Event = event.1.parse().unwrap();
        match (event.op, event.phase) {
            (Op::Push, Phase::Ok) => floor.pushed.send_modify(|count| *count += 1),
            (Op::Ack, Phase::Ok) => floor.acked.send_modify(|count| *count += 1),
            _ => {}
        }
        floor.recorder.answer(event);
        let word = match floor.over.load(Relaxed) {
            true => "stop",
            false => "go",
        };
        // It may have been killed meanwhile.
        let _ = writeln!(go, "{word}");
    }
}

/// In a process that was started to use servers: does so until it is told to stop.
pub async fn is_one() -> bool {
    let Ok(servers) = std::env::var(SERVERS) else {
        return false;
    };
    let number: u32 = std::env::var(NUMBER).unwrap().parse().unwrap();
    let remote = |url: &str| -> Arc<dyn Engine> { Arc::new(Remote::new(url).unwrap()) };
    let several = Arc::new(Several::new(servers.split(',').map(remote).collect()));
    let stop = Arc::new(AtomicBool::new(false));
    let mut first = number;
    // A run ends when a server is away.
    while !stop.load(Relaxed) {
        let load = Workload {
            seed: first.into(),
            first,
            producers: 1,
            workers: 1,
            key_window: KEY_WINDOW,
            backlog: 20,
            ..Workload::default()
        };
        let told = stop.clone();
        let recorder = Recorder::handing_to(move |event| tell(event, &told));
        tokio::task::block_in_place(|| load.run(several.clone(), Arc::new(recorder), &stop));
        first += load.producers + load.workers;
        assert!(first < number + NUMBERS, "all numbers are used up");
    }
    true
}

/// Tells the test of an event, and waits until it is written down.
fn tell(event: &Event, stop: &AtomicBool) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{EVENT}{event}").expect("the test listens");
    out.flush().expect("the test listens");
    let mut word = String::new();
    std::io::stdin().read_line(&mut word).expect("a word");
    if word.trim() != "go" {
        stop.store(true, Relaxed);
    }
}
