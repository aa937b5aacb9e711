//! `auxo explain`

use auxo::core::explain::Reason;
use auxo::core::json::show;

use super::context::{Context, Missing};
use super::failure::Failure;
use super::job::WhichArgs;
use super::output::clean;

const EXAMPLES: &str = "\
Examples:
  auxo explain ID
  auxo explain --queue mail --key welcome:ada      who has the key

Exit code 1 if there is no such job.";

/// Say why a job is not running.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: WhichArgs,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let which = args.which.which()?;
    let auxo = context.open(Missing::Refuse).await?;
    let explanation = auxo.service().explain_unwatched(which).await?;
    if context.output.is_json() {
        context.output.json(&show::explanation(&explanation))?;
    } else {
        context.output.line(clean(&explanation.text, 1000))?;
    }
    match explanation.reason {
        Reason::UnknownJob => Err(Failure::Said),
        _ => Ok(()),
    }
}
