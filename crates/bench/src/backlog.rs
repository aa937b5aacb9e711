//! What do millions of waiting jobs cost? Memory, the time to open the store after its process was killed, speed beside an
//! empty store, and the disk space when all of them are done.

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use auxo_core::Engine;
use auxo_embedded::Sync;

use crate::drive::{Subject, ack, ask, block_on, jobs, lease_ack, push, queue, worker};
use crate::table::{Aim, Sample, Side, heading, print_columns, print_side, verdict};
use crate::{Plan, Result, host};

const BATCH: usize = 128;
/// How many jobs a round pushes and takes out again.
const ROUND: u64 = 200_000;
/// What the holding process says when it may be killed.
const READY: &str = "ready";
/// How long freed segments may take to be given back.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fills a store in another process, kills that, and lets a third one open and empty the store.
pub fn run(plan: &Plan) -> Result<()> {
    heading(&format!(
        "c. {} jobs waiting in one queue, batches of {BATCH}, {} in flight, sync = os",
        plan.backlog, plan.in_flight
    ));
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let mut holder = start(plan, "hold", dir.path())?;
    let out = holder.stdout.take().ok_or("the child has no output")?;
    let mut ready = false;
    for line in BufReader::new(out).lines() {
        let line = line?;
        if line == READY {
            ready = true;
            break;
        }
        println!("{line}");
    }
    holder.kill()?;
    holder.wait()?;
    if !ready {
        return Err("the process that holds the backlog gave up".into());
    }
    println!("  the process is killed (SIGKILL) and the store opened again:");
    let mut drainer = start(plan, "drain", dir.path())?;
    let mut report = String::new();
    if let Some(out) = &mut drainer.stdout {
        out.read_to_string(&mut report)?;
    }
    print!("{report}");
    match drainer.wait()?.success() {
        true => Ok(()),
        false => Err("the process that empties the backlog gave up".into()),
    }
}

fn start(plan: &Plan, part: &str, dir: &Path) -> Result<Child> {
    Ok(Command::new(std::env::current_exe()?)
        .args(plan.child(part, dir))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?)
}

/// Fills the store, weighs the process, compares with an empty store, and waits to be killed.
pub fn hold(plan: &Plan) -> Result<()> {
    let full = Subject::open(plan, &plan.dir.join("full"), Sync::Os)?;
    let filled = push_jobs(&full, plan.backlog, plan.in_flight)?;
    let mut fill = Side::new("filling");
    fill.samples.push(filled);
    print_columns();
    print_side(&fill);
    weigh("memory with the backlog")?;
    compare(plan, &full)?;
    println!("{READY}");
    std::io::stdout().flush()?;
    // Whoever started us kills us now; an end of the input means that they are gone.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Prints the memory of this process.
pub fn weigh(what: &str) -> Result<()> {
    let memory = host::resident()?;
    println!(
        "  {what}: {:.1} MB resident, of which anonymous {:.1} MB; peak {:.1} MB",
        mega(memory.now),
        mega(memory.anonymous),
        mega(memory.peak)
    );
    verdict(
        "resident memory",
        mega(memory.now),
        " MB",
        Aim::AtMost(100.0),
    );
    Ok(())
}

fn mega(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn compare(plan: &Plan, full: &Subject) -> Result<()> {
    let empty = Subject::open(plan, &plan.dir.join("empty"), Sync::Os)?;
    let count = ROUND.min(plan.backlog);
    let names = [
        "push, empty store",
        "push, with the backlog",
        "lease + ack, empty store",
        "lease + ack, with the backlog",
    ];
    let mut sides = names.map(Side::new);
    for round in 0..=plan.rounds {
        for turn in 0..2 {
            let with = (turn + round) % 2;
            let subject = [&empty, full][with];
            host::settle(&plan.dir)?;
            sides[with]
                .samples
                .push(push_jobs(subject, count, plan.in_flight)?);
            sides[2 + with]
                .samples
                .push(take_jobs(subject, count, plan.in_flight)?);
        }
    }
    for side in &mut sides {
        // The first round warms up.
        side.samples.remove(0);
        print_side(side);
    }
    verdict(
        "push, ratio",
        sides[1].ratio(&sides[0]),
        "",
        Aim::AtLeast(0.7),
    );
    verdict(
        "lease + ack, ratio",
        sides[3].ratio(&sides[2]),
        "",
        Aim::AtLeast(0.7),
    );
    block_on(async { Ok(empty.engine.close().await?) })
}

fn push_jobs(subject: &Subject, count: u64, tasks: usize) -> Result<Sample> {
    let name = queue("bench");
    let left = Rc::new(Cell::new(count));
    subject.run_jobs(count, tasks, move |engine| {
        // What others have under way counts, so that it is exactly as many as asked for.
        let batch = left.get().min(BATCH as u64);
        left.set(left.get() - batch);
        let name = name.clone();
        async move {
            match batch {
                0 => yield_now().await,
                _ => push(&engine, jobs(&name, batch as usize)).await,
            }
        }
    })
}

fn take_jobs(subject: &Subject, count: u64, tasks: usize) -> Result<Sample> {
    let (name, worker) = (queue("bench"), worker());
    let left = Rc::new(Cell::new(count));
    subject.run_jobs(count, tasks, move |engine| {
        let batch = left.get().min(BATCH as u64);
        left.set(left.get() - batch);
        let (name, worker) = (name.clone(), worker.clone());
        async move {
            match batch {
                0 => yield_now().await,
                _ => lease_ack(&engine, &name, batch as usize, &worker).await,
            }
        }
    })
}

/// Lets the others finish.
async fn yield_now() -> Result<u64> {
    tokio::task::yield_now().await;
    Ok(0)
}

/// Opens the store that a killed process left, and empties it.
pub fn drain(plan: &Plan) -> Result<()> {
    let begin = Instant::now();
    let subject = Subject::open(plan, &plan.dir.join("full"), Sync::Os)?;
    let opened = begin.elapsed();
    let (name, worker) = (queue("bench"), worker());
    let left = block_on(async {
        let engine = &subject.engine;
        let first = engine.lease(ask(&name, 1, Duration::ZERO, &worker)).await?;
        let leased = begin.elapsed();
        println!(
            "  open {:.0} ms, first lease after {:.0} ms",
            millis(opened),
            millis(leased)
        );
        verdict(
            "open to first lease",
            leased.as_secs_f64(),
            " s",
            Aim::AtMost(1.0),
        );
        if first.len() != 1 {
            return Err("the backlog is gone".into());
        }
        ack(engine, first).await?;
        let info = engine.queues(Some(vec![name.clone()])).await?;
        Ok(info.first().map_or(0, |info| info.counts.ready))
    })?;
    if left + 1 != plan.backlog {
        return Err(format!("{} of {} jobs are left", left + 1, plan.backlog).into());
    }
    let mut side = Side::new("lease + ack of all that is left");
    side.samples
        .push(take_jobs(&subject, left, plan.in_flight)?);
    print_columns();
    print_side(&side);
    weigh("memory when all is done")?;
    let aim = 3.0 * mega(plan.segment);
    let dir = plan.dir.join("full");
    let begin = Instant::now();
    while mega(host::disk_use(&dir)?) > aim && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    println!(
        "  disk space was free {:.1} s later",
        begin.elapsed().as_secs_f64()
    );
    verdict(
        "disk when all is acked",
        mega(host::disk_use(&dir)?),
        " MB",
        Aim::AtMost(aim),
    );
    block_on(async { Ok(subject.engine.close().await?) })
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
