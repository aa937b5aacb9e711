//! Something that is to be done on a certain thread.
//!
//! To wake a task from another thread costs a system call. An engine that has answers for a hundred callers who all wait on one thread
//! would make a hundred of them, and the thread, woken by the first, would answer its clients in small heaps. So a thread that serves many
//! callers says where it can be reached, and an engine gives it all the answers in one go. Whoever says nothing is woken one
//! by one.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// What is to be done. It must be over soon: others wait behind it.
pub type Errand = Box<dyn FnOnce() + Send>;

/// A thread that runs errands.
#[derive(Debug)]
pub struct Runner(UnboundedSender<Errand>);

thread_local! {
    static HERE: RefCell<Option<Arc<Runner>>> = const { RefCell::new(None) };
}

impl Runner {
    /// The one on this thread.
    pub fn here() -> Option<Arc<Runner>> {
        HERE.with_borrow(Clone::clone)
    }

    /// Whether this is the one on this thread.
    pub fn is_here(self: &Arc<Runner>) -> bool {
        HERE.with_borrow(|here| here.as_ref().is_some_and(|here| Arc::ptr_eq(here, self)))
    }

    /// Has this done on its thread; at once and here, if that runs no errands any more.
    pub fn run(&self, errand: Errand) {
        if let Err(unsent) = self.0.send(errand) {
            unsent.0();
        }
    }
}

/// Runs errands on the thread that this is polled on, which must stay the same, until it is dropped. What was sent by then is done.
/// One of these is enough for a thread.
///
/// ```
/// use auxo_core::errand::{self, Runner};
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// tokio::spawn(errand::run());
/// tokio::task::yield_now().await;
/// let (done, told) = tokio::sync::oneshot::channel();
/// let runner = Runner::here().expect("errands are run here");
/// let errand = Box::new(move || done.send(std::thread::current().id()).unwrap());
/// std::thread::spawn(move || runner.run(errand));
/// assert_eq!(told.await.unwrap(), std::thread::current().id());
/// # });
/// ```
pub async fn run() {
    let (sender, errands) = mpsc::unbounded_channel();
    HERE.set(Some(Arc::new(Runner(sender))));
    let mut here = Here(errands);
    while let Some(errand) = here.0.recv().await {
        errand();
    }
}

struct Here(UnboundedReceiver<Errand>);

impl Drop for Here {
    fn drop(&mut self) {
        // A thread that ends may have lost it already.
        let _ = HERE.try_with(|here| here.take());
        self.0.close();
        loop {
            match self.0.try_recv() {
                Ok(errand) => errand(),
                // Somebody is just sending one.
                Err(TryRecvError::Empty) => thread::yield_now(),
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    use super::*;

    fn runtime() -> Runtime {
        Builder::new_current_thread()
            .build()
            .expect("a runtime of this thread")
    }

    #[test]
    fn errands_are_run_in_order_on_the_thread_that_runs_them() {
        runtime().block_on(async {
            tokio::spawn(run());
            tokio::task::yield_now().await;
            let runner = Runner::here().expect("a runner");
            assert!(runner.is_here());
            let (done, mut told) = mpsc::unbounded_channel();
            let elsewhere = thread::spawn(move || {
                for number in 0..10 {
                    let done = done.clone();
                    runner.run(Box::new(move || {
                        done.send((number, thread::current().id())).expect("told");
                    }));
                }
                runner.is_here()
            });
            let here = thread::current().id();
            for number in 0..10 {
                assert_eq!(told.recv().await, Some((number, here)));
            }
            assert!(!elsewhere.join().expect("no panic"));
        });
    }

    #[test]
    fn an_errand_is_done_though_its_thread_is_gone() {
        let runtime = runtime();
        let runner = runtime.block_on(async {
            tokio::spawn(run());
            tokio::task::yield_now().await;
            Runner::here().expect("a runner")
        });
        // One is on its way when the thread ends, the other comes too late.
        let (first, mut one) = oneshot::channel();
        runner.run(Box::new(move || first.send(1).expect("told")));
        assert!(one.try_recv().is_err());
        drop(runtime);
        assert_eq!(one.try_recv(), Ok(1));
        let (second, mut two) = oneshot::channel();
        runner.run(Box::new(move || second.send(2).expect("told")));
        assert_eq!(two.try_recv(), Ok(2));
        assert!(Runner::here().is_none());
    }
}
