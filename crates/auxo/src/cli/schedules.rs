//! `auxo schedules`

use std::time::Duration;

use auxo::QueueName;
use auxo::core::When;
use auxo::core::engine::Change;
use auxo::core::json::show;
use auxo::core::schedule::{Missed, Rhythm, Schedule};
use auxo::core::text;
use serde_json::json;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::output::{clean, distance};
use super::spec::SpecArgs;

const EXAMPLES: &str = "\
Examples:
  auxo schedules set nightly reports --cron '30 2 * * *' --zone Europe/Berlin
  auxo schedules set pulse health --every 30s '{\"check\":\"all\"}' --ttl 30s
  auxo schedules
  auxo schedules delete nightly

Ticks make jobs while the server runs, or a process has the data directory open; what was missed
meanwhile is made up for as --missed says.";

/// Recurring jobs, by the calendar or by an interval.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Show all schedules, as without a command.
    List,
    /// Add or replace a schedule.
    Set(Box<SetArgs>),
    /// Remove a schedule; its jobs stay.
    Delete {
        /// The schedule.
        name: String,
    },
}

#[derive(clap::Args)]
struct SetArgs {
    /// The schedule's name.
    name: String,
    /// The queue that gets the jobs.
    #[arg(value_parser = args::queue)]
    queue: QueueName,
    /// Five fields, six with seconds first, or an alias such as @daily.
    #[arg(long, value_name = "EXPR", conflicts_with = "every")]
    cron: Option<String>,
    /// The time zone of --cron.
    #[arg(
        long,
        value_name = "ZONE",
        requires = "cron",
        default_value = "UTC",
        conflicts_with = "every"
    )]
    zone: String,
    /// Each time this long has passed.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration)]
    every: Option<Duration>,
    /// Ticks that nobody was there for: skip them, make them up once, or all of them.
    #[arg(long, value_name = "POLICY", default_value = "once", value_parser = args::missed)]
    missed: Missed,
    #[command(flatten)]
    spec: SpecArgs,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    match args.verb {
        None | Some(Verb::List) => list(context).await,
        Some(Verb::Set(args)) => set(*args, context).await,
        Some(Verb::Delete { name }) => {
            let auxo = context.open(Missing::Refuse).await?;
            auxo.unschedule(&name).await?;
            if context.output.is_json() {
                let removed = json!({ "name": name, "removed": true });
                return context.output.json(&removed);
            }
            eprintln!("schedule {} is gone; its jobs stay", clean(&name, 200));
            Ok(())
        }
    }
}

async fn list(context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let schedules = auxo.service().catalog().await?.schedules;
    let output = &mut context.output;
    if output.is_json() {
        let mut lines = schedules.iter().map(show::schedule);
        return lines.try_for_each(|line| output.json(&line));
    }
    if schedules.is_empty() {
        eprintln!("no schedule yet");
        return Ok(());
    }
    output.table(
        1,
        ["SCHEDULE", "QUEUE", "WHEN", "NEXT", "LAST"],
        schedules.iter().map(row),
    )
}

fn row(schedule: &Schedule) -> [String; 5] {
    let rhythm = match &schedule.rhythm {
        Rhythm::Cron { expression, zone } => format!("{expression} {zone}"),
        Rhythm::Every(period) => format!("every {}", text::duration(*period)),
    };
    [
        clean(&schedule.name, 200),
        schedule.queue.to_string(),
        clean(&rhythm, 200),
        schedule
            .next
            .map(|due| distance(due.at))
            .unwrap_or_default(),
        schedule.last.map(distance).unwrap_or_default(),
    ]
}

async fn set(args: SetArgs, context: &mut Context) -> Result<(), Failure> {
    let rhythm = match (args.every, args.cron) {
        (Some(period), _) => Rhythm::Every(period),
        (None, Some(expression)) => Rhythm::Cron {
            expression,
            zone: args.zone,
        },
        (None, None) => {
            return Err(Failure::Usage(
                "say when: --cron EXPR or --every DURATION".into(),
            ));
        }
    };
    let name = args.name;
    let schedule = Schedule {
        name: name.clone(),
        queue: args.queue,
        rhythm,
        missed: args.missed,
        spec: args.spec.into_spec(When::Now)?,
        next: None,
        last: None,
    };
    let auxo = context.open(Missing::Create).await?;
    let service = auxo.service();
    service.change(Change::Schedule(schedule)).await?;
    let schedules = service.catalog().await?.schedules;
    let Some(set) = schedules.iter().find(|schedule| schedule.name == name) else {
        return Ok(());
    };
    if context.output.is_json() {
        return context.output.json(&show::schedule(set));
    }
    match set.next {
        Some(due) => eprintln!("the first tick is {}", distance(due.at)),
        None => eprintln!("this schedule will never tick"),
    }
    Ok(())
}
