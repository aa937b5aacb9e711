//! `auxo resume`

use auxo::QueueName;
use auxo::core::queue::QueueConfig;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::pause::Side;
use super::queues::{change, tell};

const EXAMPLES: &str = "\
Examples:
  auxo resume mail
  auxo resume mail --out";

/// Start a paused queue again.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The queue.
    #[arg(value_parser = args::queue)]
    queue: QueueName,
    #[command(flatten)]
    side: Side,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let resume = |config: &mut QueueConfig| args.side.set(config, false);
    let config = change(auxo.service(), &args.queue, Missing::Refuse, resume).await?;
    tell(&args.queue, &config, context)
}
