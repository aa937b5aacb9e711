//! `auxo pause`

use std::time::Duration;

use auxo::QueueName;
use auxo::core::When;
use auxo::core::queue::{self, QueueConfig};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::queues::{change, tell};

const EXAMPLES: &str = "\
Examples:
  auxo pause mail              refuse pushes, and hand out nothing
  auxo pause mail --out        only hand out nothing: jobs pile up
  auxo pause mail --in         only refuse pushes: the queue drains
  auxo pause mail --for 10m    hand out nothing for ten minutes, then go on";

/// Stop a queue: no jobs in, none out. Running leases go on.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The queue.
    #[arg(value_parser = args::queue)]
    queue: QueueName,
    /// Make the queue, and a local data directory, if they are not there yet.
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    side: Side,
    /// Only hand out nothing, and only for this long.
    #[arg(long = "for", value_name = "TIME", conflicts_with = "inward", value_parser = args::duration)]
    span: Option<Duration>,
}

/// Which side of a queue; both unless one is named.
#[derive(clap::Args)]
pub struct Side {
    /// Only the side where jobs are pushed.
    #[arg(long = "in", conflicts_with = "out")]
    inward: bool,
    /// Only the side where jobs are handed out.
    #[arg(long)]
    out: bool,
}

impl Side {
    /// Sets the sides that are meant.
    pub fn set(&self, config: &mut QueueConfig, paused: bool) {
        let side = match (self.inward, self.out) {
            (true, false) => queue::Side::In,
            (false, true) => queue::Side::Out,
            _ => queue::Side::Both,
        };
        config.set_paused(side, paused);
    }
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let missing = Missing::unless(args.create);
    let auxo = context.open(missing).await?;
    let pause = |config: &mut QueueConfig| match args.span {
        Some(span) => config.paused_until = Some(When::After(span)),
        None => args.side.set(config, true),
    };
    let config = change(auxo.service(), &args.queue, missing, pause).await?;
    tell(&args.queue, &config, context)
}
