//! `auxo lease`

use std::time::{Duration, SystemTime};

use auxo::core::engine::{Ask, Holds, NamedJob, Pick};
use auxo::core::job::Leased;
use auxo::core::json::show;
use auxo::core::queue::QueueInfo;
use auxo::{Auxo, JobId, QueueName, Timestamp};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::near::unknown;
use super::output::{clean, content, instant};

const EXAMPLES: &str = "\
Examples:
  auxo lease mail
  auxo lease urgent mail --max 10 --wait 30s --worker \"$(hostname)\"
  auxo lease mail --ttr 10m --json
  auxo lease mail images --most-urgent
  auxo lease --job 242112815484928

Settle each job with its token (ack, fail, release, bury, snooze) before its deadline; otherwise
it comes back. Exit code 1 if there was no job in time.";

/// Take jobs from the first of the queues that has any, or the most urgent.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to look; the first that has a due job gives.
    #[arg(required_unless_present = "job", value_name = "QUEUE", value_parser = args::queue)]
    queues: Vec<QueueName>,
    /// Take this very job, wherever it stands: one that is not due, or dead, is kicked first.
    #[arg(long, value_name = "ID", conflicts_with_all = ["queues", "max", "wait"])]
    job: Option<JobId>,
    /// Take from the queue whose next job is the most urgent, instead of the first: by priority, then due time, then age.
    /// There may be fewer jobs than --max, where the next one of another queue is more urgent.
    #[arg(long, conflicts_with = "job")]
    most_urgent: bool,
    /// How many jobs at most.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    max: u32,
    /// How long to wait when there are none.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "0s", value_parser = args::duration)]
    wait: Duration,
    /// Lease length, instead of each job's own.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration)]
    ttr: Option<Duration>,
    /// A name for yourself, which others see beside the job.
    #[arg(long, default_value = "cli")]
    worker: String,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let ask = Ask {
        queues: args.queues,
        // A server decides by the token whether a job that is held back may be taken.
        job: args.job.map(|id| NamedJob {
            id,
            holds: Holds::Bypass,
        }),
        pick: match args.most_urgent {
            true => Pick::MostUrgent,
            false => Pick::First,
        },
        max: args.max,
        wait: args.wait,
        ttr: args.ttr,
        worker: args.worker.into(),
    };
    let (queues, job) = (ask.queues.clone(), ask.job);
    let leased = auxo.service().lease(ask).await?;
    if leased.is_empty() {
        if let Some(NamedJob { id: job, .. }) = job {
            eprintln!("job {job} cannot be leased; `auxo explain {job}` says why");
            return Err(Failure::Said);
        }
        eprintln!("no job is due");
        why(&auxo, queues).await?;
        return Err(Failure::Said);
    }
    let output = &mut context.output;
    for (place, leased) in leased.iter().enumerate() {
        if output.is_json() {
            output.json(&show::leased(leased))?;
            continue;
        }
        if place > 0 {
            output.line("")?;
        }
        output.block(&fields(leased))?;
    }
    Ok(())
}

/// Says of each queue what keeps it from handing out jobs, where it is not only that none is due.
async fn why(auxo: &Auxo, names: Vec<QueueName>) -> Result<(), Failure> {
    let found = auxo.service().queues(Some(names.clone())).await?;
    for name in names {
        match found.iter().find(|queue| queue.name == name) {
            None => eprintln!("  {}", unknown(auxo.service(), &name).await?.message()),
            Some(queue) => {
                if let Some(reason) = held_back(queue) {
                    eprintln!("  queue {name} {reason}");
                }
            }
        }
    }
    Ok(())
}

fn held_back(queue: &QueueInfo) -> Option<String> {
    let leased = queue.counts.leased;
    if queue.config.paused_out {
        return Some(format!(
            "is paused; `auxo resume {}` lets jobs out",
            queue.name
        ));
    }
    if let Some(until) = queue.config.pause_ends(Timestamp::from(SystemTime::now())) {
        return Some(format!("is paused until {until}"));
    }
    if let Some(limit) = queue.config.max_leased
        && leased >= u64::from(limit)
    {
        return Some(format!("has {leased} jobs leased and its limit is {limit}"));
    }
    let next = queue.rate_wait?;
    Some(format!("has used up its rate until {next}"))
}

fn fields(leased: &Leased) -> [(&'static str, String); 8] {
    let job = &leased.job;
    [
        ("job", job.id.to_string()),
        ("token", leased.token.to_string()),
        ("queue", job.queue.to_string()),
        ("kind", clean(&job.kind, 200)),
        ("attempt", job.attempt.to_string()),
        ("deadline", instant(leased.deadline)),
        (
            "last error",
            clean(job.last_error.as_deref().unwrap_or(""), 200),
        ),
        ("payload", content(&job.payload, 2000)),
    ]
}
