//! How punctual are jobs that fall due, and how quiet is the engine while nothing does?

use std::time::{Duration, Instant};

use auxo_core::{Engine, JobSpec, NewJob, When};
use auxo_embedded::Sync;

use crate::drive::{Subject, ack, ask, block_on, queue, spec, worker};
use crate::table::{Aim, heading, verdict};
use crate::{Plan, Result, host};

const SPREAD: Duration = Duration::from_secs(10);
const MIB: f64 = (1 << 20) as f64;

/// Prints the figures.
pub fn run(plan: &Plan) -> Result<()> {
    punctuality(plan)?;
    rest(plan)
}

/// Jobs due at random instants, taken by one waiting worker as they come.
fn punctuality(plan: &Plan) -> Result<()> {
    heading(&format!(
        "d1. {} jobs due at random instants within 10 s, one waiting worker",
        plan.due
    ));
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let subject = Subject::open(plan, dir.path(), Sync::Os)?;
    let mut late = Vec::with_capacity(plan.due as usize);
    let mut early = 0;
    block_on(async {
        let mut dice = 0x2545_f491_4f6c_dd1d_u64;
        let mut due = Vec::new();
        let mut batch = Vec::new();
        for number in 0..plan.due {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            let delay = Duration::from_millis(1000 + dice % SPREAD.as_millis() as u64);
            let payload = number.to_le_bytes().to_vec().into();
            let spec = JobSpec {
                when: When::After(delay),
                payload,
                ..spec()
            };
            batch.push((
                NewJob {
                    queue: queue("q"),
                    spec,
                },
                delay,
            ));
            if batch.len() == 100 || number + 1 == plan.due {
                let (jobs, delays): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
                let asked = Instant::now();
                crate::drive::push(&subject.engine, jobs).await?;
                // The delay counts from some moment between these two.
                let answered = Instant::now();
                due.extend(
                    delays
                        .into_iter()
                        .map(|delay| (asked + delay, answered + delay)),
                );
            }
        }
        while late.len() < plan.due as usize {
            let leased = subject
                .engine
                .lease(ask(&queue("q"), 100, SPREAD, &worker()))
                .await?;
            let now = Instant::now();
            for one in &leased {
                let number = u64::from_le_bytes(one.job.payload[..8].try_into()?);
                let (first, last) = due[number as usize];
                early += u32::from(now < first);
                late.push(now.saturating_duration_since(last).as_secs_f64() * 1e3);
            }
            ack(&subject.engine, leased).await?;
        }
        Ok(())
    })?;
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize];
    println!(
        "  lateness: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms; {early} early",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    verdict("lateness p99", at(0.99), " ms", Aim::AtMost(2.0));
    verdict("early", f64::from(early), " jobs", Aim::AtMost(0.0));
    Ok(())
}

/// Jobs of the far future, in a process of its own.
fn rest(plan: &Plan) -> Result<()> {
    heading(&format!(
        "d2. {} jobs due in the far future, {} s of rest",
        plan.far,
        plan.idle.as_secs()
    ));
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let status = std::process::Command::new(std::env::current_exe()?)
        .args(plan.child("far", dir.path()))
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("the resting process failed".into())
    }
}

/// The process that has the jobs of the far future, and a worker that waits for them.
pub fn far(plan: &Plan) -> Result<()> {
    let subject = Subject::open(plan, &plan.dir, Sync::Os)?;
    subject.run_jobs(plan.far, plan.in_flight, |engine| async move {
        let day = Duration::from_secs(86_400);
        let far = |_| NewJob {
            queue: queue("q"),
            spec: JobSpec {
                when: When::After(day),
                ..spec()
            },
        };
        crate::drive::push(&engine, (0..100).map(far).collect()).await
    })?;
    block_on(async {
        // Sealing and indexing have their time first; then nothing should happen.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (cpu, began) = (host::cpu(), Instant::now());
        let leased = subject
            .engine
            .lease(ask(&queue("q"), 1, plan.idle, &worker()))
            .await?;
        assert!(leased.is_empty(), "nothing is due");
        let busy = (host::cpu() - cpu).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
        verdict("CPU at rest", busy, " % of a core", Aim::AtMost(0.5));
        let (all, _) = host::resident(std::process::id())?;
        verdict(
            "resident memory",
            all as f64 / MIB,
            " MiB",
            Aim::AtMost(100.0),
        );
        Ok(())
    })
}
