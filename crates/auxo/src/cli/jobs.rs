//! `auxo jobs`

use auxo::core::engine::{Cursor, Filter, Query, Which};
use auxo::core::event::Notice;
use auxo::core::json::show;
use auxo::core::life::Event;
use auxo::{Auxo, Job, State};
use serde_json::json;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::filter::{FilterArgs, PAGE};
use super::follow::{Follow, ended};
use super::output::{Output, Parts, clean, content, distance};

const EXAMPLES: &str = "\
Examples:
  auxo jobs
  auxo jobs --queue mail --state dead,scheduled
  auxo jobs --search ada --limit 5
  auxo jobs --queue mail --all --json > mail.jsonl
  auxo jobs --queue mail --follow

With --follow it goes on until SIGINT or SIGTERM, or until its reader is gone, and ends with code 0.";

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
    /// Go on: show each job again whenever something happens to it.
    #[arg(long, short)]
    follow: bool,
}

const HEADER: [&str; 8] = [
    "ID", "STATE", "QUEUE", "KIND", "TRIES", "DUE", "KEY", "ABOUT",
];

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let filter: Filter = args.filter.into();
    let left = if args.all { u64::MAX } else { args.limit };
    let query = Query {
        filter: filter.clone(),
        cursor: args.cursor.map(Cursor),
        limit: PAGE,
    };
    let mut parts = Parts::new(2, HEADER);
    if !args.follow {
        return list(&auxo, query, left, &mut parts, &mut context.output).await;
    }
    // What comes later cannot move what is printed: room for an id, any state, and what most rows need.
    parts = parts.at_least([19, 9, 8, 4, 5, 9, 3, 0]);
    // Begun before the list, so that nothing happens unseen in between.
    let mut follow = Follow::new(&auxo)?;
    let output = &mut context.output;
    let result = match list(&auxo, query, left, &mut parts, output).await {
        Ok(()) => {
            eprintln!("following; stop with Ctrl-C");
            stream(&auxo, &filter, &mut follow, &mut parts, output).await
        }
        failed => failed,
    };
    ended(result, context)
}

async fn list(
    auxo: &Auxo,
    mut query: Query,
    mut left: u64,
    parts: &mut Parts<8>,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut none_yet = true;
    // A single page may be short or even empty and not be the last.
    loop {
        query.limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = auxo.service().list(query.clone()).await?;
        print(&page.jobs, parts, output)?;
        none_yet &= page.jobs.is_empty();
        left -= page.jobs.len() as u64;
        query.cursor = page.next;
        if query.cursor.is_none() || left == 0 {
            break;
        }
    }
    output.flush()?;
    match query.cursor {
        Some(Cursor(next)) => eprintln!("there is more: --cursor {next}"),
        None if none_yet => eprintln!("no job matches"),
        None => {}
    }
    Ok(())
}

/// Shows each job that something happens to as it is then.
async fn stream(
    auxo: &Auxo,
    filter: &Filter,
    follow: &mut Follow,
    parts: &mut Parts<8>,
    output: &mut Output,
) -> Result<(), Failure> {
    while let Some(notice) = follow.next(output).await? {
        if filter
            .queue
            .as_ref()
            .is_some_and(|queue| *queue != notice.queue)
        {
            continue;
        }
        match auxo.service().find(Which::Id(notice.job)).await? {
            Some(job) if filter.matches(&job) => print(&[job], parts, output)?,
            Some(_) => {}
            None => print_gone(&notice, filter, parts, output)?,
        }
    }
    Ok(())
}

/// Of a job that is not kept, only its end is known. With a filter for anything else it may be one that nobody asked for.
fn print_gone(
    notice: &Notice,
    filter: &Filter,
    parts: &mut Parts<8>,
    output: &mut Output,
) -> Result<(), Failure> {
    let state = match notice.event {
        Event::Ack | Event::Take => State::Done,
        Event::Cancel | Event::Delete => State::Cancelled,
        // It is gone already, and the notice of its end is on its way.
        _ => return Ok(()),
    };
    let known = Filter {
        queue: filter.queue.clone(),
        states: filter.states.clone(),
        ..Filter::default()
    };
    let wanted = filter.states.is_empty() || filter.states.contains(&state);
    if *filter != known || !wanted {
        return Ok(());
    }
    let (id, queue) = (notice.job.to_string(), notice.queue.to_string());
    if output.is_json() {
        return output.json(&json!({ "id": id, "queue": queue, "state": state.as_str() }));
    }
    let mut row = [const { String::new() }; 8];
    row[..3].clone_from_slice(&[id, state.to_string(), queue]);
    output.part(parts, [row])
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
