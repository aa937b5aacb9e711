//! What do millions of waiting jobs cost? Memory while they wait, the restart after a kill, the speed of what goes on beside
//! them, and the disk that is left when all are done.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use auxo_core::Engine;
use auxo_embedded::Sync;

use crate::drive::{Subject, ask, block_on, jobs, lease_ack, push, queue, worker};
use crate::table::{Aim, Sample, heading, median, verdict};
use crate::{Plan, Result, host};

const BATCH: usize = 128;
const MIB: f64 = (1 << 20) as f64;

/// Prints the figures. The backlog is held by another process, so that it can be killed.
pub fn run(plan: &Plan) -> Result<()> {
    heading(&format!(
        "c. a backlog of {} jobs of 100 B, batches of {BATCH}, sync = os",
        plan.backlog
    ));
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let store = dir.path().join("store");
    let mut holder = Command::new(std::env::current_exe()?)
        .args(plan.child("hold", &store))
        .stdout(Stdio::piped())
        .stdin(Stdio::piped())
        .spawn()?;
    let mut output = BufReader::new(holder.stdout.take().ok_or("no output")?);
    let mut line = String::new();
    while output.read_line(&mut line)? > 0 && line.trim() != "held" {
        print!("{line}");
        line.clear();
    }
    let (all, own) = host::resident(holder.id())?;
    verdict(
        "resident memory with the backlog",
        all as f64 / MIB,
        " MiB",
        Aim::AtMost(100.0),
    );
    println!(
        "  of which the process asked for: {:.1} MiB",
        own as f64 / MIB
    );
    holder.kill()?;
    holder.wait()?;
    reopen(plan, &store)
}

/// Opens the store after the kill, takes a job, then all of them.
fn reopen(plan: &Plan, store: &Path) -> Result<()> {
    let began = Instant::now();
    let subject = Subject::open(plan, store, Sync::Os)?;
    let first = block_on(async {
        Ok(subject
            .engine
            .lease(ask(&queue("q"), 1, Duration::ZERO, &worker()))
            .await?)
    })?;
    verdict(
        "open after kill -9, to the first lease",
        began.elapsed().as_secs_f64(),
        " s",
        Aim::AtMost(1.0),
    );
    block_on(crate::drive::ack(&subject.engine, first))?;
    let left = block_on(async { Ok(subject.engine.queues(None).await?[0].counts.ready) })?;
    let drained = subject.run_jobs(left, plan.in_flight, drain_batch)?;
    println!(
        "  drained {} jobs at {:.0} jobs/s",
        drained.jobs,
        drained.rate()
    );
    block_on(async { Ok(subject.engine.close().await?) })?;
    let segments = host::disk_use(store)? as f64 / plan.segment as f64;
    verdict(
        "disk when all is acked",
        segments,
        " segments",
        Aim::AtMost(3.0),
    );
    Ok(())
}

async fn drain_batch(engine: std::sync::Arc<auxo_embedded::Embedded>) -> Result<u64> {
    let leased = engine
        .lease(ask(&queue("q"), BATCH, Duration::ZERO, &worker()))
        .await?;
    // Who finds nothing waits for the others to finish the last batches.
    crate::drive::ack(&engine, leased).await
}

/// The process that holds the backlog, until it is killed.
pub fn hold(plan: &Plan) -> Result<()> {
    let subject = Subject::open(plan, &plan.dir, Sync::Os)?;
    let some = (plan.backlog / 20).clamp(10_000, 500_000);
    let empty = rates(plan, &subject, some)?;
    let filled = subject.run_jobs(plan.backlog, plan.in_flight, |engine| async move {
        push(&engine, jobs(&queue("q"), BATCH)).await
    })?;
    println!(
        "  filled at {:.0} jobs/s, {:.1} CPU us/job",
        filled.rate(),
        filled.cpu.as_secs_f64() * 1e6 / filled.jobs as f64
    );
    let full = rates(plan, &subject, some)?;
    for (name, before, after) in [("push", empty.0, full.0), ("lease + ack", empty.1, full.1)] {
        println!("  {name}: {before:.0} jobs/s without the backlog, {after:.0} with it");
        verdict(
            &format!("{name} with the backlog"),
            after / before,
            " of without",
            Aim::AtLeast(0.7),
        );
    }
    println!("held");
    // Until the parent has weighed and killed this process.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The rates of pushing and of leasing and acking so many jobs, the median of the rounds.
fn rates(plan: &Plan, subject: &Subject, some: u64) -> Result<(f64, f64)> {
    let mut rounds = (Vec::new(), Vec::new());
    for _ in 0..plan.rounds {
        let pushed = subject.run_jobs(some, plan.in_flight, |engine| async move {
            push(&engine, jobs(&queue("q"), BATCH)).await
        })?;
        let taken = subject.run_jobs(some, plan.in_flight, |engine| async move {
            lease_ack(&engine, &queue("q"), BATCH, &worker()).await
        })?;
        rounds.0.push(Sample::rate(&pushed));
        rounds.1.push(Sample::rate(&taken));
    }
    Ok((median(rounds.0), median(rounds.1)))
}
