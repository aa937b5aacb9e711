//! How soon a job reaches who waits for it, how late one that falls due, and what connections and jobs take of memory.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::spawn_local;

use super::peer::{Kind, Peer, Sync};
use super::tongue::Tongue;
use super::work::Talk;
use super::{Side, below};
use crate::http::{RATE, Times, arrived, medians, on_wire, sorted, wall};
use crate::table::{Aim, heading, verdict};
use crate::{Plan, Result};

/// Connections that wait for jobs.
const CONSUMERS: usize = 16;
/// Connections that put jobs, in turn.
const PRODUCERS: u64 = 8;
/// Connections that do nothing.
const IDLE: usize = 9_000;
/// Jobs that wait.
const BACKLOG: usize = 1_000_000;

/// Prints how soon, and how late.
pub fn run(plan: &Plan, sides: &[Side]) -> Result<()> {
    let dir = below(plan)?;
    run_soon(plan, &dir.path().join("soon"), sides)?;
    // Lists know no delay.
    let sides: Vec<Side> = sides
        .iter()
        .copied()
        .filter(|side| side.1 != Tongue::Lists)
        .collect();
    run_late(plan, &dir.path().join("due"), &sides)
}

fn run_soon(plan: &Plan, dir: &Path, sides: &[Side]) -> Result<()> {
    let title = format!(
        "{}: from put to taken, {RATE} jobs/s, {CONSUMERS} connections waiting, answered when written, {} rounds",
        sides[1].1, plan.rounds
    );
    if !title.contains(&plan.only) {
        return Ok(());
    }
    heading(&title);
    let rounds = in_turns(plan, dir, sides, soon)?;
    for ((kind, _), rounds) in sides.iter().zip(&rounds) {
        let part = medians(rounds);
        println!(
            "  {kind:<12} p50 {:>6.0} us, p99 {:.2} ms",
            part(0.5) * 1e3,
            part(0.99)
        );
    }
    let part = medians(&rounds[1]);
    verdict("p50", part(0.5) * 1e3, " us", Aim::AtMost(110.0));
    verdict("p99", part(0.99), " ms", Aim::AtMost(1.0));
    Ok(())
}

fn run_late(plan: &Plan, dir: &Path, sides: &[Side]) -> Result<()> {
    let title = format!(
        "{}: {} jobs that fall due within 10 s, {CONSUMERS} connections waiting, {} rounds",
        sides[0].1, plan.due, plan.rounds
    );
    if !title.contains(&plan.only) {
        return Ok(());
    }
    heading(&title);
    let rounds = in_turns(plan, dir, sides, late)?;
    for ((kind, _), rounds) in sides.iter().zip(&rounds) {
        let part = medians(rounds);
        let early = rounds.iter().flatten().filter(|late| **late < 0.0).count();
        println!(
            "  {kind:<12} p50 {:.2} ms, p99 {:.2} ms, max {:.2} ms",
            part(0.5),
            part(0.99),
            part(1.0)
        );
        if *kind == Kind::Auxo {
            verdict("p99", part(0.99), " ms", Aim::AtMost(2.0));
            verdict("handed out early", early as f64, "", Aim::AtMost(0.0));
        }
    }
    Ok(())
}

/// What is measured on one server.
type Measure = fn(&Plan, &Peer, Tongue) -> Result<Vec<f64>>;

/// The same on each side, one after the other, each time on a new store.
fn in_turns(
    plan: &Plan,
    dir: &Path,
    sides: &[Side],
    measure: Measure,
) -> Result<Vec<Vec<Vec<f64>>>> {
    let mut rounds = vec![Vec::new(); sides.len()];
    for round in 0..plan.rounds {
        for (side, (kind, tongue)) in sides.iter().enumerate() {
            let place = dir.join(format!("{side}-{round}"));
            std::fs::create_dir_all(&place)?;
            let peer = Peer::start(plan, *kind, *tongue, &place, Sync::Written)?;
            rounds[side].push(measure(plan, &peer, *tongue)?);
        }
    }
    Ok(rounds)
}

/// From just before a put is sent until the job is there, both seen by the client.
fn soon(plan: &Plan, peer: &Peer, tongue: Tongue) -> Result<Vec<f64>> {
    let count = (plan.idle.as_secs_f64() * f64::from(RATE)) as u64;
    let (times, zero) = (Times::default(), Instant::now());
    on_wire(async {
        let seen = times.clone();
        consume(peer.address, tongue, count, move |put| {
            let taken = zero.elapsed() - Duration::from_nanos(put);
            seen.borrow_mut().push(taken.as_secs_f64());
        });
        let gap = Duration::from_secs(1) / RATE;
        let begin = tokio::time::Instant::now() + Duration::from_millis(200);
        let mut running = Vec::new();
        for producer in 0..PRODUCERS {
            let address = peer.address;
            running.push(spawn_local(async move {
                let put = async {
                    let mut talk = Talk::connect(address, tongue).await?;
                    for turn in (producer..count).step_by(PRODUCERS as usize) {
                        tokio::time::sleep_until(begin + gap * turn as u32).await;
                        let payload = format!("{:0>20}", zero.elapsed().as_nanos());
                        tongue.put(payload.as_bytes(), 0, &mut talk.output);
                        talk.send().await?;
                        talk.answers(1, |_, _| ()).await?;
                    }
                    Result::Ok(())
                };
                put.await.map_err(|error| error.to_string())
            }));
        }
        for task in running {
            task.await??;
        }
        arrived(&times, count).await
    })?;
    Ok(sorted(&times))
}

/// How late jobs are whose delay, in whole seconds as the protocol has it, is over within ten seconds: they are put at even
/// distances, so they fall due at as many instants.
fn late(plan: &Plan, peer: &Peer, tongue: Tongue) -> Result<Vec<f64>> {
    let times = Times::default();
    on_wire(async {
        let seen = times.clone();
        consume(peer.address, tongue, plan.due, move |due| {
            let late = wall().as_secs_f64() - Duration::from_nanos(due).as_secs_f64();
            seen.borrow_mut().push(late);
        });
        let mut talk = Talk::connect(peer.address, tongue).await?;
        let gap = Duration::from_secs(10) / u32::try_from(plan.due)?;
        let begin = tokio::time::Instant::now();
        for turn in 0..plan.due {
            tokio::time::sleep_until(begin + gap * turn as u32).await;
            // From before it is sent: it cannot be due any earlier.
            let due = wall() + Duration::from_secs(2);
            let payload = format!("{:0>20}", due.as_nanos());
            tongue.put(payload.as_bytes(), 2, &mut talk.output);
            talk.send().await?;
            talk.answers(1, |_, _| ()).await?;
        }
        arrived(&times, plan.due).await
    })?;
    Ok(sorted(&times))
}

/// Connections that wait for jobs, tell the number in each, and end it.
fn consume(address: SocketAddr, tongue: Tongue, count: u64, told: impl Fn(u64) + 'static) {
    let (told, left) = (Rc::new(told), Rc::new(Cell::new(count)));
    for _ in 0..CONSUMERS {
        let (told, left) = (told.clone(), left.clone());
        spawn_local(async move {
            let worked: Result<()> = async {
                let mut talk = Talk::connect(address, tongue).await?;
                while left.get() > 0 {
                    tongue.wait(&mut talk.output);
                    talk.send().await?;
                    let (mut number, mut done) = (0, Vec::new());
                    talk.answers(1, |bytes, answer| {
                        let payload = &bytes[answer.payload.clone()];
                        number = std::str::from_utf8(payload).map_or(0, |n| n.parse().unwrap_or(0));
                        tongue.done(&bytes[answer.id], &mut done);
                    })
                    .await?;
                    told(number);
                    left.set(left.get().saturating_sub(1));
                    talk.output = done;
                    talk.send().await?;
                    talk.answers(1, |_, _| ()).await?;
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

/// Prints what idle connections, and jobs that wait, take of memory.
pub fn weigh(plan: &Plan, sides: &[Side]) -> Result<()> {
    let title = format!(
        "{}: memory of {IDLE} idle connections, and of {BACKLOG} waiting jobs of 100 B",
        sides[1].1
    );
    if !title.contains(&plan.only) {
        return Ok(());
    }
    heading(&title);
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, all)?;
    let dir = below(plan)?;
    for (side, (kind, tongue)) in sides.iter().enumerate() {
        // Each on a server of its own: what connections leave behind, jobs would take.
        let weigh = |what: &str| {
            let place = dir.path().join(format!("{what}-{side}"));
            std::fs::create_dir_all(&place)?;
            Peer::start(plan, *kind, *tongue, &place, Sync::Written)
        };
        let of_connection = of_connection(&weigh("connections")?, *tongue)?;
        let of_job = of_job(&weigh("jobs")?, *tongue)?;
        println!("  {kind:<12} {of_connection:>8.2} KiB a connection {of_job:>8.0} B a job");
    }
    Ok(())
}

fn of_connection(peer: &Peer, tongue: Tongue) -> Result<f64> {
    on_wire(async {
        let mut talks = vec![Talk::connect(peer.address, tongue).await?];
        let before = peer.resident()?;
        for _ in 0..IDLE {
            talks.push(Talk::connect(peer.address, tongue).await?);
        }
        let taken = peer.resident()?.saturating_sub(before);
        Ok(taken as f64 / IDLE as f64 / 1024.0)
    })
}

fn of_job(peer: &Peer, tongue: Tongue) -> Result<f64> {
    on_wire(async {
        let mut talk = Talk::connect(peer.address, tongue).await?;
        let before = peer.resident()?;
        for batch in 0..BACKLOG / 100 {
            for place in 0..100 {
                let mut payload = format!("{batch:x}-{place:x}-").into_bytes();
                payload.resize(100, b'x');
                tongue.put(&payload, 0, &mut talk.output);
            }
            talk.send().await?;
            talk.answers(100, |_, _| ()).await?;
        }
        let taken = peer.resident()?.saturating_sub(before);
        Ok(taken as f64 / BACKLOG as f64)
    })
}
