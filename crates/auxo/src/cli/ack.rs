//! `auxo ack`

use auxo::Token;
use auxo::core::engine::Outcome;

use super::args;
use super::context::Context;
use super::failure::Failure;
use super::settle::settle;

const EXAMPLES: &str = "\
Examples:
  auxo ack TOKEN
  auxo ack TOKEN --result '{\"sent\":true}'     kept for the job's --retention";

/// Done: end leases well.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tokens that the leases gave.
    #[arg(required = true, value_name = "TOKEN", value_parser = args::token)]
    tokens: Vec<Token>,
    /// What the work left behind, kept for the job's retention.
    #[arg(long, value_name = "JSON")]
    result: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let result = args.result.map(Into::into);
    settle(&args.tokens, Outcome::Ack { result }, context).await
}
