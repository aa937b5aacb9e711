//! `auxo kick`

use auxo::core::engine::Action;

use super::context::Context;
use super::failure::Failure;
use super::steer::{Targets, steer};

const EXAMPLES: &str = "\
Examples:
  auxo kick ID
  auxo kick --queue mail --state dead --dry-run
  auxo kick --queue mail --state dead --error 'connection refused'";

/// Make dead or scheduled jobs ready now.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    targets: Targets,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    steer(args.targets, Action::Kick, "kicked", context).await
}
