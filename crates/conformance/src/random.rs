//! An engine and the model take the same random steps and must answer alike.
//!
//! The steps come from a seed and are data with relative references ("the third running lease"), so that any part of a run
//! makes sense by itself. When the two disagree, the run is shortened on fresh engines as long as they still disagree, and
//! the failure shows the seed and the few steps that are left.

mod op;
mod pair;
mod same;

use std::fmt;

use crate::bench::Bench;
pub use op::{Draft, Moment, Op, Pick};
use pair::Pair;

/// The most engines that are opened to shorten a failing run.
const REPLAYS: usize = 300;

/// Engine and model disagreed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// At which step of the run it came to light.
    pub step: usize,
    /// What the two said, in the shortened run.
    pub problem: String,
    /// A shortened run that ends in a disagreement.
    pub ops: Vec<Op>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}, step {}, {}",
            self.seed, self.step, self.problem
        )?;
        writeln!(f, "{} steps lead there:", self.ops.len())?;
        for op in &self.ops {
            writeln!(f, "  {op:?}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Takes `steps` random steps with an engine from `make` and with the model, empties both, and compares every answer on the
/// way.
pub async fn run(
    make: impl AsyncFn() -> Bench,
    seed: u64,
    steps: usize,
) -> Result<(), Box<Failure>> {
    let bench = make().await;
    let ops = op::steps(seed, steps, bench.reopen.is_some());
    let Err((step, problem)) = replay(bench, &ops).await else {
        return Ok(());
    };
    let mut failure = Failure {
        seed,
        step,
        problem,
        ops: ops[..ops.len().min(step + 1)].to_vec(),
    };
    shorten(make, &mut failure).await;
    Err(Box::new(failure))
}

/// Takes the steps; a disagreement is told with the number of its step.
async fn replay(bench: Bench, ops: &[Op]) -> Result<(), (usize, String)> {
    let mut pair = Pair::new(bench);
    for (step, op) in ops.iter().enumerate() {
        pair.step(op).await.map_err(|problem| (step, problem))?;
    }
    pair.drain().await.map_err(|problem| (ops.len(), problem))
}

/// Leaves out halves, quarters and ever smaller parts of the run, as long as it still fails.
async fn shorten(make: impl AsyncFn() -> Bench, failure: &mut Failure) {
    let mut replays = 0;
    let mut size = failure.ops.len().div_ceil(2);
    while size > 0 && replays < REPLAYS {
        let mut from = 0;
        let mut shorter = false;
        while from < failure.ops.len() && replays < REPLAYS {
            let until = (from + size).min(failure.ops.len());
            let mut fewer = failure.ops.clone();
            fewer.drain(from..until);
            replays += 1;
            match replay(make().await, &fewer).await {
                Err((step, problem)) => {
                    fewer.truncate(step + 1);
                    failure.ops = fewer;
                    failure.problem = problem;
                    shorter = true;
                }
                Ok(()) => from = until,
            }
        }
        size = match shorter {
            true => size.min(failure.ops.len()),
            false if size == 1 => 0,
            false => size.div_ceil(2),
        };
    }
}
