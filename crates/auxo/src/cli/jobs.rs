//! `auxo jobs`

use auxo::core::engine::{Cursor, Query};
use auxo::core::json::show;
use auxo::{Job, State};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::filter::{FilterArgs, PAGE};
use super::output::{Output, Parts, clean, content, distance};

const EXAMPLES: &str = "\
Examples:
  auxo jobs
  auxo jobs --queue mail --state dead,scheduled
  auxo jobs --search ada --limit 5
  auxo jobs --queue mail --all --json > mail.jsonl";

/// List and search jobs, in the order in which they would be handed out.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// How many jobs at most.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = 50, value_parser = args::count)]
    limit: u64,
    /// Go on where an earlier list ended.
    #[arg(long)]
    cursor: Option<String>,
    /// Show every job.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
}

const HEADER: [&str; 8] = [
    "ID", "STATE", "QUEUE", "KIND", "TRIES", "DUE", "KEY", "ABOUT",
];

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let mut left = if args.all { u64::MAX } else { args.limit };
    let mut query = Query {
        filter: args.filter.into(),
        cursor: args.cursor.map(Cursor),
        limit: PAGE,
    };
    let mut none_yet = true;
    let mut parts = Parts::new(2, HEADER);
    // A single page may be short or even empty and not be the last.
    loop {
        query.limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = auxo.service().list(query.clone()).await?;
        print(&page.jobs, &mut parts, &mut context.output)?;
        none_yet &= page.jobs.is_empty();
        left -= page.jobs.len() as u64;
        query.cursor = page.next;
        if query.cursor.is_none() || left == 0 {
            break;
        }
    }
    context.output.flush()?;
    match query.cursor {
        Some(Cursor(next)) => eprintln!("there is more: --cursor {next}"),
        None if none_yet => eprintln!("no job matches"),
        None => {}
    }
    Ok(())
}

fn print(jobs: &[Job], parts: &mut Parts<8>, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return jobs.iter().try_for_each(|job| output.json(&show::job(job)));
    }
    if jobs.is_empty() {
        return Ok(());
    }
    output.part(parts, jobs.iter().map(row))
}

fn row(job: &Job) -> [String; 8] {
    let due = match job.state {
        State::Scheduled | State::Ready => distance(job.run_at),
        _ => String::new(),
    };
    let about = match &job.last_error {
        Some(error) => clean(error, 60),
        None => content(&job.payload, 60),
    };
    [
        job.id.to_string(),
        job.state.to_string(),
        job.queue.to_string(),
        clean(&job.kind, 30),
        format!("{}/{}", job.failures + job.vanished, job.max_attempts),
        due,
        clean(job.key.as_deref().unwrap_or(""), 40),
        about,
    ]
}
