//! `auxo lease`

use std::time::Duration;

use auxo::QueueName;
use auxo::core::engine::Ask;
use auxo::core::job::Leased;
use auxo::core::json::show;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::output::{clean, content, instant};

const EXAMPLES: &str = "\
Examples:
  auxo lease mail
  auxo lease urgent mail --max 10 --wait 30s --worker \"$(hostname)\"
  auxo lease mail --ttr 10m --json

Settle each job with its token (ack, fail, release, bury, snooze) before its deadline; otherwise
it comes back. Exit code 1 if there was no job in time.";

/// Take jobs from the first of the queues that has any.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to look, in this order.
    #[arg(required = true, value_name = "QUEUE", value_parser = args::queue)]
    queues: Vec<QueueName>,
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
        max: args.max,
        wait: args.wait,
        ttr: args.ttr,
        worker: args.worker.into(),
    };
    let leased = auxo.service().lease(ask).await?;
    if leased.is_empty() {
        eprintln!("no job is due");
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
