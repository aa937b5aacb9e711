//! An engine and the model take the same random steps and must answer alike.
//!
//! The steps come from a seed and are data with relative references ("the third running lease"), so that any part of a run
//! makes sense by itself. When the two disagree, the run is shortened on fresh engines as long as they still disagree, and
//! the failure shows the seed and the few steps that are left.

mod compare;
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
    let ops = op::steps(seed, steps, &bench);
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

/// Leaves out halves, quarters and ever smaller parts of the run, then items of its batches, as long as it still fails.
async fn shorten(make: impl AsyncFn() -> Bench, failure: &mut Failure) {
    let mut replays = 0;
    let mut size = failure.ops.len();
    while size > 0 {
        size = size.div_ceil(2).max(1);
        let mut shorter = false;
        let mut from = 0;
        while from < failure.ops.len() {
            let until = (from + size).min(failure.ops.len());
            let mut fewer = failure.ops.clone();
            fewer.drain(from..until);
            match still_fails(&make, fewer, failure, &mut replays).await {
                true => shorter = true,
                false => from = until,
            }
        }
        if size == 1 && !shorter {
            break;
        }
    }
    let mut at = 0;
    while at < failure.ops.len() {
        let mut smaller = failure.ops[at].smaller().into_iter();
        let shrunk = loop {
            let Some(op) = smaller.next() else {
                break false;
            };
            let mut ops = failure.ops.clone();
            ops[at] = op;
            if still_fails(&make, ops, failure, &mut replays).await {
                break true;
            }
        };
        at += usize::from(!shrunk);
    }
}

/// Whether engine and model disagree on these steps too, which are then the failure. Without a replay left: no.
async fn still_fails(
    make: &impl AsyncFn() -> Bench,
    mut ops: Vec<Op>,
    failure: &mut Failure,
    replays: &mut usize,
) -> bool {
    if *replays == REPLAYS {
        return false;
    }
    *replays += 1;
    let Err((step, problem)) = replay(make().await, &ops).await else {
        return false;
    };
    ops.truncate(step + 1);
    failure.ops = ops;
    failure.problem = problem;
    true
}
