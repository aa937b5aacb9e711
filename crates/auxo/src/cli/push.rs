//! `auxo push`

use auxo::core::When;
use auxo::core::engine::Accepted;
use auxo::core::job::NewJob;
use auxo::core::json::show;
use auxo::{Pushed, QueueName};

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::output::Output;
use super::spec::{SpecArgs, WhenArgs};

const EXAMPLES: &str = "\
Examples:
  auxo push mail '{\"to\":\"ada\"}'
  auxo push mail --file letter.json --kind welcome --delay 1h30m
  auxo push mail 'hello' --key welcome:ada --on-duplicate return
  auxo push mail 'hello' --max-attempts 3 --backoff '{\"kind\":\"list\",\"delays\":[\"5s\",\"1m\"]}'
  echo '{}' | auxo push mail --file - --json";

/// Put a job into a queue and print its id.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The queue.
    #[arg(value_parser = args::queue)]
    queue: QueueName,
    #[command(flatten)]
    spec: SpecArgs,
    #[command(flatten)]
    when: WhenArgs,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let job = NewJob {
        queue: args.queue,
        spec: args.spec.into_spec(args.when.when().unwrap_or(When::Now))?,
    };
    let auxo = context.open(Missing::Create).await?;
    for pushed in auxo.service().push(vec![job]).await? {
        print(&pushed?, &mut context.output)?;
    }
    Ok(())
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
