//! `auxo cancel`

use auxo::core::engine::Action;

use super::context::Context;
use super::failure::Failure;
use super::steer::{Targets, steer};

const EXAMPLES: &str = "\
Examples:
  auxo cancel ID
  auxo cancel --queue mail --kind newsletter --dry-run";

/// Call jobs off; a leased one is flagged, and its worker learns of it at the next extend.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    targets: Targets,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    steer(args.targets, Action::Cancel, "cancelled", context).await
}
