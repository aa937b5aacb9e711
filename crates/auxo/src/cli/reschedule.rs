//! `auxo reschedule`

use auxo::core::engine::Action;

use super::context::Context;
use super::failure::Failure;
use super::spec::WhenArgs;
use super::steer::{Targets, steer};

const EXAMPLES: &str = "\
Examples:
  auxo reschedule ID --delay 2h
  auxo reschedule ID --run-at 2030-01-31T09:00:00+01:00
  auxo reschedule --queue mail --state scheduled --delay 0s --dry-run";

/// Give waiting or dead jobs another due time.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    when: WhenArgs,
    #[command(flatten)]
    targets: Targets,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let Some(when) = args.when.when() else {
        return Err(Failure::Usage(
            "say when: --delay DURATION or --run-at TIME".into(),
        ));
    };
    steer(
        args.targets,
        Action::Reschedule(when),
        "rescheduled",
        context,
    )
    .await
}
