//! What does the server cost over the wire it speaks on? The same client, the same number of connections, the same bytes:
//! once to a server that only sends bytes back, once to `auxo serve`.

pub mod echo;
mod grpc;
mod served;
mod wait;
mod wire;

pub(crate) use self::wait::{RATE, Times, arrived, medians, sorted, wall};

use std::future::Future;
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use self::served::Served;
use self::wire::{Wire, post, values};
use crate::drive::PAYLOAD;
use crate::host;
use crate::table::{Aim, heading, median, verdict};
use crate::{Plan, Result};

/// Connections of the single pushes and of the other side.
const CONNECTIONS: usize = 64;
/// Connections of the batches: enough to keep two cores busy.
const FEW: usize = 8;
/// Jobs in a batch.
const BATCH: usize = 100;

/// Prints the tables.
pub fn run(plan: &Plan) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    let pings = singles(plan, dir.path())?;
    let batch = batches(plan, dir.path(), pings)?;
    lines(plan, dir.path(), batch)
}

/// Prints how soon waiting leases are answered, and what they cost while they are not.
pub fn run_waiting(plan: &Plan) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    wait::latency(plan, dir.path())?;
    wait::lateness(plan, dir.path())?;
    wait::idle(plan, dir.path())
}

/// Prints what the worker's stream of gRPC does, which is served at the same address.
pub fn run_grpc(plan: &Plan) -> Result<()> {
    let dir = tempfile::tempdir_in(&plan.dir)?;
    grpc::run(plan, dir.path())
}

/// What one side did in one round.
struct Round {
    jobs: u64,
    wall: Duration,
    client: Duration,
    server: Duration,
}

/// One side over all rounds.
struct Side {
    name: &'static str,
    rounds: Vec<Round>,
}

impl Side {
    fn new(name: &'static str) -> Side {
        Side {
            name,
            rounds: Vec::new(),
        }
    }

    fn rate(&self) -> f64 {
        self.median(Round::rate)
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }

    fn ratio(&self, other: &Side) -> f64 {
        let pairs = self.rounds.iter().zip(&other.rounds);
        median(pairs.map(|(a, b)| a.rate() / b.rate()).collect())
    }

    fn print(&self) {
        let per_job = |time: Duration, jobs| time.as_secs_f64() * 1e6 / jobs as f64;
        println!(
            "  {:<44} {:>12.0} {:>14.2} {:>14.2}",
            self.name,
            self.rate(),
            self.median(|round| per_job(round.client, round.jobs)),
            self.median(|round| per_job(round.server, round.jobs)),
        );
    }
}

impl Round {
    fn rate(&self) -> f64 {
        self.jobs as f64 / self.wall.as_secs_f64()
    }
}

fn print_columns() {
    println!(
        "  {:<44} {:>12} {:>14} {:>14}",
        "side", "per second", "client us each", "server us each"
    );
}

/// Lets connections repeat a cycle for a while. A cycle answers how many jobs it did.
fn load<F, C>(served: &Served, span: Duration, connections: usize, cycle: C) -> Result<Round>
where
    C: Fn(SocketAddr, Instant) -> F + 'static,
    F: Future<Output = Result<u64>> + 'static,
{
    on_wire(async {
        let cycle = Rc::new(cycle);
        let (wall, client, server) = (Instant::now(), host::cpu(), served.cpu()?);
        let end = wall + span;
        let mut running = Vec::new();
        for _ in 0..connections {
            let work = cycle(served.address, end);
            running.push(tokio::task::spawn_local(async move {
                work.await.map_err(|error| error.to_string())
            }));
        }
        let mut jobs = 0;
        for task in running {
            jobs += task.await??;
        }
        Ok(Round {
            jobs,
            wall: wall.elapsed(),
            client: host::cpu() - client,
            server: served.cpu()? - server,
        })
    })
}

/// Runs a future, and what it spawns, on this thread, with sockets.
pub(crate) fn on_wire<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    tokio::task::LocalSet::new().block_on(&runtime, future)
}

fn payload() -> String {
    "x".repeat(PAYLOAD)
}

/// Pushes with one job each. Answers the round trips per second of the other side.
fn singles(plan: &Plan, dir: &std::path::Path) -> Result<Side> {
    heading(&format!(
        "http: pushes of one job of {PAYLOAD} B, {CONNECTIONS} kept connections"
    ));
    let request = Rc::new(post(
        "/v1/queues/bench/jobs",
        &format!("{{\"payload\":\"{}\"}}", payload()),
    ));
    let answer = length_of_answer(plan, dir, &request)?;
    let echo = Served::echo(plan)?;
    let mut sides = [
        Side::new("bytes there and back"),
        Side::new("push, sync = os"),
        Side::new("push, sync = always"),
    ];
    for round in 0..plan.rounds {
        let sent = request.clone();
        sides[0]
            .rounds
            .push(load(&echo, plan.span, CONNECTIONS, move |address, end| {
                let request = sent.clone();
                async move {
                    let mut wire = Wire::connect(address).await?;
                    wire.send(&echo::greeting(request.len(), answer)).await?;
                    let mut jobs = 0;
                    while Instant::now() < end {
                        wire.ping(&request, answer).await?;
                        jobs += 1;
                    }
                    Ok(jobs)
                }
            })?);
        for (side, sync) in [(1, "os"), (2, "always")] {
            let store = dir.join(format!("single-{sync}-{round}"));
            let server = Served::auxo(plan, &store, sync)?;
            host::settle(dir)?;
            let round = pushes(&server, plan.span, CONNECTIONS, &request)?;
            sides[side].rounds.push(round);
            drop(server);
            std::fs::remove_dir_all(store)?;
        }
    }
    print_columns();
    sides.iter().for_each(Side::print);
    let [pings, os, always] = sides;
    verdict("os of bytes", os.ratio(&pings), "", Aim::AtLeast(0.5));
    verdict("always of os", always.ratio(&os), "", Aim::AtLeast(0.5));
    Ok(pings)
}

/// Lets connections send a push again and again, and counts the jobs that are answered.
fn pushes(
    server: &Served,
    span: Duration,
    connections: usize,
    request: &Rc<Vec<u8>>,
) -> Result<Round> {
    let request = request.clone();
    load(server, span, connections, move |address, end| {
        let request = request.clone();
        async move {
            let mut wire = Wire::connect(address).await?;
            let mut jobs = 0;
            while Instant::now() < end {
                let reply = wire.ask(&request).await?;
                jobs += values(reply.good()?, "id").count() as u64;
            }
            Ok(jobs)
        }
    })
}

/// The length of the answer to such a request, so that both sides send as much.
fn length_of_answer(plan: &Plan, dir: &std::path::Path, request: &[u8]) -> Result<usize> {
    let server = Served::auxo(plan, &dir.join("length"), "os")?;
    on_wire(async {
        let mut wire = Wire::connect(server.address).await?;
        let reply = wire.ask(request).await?;
        reply.good()?;
        Ok(reply.length)
    })
}

/// Pushes, then leases and acks, in batches. Answers the pushes.
fn batches(plan: &Plan, dir: &std::path::Path, pings: Side) -> Result<Side> {
    heading(&format!(
        "http: batches of {BATCH} jobs of {PAYLOAD} B, {FEW} kept connections, sync = os"
    ));
    let job = format!("{{\"payload\":\"{}\"}}", payload());
    let body = format!("[{}]", vec![job; BATCH].join(","));
    let push = Rc::new(post("/v1/queues/bench/jobs", &body));
    let ask = format!("{{\"queues\":[\"bench\"],\"max\":{BATCH},\"wait\":\"0s\"}}");
    let lease = Rc::new(post("/v1/lease", &ask));
    let mut sides = [Side::new("push"), Side::new("lease + ack")];
    for round in 0..plan.rounds {
        let store = dir.join(format!("batch-{round}"));
        let server = Served::auxo(plan, &store, "os")?;
        host::settle(dir)?;
        let round = pushes(&server, plan.span, FEW, &push)?;
        sides[0].rounds.push(round);
        let sent = lease.clone();
        sides[1]
            .rounds
            .push(load(&server, plan.span, FEW, move |address, end| {
                let request = sent.clone();
                async move {
                    let mut wire = Wire::connect(address).await?;
                    let mut jobs = 0;
                    while Instant::now() < end {
                        let body = wire.ask(&request).await?.good()?;
                        let acks = acks(body);
                        if acks.1 == 0 {
                            break;
                        }
                        wire.ask(&acks.0).await?.good()?;
                        jobs += acks.1;
                    }
                    Ok(jobs)
                }
            })?);
        drop(server);
        std::fs::remove_dir_all(store)?;
    }
    print_columns();
    sides.iter().for_each(Side::print);
    let [push, work] = sides;
    let aim = || Aim::AtLeast(1.0);
    verdict("pushed jobs of round trips", push.ratio(&pings), "", aim());
    verdict("lease + ack of round trips", work.ratio(&pings), "", aim());
    Ok(push)
}

/// The request that acks everything in an answer to a lease, and how many that are.
fn acks(leased: &[u8]) -> (Vec<u8>, u64) {
    let mut body = String::from("[");
    let mut count = 0;
    for token in values(leased, "token") {
        let comma = if count > 0 { "," } else { "" };
        body.push_str(comma);
        body.push_str("{\"token\":\"");
        body.push_str(token);
        body.push_str("\",\"outcome\":\"ack\"}");
        count += 1;
    }
    body.push(']');
    (post("/v1/settle", &body), count)
}

/// `auxo push --lines` with a million short lines.
fn lines(plan: &Plan, dir: &std::path::Path, batch: Side) -> Result<()> {
    const LINES: u64 = 1_000_000;
    heading(&format!(
        "http: `auxo push --lines` of {LINES} lines of {PAYLOAD} B, sync = os"
    ));
    let mut input = tempfile::tempfile_in(dir)?;
    let mut text = std::io::BufWriter::new(&input);
    let line = format!("\"{}\"", payload());
    for _ in 0..LINES {
        writeln!(text, "{line}")?;
    }
    text.flush()?;
    drop(text);
    let mut sides = [
        Side::new("auxo push --lines"),
        Side::new("auxo push --lines --parallel 4"),
    ];
    for round in 0..plan.rounds {
        for (side, parallel) in sides.iter_mut().zip(["1", "4"]) {
            let store = dir.join(format!("lines-{parallel}-{round}"));
            let server = Served::auxo(plan, &store, "os")?;
            host::settle(dir)?;
            input.rewind()?;
            let (wall, cpu) = (Instant::now(), server.cpu()?);
            let children = host::cpu_of("self")?.children;
            let done = Command::new(plan.auxo()?)
                .args([
                    "push",
                    "lines",
                    "--lines",
                    "--parallel",
                    parallel,
                    "--server",
                ])
                .arg(format!("http://{}", server.address))
                .stdin(input.try_clone()?)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?;
            if !done.success() {
                return Err("auxo push --lines failed".into());
            }
            side.rounds.push(Round {
                jobs: LINES,
                wall: wall.elapsed(),
                client: host::cpu_of("self")?.children - children,
                server: server.cpu()? - cpu,
            });
            drop(server);
            std::fs::remove_dir_all(store)?;
        }
    }
    print_columns();
    for side in &sides {
        side.print();
    }
    for side in &sides {
        let ratio = side.ratio(&batch);
        verdict(
            &format!("{} of the batches", side.name),
            ratio,
            "",
            Aim::AtLeast(0.5),
        );
    }
    Ok(())
}
