//! The worker's stream of gRPC: jobs are pushed, delivered and settled in streams, beside bytes that only go there and back.

use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use auxo_proto::v1;
use auxo_proto::v1::jobs_client::JobsClient;
use auxo_proto::v1::workers_client::WorkersClient;
use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::spawn_local;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::served::Served;
use super::wait::{RATE, Times, arrived, medians, sorted};
use super::{Side, echo, load, on_wire, print_columns};
use crate::drive::PAYLOAD;
use crate::http::wire::Wire;
use crate::table::{Aim, heading, verdict};
use crate::{Plan, Result, host};

/// Connections of both sides; here each has a stream that pushes and one that works.
const CONNECTIONS: usize = 50;
/// Jobs of each connection that are under way.
const UNDER_WAY: usize = 20;
/// Bytes of a bare message, there and back.
const BARE: usize = 64;
/// Streams that wait for jobs that come one by one.
const WORKERS: usize = 16;
/// Streams that push these, in turn.
const PRODUCERS: u64 = 8;

/// Prints how many, and how soon.
pub fn run(plan: &Plan, dir: &Path) -> Result<()> {
    rates(plan, dir)?;
    latency(plan, dir)
}

fn rates(plan: &Plan, dir: &Path) -> Result<()> {
    heading(&format!(
        "grpc: jobs of {PAYLOAD} B pushed, delivered and settled in streams, {CONNECTIONS} connections, {UNDER_WAY} jobs of each under way"
    ));
    let echo = Served::echo(plan)?;
    let mut sides = [
        Side::new("bytes there and back"),
        Side::new("a job's life, sync = os"),
    ];
    for round in 0..plan.rounds {
        sides[0]
            .rounds
            .push(load(&echo, plan.span, CONNECTIONS, ping)?);
        let store = dir.join(format!("work-{round}"));
        let server = Served::auxo(plan, &store, "os")?;
        host::settle(dir)?;
        sides[1]
            .rounds
            .push(load(&server, plan.span, CONNECTIONS, circulate)?);
        drop(server);
        std::fs::remove_dir_all(store)?;
    }
    print_columns();
    sides.iter().for_each(Side::print);
    let [bytes, jobs] = sides;
    verdict(
        "jobs of round trips",
        jobs.ratio(&bytes),
        "",
        Aim::AtLeast(1.0),
    );
    Ok(())
}

async fn ping(address: SocketAddr, end: Instant) -> Result<u64> {
    let mut wire = Wire::connect(address).await?;
    wire.send(&echo::greeting(BARE, BARE)).await?;
    let mut trips = 0;
    while Instant::now() < end {
        wire.ping(&[b'.'; BARE], BARE).await?;
        trips += 1;
    }
    Ok(trips)
}

/// Pushes as many jobs as it settles, whoever pushed those; so there are as many under way all the time.
async fn circulate(address: SocketAddr, end: Instant) -> Result<u64> {
    let channel = connect(address).await?;
    let payload = Bytes::from(vec![b'x'; PAYLOAD]);
    let (push, mut pushed) = pushes(channel.clone(), vec![payload.clone(); UNDER_WAY]).await?;
    let (say, mut hear) = work(channel, UNDER_WAY).await?;
    let mut settled = 0;
    while Instant::now() < end {
        tokio::select! {
            message = pushed.message() => accepted(message?)?,
            message = hear.message() => {
                let message = message?.ok_or("the stream ended")?;
                let done = good(&message)?;
                settled += done as u64;
                if done > 0 {
                    push.send(request(vec![payload.clone(); done]))?;
                }
                if !message.jobs.is_empty() {
                    say.send(acks(&message.jobs))?;
                }
            }
        }
    }
    Ok(settled)
}

async fn connect(address: SocketAddr) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    Ok(endpoint.tcp_nodelay(true).connect().await?)
}

type Pushes = (
    UnboundedSender<v1::PushRequest>,
    Streaming<v1::PushResponse>,
);

/// A stream that pushes, beginning with these payloads.
async fn pushes(channel: Channel, first: Vec<Bytes>) -> Result<Pushes> {
    let (push, mut queue) = unbounded_channel();
    push.send(request(first))?;
    let messages = futures_util::stream::poll_fn(move |cx| queue.poll_recv(cx));
    let answers = JobsClient::new(channel).push_stream(messages).await?;
    Ok((push, answers.into_inner()))
}

type Work = (
    UnboundedSender<v1::WorkRequest>,
    Streaming<v1::WorkResponse>,
);

/// A stream that works on so many jobs at once.
async fn work(channel: Channel, credit: usize) -> Result<Work> {
    let (say, mut said) = unbounded_channel();
    say.send(v1::WorkRequest {
        start: Some(v1::work_request::Start {
            queues: vec!["bench".to_owned()],
            ..Default::default()
        }),
        credit: u32::try_from(credit)?,
        ..Default::default()
    })?;
    let messages = futures_util::stream::poll_fn(move |cx| said.poll_recv(cx));
    let hear = WorkersClient::new(channel).work(messages).await?;
    Ok((say, hear.into_inner()))
}

fn request(payloads: Vec<Bytes>) -> v1::PushRequest {
    let job = |payload| v1::NewJob {
        queue: "bench".to_owned(),
        spec: Some(v1::JobSpec {
            payload,
            ..Default::default()
        }),
    };
    v1::PushRequest {
        jobs: payloads.into_iter().map(job).collect(),
    }
}

/// Ends the leases of some jobs, and asks for as many others.
fn acks(jobs: &[v1::Leased]) -> v1::WorkRequest {
    let ack = |leased: &v1::Leased| v1::Settle {
        token: leased.token.clone(),
        outcome: Some(v1::settle::Outcome::Ack(v1::settle::Ack::default())),
    };
    v1::WorkRequest {
        credit: jobs.len() as u32,
        settle: jobs.iter().map(ack).collect(),
        ..Default::default()
    }
}

fn accepted(message: Option<v1::PushResponse>) -> Result<()> {
    let message = message.ok_or("the stream ended")?;
    for result in message.results {
        if let Some(v1::push_result::Result::Error(error)) = result.result {
            return Err(format!("a push was refused: {error:?}").into());
        }
    }
    Ok(())
}

/// How many settles a message answers for, all of them well.
fn good(message: &v1::WorkResponse) -> Result<usize> {
    for result in &message.settled {
        if let Some(v1::settle_result::Result::Error(error)) = &result.result {
            return Err(format!("a settle was refused: {error:?}").into());
        }
    }
    Ok(message.settled.len())
}

fn latency(plan: &Plan, dir: &Path) -> Result<()> {
    heading(&format!(
        "grpc: from push to handler, {RATE} jobs/s, {WORKERS} streams waiting, sync = os, {} rounds",
        plan.rounds
    ));
    let mut rounds = Vec::new();
    for round in 0..plan.rounds {
        let server = Served::auxo(plan, &dir.join(format!("soon-{round}")), "os")?;
        rounds.push(latency_once(plan, &server)?);
    }
    let part = medians(&rounds);
    println!("  p50 {:.2} ms, max {:.2} ms", part(0.5), part(1.0));
    verdict("p99", part(0.99), " ms", Aim::AtMost(3.0));
    Ok(())
}

/// From just before a push is sent until its job is there, both seen by the client.
fn latency_once(plan: &Plan, server: &Served) -> Result<Vec<f64>> {
    let count = (plan.idle.as_secs_f64() * f64::from(RATE)) as u64;
    let (times, zero, address) = (Times::default(), Instant::now(), server.address);
    let cpu = server.cpu()?;
    on_wire(async {
        let mut streams = Vec::new();
        for _ in 0..WORKERS {
            streams.push(work(connect(address).await?, 1).await?);
        }
        for (say, mut hear) in streams {
            let times = times.clone();
            spawn_local(async move {
                // The stream ends with the server.
                while let Ok(Some(message)) = hear.message().await {
                    for leased in &message.jobs {
                        let sent = leased.job.as_ref().map(|job| number(&job.payload));
                        let sent = Duration::from_nanos(sent.unwrap_or_default());
                        times
                            .borrow_mut()
                            .push((zero.elapsed() - sent).as_secs_f64());
                    }
                    if !message.jobs.is_empty() && say.send(acks(&message.jobs)).is_err() {
                        return;
                    }
                }
            });
        }
        let begin = tokio::time::Instant::now() + Duration::from_millis(200);
        let produce = Rc::new(move |producer: u64| async move {
            let gap = Duration::from_secs(1) / RATE;
            let mut jobs = JobsClient::new(connect(address).await?);
            for turn in (producer..count).step_by(PRODUCERS as usize) {
                tokio::time::sleep_until(begin + gap * turn as u32).await;
                let now = format!("{}", zero.elapsed().as_nanos());
                let answer = jobs.push(request(vec![now.into()])).await?;
                accepted(Some(answer.into_inner()))?;
            }
            Result::Ok(())
        });
        let running = (0..PRODUCERS).map(|producer| {
            let produce = produce.clone();
            spawn_local(async move { produce(producer).await.map_err(|error| error.to_string()) })
        });
        for task in running.collect::<Vec<_>>() {
            task.await??;
        }
        arrived(&times, count).await
    })?;
    let cpu = (server.cpu()? - cpu).as_secs_f64() * 1e6 / count as f64;
    println!("  server: {cpu:.0} us CPU per job (push, deliver, settle)");
    Ok(sorted(&times))
}

fn number(payload: &[u8]) -> u64 {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    text.parse().unwrap_or_default()
}
