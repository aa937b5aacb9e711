//! `auxo purge`

use auxo::core::engine::{Action, Filter, Mode};
use auxo::{QueueName, State};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::near::existing;
use super::steer::{confirmed, tell};

const EXAMPLES: &str = "\
Examples:
  auxo purge mail                      counts, asks, then deletes
  auxo purge mail --state dead --yes
  auxo purge mail --dry-run            only counts";

/// Delete all jobs of a queue, except those that are leased.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The queue.
    #[arg(value_parser = args::queue)]
    queue: QueueName,
    /// Only jobs in these states.
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = args::state)]
    states: Vec<State>,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// Only say how many jobs it would be.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let filter = Filter {
        queue: Some(args.queue.clone()),
        states: args.states.clone(),
        ..Filter::default()
    };
    let service = auxo.service();
    existing(service, std::slice::from_ref(&args.queue)).await?;
    let count = service
        .bulk(filter, Action::Delete, Mode::DryRun, |_| ())
        .await?;
    if args.dry_run {
        return tell(count, Mode::DryRun, "deleted", context);
    }
    if count > 0 && !args.yes && !confirmed(count, &format!("of {}", args.queue), "deleted")? {
        return Err(Failure::Said);
    }
    let moved = service.purge(args.queue, args.states, |_| ()).await?;
    tell(moved, Mode::Act, "deleted", context)
}
