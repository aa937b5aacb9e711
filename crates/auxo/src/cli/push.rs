//! `auxo push`

mod away;
mod lines;
mod many;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use auxo::core::When;
use auxo::core::engine::Accepted;
use auxo::core::job::NewJob;
use auxo::core::json::show;
use auxo::{Auxo, Error, JobSpec, Pushed, QueueName};
use tokio::sync::{mpsc, oneshot};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::output::Output;
use super::signals::Signals;
use super::spec::{SpecArgs, WhenArgs};
use lines::{Form, Keys, Lines};
use many::{IN_A_DIRECTORY, Tally, Way};

const EXAMPLES: &str = "\
Examples:
  auxo push mail '{\"to\":\"ada\"}'
  auxo push mail --file letter.json --kind welcome --delay 1h30m
  auxo push mail 'hello' --key welcome:ada --on-duplicate return
  auxo push mail 'hello' --max-attempts 3 --backoff '{\"kind\":\"list\",\"delays\":[\"5s\",\"1m\"]}'
  echo '{}' | auxo push mail --file - --json
  seq 1 1000000 | auxo push numbers --lines
  auxo push mail --lines letters.txt --kind welcome --delay 1h --keys 'letters of may'
  auxo push mail --objects jobs.jsonl

With --lines each line is the payload of a job, an empty one too; the other flags apply to each.
With --objects each line is a job in JSON with the fields of an HTTP push, such as
  {\"payload\": {\"to\": \"ada\"}, \"delay\": \"5s\", \"key\": \"welcome:ada\"}
The jobs have the order of the lines. To a server one batch is sent after the other for that; with
--parallel N it is N at once, which is faster, and the jobs then do not keep the order of the lines.
Instead of ids, a summary is printed. A line that is refused is named and the others go on; exit
code 1 if there was one.

A server that goes away is tried again for the time of --patience, and what it had not answered is
pushed again when it is back. So that this makes no job twice, a job that is pushed to a server by
its line and has no key gets one of its own, lines-RUN:LINE, which is held for an hour after the
job was done. If the server stays away, the command says with which --keys to repeat it: what is
there already is then not pushed again. SIGINT and SIGTERM end the command in the same way, with what
is on its way; a second one does not wait for that.";

/// Put a job into a queue and print its id, or a job for each line of a file.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The queue.
    #[arg(value_parser = args::queue)]
    queue: QueueName,
    /// Push a job for each line of a file, or of stdin.
    #[arg(
        long,
        value_name = "FILE",
        group = "each",
        num_args = 0..=1,
        default_missing_value = "-",
        conflicts_with_all = ["payload", "file", "key"]
    )]
    lines: Option<PathBuf>,
    /// Give the job of each line the key PREFIX:LINE, unless it has one.
    #[arg(long, value_name = "PREFIX", requires = "each")]
    keys: Option<String>,
    /// Push a job for each line of a file, or of stdin, that is a job in JSON.
    #[arg(
        long,
        value_name = "FILE",
        group = "each",
        num_args = 0..=1,
        default_missing_value = "-",
        conflicts_with_all = [
            "payload", "file", "lines", "kind", "priority", "ttr", "ttl", "expires_at", "max_attempts", "backoff", "key",
            "group", "retention", "headers", "delay", "run_at",
        ]
    )]
    objects: Option<PathBuf>,
    /// How long to try again for when the server gives no answer.
    #[arg(
        long,
        value_name = "TIME",
        requires = "each",
        default_value = "60s",
        value_parser = patience
    )]
    patience: Duration,
    /// How many batches to send to a server at once, 1 to 16; with more than one the jobs do not keep the order of the lines.
    #[arg(
        long,
        value_name = "N",
        requires = "each",
        default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=16)
    )]
    parallel: u8,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    when: WhenArgs,
}

/// Half of the time for which a key without a wish for it is held.
const MOST_PATIENCE: Duration = Duration::from_secs(30 * 60);

fn patience(text: &str) -> Result<Duration, String> {
    let time = args::duration(text)?;
    match time <= MOST_PATIENCE {
        true => Ok(time),
        false => Err("half an hour at most".to_owned()),
    }
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let spec = args.spec.into_spec(args.when.when().unwrap_or(When::Now))?;
    let (file, form) = match (args.lines, args.objects) {
        (Some(file), _) => (file, Form::Payload(Box::new(spec))),
        (None, Some(file)) => (file, Form::Object),
        (None, None) => return push_one(args.queue, spec, context).await,
    };
    let (input, size) = open(&file)?;
    let auxo = context.open(Missing::Create).await?;
    let keys = match args.keys {
        Some(prefix) => Keys::Named(prefix),
        // From a directory of this process no answer gets lost.
        None if context.is_local() => Keys::Without,
        None => Keys::own()?,
    };
    let lines = Lines {
        queue: args.queue,
        form,
        keys,
        limits: auxo.service().limits().clone(),
    };
    let way = Way {
        patience: args.patience,
        at_once: match context.is_local() {
            true => IN_A_DIRECTORY,
            false => args.parallel.into(),
        },
    };
    let tally = Tally::new(size);
    push_lines(&auxo, lines, way, input, tally, &mut context.output).await
}

async fn push_one(queue: QueueName, spec: JobSpec, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Create).await?;
    let job = NewJob { queue, spec };
    for pushed in auxo.service().push(vec![job]).await? {
        print(&pushed?, &mut context.output)?;
    }
    Ok(())
}

async fn push_lines(
    auxo: &Auxo,
    lines: Lines,
    way: Way,
    input: Input,
    mut tally: Tally,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let (sender, batches) = mpsc::channel(1);
    // A thread of its own, not one of the runtime's: a runtime waits for those at its end, and this one may wait for
    // input that never comes.
    let (tell, told) = oneshot::channel();
    let keys = lines.keys.clone();
    std::thread::spawn(move || tell.send(lines.read(input, &sender)));
    many::push(auxo, &keys, way, batches, &mut signals, &mut tally).await;
    tally.finish(&keys, output)?;
    // Nothing interrupted it and every batch was answered, so the reader has come to its end.
    Ok(told.await.map_err(io::Error::other)??)
}

type Input = Box<dyn Read + Send>;

/// The input, and its size if it has one.
fn open(file: &Path) -> Result<(Input, Option<u64>), Failure> {
    if file.as_os_str() == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let opened = File::open(file).and_then(|file| {
        let size = file.metadata()?;
        Ok((file, size.is_file().then_some(size.len())))
    });
    let refused = |error| Error::bad_request(format!("{}: {error}", file.display()));
    let (file, size) = opened.map_err(refused)?;
    Ok((Box::new(file), size))
}

fn print(pushed: &Pushed, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(&show::pushed(pushed));
    }
    match pushed.how {
        Accepted::New => {}
        Accepted::Existing => eprintln!("a job with this key was there already: {}", pushed.state),
        Accepted::Replaced => eprintln!("the waiting job with this key was replaced"),
    }
    output.line(pushed.id)
}
