//! What it means that two answers are alike: all that the contract fixes, and nothing that it leaves to the engine.

use std::fmt::Debug;

use auxo_core::job::{Job, Moment};
use auxo_core::life::Event;
use auxo_core::{Code, JobId, Result, State};

/// Fails with both sides when they differ.
pub(super) fn same<T: PartialEq + Debug>(what: &str, engine: T, model: T) -> Result<(), String> {
    match engine == model {
        true => Ok(()),
        false => Err(format!("{what}\n  engine: {engine:?}\n  model:  {model:?}")),
    }
}

/// An answer without the wording of its error.
pub(super) fn plain<T>(answer: Result<T>) -> Result<T, (Code, Option<JobId>)> {
    answer.map_err(|error| (error.code(), error.job()))
}

/// Whether two views of a job are alike.
pub(super) fn same_job(what: &str, engine: Job, model: Job) -> Result<(), String> {
    same(what, fixed(engine), fixed(model))
}

/// What is left of a job of which only the key is held.
pub(super) fn shadow(job: Job) -> impl PartialEq + Debug {
    (
        job.id,
        job.queue,
        job.key,
        job.state,
        job.payload,
        job.ended_at,
    )
}

/// A job that was handed out and done in one step, as it was handed out.
pub(super) fn taken(job: Job) -> Job {
    Job {
        timeline: Vec::new(),
        ended_at: None,
        holder: None,
        ..job
    }
}

/// The view without what an engine may word as it likes: who moved a job for an operator, and notes that are not an error.
fn fixed(mut job: Job) -> Job {
    for Moment {
        event, by, note, ..
    } in &mut job.timeline
    {
        use Event::*;
        if !matches!(
            event,
            Lease | Take | Ack | Retry | Fail | Release | Snooze | Bury
        ) {
            by.clear();
        }
        if !matches!(event, Retry | Fail | Bury) {
            note.clear();
        }
    }
    job
}

/// Whether a job was handed out and done in one step.
pub(super) fn is_taken(job: &Job) -> bool {
    job.state == State::Done
}
