//! `auxo bench`

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use auxo::core::engine::{Outcome, Settle};
use auxo::core::job::NewJob;
use auxo::core::text;
use auxo::{Auxo, Code, Error, JobSpec, Limits, QueueName, Sync};
use serde_json::json;
use tokio::task::JoinSet;

use super::args;
use super::context::Context;
use super::failure::Failure;
use super::output::Output;

const EXAMPLES: &str = "\
Examples:
  auxo bench --data ./bench-data
  auxo bench --data ./bench-data --jobs 1000000 --batch 100 --sync interval:50ms
  auxo bench --data ./bench-data --clients 64 --batch 1 --json

Works on a data directory only, not on a server. It must be empty or absent, and is emptied again
afterwards. Put it on the disk that you
want to know about: with --sync always that disk's flush decides.";

/// Measure this machine: push, then lease and ack, then one job at a time.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// How many jobs.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,
    /// How many callers at once.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    clients: u64,
    /// How many jobs a call carries.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    batch: u64,
    /// The size of a payload.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "100B", value_parser = args::bytes)]
    payload: u64,
    /// When an answered call is safe: always, interval:50ms, or os.
    #[arg(long, default_value = "always", value_parser = args::sync)]
    sync: Sync,
}

/// What one part of the measurement came to. A call may carry many jobs.
struct Phase {
    name: &'static str,
    jobs: u64,
    took: Duration,
    calls: Vec<Duration>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let data = context.data()?.to_owned();
    check_payload(args.payload)?;
    require_empty(&data)?;
    let auxo = Auxo::builder().sync(args.sync).open(&data).await?;
    let measured = measure(&auxo, &args).await;
    auxo.close().await?;
    clean_up(&data)?;
    print(&args, measured?, &mut context.output)
}

/// Asked before anything is made: the payload is allocated whole.
fn check_payload(bytes: u64) -> Result<(), Failure> {
    let limit = Limits::default().payload;
    if bytes <= limit as u64 {
        return Ok(());
    }
    let message = format!("payload: {bytes} bytes are over the limit of {limit}");
    Err(Error::new(Code::TooLarge, message).into())
}

/// A benchmark fills and deletes: it must not meet anybody's jobs.
fn require_empty(data: &PathBuf) -> Result<(), Failure> {
    let empty = match std::fs::read_dir(data) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if empty {
        return Ok(());
    }
    let message = format!(
        "{} is not an empty directory; a benchmark needs one of its own",
        data.display()
    );
    Err(Error::bad_request(message).into())
}

fn clean_up(data: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(data)? {
        let path = entry?.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path)?;
        } else {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

async fn measure(auxo: &Auxo, args: &Args) -> Result<Vec<Phase>, Failure> {
    let queue = QueueName::new("bench")?;
    let spec = JobSpec {
        payload: vec![b'x'; usize::try_from(args.payload).unwrap_or(usize::MAX)].into(),
        ..JobSpec::default()
    };
    let job = NewJob { queue, spec };
    let push = together("push", auxo, args, |auxo, left, batch| {
        push_all(auxo, left, batch, job.clone())
    })
    .await?;
    let drain = together("lease + ack", auxo, args, drain_all).await?;
    let single = one_at_a_time(auxo, job, args.jobs.min(1000)).await?;

    let expected = args.jobs + single.jobs;
    let done = auxo
        .queue("bench")?
        .info()
        .await?
        .map_or(0, |queue| queue.books.done);
    if done != expected {
        let message = format!("{done} jobs were done where {expected} were pushed");
        return Err(Error::new(Code::Internal, message).into());
    }
    Ok(vec![push, drain, single])
}

type Calls = auxo::Result<Vec<Duration>>;

/// Lets all callers work on the same heap of jobs.
async fn together<F>(
    name: &'static str,
    auxo: &Auxo,
    args: &Args,
    work: impl Fn(Auxo, Arc<AtomicU64>, u64) -> F,
) -> auxo::Result<Phase>
where
    F: Future<Output = Calls> + Send + 'static,
{
    let left = Arc::new(AtomicU64::new(args.jobs));
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..args.clients {
        clients.spawn(work(auxo.clone(), left.clone(), args.batch));
    }
    let mut calls = Vec::new();
    for client in clients.join_all().await {
        calls.extend(client?);
    }
    Ok(Phase {
        name,
        jobs: args.jobs,
        took: began.elapsed(),
        calls,
    })
}

/// Takes up to `batch` from the heap.
fn share(left: &AtomicU64, batch: u64) -> u64 {
    let take = |left: u64| Some(left.saturating_sub(batch));
    let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    before.unwrap_or_default().min(batch)
}

async fn push_all(auxo: Auxo, left: Arc<AtomicU64>, batch: u64, job: NewJob) -> Calls {
    let mut calls = Vec::new();
    loop {
        let jobs: Vec<NewJob> = (0..share(&left, batch)).map(|_| job.clone()).collect();
        if jobs.is_empty() {
            return Ok(calls);
        }
        let began = Instant::now();
        for pushed in auxo.service().push(jobs).await? {
            pushed?;
        }
        calls.push(began.elapsed());
    }
}

async fn drain_all(auxo: Auxo, left: Arc<AtomicU64>, batch: u64) -> Calls {
    let mut calls = Vec::new();
    loop {
        let mut missing = share(&left, batch);
        if missing == 0 {
            return Ok(calls);
        }
        while missing > 0 {
            let began = Instant::now();
            let got = lease_and_ack(&auxo, missing).await?;
            if got == 0 {
                return Err(Error::new(
                    Code::Internal,
                    "the queue is empty before every job was leased",
                ));
            }
            missing -= got;
            calls.push(began.elapsed());
        }
    }
}

async fn lease_and_ack(auxo: &Auxo, most: u64) -> auxo::Result<u64> {
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    let leases = auxo.lease(["bench"]).max(most).many().await?;
    let ack = |lease: &auxo::Lease| Settle {
        token: lease.token(),
        outcome: Outcome::Ack { result: None },
    };
    for settled in auxo
        .service()
        .settle(leases.iter().map(ack).collect())
        .await?
    {
        settled?;
    }
    Ok(leases.len() as u64)
}

/// The way of one job with nobody else around: what a caller waits for at least.
async fn one_at_a_time(auxo: &Auxo, job: NewJob, rounds: u64) -> auxo::Result<Phase> {
    let mut calls = Vec::new();
    let started = Instant::now();
    for _ in 0..rounds {
        let began = Instant::now();
        for pushed in auxo.service().push(vec![job.clone()]).await? {
            pushed?;
        }
        lease_and_ack(auxo, 1).await?;
        calls.push(began.elapsed());
    }
    Ok(Phase {
        name: "push, lease, ack alone",
        jobs: rounds,
        took: started.elapsed(),
        calls,
    })
}

fn print(args: &Args, phases: Vec<Phase>, output: &mut Output) -> Result<(), Failure> {
    let settings = [
        ("machine", machine()),
        ("sync", sync(args.sync)),
        ("clients", args.clients.to_string()),
        ("jobs a call", args.batch.to_string()),
        ("payload", text::size(args.payload)),
        ("build", build().to_owned()),
    ];
    if output.is_json() {
        let settings: serde_json::Map<_, _> = settings
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        return phases
            .into_iter()
            .try_for_each(|phase| output.json(&phase.json(&settings)));
    }
    output.block(&settings)?;
    output.line("")?;
    output.table(
        1,
        [
            "PHASE", "JOBS", "SECONDS", "JOBS/S", "CALL P50", "P99", "MAX",
        ],
        phases.into_iter().map(Phase::row),
    )
}

impl Phase {
    fn rate(&self) -> f64 {
        self.jobs as f64 / self.took.as_secs_f64()
    }

    /// The call that `part` of all calls were no slower than.
    fn percentile(&self, part: f64) -> Duration {
        let last = self.calls.len().saturating_sub(1);
        let place = (last as f64 * part).round() as usize;
        self.calls.get(place).copied().unwrap_or_default()
    }

    fn sorted(mut self) -> Phase {
        self.calls.sort_unstable();
        self
    }

    fn row(self) -> [String; 7] {
        let phase = self.sorted();
        let call = |part| format!("{:.2} ms", phase.percentile(part).as_secs_f64() * 1e3);
        [
            phase.name.to_owned(),
            phase.jobs.to_string(),
            format!("{:.2}", phase.took.as_secs_f64()),
            format!("{:.0}", phase.rate()),
            call(0.5),
            call(0.99),
            call(1.0),
        ]
    }

    fn json(self, settings: &serde_json::Map<String, serde_json::Value>) -> serde_json::Value {
        let phase = self.sorted();
        let ms = |part| phase.percentile(part).as_secs_f64() * 1e3;
        json!({
            "phase": phase.name,
            "jobs": phase.jobs,
            "seconds": phase.took.as_secs_f64(),
            "jobs_per_second": phase.rate(),
            "call_ms": { "p50": ms(0.5), "p99": ms(0.99), "max": ms(1.0) },
            "settings": settings,
        })
    }
}

fn sync(sync: Sync) -> String {
    match sync {
        Sync::Always => "always (answered after the disk's flush)".into(),
        Sync::Interval(period) => format!("interval:{}", text::duration(period)),
        Sync::Os => "os".into(),
    }
}

fn build() -> &'static str {
    if cfg!(debug_assertions) {
        "debug (build with --release for numbers that mean something)"
    } else {
        "release"
    }
}

/// A number means little without the machine it was measured on.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or(std::env::consts::ARCH, |line| {
        line.trim_start_matches([' ', '\t', ':'])
    });
    format!("{model}, {cores} cores, {}", std::env::consts::OS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_heap_add_up_to_the_whole() {
        let left = AtomicU64::new(25);
        let shares: Vec<u64> = (0..4).map(|_| share(&left, 10)).collect();
        assert_eq!(shares, [10, 10, 5, 0]);
    }

    #[test]
    fn percentiles_are_taken_from_the_sorted_calls() {
        let phase = Phase {
            name: "p",
            jobs: 1,
            took: Duration::from_secs(1),
            calls: (0..=100).rev().map(Duration::from_millis).collect(),
        };
        let phase = phase.sorted();
        let at = |part| phase.percentile(part).as_millis();
        assert_eq!([at(0.0), at(0.5), at(0.99), at(1.0)], [0, 50, 99, 100]);
    }
}
