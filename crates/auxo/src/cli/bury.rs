//! `auxo bury`

use auxo::Token;
use auxo::core::engine::Outcome;

use super::args;
use super::context::Context;
use super::failure::Failure;
use super::settle::settle;

const EXAMPLES: &str = "\
Examples:
  auxo bury TOKEN --error 'the address is not valid'
  auxo kick ID                                  brings it back";

/// Dead at once: trying again is of no use.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tokens that the leases gave.
    #[arg(required = true, value_name = "TOKEN", value_parser = args::token)]
    tokens: Vec<Token>,
    /// Why.
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// A new priority, for when it is kicked.
    #[arg(long, allow_hyphen_values = true)]
    priority: Option<u32>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let outcome = Outcome::Bury {
        error: args.error,
        priority: args.priority,
    };
    settle(&args.tokens, outcome, context).await
}
