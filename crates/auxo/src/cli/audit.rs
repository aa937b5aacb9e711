//! `auxo audit`

use auxo::core::json::show;

use super::context::{Context, Missing};
use super::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  auxo audit
  auxo audit --json && echo 'all accounted for'

accepted = live + done + dead + expired + cancelled + deleted, for every queue. The line (forgotten)
has the books of all queues that were forgotten. Exit code 1 if anything differs.";

/// Read every stored job and prove that none is missing.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {}

pub async fn run(_args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let audit = auxo.service().audit().await?;
    let output = &mut context.output;
    if output.is_json() {
        output.json(&show::audit(&audit))?;
    } else {
        // No queue can be called so.
        let forgotten = (!audit.forgotten.is_empty()).then_some(("(forgotten)", &audit.forgotten));
        output.table(
            1,
            [
                "QUEUE",
                "ACCEPTED",
                "LIVE",
                "DONE",
                "DEAD",
                "EXPIRED",
                "CANCELLED",
                "DELETED",
            ],
            audit
                .queues
                .iter()
                .map(|(name, books)| (name.as_str(), books))
                .chain(forgotten)
                .map(|(name, books)| {
                    let numbers = [
                        books.accepted,
                        books.live,
                        books.done,
                        books.dead,
                        books.expired,
                        books.cancelled,
                        books.deleted,
                    ];
                    let [a, b, c, d, e, f, g] = numbers.map(|number| number.to_string());
                    [name.to_owned(), a, b, c, d, e, f, g]
                }),
        )?;
        output.flush()?;
        let counted = |count: u64, one: &str| match count {
            1 => format!("1 {one}"),
            count => format!("{count} {one}s"),
        };
        eprintln!(
            "{} read, {}",
            counted(audit.jobs, "job"),
            counted(audit.problems.len() as u64, "problem")
        );
        for problem in &audit.problems {
            eprintln!("problem: {problem}");
        }
    }
    if audit.problems.is_empty() {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}
