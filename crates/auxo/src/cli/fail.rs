//! `auxo fail`

use std::time::Duration;

use auxo::Token;
use auxo::core::engine::{Outcome, Retry};

use super::args;
use super::context::Context;
use super::failure::Failure;
use super::settle::settle;

const EXAMPLES: &str = "\
Examples:
  auxo fail TOKEN --error 'connection refused'
  auxo fail TOKEN --error 'try later' --delay 10m
  auxo fail TOKEN --error 'no such address' --no-retry";

/// Failed: try again by the job's policy, or dead.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tokens that the leases gave.
    #[arg(required = true, value_name = "TOKEN", value_parser = args::token)]
    tokens: Vec<Token>,
    /// What went wrong.
    #[arg(long, value_name = "TEXT")]
    error: String,
    /// The wait before the next try, instead of the policy's.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration, conflicts_with = "no_retry")]
    delay: Option<Duration>,
    /// Dead at once.
    #[arg(long)]
    no_retry: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let retry = if args.no_retry {
        Retry::Never
    } else {
        Retry::Policy
    };
    let outcome = Outcome::Fail {
        error: args.error,
        delay: args.delay,
        retry,
    };
    settle(&args.tokens, outcome, context).await
}
