//! `auxo snooze`

use std::time::Duration;

use auxo::Token;
use auxo::core::engine::Outcome;

use super::args;
use super::context::Context;
use super::failure::Failure;
use super::settle::settle;

const EXAMPLES: &str = "\
Examples:
  auxo snooze TOKEN --delay 1h";

/// Again later; no failure is counted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tokens that the leases gave.
    #[arg(required = true, value_name = "TOKEN", value_parser = args::token)]
    tokens: Vec<Token>,
    /// How much later.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration)]
    delay: Duration,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let delay = args.delay;
    settle(&args.tokens, Outcome::Snooze { delay }, context).await
}
