//! The verbs, and what they have in common: data goes to stdout, talk to stderr, and the exit code is 0, 1 (refused or
//! failed) or 2 (wrong usage).

mod ack;
mod args;
mod audit;
mod bar;
mod bench;
mod bury;
mod cancel;
mod completions;
mod config;
mod context;
mod credentials;
mod delete;
mod events;
mod explain;
mod extend;
mod fail;
mod failure;
mod filter;
mod follow;
mod job;
mod jobs;
mod kick;
mod lease;
mod man;
mod migrate;
mod near;
mod output;
mod pause;
mod purge;
mod push;
mod queues;
mod release;
mod reschedule;
mod resume;
mod salvage;
mod schedules;
mod serve;
mod settle;
mod signals;
mod snooze;
mod spec;
mod steer;
mod token;
mod topics;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use context::{Context, Place};
use credentials::{Credentials, Named};
use failure::Failure;

/// A job queue that keeps every accepted job and hands it out on time.
#[derive(Parser)]
#[command(name = "auxo", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    /// The server to work on [env: AUXO_SERVER] [default: http://127.0.0.1:8000].
    #[arg(long, global = true, value_name = "URL")]
    server: Option<String>,
    /// A data directory to work on instead, without a server; one process can use it at a time [env: AUXO_DATA].
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A file with the token for the server [env: AUXO_TOKEN_FILE, or the token itself: AUXO_TOKEN].
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The authority to trust about an https server, in PEM; the system's unless said [env: AUXO_CA].
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// A certificate for a server that wants one of its clients, in PEM [env: AUXO_CLIENT_CERT].
    #[arg(long, global = true, value_name = "FILE")]
    client_cert: Option<PathBuf>,
    /// The key of that certificate, in PEM [env: AUXO_CLIENT_KEY].
    #[arg(long, global = true, value_name = "FILE")]
    client_key: Option<PathBuf>,
    /// Print JSON, one object a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

const EXAMPLES: &str = "\
Examples:
  auxo push mail '{\"to\":\"ada\"}' --delay 5s    push a job, print its id
  auxo lease mail --wait 10s                  get it, with its token
  auxo ack TOKEN                              it is done
  auxo queues                                 what is there
  auxo queues --server http://queue.lan:8000  the same elsewhere
  auxo queues --data ./data                   the same without a server

Exit codes: 0 done, 1 refused or failed, 2 wrong usage.";

#[derive(Subcommand)]
enum Verb {
    Serve(serve::Args),
    Push(push::Args),
    Lease(lease::Args),
    Ack(ack::Args),
    Fail(fail::Args),
    Release(release::Args),
    Bury(bury::Args),
    Snooze(snooze::Args),
    Extend(extend::Args),
    Work(work::Args),
    Job(job::Args),
    Jobs(jobs::Args),
    Events(events::Args),
    Explain(explain::Args),
    Queues(queues::Args),
    Pause(pause::Args),
    Resume(resume::Args),
    Purge(purge::Args),
    Kick(kick::Args),
    Cancel(cancel::Args),
    Reschedule(reschedule::Args),
    Delete(delete::Args),
    Topics(topics::Args),
    Schedules(schedules::Args),
    Audit(audit::Args),
    Salvage(salvage::Args),
    Migrate(migrate::Args),
    Token(token::Args),
    Bench(bench::Args),
    Completions(completions::Args),
    Man(man::Args),
    Config(config::Args),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|first| first == work::guard::ARGUMENT)
    {
        return work::guard::main();
    }
    let cli = Cli::parse();
    let json = cli.json;
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return failure::report(&Failure::Io(error), json),
    };
    match runtime.block_on(run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure::report(&failure, json),
    }
}

async fn run(cli: Cli) -> Result<(), Failure> {
    signals::survive_file_limit().map_err(Failure::Io)?;
    let env = |name: &str| std::env::var_os(name);
    let place = Place::choose(cli.data, cli.server, env)?;
    let named = Named {
        token_file: cli.token_file,
        ca: cli.ca,
        cert: cli.client_cert,
        key: cli.client_key,
    };
    let credentials = Credentials::gather(named, env);
    let mut context = Context::new(place, credentials, cli.json);
    let ran = dispatch(cli.verb, &mut context).await;
    let closed = context.finish().await;
    ran.and(closed)
}

async fn dispatch(verb: Verb, context: &mut Context) -> Result<(), Failure> {
    match verb {
        Verb::Serve(args) => serve::run(args, context).await,
        Verb::Push(args) => push::run(args, context).await,
        Verb::Lease(args) => lease::run(args, context).await,
        Verb::Ack(args) => ack::run(args, context).await,
        Verb::Fail(args) => fail::run(args, context).await,
        Verb::Release(args) => release::run(args, context).await,
        Verb::Bury(args) => bury::run(args, context).await,
        Verb::Snooze(args) => snooze::run(args, context).await,
        Verb::Extend(args) => extend::run(args, context).await,
        Verb::Work(args) => work::run(args, context).await,
        Verb::Job(args) => job::run(args, context).await,
        Verb::Jobs(args) => jobs::run(args, context).await,
        Verb::Events(args) => events::run(args, context).await,
        Verb::Explain(args) => explain::run(args, context).await,
        Verb::Queues(args) => queues::run(args, context).await,
        Verb::Pause(args) => pause::run(args, context).await,
        Verb::Resume(args) => resume::run(args, context).await,
        Verb::Purge(args) => purge::run(args, context).await,
        Verb::Kick(args) => kick::run(args, context).await,
        Verb::Cancel(args) => cancel::run(args, context).await,
        Verb::Reschedule(args) => reschedule::run(args, context).await,
        Verb::Delete(args) => delete::run(args, context).await,
        Verb::Topics(args) => topics::run(args, context).await,
        Verb::Schedules(args) => schedules::run(args, context).await,
        Verb::Audit(args) => audit::run(args, context).await,
        Verb::Salvage(args) => salvage::run(args, context).await,
        Verb::Migrate(args) => migrate::run(args, context).await,
        Verb::Token(args) => token::run(args, context),
        Verb::Bench(args) => bench::run(args, context).await,
        Verb::Completions(args) => completions::run(&args, context),
        Verb::Man(args) => man::run(args, context),
        Verb::Config(args) => config::run(args, context),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed_and_every_verb_shows_examples() {
        let mut command = super::Cli::command();
        command.build();
        command.clone().debug_assert();
        for verb in command
            .get_subcommands()
            .filter(|verb| verb.get_name() != "help")
        {
            let help = verb.get_after_help().map(ToString::to_string);
            let name = verb.get_name();
            assert!(
                help.is_some_and(|help| help.contains(&format!("auxo {name}"))),
                "{name} has no examples"
            );
        }
    }
}
