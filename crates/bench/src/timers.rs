//! How punctual are due jobs, and how quiet is the engine while nothing is due?

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use auxo_core::{Engine, JobSpec, NewJob, QueueName, Timestamp, When};
use auxo_embedded::Sync;

use crate::dice::Dice;
use crate::drive::{Subject, ack, ask, block_on, push, queue, spec, worker};
use crate::table::{Aim, heading, verdict};
use crate::{Plan, Result, host};

/// The time within which the jobs fall due.
const WITHIN: u64 = 10_000;
/// How long before the first one they are all pushed.
const AHEAD: u64 = 1_000;
const WORKERS: usize = 4;
const BATCH: usize = 128;

/// Prints how late jobs were handed out, and what an engine with nothing due costs.
pub fn run(plan: &Plan) -> Result<()> {
    heading(&format!(
        "d1. {} jobs due at random instants within {} s, {WORKERS} workers waiting, sync = os",
        plan.due,
        WITHIN / 1000
    ));
    punctuality(plan)?;
    heading(&format!(
        "d2. {} jobs due in an hour to a week, one worker waiting, watched for {} s, sync = os",
        plan.far,
        plan.idle.as_secs_f64()
    ));
    let dir = tempfile::tempdir_in(&plan.dir)?;
    // A process of its own, so that nothing else is weighed.
    let status = Command::new(std::env::current_exe()?)
        .args(plan.child("far", dir.path()))
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err("the process with the far jobs gave up".into()),
    }
}

fn punctuality(plan: &Plan) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let subject = Subject::open(plan, dir.path(), Sync::Os)?;
    let name = queue("bench");
    let mut dice = Dice(7);
    let begin = wall().as_millis() as u64 + AHEAD;
    let due: Vec<NewJob> = (0..plan.due)
        .map(|_| at(&name, Timestamp(begin + dice.below(WITHIN))))
        .collect();
    let mut late = block_on(async {
        for batch in due.chunks(BATCH) {
            push(&subject.engine, batch.to_vec()).await?;
        }
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let (engine, name) = (subject.engine.clone(), name.clone());
            workers.push(tokio::task::spawn_local(async move {
                let (worker, wait) = (worker(), Duration::from_millis(WITHIN + 3 * AHEAD));
                let mut late = Vec::new();
                loop {
                    let leased = engine.lease(ask(&name, BATCH, wait, &worker)).await;
                    let now = wall();
                    let leased = leased.map_err(|error| error.to_string())?;
                    if leased.is_empty() {
                        return Ok::<_, String>(late);
                    }
                    for one in &leased {
                        let due = Duration::from_millis(one.job.run_at.0);
                        late.push(now.as_secs_f64() - due.as_secs_f64());
                    }
                    ack(&engine, leased)
                        .await
                        .map_err(|error| error.to_string())?;
                }
            }));
        }
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.await??);
        }
        Ok(all)
    })?;
    if late.len() as u64 != plan.due {
        return Err(format!("{} of {} jobs came", late.len(), plan.due).into());
    }
    late.sort_by(f64::total_cmp);
    let part = |share: f64| late[((late.len() - 1) as f64 * share) as usize] * 1e3;
    let early = late.iter().filter(|late| **late < 0.0).count();
    println!(
        "  lateness: p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
        part(0.5),
        part(0.99),
        part(1.0)
    );
    verdict("p99", part(0.99), " ms", Aim::AtMost(2.0));
    verdict("handed out early", early as f64, "", Aim::AtMost(0.0));
    Ok(())
}

/// Pushes jobs that are due far in the future, and watches the engine do nothing.
pub fn far(plan: &Plan) -> Result<()> {
    let subject = Subject::open(plan, &plan.dir.join("far"), Sync::Os)?;
    let name = queue("bench");
    let begin = wall().as_millis() as u64 + 3_600_000;
    let (mut dice, mut left) = (Dice(7), plan.far);
    block_on(async {
        while left > 0 {
            let batch = left.min(BATCH as u64);
            let jobs = (0..batch)
                .map(|_| at(&name, Timestamp(begin + dice.below(7 * 86_400_000))))
                .collect();
            push(&subject.engine, jobs).await?;
            left -= batch;
        }
        let waiting = subject.engine.clone();
        let request = ask(&name, 1, plan.idle + Duration::from_secs(60), &worker());
        let waiter = tokio::task::spawn_local(async move { waiting.lease(request).await });
        // What the pushes left to be done is not what is measured here.
        tokio::time::sleep(Duration::from_secs(3)).await;
        let (cpu, begin) = (host::cpu(), Instant::now());
        tokio::time::sleep(plan.idle).await;
        let share = (host::cpu() - cpu).as_secs_f64() / begin.elapsed().as_secs_f64();
        waiter.abort();
        verdict(
            "CPU while idle",
            share * 100.0,
            " % of a core",
            Aim::AtMost(0.5),
        );
        crate::backlog::weigh("memory")
    })
}

fn at(queue: &QueueName, at: Timestamp) -> NewJob {
    NewJob {
        queue: queue.clone(),
        spec: JobSpec {
            when: When::At(at),
            ..spec()
        },
    }
}

fn wall() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
