//! `auxo migrate`
//!
//! The command keeps nothing of its own: how far a move is, the two stores know. So it may be killed anywhere, and the same
//! command goes on. `auxo_core::passage` tells how.

mod ends;
mod queue;
mod schedules;
mod tally;
#[cfg(test)]
mod tests;

use std::time::Duration;

use auxo::{Code, Error, QueueInfo, QueueName};

use super::args;
use super::context::Context;
use super::failure::Failure;
use ends::Ends;
use queue::Move;
use tally::Tally;

const EXAMPLES: &str = "\
Examples:
  auxo migrate --from ./auxo-data --to redis://127.0.0.1:6379
  auxo migrate --from http://127.0.0.1:8000 --to redis://127.0.0.1:6379 --queue mail --queue bills
  auxo migrate --from redis://127.0.0.1:6379 --to ./auxo-data

A place is a data directory, a Redis or a running server. At the source a queue hands out nothing
from the beginning of its move on, and takes jobs until nearly everything else has moved; then it is
empty and stays paused. Workers can begin at the target at once. Killed at any point, the same
command goes on: no job is lost or doubled. Exit code 1 if a job had to stay, because another job at
the target has its key.";

/// Move queues with all their jobs to another store.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where the jobs are: a directory, redis://… or http://….
    #[arg(long, value_name = "URL")]
    from: String,
    /// Where they go: a directory, redis://… or http://….
    #[arg(long, value_name = "URL")]
    to: String,
    /// Move this queue only; may be given several times.
    #[arg(long = "queue", value_name = "NAME", value_parser = args::queue)]
    queues: Vec<QueueName>,
    /// How long to wait for a store that is away.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = args::duration)]
    patience: Duration,
    /// Give up unfinished moves of these queues to other places.
    /// Jobs of the last step of such a move may be at both its ends.
    #[arg(long)]
    abandon: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let ends = Ends::open(&args.from, &args.to, context.credentials()).await?;
    let moved = run_between(&ends, &args, context).await;
    let closed = ends.close().await;
    moved.and(closed)
}

async fn run_between(ends: &Ends, args: &Args, context: &mut Context) -> Result<(), Failure> {
    let names = ends.check().await?;
    let queues = chosen(ends, &args.queues).await?;
    let mut tally = Tally::new(&queues);
    for info in queues {
        let mut one = Move::new(ends, &names, info.name, args.abandon, &mut tally);
        let moved = match one.run(args.patience).await {
            Ok(moved) => moved,
            Err(error) => return Err(one.failure(error)),
        };
        tally.finish(moved, &mut context.output)?;
    }
    tally.end(&mut context.output)
}

/// The queues to be moved, which must be there.
async fn chosen(ends: &Ends, names: &[QueueName]) -> Result<Vec<QueueInfo>, Error> {
    let mut queues = ends.from.service().queues(None).await?;
    let known = |name: &&QueueName| queues.iter().any(|info| info.name == **name);
    if let Some(missing) = names.iter().find(|name| !known(name)) {
        let text = format!("there is no queue {missing} at the source");
        return Err(Error::new(Code::NotFound, text));
    }
    queues.retain(|info| names.is_empty() || names.contains(&info.name));
    Ok(queues)
}
