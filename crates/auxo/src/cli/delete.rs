//! `auxo delete`

use auxo::core::engine::Action;

use super::context::Context;
use super::failure::Failure;
use super::steer::{Targets, steer};

const EXAMPLES: &str = "\
Examples:
  auxo delete ID
  auxo delete --queue mail --state dead --created-before 2026-01-01T00:00:00Z --dry-run";

/// Remove jobs that are not leased, and what is stored of them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    targets: Targets,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    steer(args.targets, Action::Delete, "deleted", context).await
}
