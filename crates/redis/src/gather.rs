//! Calls that come while another is under way travel together in the next one.
//!
//! A script that takes many items costs hardly more than one that takes a single item. So nobody waits for company, but who
//! comes while Redis is busy with the calls before shares a script with all others who do. Two scripts are under way at once:
//! while Redis works on one, the answers to the other are read and the next is made. So many who come at the same moment, as
//! callers do who were answered together, do not all travel together: Redis would have nothing to do until all are back.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};

use auxo_core::{Code, Error, Result};
use tokio::sync::oneshot;

/// How many batches may be under way at once.
const UNDER_WAY: usize = 2;
/// How many items one batch has at most, unless a single call has more.
const ITEMS: usize = 500;
/// How many items are worth a batch of their own.
const WORTH: usize = 50;

/// Gathers calls with items of one kind, each of which gets an answer.
pub struct Gather<T, R> {
    inside: Mutex<Inside<T, R>>,
}

struct Inside<T, R> {
    waiting: VecDeque<Entry<T, R>>,
    /// The tasks that carry batches, or are about to.
    under_way: usize,
    /// Those that have one.
    carrying: usize,
}

struct Entry<T, R> {
    items: Vec<T>,
    answer: oneshot::Sender<Result<Vec<R>>>,
}

impl<T, R> Default for Gather<T, R> {
    fn default() -> Gather<T, R> {
        Gather {
            inside: Mutex::new(Inside {
                waiting: VecDeque::new(),
                under_way: 0,
                carrying: 0,
            }),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Gather<T, R> {
    /// Sends the items, with others or alone. A caller that is dropped does not take its items back.
    pub async fn send<F, Run>(self: &Arc<Self>, items: Vec<T>, run: Run) -> Result<Vec<R>>
    where
        Run: Fn(Vec<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<R>>> + Send,
    {
        let (answer, answered) = oneshot::channel();
        let begin = {
            let mut inside = self.inside.lock().expect("gather");
            inside.waiting.push_back(Entry { items, answer });
            inside.begin()
        };
        if begin {
            self.clone().start(Arc::new(run));
        }
        let stopped = |_| Error::new(Code::UnknownOutcome, "the process is stopping");
        answered.await.map_err(stopped)?
    }

    fn start<F, Run>(self: Arc<Self>, run: Arc<Run>)
    where
        Run: Fn(Vec<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Vec<R>>> + Send,
    {
        tokio::spawn(async move {
            while let Some((entries, more)) = self.next() {
                if more {
                    self.clone().start(run.clone());
                }
                carry(entries, &*run).await;
                self.inside.lock().expect("gather").carrying -= 1;
            }
        });
    }

    /// What travels together next, and whether somebody else is to carry what is left; without anything to carry, one batch
    /// less is under way.
    fn next(&self) -> Option<(Vec<Entry<T, R>>, bool)> {
        let mut inside = self.inside.lock().expect("gather");
        let all: usize = inside.waiting.iter().map(|entry| entry.items.len()).sum();
        let most = match inside.carrying == 0 && all >= 2 * WORTH {
            true => ITEMS.min(all.div_ceil(2)),
            false => ITEMS,
        };
        let mut entries = Vec::new();
        let mut items = 0;
        while let Some(next) = inside.waiting.front() {
            if !entries.is_empty() && items + next.items.len() > most {
                break;
            }
            items += next.items.len();
            entries.extend(inside.waiting.pop_front());
        }
        if entries.is_empty() {
            inside.under_way -= 1;
            return None;
        }
        inside.carrying += 1;
        let more = !inside.waiting.is_empty() && inside.begin();
        Some((entries, more))
    }
}

impl<T, R> Inside<T, R> {
    /// Whether one more may be under way, which is then counted.
    fn begin(&mut self) -> bool {
        let begin = self.under_way < UNDER_WAY;
        self.under_way += usize::from(begin);
        begin
    }
}

async fn carry<T, R, F>(entries: Vec<Entry<T, R>>, run: impl Fn(Vec<T>) -> F)
where
    F: Future<Output = Result<Vec<R>>>,
{
    let mut items = Vec::new();
    let mut callers = Vec::new();
    for entry in entries {
        callers.push((entry.items.len(), entry.answer));
        items.extend(entry.items);
    }
    match run(items).await {
        Ok(answers) => {
            let mut answers = answers.into_iter();
            for (count, caller) in callers {
                // A caller that is gone needs no answer.
                let _ = caller.send(Ok(answers.by_ref().take(count).collect()));
            }
        }
        Err(error) => {
            for (_, caller) in callers {
                let _ = caller.send(Err(error.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;

    /// The sizes of the batches in which callers travel that come at the same moment, with so many items each.
    async fn batches(callers: usize, items: usize) -> Vec<usize> {
        let gather: Arc<Gather<(), usize>> = Arc::default();
        let sizes = Arc::new(Mutex::new(Vec::new()));
        let calls = (0..callers).map(|_| {
            let sizes = sizes.clone();
            gather.send(vec![(); items], move |items| {
                sizes.lock().unwrap().push(items.len());
                async move {
                    tokio::task::yield_now().await;
                    Ok(vec![items.len(); items.len()])
                }
            })
        });
        for answers in join_all(calls).await {
            assert_eq!(answers.unwrap().len(), items);
        }
        let inside = gather.inside.lock().unwrap();
        assert_eq!((inside.under_way, inside.carrying), (0, 0));
        sizes.lock().unwrap().clone()
    }

    #[tokio::test]
    async fn who_come_at_the_same_moment_travel_in_two_batches() {
        assert_eq!(batches(4, 100).await, [200, 200]);
        assert_eq!(batches(2, 50).await, [50, 50]);
    }

    #[tokio::test]
    async fn few_items_travel_together() {
        assert_eq!(batches(64, 1).await, [64]);
        assert_eq!(batches(1, 100).await, [100]);
    }
}
