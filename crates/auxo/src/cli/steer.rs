//! What kick, cancel, reschedule and delete have in common: named jobs, or those that a filter shows.

use std::io::{IsTerminal, Write};

use auxo::core::engine::{Action, Filter, Mode, Order, Target};
use auxo::{Auxo, JobId, State};
use serde_json::json;

use super::args;
use super::context::{Context, Missing};
use super::failure::Failure;
use super::filter::{FilterArgs, PAGE};
use super::settle::each;

/// Which jobs to move.
#[derive(clap::Args)]
pub struct Targets {
    /// The jobs; without any, a filter is needed.
    #[arg(value_name = "ID", value_parser = args::id)]
    ids: Vec<JobId>,
    /// Only say how many jobs it would be.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do not ask, also without --queue.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    filter: FilterArgs,
}

/// Makes the move and tells what came of it; `past` is its verb, such as `kicked`.
pub async fn steer(
    targets: Targets,
    action: Action,
    past: &str,
    context: &mut Context,
) -> Result<(), Failure> {
    let mode = if targets.dry_run {
        Mode::DryRun
    } else {
        Mode::Act
    };
    let filter = Filter::from(targets.filter);
    match (targets.ids.is_empty(), filter == Filter::default()) {
        (true, true) => Err(Failure::Usage(
            "name the jobs by id, or choose them with a filter such as --queue and --state".into(),
        )),
        (false, false) => Err(Failure::Usage("give ids or a filter, not both".into())),
        (false, true) => {
            let auxo = context.open(Missing::Refuse).await?;
            named(&auxo, targets.ids, (action, mode), past, context).await
        }
        (true, false) => {
            let auxo = context.open(Missing::Refuse).await?;
            let service = auxo.service();
            // A filter without a queue reaches into everybody's.
            if filter.queue.is_none() && mode == Mode::Act && !targets.yes {
                let count = service
                    .bulk(filter.clone(), action.clone(), Mode::DryRun, |_| ())
                    .await?;
                if count > 0 && !confirmed(count, "of all queues", past)? {
                    return Err(Failure::Said);
                }
            }
            let moved = service.bulk(filter, action, mode, |_| ()).await?;
            tell(moved, mode, past, context)
        }
    }
}

async fn named(
    auxo: &Auxo,
    ids: Vec<JobId>,
    (action, mode): (Action, Mode),
    past: &str,
    context: &mut Context,
) -> Result<(), Failure> {
    let mut answers = Vec::new();
    for ids in ids.chunks(PAGE as usize) {
        let order = Order {
            target: Target::Jobs(ids.to_vec()),
            action: action.clone(),
            mode,
        };
        let steered = auxo.service().steer(order).await?;
        let results = ids.iter().zip(steered.results);
        answers.extend(results.map(|(id, result)| result.map(|state| (*id, state))));
    }
    let dry_run = mode == Mode::DryRun;
    let show = |(id, state): &(JobId, State)| {
        let (id, state) = (id.to_string(), state.as_str());
        match dry_run {
            false => json!({ "id": id, "state": state }),
            true => json!({ "id": id, "state": state, "dry_run": true }),
        }
    };
    each(&answers, context, show, |(id, state)| match (mode, state) {
        (Mode::DryRun, _) => format!("{id} would be {past}"),
        // A job that is gone is in no state any more; what became of it is the move.
        (Mode::Act, State::Cancelled) => format!("{id} {past}"),
        // Of all moves only this one is taken up later.
        (Mode::Act, State::Leased) => format!("{id} leased; its worker is told when it extends"),
        (Mode::Act, _) => format!("{id} {state}"),
    })
}

/// Asks whether so many jobs are meant. Without a terminal nobody can answer, and the answer is no.
pub fn confirmed(count: u64, of: &str, past: &str) -> Result<bool, Failure> {
    let jobs = if count == 1 { "job" } else { "jobs" };
    if !std::io::stdin().is_terminal() {
        eprintln!("{count} {jobs} {of} would be {past}; repeat with --yes to do it");
        return Ok(false);
    }
    eprint!("{count} {jobs} {of} will be {past}: go on? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    let yes = matches!(answer.trim(), "y" | "Y" | "yes");
    if !yes {
        eprintln!("nothing was {past}");
    }
    Ok(yes)
}

/// Says how many jobs were moved, or would be.
pub fn tell(moved: u64, mode: Mode, past: &str, context: &mut Context) -> Result<(), Failure> {
    let output = &mut context.output;
    if output.is_json() {
        let dry_run = mode == Mode::DryRun;
        return output.json(&json!({ "moved": moved, "dry_run": dry_run }));
    }
    let would = match mode {
        Mode::Act => "",
        Mode::DryRun => "would be ",
    };
    let jobs = if moved == 1 { "job" } else { "jobs" };
    output.line(format!("{moved} {jobs} {would}{past}"))
}
