//! `auxo work`

mod attempt;
mod capture;
mod exec;
mod group;
pub mod guard;
mod hold;
mod pool;
mod post;
mod report;
mod tell;
#[cfg(test)]
mod tests;
mod worker;

use std::time::Duration;

use auxo::core::engine::{Ask, Pick};
use auxo::{Auxo, QueueName};
use hyper::Uri;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::near::unknown;
use super::signals::Signals;
use attempt::{Stopper, Terms};
use exec::Exec;
use group::Groups;
use pool::{Pool, Until};
use post::Post;
use tell::Tell;
use worker::{Task, Worker};

const EXAMPLES: &str = "\
Examples:
  auxo work mail --exec './send-mail'
  auxo work urgent mail --exec 'jq -r .to | xargs -n1 notify' --concurrency 8 --timeout 5m
  auxo work mail --post http://127.0.0.1:3000/jobs --concurrency 32
  auxo work mail --exec 'cat > /tmp/letter' --drain --verbose
  auxo work mail --exec './send-mail' --json | jq 'select(.outcome == \"failed\")'

With --exec, sh runs the command with the payload on its stdin and AUXO_JOB_ID, AUXO_QUEUE,
AUXO_KIND, AUXO_ATTEMPT, AUXO_KEY and AUXO_HEADER_NAME for each header in its environment:
  exit 0        ack; stdout is the job's result, kept for the job's --retention
  exit 75       again after --retry-delay, and no failure is counted (EX_TEMPFAIL)
  else, or killed by a signal
                fail with the end of stderr as the error: again by the job's policy, or dead
What a command leaves running in its process group is killed when it ends.
The command also gets the worker's own environment, but not Auxo's secrets: of the variables that
begin with AUXO_ only AUXO_SERVER, AUXO_DATA and AUXO_CA, and none with a password in it. A command
that calls auxo itself needs a token of its own.

With --post, the payload is the body, and Auxo-Job-Id, Auxo-Queue, Auxo-Kind, Auxo-Attempt,
Auxo-Key and Auxo-Header-NAME are headers; content-type, traceparent and tracestate also pass
under their own names:
  2xx           ack; the body is the job's result
  429, 503, or no answer
                again after Retry-After or --retry-delay, and no failure is counted
  else          fail with the status and the body as the error

Leases are extended for as long as a job runs. A job that is cancelled is told to end. So is a job
whose lease cannot be extended, --kill-after before the lease ends, but not in the first three
quarters of it; when the lease is over, the job is killed. A worker that is killed leaves no command
running.
SIGTERM or SIGINT: no more jobs are taken, those that run have --grace to end, the rest is told to
end and given back. A second signal ends at once.
Exit code 0 if it ended as told, however the jobs went; 1 if the queue gave no answer for a minute.";

/// Take jobs, run each as a command or an HTTP request, and settle it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("task").required(true))]
pub struct Args {
    /// Where to look, in this order.
    #[arg(required = true, value_name = "QUEUE", value_parser = args::queue)]
    queues: Vec<QueueName>,
    /// Run each job with this command.
    #[arg(long, value_name = "CMD", group = "task")]
    exec: Option<String>,
    /// Post each job to this address.
    #[arg(long, value_name = "URL", group = "task", value_parser = post::url)]
    post: Option<Uri>,
    /// How many jobs at once.
    #[arg(long, value_name = "N", allow_hyphen_values = true, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    concurrency: u16,
    /// How long a job may take; then it is told to end, and has failed.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration)]
    timeout: Option<Duration>,
    /// How long a command that was told to end (SIGTERM) may take before it is killed (SIGKILL).
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "5s", value_parser = args::duration)]
    kill_after: Duration,
    /// How long running jobs may take after a signal.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "30s", value_parser = args::duration)]
    grace: Duration,
    /// The wait before a job that could not run now is tried again.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "10s", value_parser = args::duration)]
    retry_delay: Duration,
    /// How much of a job's output is kept as its result.
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true, default_value = "64KiB", value_parser = args::bytes)]
    max_output: u64,
    /// Lease length, instead of each job's own. How long a job of a worker that vanished is waited for.
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = args::duration)]
    ttr: Option<Duration>,
    /// A name for yourself, which others see beside the job [default: host and process id].
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    /// Stop when no job is due and none is running.
    #[arg(long, conflicts_with = "once")]
    drain: bool,
    /// Stop after one job, or at once if none is due.
    #[arg(long, conflicts_with = "concurrency")]
    once: bool,
    /// Say on stderr how each job went.
    #[arg(long, short)]
    verbose: bool,
}

pub async fn run(args: Args, context: &mut Context) -> Result<(), Failure> {
    let auxo = context.open(Missing::Refuse).await?;
    // From here on a signal is a wish to end well.
    let signals = Signals::new()?;
    let mut tell = Tell::new(args.verbose);
    greet(&auxo, &args, &tell).await?;
    let until = match (args.drain, args.once) {
        (true, _) => Until::Drained,
        (_, true) => Until::Once,
        _ => Until::Told,
    };
    let ask = Ask {
        queues: args.queues.clone(),
        job: None,
        pick: Pick::First,
        max: 1,
        wait: Duration::ZERO,
        ttr: args.ttr,
        worker: args.worker.clone().unwrap_or_else(name).into(),
    };
    let (room, grace) = (args.concurrency.into(), args.grace);
    let pool = Pool::new(worker(auxo, args)?, ask, room, grace, until);
    let ended = pool.run(signals, &mut tell, &mut context.output).await;
    tell.finish();
    ended
}

/// Says what is about to happen. A queue that does not exist is no mistake: its first job may come later.
async fn greet(auxo: &Auxo, args: &Args, tell: &Tell) -> Result<(), Failure> {
    let found = auxo.service().queues(Some(args.queues.clone())).await?;
    for name in &args.queues {
        if !found.iter().any(|queue| queue.name == *name) {
            let missing = unknown(auxo.service(), name).await?;
            tell.say(&format!("{}; waiting for its first job", missing.message()));
        }
    }
    let queues: Vec<&str> = args.queues.iter().map(QueueName::as_str).collect();
    let queues = queues.join(", ");
    tell.say(&format!(
        "working on {queues}, {} at a time",
        args.concurrency
    ));
    Ok(())
}

fn worker(auxo: Auxo, args: Args) -> Result<Worker, Failure> {
    let limits = auxo.service().limits();
    let most_output = usize::try_from(args.max_output).unwrap_or(usize::MAX);
    if most_output > limits.result {
        let message = format!("--max-output: a result can have {} bytes", limits.result);
        return Err(Failure::Usage(message));
    }
    let task = match (args.exec, args.post) {
        (Some(command), _) => Task::Exec(Exec {
            command,
            kill_after: args.kill_after,
            most_output,
            groups: Groups::guarded(),
        }),
        (None, Some(url)) => Task::Post(Box::new(Post::new(url, most_output))),
        (None, None) => return Err(Failure::Usage("name --exec CMD or --post URL".into())),
    };
    let terms = Terms {
        timeout: args.timeout,
        retry_delay: args.retry_delay,
        longest_delay: limits.delay,
    };
    Ok(Worker {
        auxo,
        task,
        terms,
        ttr: args.ttr,
        leaving: Stopper::new(),
    })
}

/// Which process on which machine.
fn name() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{host}:{}", std::process::id())
}
