//! `auxo release`

use std::time::Duration;

use auxo::Token;
use auxo::core::engine::Outcome;

use super::args;
use super::context::Context;
use super::failure::Failure;
use super::settle::settle;

const EXAMPLES: &str = "\
Examples:
  auxo release TOKEN
  auxo release TOKEN --delay 30s --priority 10";

/// Give jobs back; no failure is counted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tokens that the leases gave.
    #[arg(required = true, value_name = "TOKEN", value_parser = args::token)]
    tokens: Vec<Token>,
    /// A wait before they are due again; without one they go back to their old place.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration)]
    delay: Option<Duration>,
    /// A new priority.
    #[arg(long, allow_hyphen_values = true)]
    priority: Option<u32>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let outcome = Outcome::Release {
        priority: args.priority,
        delay: args.delay,
    };
    settle(&args.tokens, outcome, context).await
}
