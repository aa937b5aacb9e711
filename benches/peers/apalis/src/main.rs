//! apalis-redis on a Redis: `apalis-peer URL drain [--seconds S] …` prints one line of JSON, as BullMQ's script does. The
//! Redis is emptied first.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apalis::layers::WorkerBuilderExt;
use apalis::prelude::{BoxDynError, TaskSink, WorkerBuilder};
use apalis_redis::{Config, ConnectionManager, RedisStorage};
use rustix::time::{ClockId, clock_gettime};

const USAGE: &str = "\
usage: apalis-peer URL drain [--seconds S] [--concurrency N] [--jobs N]
       [--settings tuned|default]; everything in that Redis is deleted";
const QUEUE: &str = "bench";
const BATCH: u64 = 100;
/// Jobs that are done before the clock starts.
const WARM_UP: u64 = 5_000;
/// Jobs to drain for each second that the drain should take, roughly.
const PACE: f64 = 12_000.0;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

static HANDLED: AtomicU64 = AtomicU64::new(0);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let plan = match Plan::parse(std::env::args().skip(1).collect()) {
        Ok(plan) => plan,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    match run(&plan).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(plan: &Plan) -> Result<()> {
    let mut redis = apalis_redis::connect(plan.url.as_str()).await?;
    let () = redis::cmd("FLUSHALL").query_async(&mut redis).await?;
    drain(plan, redis).await
}

struct Plan {
    url: String,
    concurrency: usize,
    jobs: u64,
    settings: Settings,
}

/// How apalis is set up.
enum Settings {
    /// As it comes.
    Default,
    /// As fast as it gets.
    Tuned,
}

impl Settings {
    fn config(&self) -> Config {
        let config = Config::default().queue(QUEUE);
        match self {
            Settings::Default => config,
            // Locking searches the whole waiting list for each job, and short jobs can do without, its documentation says.
            Settings::Tuned => config.batch_size(BATCH as usize).lock_tasks(false),
        }
    }
}

impl Plan {
    fn parse(args: Vec<String>) -> Result<Plan> {
        let [url, line, options @ ..] = args.as_slice() else {
            return Err(USAGE.into());
        };
        if line != "drain" {
            return Err(USAGE.into());
        }
        let (mut seconds, mut concurrency, mut jobs) = (2.0, 100, None);
        let mut settings = Settings::Tuned;
        for option in options.chunks(2) {
            let [name, value] = option else {
                return Err(USAGE.into());
            };
            match name.as_str() {
                "--seconds" => seconds = value.parse()?,
                "--concurrency" => concurrency = value.parse()?,
                "--jobs" => jobs = Some(value.parse()?),
                "--settings" if value == "tuned" => settings = Settings::Tuned,
                "--settings" if value == "default" => settings = Settings::Default,
                // For the other peers; a drain has no batches under way.
                "--in-flight" => {}
                _ => return Err(USAGE.into()),
            }
        }
        Ok(Plan {
            url: url.clone(),
            concurrency,
            jobs: jobs.unwrap_or((seconds * PACE) as u64),
            settings,
        })
    }
}

/// A worker whose handler does nothing empties a queue.
async fn drain(plan: &Plan, redis: ConnectionManager) -> Result<()> {
    let config = plan.settings.config();
    let done = config.done_jobs_set();
    let mut storage = RedisStorage::<String>::new(redis.clone()).with_config(config);
    let all = (WARM_UP + plan.jobs).next_multiple_of(BATCH);
    let payload = "x".repeat(98);
    for _ in 0..all / BATCH {
        let batch = vec![payload.clone(); BATCH as usize];
        storage.push_bulk(batch).await?;
    }
    line_up(&mut redis.clone(), storage.get_config()).await?;
    let worker = WorkerBuilder::new("peer")
        .backend(storage)
        .concurrency(plan.concurrency)
        .build(handle);
    tokio::select! {
        ended = tokio::spawn(worker.run()) => Err(format!("the worker ended: {ended:?}").into()),
        measured = measure(all, redis, &done) => measured,
    }
}

/// Puts the jobs in line as its worker does, but a thousand at a time: every push goes to the scheduled set first, and the
/// worker's script moves all that is due in one call, which fails with "too many results to unpack" from some 8,000 on.
async fn line_up(redis: &mut ConnectionManager, config: &Config) -> Result<()> {
    loop {
        let mut pop = redis::cmd("ZPOPMIN");
        pop.arg(config.scheduled_jobs_set()).arg(1_000);
        let popped: Vec<(String, f64)> = pop.query_async(redis).await?;
        if popped.is_empty() {
            return Ok(());
        }
        let mut push = redis::cmd("RPUSH");
        push.arg(config.active_jobs_list());
        popped.iter().for_each(|(id, _)| {
            push.arg(id);
        });
        let () = push.query_async(redis).await?;
    }
}

/// From the end of the warm-up until the last job is settled.
async fn measure(all: u64, mut redis: ConnectionManager, done: &str) -> Result<()> {
    let pause = || tokio::time::sleep(Duration::from_millis(1));
    while HANDLED.load(Ordering::Relaxed) < WARM_UP {
        pause().await;
    }
    let (server, client, begin) = (redis_cpu(&mut redis).await?, cpu(), Instant::now());
    let before = HANDLED.load(Ordering::Relaxed);
    while HANDLED.load(Ordering::Relaxed) < all || settled(&mut redis, done).await? < all {
        pause().await;
    }
    let figures = serde_json::json!({
        "peer": "apalis-redis 1.0.0",
        "line": "drain",
        "jobs": all - before,
        "seconds": begin.elapsed().as_secs_f64(),
        "client_cpu_seconds": (cpu() - client).as_secs_f64(),
        "redis_cpu_seconds": redis_cpu(&mut redis).await? - server,
    });
    println!("{figures}");
    Ok(())
}

async fn handle(_: String) -> std::result::Result<(), BoxDynError> {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn settled(redis: &mut ConnectionManager, done: &str) -> Result<u64> {
    Ok(redis::cmd("SCARD").arg(done).query_async(redis).await?)
}

/// User and system time of this process so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Seconds of CPU that the Redis server has used, all its threads, children not.
async fn redis_cpu(redis: &mut ConnectionManager) -> Result<f64> {
    let info: String = redis::cmd("INFO").arg("cpu").query_async(redis).await?;
    let seconds = |name: &str| -> Result<f64> {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.ok_or("no CPU time in INFO")?.trim().parse()?)
    };
    Ok(seconds("used_cpu_user")? + seconds("used_cpu_sys")?)
}
