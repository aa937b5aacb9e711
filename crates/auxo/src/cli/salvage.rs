//! `auxo salvage`

use std::path::{Path, PathBuf};

use auxo::{Code, Error, SalvageReport};
use serde_json::json;

use super::context::Context;
use super::failure::Failure;
use super::output::{Output, clean};

const EXAMPLES: &str = "\
Examples:
  auxo salvage --data ./data ./data-saved
  auxo audit --data ./data-saved

Works on a data directory only, not on a server. The damaged directory is only read. Exit code 1 if anything could not be read, also when the rest
was copied.";

/// Copy what is whole out of a damaged data directory into a new one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The new data directory; empty or absent.
    #[arg(value_name = "NEW_DIR")]
    to: PathBuf,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let from = context.data()?.to_owned();
    let report = copy(from, args.to.clone()).await?;
    print(&report, &args.to, &mut context.output)?;
    if report.lost.is_empty() {
        Ok(())
    } else {
        Err(Failure::Said)
    }
}

async fn copy(from: PathBuf, to: PathBuf) -> auxo::Result<SalvageReport> {
    // Reads a whole store: no place for an async worker thread.
    let copied = tokio::task::spawn_blocking(move || auxo::salvage(&from, &to)).await;
    copied.map_err(|error| Error::new(Code::Internal, error.to_string()))?
}

fn print(report: &SalvageReport, to: &Path, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        let queue = |(name, jobs): &(auxo::QueueName, u64)| json!({ "name": name.as_str(), "copied": jobs });
        return output.json(&json!({
            "copied": report.copied.iter().map(queue).collect::<Vec<_>>(),
            "lost": report.lost,
            "may_repeat": report.may_repeat,
        }));
    }
    let row = |(name, jobs): &(auxo::QueueName, u64)| [name.to_string(), jobs.to_string()];
    output.table(1, ["QUEUE", "COPIED"], report.copied.iter().map(row))?;
    output.flush()?;
    for lost in &report.lost {
        eprintln!("lost: {}", clean(lost, 1000));
    }
    if report.may_repeat {
        eprintln!("some of the copied jobs may have been done already: what says so is damaged");
    }
    if report.copied.is_empty() {
        eprintln!("no job was found to copy; keep the damaged directory");
    } else {
        eprintln!(
            "use {} from now on, and keep the damaged directory",
            to.display()
        );
    }
    Ok(())
}
