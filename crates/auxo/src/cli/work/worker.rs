//! One job from its lease to its end.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use auxo::core::job::Leased;
use auxo::{Auxo, Job};

use super::attempt::{Attempt, Stop, Stopper, Terms, Verdict};
use super::exec::Exec;
use super::hold::Hold;
use super::post::Post;
use super::report::{End, Report};

/// What is done with a job.
pub enum Task {
    Exec(Exec),
    Post(Box<Post>),
}

impl Task {
    async fn run(&self, job: &Job, stopper: &Stopper) -> Attempt {
        match self {
            Task::Exec(exec) => exec.run(job, stopper).await,
            Task::Post(post) => post.run(job, stopper).await,
        }
    }

    /// How long what runs may take to end when it is told to.
    fn notice(&self) -> Duration {
        match self {
            Task::Exec(exec) => exec.kill_after,
            Task::Post(_) => Duration::ZERO,
        }
    }

    /// Ends everything that runs, without a word.
    pub fn kill(&self) {
        if let Task::Exec(exec) = self {
            exec.groups.kill();
        }
    }
}

/// What all jobs of this process share.
pub struct Worker {
    pub auxo: Auxo,
    pub task: Task,
    pub terms: Terms,
    /// The length of leases, instead of each job's own.
    pub ttr: Option<Duration>,
    /// Stopped when there is no more time for what still runs.
    pub leaving: Stopper,
}

impl Worker {
    /// Runs the job and settles it.
    pub async fn work(&self, leased: Leased) -> Report {
        let (job, began) = (&leased.job, Instant::now());
        let hold = Hold {
            service: self.auxo.service(),
            token: leased.token,
            length: self.ttr.unwrap_or(job.ttr),
            notice: self.task.notice(),
        };
        // It was done when it was handed out: there is no lease to hold and none to end.
        let taken = job.ttr.is_zero();
        let stopper = Stopper::new();
        let attempt = tokio::select! {
            attempt = self.task.run(job, &stopper) => Some(attempt),
            // What runs is dropped, and that kills it.
            () = hold.keep(&stopper), if !taken => None,
            never = self.watch(&stopper) => match never {},
        };
        let end = match attempt {
            None => lost(),
            Some(attempt) if taken => gone(attempt),
            Some(attempt) => self.settle(&hold, attempt, stopper.reason()).await,
        };
        Report::new(job, began.elapsed(), end)
    }

    /// Cuts the job short at its timeout, and when the worker leaves.
    async fn watch(&self, stopper: &Stopper) -> Infallible {
        let timeout = async {
            match self.terms.timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = timeout => stopper.stop(Stop::TimedOut),
            () = self.leaving.stopped() => stopper.stop(Stop::Leaving),
        }
        std::future::pending().await
    }

    async fn settle(&self, hold: &Hold<'_>, attempt: Attempt, stop: Option<Stop>) -> End {
        let why = match &attempt.verdict {
            Verdict::Again { why, .. } if attempt.words.is_empty() => why.clone(),
            Verdict::Again { why, .. } => format!("{why}: {}", attempt.words),
            _ => String::new(),
        };
        match self.terms.outcome(attempt, stop) {
            Some(outcome) => End::of(outcome.clone(), why, hold.settle(outcome).await),
            None => lost(),
        }
    }
}

fn lost() -> End {
    End::Lost("the lease ended before the job did".into())
}

fn gone(attempt: Attempt) -> End {
    match attempt.verdict {
        Verdict::Done(_) => End::Done,
        Verdict::Again { why, .. } | Verdict::Failed(why) => End::Gone(why),
    }
}
