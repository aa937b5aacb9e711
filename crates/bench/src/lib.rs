//! Benchmarks one can repeat: each module answers one question about an engine, measures all sides of it in one run,
//! alternating, and prints hardware, settings and durability beside the numbers.
//!
//! [`raw`]: what do queue semantics cost over appending the same bytes to a log? [`store`]: how does the engine compare
//! with a general store doing the same work? [`backlog`]: what do ten million waiting jobs cost? [`timers`]: how punctual
//! are due jobs, and how quiet is the engine while nothing is due? [`many`]: do many queues, or many groups, slow it down?
//! [`http`]: what does the server cost over the wire it speaks on? [`wires`]: and in languages that others speak, too?
//! [`redis`]: what do Redis itself and other queues on it do?
//!
//! The machine is often shared, so ratios, CPU time per job and bytes per job say more than rates do.

pub mod backlog;
mod counted;
mod dice;
mod drive;
mod host;
pub mod http;
pub mod many;
mod plan;
pub mod raw;
pub mod redis;
#[cfg(feature = "redb")]
pub mod store;
mod table;
pub mod timers;
pub mod wires;

use std::process::ExitCode;

pub use plan::Plan;

/// What can go wrong: anything, and then the run is worth nothing.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Runs the benchmarks that `args` name; `again` are the arguments that lead a new process of this program back here,
/// because some questions need a process of their own to be killed or weighed.
pub fn main(args: Vec<String>, again: &[&str]) -> ExitCode {
    let plan = match Plan::parse(args, again) {
        Ok(Some(plan)) => plan,
        Ok(None) => {
            println!("{}", plan::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n{}", plan::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs what the plan names.
pub fn run(plan: &Plan) -> Result<()> {
    if let Some(part) = &plan.part {
        return match part.as_str() {
            "hold" => backlog::hold(plan),
            "drain" => backlog::drain(plan),
            "far" => timers::far(plan),
            "echo" => http::echo::serve(plan),
            other => Err(format!("there is no part {other:?}").into()),
        };
    }
    host::print_header(plan)?;
    for question in &plan.questions {
        match question.as_str() {
            "raw" => raw::run(plan)?,
            "synced" => raw::run_synced(plan)?,
            "callers" => raw::run_callers(plan)?,
            #[cfg(feature = "redb")]
            "store" => store::run(plan)?,
            "backlog" => backlog::run(plan)?,
            "timers" => timers::run(plan)?,
            "many" => many::run(plan)?,
            "http" => http::run(plan)?,
            "waiting" => http::run_waiting(plan)?,
            "grpc" => http::run_grpc(plan)?,
            "beanstalk" => wires::run_beanstalk(plan)?,
            "resp" => wires::run_resp(plan)?,
            "redis-push" => redis::run_push(plan)?,
            "redis-consume" => redis::run_consume(plan)?,
            "redis-far" => redis::run_far(plan)?,
            "redis-idle" => redis::run_idle(plan)?,
            "redis-waiting" => redis::run_waiting(plan)?,
            "redis-neighbour" => redis::run_neighbour(plan)?,
            other => return Err(format!("{other:?} is not built in").into()),
        }
    }
    Ok(())
}
