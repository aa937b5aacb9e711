//! The store as a whole, and jobs that leave for another one or come from one.

use auxo_core::engine::Audit;
use auxo_core::passage::{Adopted, Adoption, Departure, Leaving, Passages, Step};
use auxo_core::{JobId, QueueName, Result};

use crate::app::App;
use crate::auth::Caller;
use crate::trail::Move;

/// The proof that no job is missing.
pub async fn audit(app: &App, caller: &Caller) -> Result<Audit> {
    caller.check_everywhere()?;
    app.service.audit().await
}

/// Jobs with their whole life.
pub async fn passages(app: &App, caller: &Caller, departure: Departure) -> Result<Passages> {
    caller.check(&departure.queue)?;
    app.service.passages(departure).await
}

/// Removes jobs that are at another store now.
pub async fn depart(
    app: &App,
    caller: &Caller,
    queue: QueueName,
    jobs: Vec<Leaving>,
) -> Result<Vec<Result<()>>> {
    caller.check(&queue)?;
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let what = Move::new("depart").queue(&queue).jobs(&ids);
    let depart = app.service.depart(queue, jobs);
    let left = |departed: &Vec<_>| departed.iter().filter(|job| Result::is_ok(job)).count() as u64;
    app.trail.noted(caller, what, depart, left).await
}

/// Takes jobs of another store in, or makes another step of such a move.
pub async fn adopt(app: &App, caller: &Caller, adoption: Adoption) -> Result<Adopted> {
    caller.check(&adoption.queue)?;
    let what = Move::new("adopt").queue(&adoption.queue);
    let what = match &adoption.step {
        // Nothing is changed by looking.
        Step::Look => return app.service.adopt(adoption).await,
        Step::Jobs(jobs) => what.with("step", "jobs").with("count", jobs.len()),
        Step::Begin => what.with("step", "begin"),
        Step::Leave => what.with("step", "leave"),
        Step::Stay => what.with("step", "stay"),
        Step::End => what.with("step", "end"),
    };
    let adopt = app.service.adopt(adoption);
    let taken = |adopted: &Adopted| adopted.results.iter().flatten().count() as u64;
    app.trail.noted(caller, what, adopt, taken).await
}
