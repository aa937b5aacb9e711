//! `auxo events`

use auxo::core::event::Notice;
use auxo::core::json::show;
use auxo::core::life::Event;
use auxo::{JobId, QueueName};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::follow::{Follow, ended};
use super::output::{Output, clean};

const EXAMPLES: &str = "\
Examples:
  auxo events
  auxo events --queue mail --event fail,exhaust,expire
  auxo events --job ID
  auxo events --json | jq -r 'select(.event == \"retry\") | .note'

It goes on until SIGINT or SIGTERM, or until its reader is gone, and ends with code 0.";

/// Show what happens to jobs, as it happens.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Only in these queues.
    #[arg(long = "queue", value_name = "QUEUE", value_delimiter = ',', value_parser = args::queue)]
    queues: Vec<QueueName>,
    /// Only these events.
    #[arg(long = "event", value_name = "EVENT", value_delimiter = ',', value_parser = event)]
    events: Vec<Event>,
    /// Only of these jobs.
    #[arg(long = "job", value_name = "ID", value_delimiter = ',', value_parser = args::id)]
    jobs: Vec<JobId>,
}

impl Args {
    fn wants(&self, notice: &Notice) -> bool {
        (self.queues.is_empty() || self.queues.contains(&notice.queue))
            && (self.events.is_empty() || self.events.contains(&notice.event))
            && (self.jobs.is_empty() || self.jobs.contains(&notice.job))
    }
}

fn event(input: &str) -> Result<Event, String> {
    let found = Event::ALL.into_iter().find(|event| event.as_str() == input);
    found.ok_or_else(|| format!("write one of {}", Event::ALL.map(Event::as_str).join(", ")))
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    let mut follow = Follow::new(&auxo)?;
    // A stream is opened again for as long as it takes. A server that is not there to begin with is a slip, and told at once.
    auxo.service().catalog().await?;
    eprintln!("following; stop with Ctrl-C");
    let result = stream(&args, &mut follow, &mut context.output).await;
    ended(result, context)
}

async fn stream(args: &Args, follow: &mut Follow, output: &mut Output) -> Result<(), Failure> {
    while let Some(notice) = follow.next(output).await? {
        if !args.wants(&notice) {
            continue;
        }
        if output.is_json() {
            output.json(&show::notice(&notice))?;
        } else {
            output.line(line(&notice))?;
        }
    }
    Ok(())
}

fn line(notice: &Notice) -> String {
    let (by, note) = (clean(&notice.by, 100), clean(&notice.note, 300));
    let start = format!(
        "{}  {:10}  {}  {}",
        notice.at, notice.event, notice.job, notice.queue
    );
    let rest = [by, note].into_iter().filter(|text| !text.is_empty());
    rest.fold(start, |line, text| line + "  " + &text)
}

#[cfg(test)]
mod tests {
    use auxo::Timestamp;

    use super::*;

    #[test]
    fn a_line_leaves_out_what_is_empty_and_cannot_drive_a_terminal() {
        let mut notice = Notice {
            sequence: 1,
            at: Timestamp(0),
            queue: QueueName::new("mail").unwrap(),
            job: JobId(7),
            event: Event::Retry,
            by: "".into(),
            note: "\x1b[31m".into(),
        };
        let start = "1970-01-01T00:00:00.000Z  retry       7  mail";
        assert_eq!(line(&notice), format!("{start}  \\u{{1b}}[31m"));
        notice.note = "".into();
        assert_eq!(line(&notice), start);
    }
}
