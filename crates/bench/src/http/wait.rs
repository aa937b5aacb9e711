//! Leases that wait: how soon they are answered, and what it costs while they are not.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::spawn_local;

use super::served::Served;
use super::wire::{Wire, post};
use super::{acks, on_wire};
use crate::dice::Dice;
use crate::table::{Aim, heading, median, verdict};
use crate::{Plan, Result};

/// Connections that wait for jobs.
const CONSUMERS: usize = 16;
/// Connections that push, in turn.
const PRODUCERS: usize = 8;
/// Jobs per second.
pub(crate) const RATE: u32 = 1_000;
/// Leases that wait while nothing happens.
const WAITING: usize = 10_000;

/// Seconds, each of one job.
pub(crate) type Times = Rc<RefCell<Vec<f64>>>;

/// From just before a push is sent until the leased job is there, both seen by the client.
pub fn latency(plan: &Plan, dir: &Path) -> Result<()> {
    for sync in ["os", "always"] {
        heading(&format!(
            "http: from push to leased, {RATE} jobs/s, {CONSUMERS} leases waiting, sync = {sync}, {} rounds",
            plan.rounds
        ));
        let mut rounds = Vec::new();
        for round in 0..plan.rounds {
            let store = dir.join(format!("latency-{sync}-{round}"));
            rounds.push(latency_once(plan, &store, sync)?);
        }
        let part = medians(&rounds);
        verdict("p50", part(0.5), " ms", Aim::AtMost(0.5));
        verdict("p99", part(0.99), " ms", Aim::AtMost(3.0));
        println!("  max: {:.2} ms", part(1.0));
    }
    Ok(())
}

fn latency_once(plan: &Plan, store: &Path, sync: &str) -> Result<Vec<f64>> {
    let server = Served::auxo(plan, store, sync)?;
    let count = (plan.idle.as_secs_f64() * f64::from(RATE)) as u64;
    let times = Times::default();
    let cpu = server.cpu()?;
    let zero = Instant::now();
    on_wire(async {
        let seen = times.clone();
        consume(&server, count, move |pushed| {
            let pushed = Duration::from_nanos(pushed);
            seen.borrow_mut()
                .push((zero.elapsed() - pushed).as_secs_f64());
        });
        produce(&server, count, zero).await?;
        arrived(&times, count).await
    })?;
    let cpu = (server.cpu()? - cpu).as_secs_f64() * 1e6 / count as f64;
    println!("  server: {cpu:.0} us CPU per job (push, lease, ack)");
    Ok(sorted(&times))
}

/// How late jobs are that are due at random instants within ten seconds.
pub fn lateness(plan: &Plan, dir: &Path) -> Result<()> {
    heading(&format!(
        "http: {} jobs due at random instants within 10 s, {CONSUMERS} leases waiting, sync = os, {} rounds",
        plan.due, plan.rounds
    ));
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        rounds.push(lateness_once(plan, &dir.join(format!("lateness-{round}")))?);
    }
    let early = rounds.iter().flatten().filter(|late| **late < 0.0).count();
    let part = medians(&rounds);
    println!("  p50 {:.2} ms, max {:.2} ms", part(0.5), part(1.0));
    verdict("p99", part(0.99), " ms", Aim::AtMost(10.0));
    verdict("handed out early", early as f64, "", Aim::AtMost(0.0));
    Ok(())
}

fn lateness_once(plan: &Plan, store: &Path) -> Result<Vec<f64>> {
    let server = Served::auxo(plan, store, "os")?;
    let times = Times::default();
    on_wire(async {
        let begin = wall().as_millis() as u64 + 2_000;
        let mut dice = Dice(7);
        let mut wire = Wire::connect(server.address).await?;
        let mut left = plan.due;
        while left > 0 {
            let batch = left.min(100);
            let jobs = (0..batch).map(|_| {
                let due = begin + dice.below(10_000);
                format!("{{\"payload\":{},\"run_at\":{due}}}", due * 1_000_000)
            });
            let body = format!("[{}]", jobs.collect::<Vec<_>>().join(","));
            wire.ask(&post("/v1/queues/bench/jobs", &body))
                .await?
                .good()?;
            left -= batch;
        }
        let seen = times.clone();
        consume(&server, plan.due, move |due| {
            let late = wall().as_secs_f64() - Duration::from_nanos(due).as_secs_f64();
            seen.borrow_mut().push(late);
        });
        arrived(&times, plan.due).await
    })?;
    Ok(sorted(&times))
}

/// What many waiting leases cost.
pub fn idle(plan: &Plan, dir: &Path) -> Result<()> {
    heading(&format!("http: {WAITING} leases that wait"));
    let limit = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            ..limit
        },
    )?;
    let server = Served::auxo(plan, &dir.join("idle"), "os")?;
    on_wire(async {
        let before = server.resident()?;
        let wait = plan.idle.as_secs() + 50;
        let ask = format!("{{\"queues\":[\"idle\"],\"wait\":\"{wait}s\"}}");
        let ask = post("/v1/lease", &ask);
        // As many as the server takes, less one for the push below.
        let mut other = Wire::connect(server.address).await?;
        let mut wires = Vec::new();
        for _ in 1..WAITING {
            let mut wire = Wire::connect(server.address).await?;
            wire.send(&ask).await?;
            wires.push(wire);
            if wires.len() == 1 {
                // The others must not overtake it.
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
        // What the connecting left to be done is not what is measured here.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let (cpu, begin) = (server.cpu()?, Instant::now());
        tokio::time::sleep(plan.idle).await;
        let share = (server.cpu()? - cpu).as_secs_f64() / begin.elapsed().as_secs_f64();
        verdict("CPU", share * 100.0, " % of a core", Aim::AtMost(1.0));
        let each = (server.resident()?.saturating_sub(before)) as f64 / WAITING as f64 / 1024.0;
        verdict("memory of each", each, " KiB", Aim::AtMost(32.0));
        // The one that waits longest has the job.
        let push = post("/v1/queues/idle/jobs", "{\"payload\":1}");
        let (sent, first) = (Instant::now(), &mut wires[0]);
        other.ask(&push).await?.good()?;
        let leased = first.reply().await?;
        if acks(leased.good()?).1 != 1 {
            return Err("the first to wait did not get the job".into());
        }
        println!(
            "  a push reaches the first of them in {:.2} ms",
            sent.elapsed().as_secs_f64() * 1e3
        );
        Ok(())
    })
}

/// Connections that wait for jobs, tell the number in each, and ack it.
fn consume(server: &Served, count: u64, told: impl Fn(u64) + 'static) {
    let told = Rc::new(told);
    let address = server.address;
    let left = Rc::new(std::cell::Cell::new(count));
    for _ in 0..CONSUMERS {
        let (told, left) = (told.clone(), left.clone());
        spawn_local(async move {
            let ask = post("/v1/lease", "{\"queues\":[\"bench\"],\"wait\":\"30s\"}");
            let worked: Result<()> = async {
                let mut wire = Wire::connect(address).await?;
                while left.get() > 0 {
                    let body = wire.ask(&ask).await?.good()?;
                    let Some(number) = number(body) else { continue };
                    told(number);
                    left.set(left.get() - 1);
                    let (acks, _) = acks(body);
                    wire.ask(&acks).await?.good()?;
                }
                Ok(())
            }
            .await;
            if let Err(error) = worked {
                eprintln!("a consumer failed: {error}");
            }
        });
    }
}

/// Pushes at an even rate; each payload is the time of its push.
async fn produce(server: &Served, count: u64, zero: Instant) -> Result<()> {
    let gap = Duration::from_secs(1) / RATE;
    let begin = tokio::time::Instant::now() + Duration::from_millis(200);
    let mut running = Vec::new();
    for producer in 0..PRODUCERS as u64 {
        let address = server.address;
        running.push(spawn_local(async move {
            let pushed: Result<()> = async {
                let mut wire = Wire::connect(address).await?;
                for turn in (producer..count).step_by(PRODUCERS) {
                    tokio::time::sleep_until(begin + gap * turn as u32).await;
                    let body = format!("{{\"payload\":{}}}", zero.elapsed().as_nanos());
                    let request = post("/v1/queues/bench/jobs", &body);
                    wire.ask(&request).await?.good()?;
                }
                Ok(())
            }
            .await;
            pushed.map_err(|error| error.to_string())
        }));
    }
    for task in running {
        task.await??;
    }
    Ok(())
}

/// Waits until all jobs have come.
pub(crate) async fn arrived(times: &Times, count: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    while (times.borrow().len() as u64) < count {
        if Instant::now() > end {
            return Err(format!("{} of {count} jobs came", times.borrow().len()).into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// The payload of the first job of an answer, a number.
fn number(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("\"payload\":")?;
    let end = rest.find(|byte: char| !byte.is_ascii_digit())?;
    rest[..end].parse().ok()
}

pub(crate) fn sorted(times: &Times) -> Vec<f64> {
    let mut sorted = times.take();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// A share of the times of a round in milliseconds, the median over the rounds.
pub(crate) fn medians(rounds: &[Vec<f64>]) -> impl Fn(f64) -> f64 {
    move |share| {
        let of = |times: &Vec<f64>| times[((times.len() - 1) as f64 * share) as usize] * 1e3;
        median(rounds.iter().map(of).collect())
    }
}

pub(crate) fn wall() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
