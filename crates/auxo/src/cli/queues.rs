//! `auxo queues`

use std::fmt::Display;
use std::time::SystemTime;

use auxo::core::engine::{Change, QueueList};
use auxo::core::json::show;
use auxo::core::queue::{Books, QueueConfig};
use auxo::core::service::Service;
use auxo::core::text;
use auxo::{QueueInfo, QueueName, Rate, Timestamp};
use serde_json::json;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::near::{existing, unknown};
use super::output::{Output, distance};

const EXAMPLES: &str = "\
Examples:
  auxo queues
  auxo queues mail urgent --json
  auxo queues set mail --max-jobs 100000 --rate 50/1s
  auxo queues set mail --max-jobs none";

/// Show queues, or change the settings of one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// Only these.
    #[arg(value_name = "QUEUE", value_parser = args::queue)]
    names: Vec<QueueName>,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(clap::Subcommand)]
enum Verb {
    Set(SetArgs),
}

/// Change settings; what is not named stays as it is.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  auxo queues set mail --max-leased 10
  auxo queues set mail --rate 100/1m/20 --fair true
  auxo queues set later --max-jobs 1000 --create
  auxo queues set mail --max-bytes 64MiB")]
struct SetArgs {
    /// The queue.
    #[arg(value_parser = args::queue)]
    name: QueueName,
    /// Make the queue, and a local data directory, if they are not there yet.
    #[arg(long)]
    create: bool,
    /// The most jobs that wait, are leased or dead at once, or none.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = args::limit)]
    max_jobs: Option<Limit>,
    /// The most payload bytes of these jobs, or none.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, value_parser = args::size)]
    max_bytes: Option<Limit>,
    /// The most jobs leased at once, or none.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = args::limit)]
    max_leased: Option<Limit>,
    /// The most leases in a time, such as 100/1s or 100/1s/500 with a burst, or none.
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, value_parser = args::rate)]
    rate: Option<MaybeRate>,
    /// Whether groups take turns within a priority.
    #[arg(long, value_name = "BOOL", action = clap::ArgAction::Set)]
    fair: Option<bool>,
    /// Over how many shards of a store on Redis the queue is spread, or none for one.
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = args::limit)]
    shards: Option<Limit>,
}

// The parser would take `Option<Option<…>>` for a flag with an optional value.
type Limit = Option<u64>;
type MaybeRate = Option<Rate>;

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    match args.verb {
        Some(Verb::Set(args)) => set(args, context).await,
        None => list(args.names, context).await,
    }
}

async fn list(names: Vec<QueueName>, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let service = auxo.service();
    let (list, forgotten) = match names.as_slice() {
        [] => (
            service.reachable_queues().await?,
            service.forgotten().await?,
        ),
        names => {
            let named = QueueList::whole(existing(service, names).await?);
            (named, Books::default())
        }
    };
    let forgotten = Some(forgotten).filter(|books| !books.is_empty());
    print(&list, forgotten, &mut context.output)?;
    if list.unavailable.is_empty() {
        return Ok(());
    }
    context.output.flush()?;
    for outage in &list.unavailable {
        eprintln!("not shown: the queues of {}: {}", outage.part, outage.why);
    }
    Err(Failure::Said)
}

fn print(list: &QueueList, forgotten: Option<Books>, output: &mut Output) -> Result<(), Failure> {
    let queues = &list.queues;
    if output.is_json() {
        queues
            .iter()
            .try_for_each(|queue| output.json(&show::queue(queue)))?;
        return match forgotten {
            Some(books) => output.json(&json!({ "forgotten": show::books(&books) })),
            None => Ok(()),
        };
    }
    if queues.is_empty() && forgotten.is_none() && list.unavailable.is_empty() {
        eprintln!("no queue yet; `auxo push QUEUE PAYLOAD` makes one");
        return Ok(());
    }
    output.table(
        1,
        [
            "QUEUE",
            "READY",
            "SCHEDULED",
            "LEASED",
            "DEAD",
            "DONE",
            "NEXT DUE",
            "SETTINGS",
        ],
        queues
            .iter()
            .map(row)
            .chain(forgotten.as_ref().map(forgotten_row)),
    )
}

/// What is left of queues that were forgotten. No queue can be called so.
fn forgotten_row(books: &Books) -> [String; 8] {
    let done = books.done.to_string();
    let [none, nothing] = ["0".to_owned(), String::new()];
    let name = "(forgotten)".to_owned();
    [
        name,
        none.clone(),
        none.clone(),
        none.clone(),
        none,
        done,
        nothing.clone(),
        nothing,
    ]
}

fn row(queue: &QueueInfo) -> [String; 8] {
    [
        queue.name.to_string(),
        queue.counts.ready.to_string(),
        queue.counts.scheduled.to_string(),
        queue.counts.leased.to_string(),
        queue.counts.dead.to_string(),
        queue.books.done.to_string(),
        queue.next_due.map(distance).unwrap_or_default(),
        settings(&queue.config),
    ]
}

/// What is set on a queue, in words; empty when nothing is.
fn settings(config: &QueueConfig) -> String {
    let paused = match (config.paused_in, config.paused_out) {
        (true, true) => Some("paused".to_owned()),
        (true, false) => Some("paused in".to_owned()),
        (false, true) => Some("paused out".to_owned()),
        (false, false) => None,
    };
    // One that is over says nothing any more.
    let until = config.pause_ends(Timestamp::from(SystemTime::now()));
    let rate = |rate: Rate| format!("rate {}/{}", rate.count, text::duration(rate.per));
    [
        paused,
        until.map(|until| format!("paused until {until}")),
        config.max_jobs.map(|most| format!("max jobs {most}")),
        config
            .max_bytes
            .map(|most| format!("max bytes {}", text::size(most))),
        config.max_leased.map(|most| format!("max leased {most}")),
        config.rate.map(rate),
        config.fair.then(|| "fair".to_owned()),
        config.shards.map(|shards| format!("shards {shards}")),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ")
}

async fn set(args: SetArgs, context: &mut Context) -> Result<(), Failure> {
    let max_leased = narrow(args.max_leased, "--max-leased", u32::MAX)?;
    let shards = narrow(args.shards, "--shards", u16::MAX)?;
    let missing = Missing::unless(args.create);
    let auxo = context.open(missing).await?;
    let config = change(auxo.service(), &args.name, missing, |config| {
        config.max_jobs = args.max_jobs.unwrap_or(config.max_jobs);
        config.max_bytes = args.max_bytes.unwrap_or(config.max_bytes);
        config.max_leased = max_leased.unwrap_or(config.max_leased);
        config.rate = args.rate.unwrap_or(config.rate);
        config.fair = args.fair.unwrap_or(config.fair);
        config.shards = shards.unwrap_or(config.shards);
    })
    .await?;
    tell(&args.name, &config, context)
}

/// A limit as the smaller number that it must be.
fn narrow<N: TryFrom<u64> + Display>(
    limit: Option<Limit>,
    flag: &str,
    most: N,
) -> Result<Option<Option<N>>, Failure> {
    let small = |number: u64| match number {
        0 => None,
        number => N::try_from(number).ok(),
    };
    let small = |limit: Limit| match limit {
        None => Some(None),
        Some(number) => small(number).map(Some),
    };
    let wrong = || Failure::Usage(format!("{flag} takes a number from 1 to {most}, or none"));
    let narrowed = limit.map(|limit| small(limit).ok_or_else(wrong));
    narrowed.transpose()
}

/// Changes a part of a queue's settings. On a server the last of two who do so in the same moment wins; on a data directory,
/// which this process has to itself, nothing comes in between.
pub async fn change(
    service: &Service,
    name: &QueueName,
    missing: Missing,
    change: impl FnOnce(&mut QueueConfig),
) -> Result<QueueConfig, Failure> {
    let found = service.queues(Some(vec![name.clone()])).await?;
    let mut config = match (found.into_iter().next(), missing) {
        (Some(queue), _) => queue.config,
        (None, Missing::Create) => QueueConfig::default(),
        (None, Missing::Refuse) => return Err(unknown(service, name).await?.into()),
    };
    change(&mut config);
    service
        .change(Change::Queue(name.clone(), config.clone()))
        .await?;
    // A span has become an instant.
    let found = service.queues(Some(vec![name.clone()])).await?;
    Ok(found
        .into_iter()
        .next()
        .map_or(config, |queue| queue.config))
}

/// Says what is set on a queue now.
pub fn tell(name: &QueueName, config: &QueueConfig, context: &mut Context) -> Result<(), Failure> {
    if context.output.is_json() {
        return context
            .output
            .json(&json!({ "name": name.as_str(), "config": show::queue_config(config) }));
    }
    let settings = settings(config);
    let settings = if settings.is_empty() {
        "no limits"
    } else {
        &settings
    };
    context.output.line(format!("{name}: {settings}"))
}
