//! Who is to hear at once that a job is to be cancelled.
//!
//! An engine tells of it by a notice, and makes notices for all jobs while anybody watches. So nobody watches for jobs that are
//! done within a second; streams put down here only what takes them longer, and one task watches for all of them. What was
//! asked for before the task looked is found by looking at the job once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use auxo_core::engine::Which;
use auxo_core::life::Event;
use auxo_core::{JobId, Service, Token};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, mpsc};

/// The jobs that are watched.
#[derive(Default)]
pub struct Cancels {
    list: Mutex<List>,
    /// Rings when the list has changed.
    changed: Notify,
}

#[derive(Default)]
struct List {
    by_job: HashMap<JobId, Entry>,
    /// Those that nobody has looked at yet.
    new: Vec<JobId>,
    /// Whether the task runs.
    watching: bool,
}

struct Entry {
    token: Token,
    tell: mpsc::UnboundedSender<JobId>,
}

impl Cancels {
    fn lock(&self) -> MutexGuard<'_, List> {
        // The list is never left half changed.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on tells of this job.
    pub fn watch(
        self: &Arc<Cancels>,
        service: &Arc<Service>,
        token: Token,
        tell: mpsc::UnboundedSender<JobId>,
    ) {
        let mut list = self.lock();
        list.by_job.insert(token.job, Entry { token, tell });
        list.new.push(token.job);
        if !std::mem::replace(&mut list.watching, true) {
            tokio::spawn(follow(self.clone(), service.clone()));
        }
        drop(list);
        self.changed.notify_one();
    }

    /// The lease is over.
    pub fn forget(&self, token: Token) {
        let mut list = self.lock();
        let entry = list.by_job.get(&token.job);
        if entry.is_some_and(|entry| entry.token == token) {
            list.by_job.remove(&token.job);
        }
        let none_left = list.by_job.is_empty();
        drop(list);
        if none_left {
            self.changed.notify_one();
        }
    }

    /// The jobs to look at; `None` when nobody is left to tell, and then the task is over.
    fn new_ones(&self) -> Option<Vec<JobId>> {
        let mut list = self.lock();
        list.watching = !list.by_job.is_empty();
        list.watching.then(|| std::mem::take(&mut list.new))
    }

    /// Looks at all of them again.
    fn look_again(&self) {
        let mut list = self.lock();
        list.new = list.by_job.keys().copied().collect();
    }

    fn tell(&self, job: JobId) {
        if let Some(entry) = self.lock().by_job.get(&job) {
            // A stream that is over has nobody to tell.
            let _ = entry.tell.send(job);
        }
    }
}

/// Watches while there is anybody to tell.
async fn follow(cancels: Arc<Cancels>, service: Arc<Service>) {
    let mut notices = service.watch();
    while let Some(new) = cancels.new_ones() {
        for job in new {
            let found = service.find(Which::Id(job)).await;
            let holder = found.ok().flatten().and_then(|job| job.holder);
            if holder.is_some_and(|holder| holder.cancel) {
                cancels.tell(job);
            }
        }
        tokio::select! {
            () = cancels.changed.notified() => {}
            notice = notices.recv() => match notice {
                Ok(notice) if notice.event == Event::Cancel => cancels.tell(notice.job),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => cancels.look_again(),
                // The engine is closed; the streams find out by themselves.
                Err(RecvError::Closed) => cancels.changed.notified().await,
            },
        }
    }
}
