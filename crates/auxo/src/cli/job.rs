//! `auxo job`

use auxo::core::engine::Which;
use auxo::core::json::show;
use auxo::core::text;
use auxo::{Code, Error, Job, JobId, QueueName};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::output::{Output, clean, content, instant};

const EXAMPLES: &str = "\
Examples:
  auxo job ID
  auxo job --queue mail --key welcome:ada
  auxo job ID --payload > letter.json            the bytes as they were pushed";

/// Show one job with its timeline.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    which: WhichArgs,
    /// Print the payload only, byte for byte.
    #[arg(long)]
    payload: bool,
}

/// One job, by its id or by its key.
#[derive(clap::Args)]
pub struct WhichArgs {
    /// The job.
    #[arg(value_parser = args::id, required_unless_present = "key", conflicts_with = "key")]
    id: Option<JobId>,
    /// The queue that the key belongs to.
    #[arg(long, value_parser = args::queue, requires = "key")]
    queue: Option<QueueName>,
    /// The job's key.
    #[arg(long, requires = "queue")]
    key: Option<String>,
}

impl WhichArgs {
    /// The job that is meant. The parser has seen to it that there is one way to read it.
    pub fn which(self) -> Result<Which, Failure> {
        match (self.id, self.queue, self.key) {
            (Some(id), ..) => Ok(Which::Id(id)),
            (None, Some(queue), Some(key)) => Ok(Which::Key(queue, key)),
            _ => Err(Failure::Usage(
                "name the job by ID, or by --queue and --key".into(),
            )),
        }
    }
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let which = args.which.which()?;
    let auxo = context.open(Missing::Refuse).await?;
    let job = auxo.service().find(which.clone()).await?;
    let job = job.ok_or_else(|| unknown(&which))?;
    let output = &mut context.output;
    if args.payload {
        output.bytes(&job.payload)
    } else if output.is_json() {
        output.json(&show::job(&job))
    } else {
        print(&job, output)
    }
}

fn unknown(which: &Which) -> Error {
    match which {
        Which::Id(id) => Error::new(Code::NotFound, format!("there is no job {id}")).about(*id),
        Which::Key(queue, key) => {
            let key = clean(key, 100);
            let message = format!("there is no job with the key {key:?} in queue {queue}");
            Error::new(Code::NotFound, message)
        }
    }
}

fn print(job: &Job, output: &mut Output) -> Result<(), Failure> {
    let text_of = |text: &Option<String>| clean(text.as_deref().unwrap_or(""), 500);
    let bytes_of = |bytes: &Option<_>| bytes.as_deref().map_or(String::new(), |b| content(b, 500));
    let headers = job
        .headers
        .iter()
        .map(|(name, value)| format!("{name}={value}"));
    output.block(&[
        ("job", job.id.to_string()),
        ("queue", job.queue.to_string()),
        ("kind", clean(&job.kind, 200)),
        ("state", state(job)),
        ("key", text_of(&job.key)),
        ("group", text_of(&job.group)),
        ("priority", job.priority.to_string()),
        ("run at", instant(job.run_at)),
        ("created", instant(job.created_at)),
        ("expires", job.expires_at.map(instant).unwrap_or_default()),
        ("ended", job.ended_at.map(instant).unwrap_or_default()),
        ("lease length", text::duration(job.ttr)),
        ("attempts", attempts(job)),
        ("last error", text_of(&job.last_error)),
        (
            "headers",
            clean(&headers.collect::<Vec<_>>().join(", "), 500),
        ),
        ("progress", bytes_of(&job.progress)),
        ("result", bytes_of(&job.result)),
        ("payload", content(&job.payload, 2000)),
    ])?;
    output.line("")?;
    output.table(
        1,
        ["TIME", "EVENT", "BY", "NOTE"],
        job.timeline.iter().map(|moment| {
            let event = moment.event.as_str().to_owned();
            let (by, note) = (clean(&moment.by, 100), clean(&moment.note, 300));
            [moment.at.to_string(), event, by, note]
        }),
    )
}

fn state(job: &Job) -> String {
    match (&job.holder, job.dead) {
        (Some(holder), _) => {
            let cancel = if holder.cancel { ", cancel asked" } else { "" };
            let (worker, deadline) = (clean(&holder.worker, 100), instant(holder.deadline));
            format!("{} by {worker} until {deadline}{cancel}", job.state)
        }
        (None, Some(reason)) => format!("{} ({})", job.state, reason.as_str()),
        (None, None) => job.state.to_string(),
    }
}

fn attempts(job: &Job) -> String {
    format!(
        "{} ({} failed, {} vanished, dead after {})",
        job.attempt, job.failures, job.vanished, job.max_attempts
    )
}
