//! `auxo pause`

use auxo::QueueName;
use auxo::core::queue::QueueConfig;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::queues::{change, tell};

const EXAMPLES: &str = "\
Examples:
  auxo pause mail              refuse pushes, and hand out nothing
  auxo pause mail --out        only hand out nothing: jobs pile up
  auxo pause mail --in         only refuse pushes: the queue drains";

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
        let both = !self.inward && !self.out;
        if self.inward || both {
            config.paused_in = paused;
        }
        if self.out || both {
            config.paused_out = paused;
        }
    }
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let missing = Missing::unless(args.create);
    let auxo = context.open(missing).await?;
    let pause = |config: &mut QueueConfig| args.side.set(config, true);
    let config = change(auxo.service(), &args.queue, missing, pause).await?;
    tell(&args.queue, &config, context)
}
