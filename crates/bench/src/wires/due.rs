//! How soon a job reaches who waits for it, how late one that falls due, and what connections and jobs take of memory.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::task::spawn_local;

use super::below;
use super::peer::{Kind, Peer, Sync};
use super::tongue::Tongue;
use super::work::Talk;
use crate::http::{medians, on_wire};
use crate::table::{Aim, heading, verdict};
use crate::{Plan, Result};

/// Connections that wait for jobs.
const CONSUMERS: usize = 16;
/// Connections that put jobs, in turn.
const PRODUCERS: u64 = 8;
/// Jobs per second.
const RATE: u32 = 1_000;
/// Connections that do nothing.
const IDLE: usize = 9_000;
/// Jobs that wait.
const BACKLOG: usize = 1_000_000;

type Times = Rc<RefCell<Vec<f64>>>;

/// Prints how soon, and how late.
pub fn run(plan: &Plan, tongue: Tongue) -> Result<()> {
    let dir = below(plan)?;
    heading(&format!(
        "{tongue}: from put to taken, {RATE} jobs/s, {CONSUMERS} connections waiting, answered when written, {} rounds",
        plan.rounds
    ));
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        let place = dir.path().join(format!("soon-{round}"));
        let peer = Peer::start(plan, Kind::Auxo, tongue, &place, Sync::Written)?;
        rounds.push(soon(plan, &peer, tongue)?);
    }
    let part = medians(&rounds);
    verdict("p50", part(0.5) * 1e3, " us", Aim::AtMost(110.0));
    verdict("p99", part(0.99), " ms", Aim::AtMost(1.0));
    heading(&format!(
        "{tongue}: {} jobs that fall due within 10 s, {CONSUMERS} connections waiting, {} rounds",
        plan.due, plan.rounds
    ));
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        let place = dir.path().join(format!("due-{round}"));
        let peer = Peer::start(plan, Kind::Auxo, tongue, &place, Sync::Written)?;
        rounds.push(late(plan, &peer, tongue)?);
    }
    let early = rounds.iter().flatten().filter(|late| **late < 0.0).count();
    let part = medians(&rounds);
    println!("  p50 {:.2} ms, max {:.2} ms", part(0.5), part(1.0));
    verdict("p99", part(0.99), " ms", Aim::AtMost(2.0));
    verdict("handed out early", early as f64, "", Aim::AtMost(0.0));
    Ok(())
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
                    tongue.take(&mut talk.output);
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

/// Waits until all jobs have come.
async fn arrived(times: &Times, count: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(30);
    while (times.borrow().len() as u64) < count {
        if Instant::now() > end {
            return Err(format!("{} of {count} jobs came", times.borrow().len()).into());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

fn sorted(times: &Times) -> Vec<f64> {
    let mut sorted = times.take();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn wall() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
}

/// Prints what idle connections, and jobs that wait, take of memory.
pub fn weigh(plan: &Plan, sides: &[(Kind, Tongue); 2]) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let all = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, all)?;
    heading(&format!(
        "{}: memory of {IDLE} idle connections, and of {BACKLOG} waiting jobs of 100 B",
        sides[1].1
    ));
    let dir = below(plan)?;
    for (side, (kind, tongue)) in sides.iter().enumerate() {
        let place = dir.path().join(format!("weigh-{side}"));
        std::fs::create_dir_all(&place)?;
        let peer = Peer::start(plan, *kind, *tongue, &place, Sync::Written)?;
        let (of_connection, of_job) = on_wire(async {
            let mut talks = vec![Talk::connect(peer.address, *tongue).await?];
            let before = peer.resident()?;
            for _ in 0..IDLE {
                talks.push(Talk::connect(peer.address, *tongue).await?);
            }
            let connected = peer.resident()?;
            talks.truncate(1);
            let before_jobs = peer.resident()?;
            let talk = &mut talks[0];
            for batch in 0..BACKLOG / 100 {
                for place in 0..100 {
                    let mut payload = format!("{batch:x}-{place:x}-").into_bytes();
                    payload.resize(100, b'x');
                    tongue.put(&payload, 0, &mut talk.output);
                }
                talk.send().await?;
                talk.answers(100, |_, _| ()).await?;
            }
            Ok((
                connected.saturating_sub(before) as f64 / IDLE as f64 / 1024.0,
                peer.resident()?.saturating_sub(before_jobs) as f64 / BACKLOG as f64,
            ))
        })?;
        println!("  {kind:<12} {of_connection:>8.2} KiB a connection {of_job:>8.0} B a job");
    }
    Ok(())
}
