//! `auxo extend`

use std::time::Duration;

use auxo::Token;
use auxo::core::engine::Extend;
use auxo::core::json::show;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::settle::each;

const EXAMPLES: &str = "\
Examples:
  auxo extend TOKEN
  auxo extend TOKEN --ttr 10m --progress '{\"page\":7}'";

/// Prolong leases, note progress, and learn whether the job is still wanted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The tokens that the leases gave.
    #[arg(required = true, value_name = "TOKEN", value_parser = args::token)]
    tokens: Vec<Token>,
    /// The new length from now on; without one the length that the lease was given.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration)]
    ttr: Option<Duration>,
    /// How far the work is.
    #[arg(long, value_name = "JSON")]
    progress: Option<String>,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let item = |token: &Token| Extend {
        token: *token,
        ttr: args.ttr,
        progress: args.progress.clone().map(Into::into),
    };
    let items = args.tokens.iter().map(item).collect();
    let answers = auxo.service().extend(items).await?;
    each(&answers, context, show::extended, |extended| {
        let cancel = if extended.cancel {
            ", cancel asked"
        } else {
            ""
        };
        format!("{} until {}{cancel}", extended.id, extended.deadline)
    })
}
