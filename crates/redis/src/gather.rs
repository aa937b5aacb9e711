//! Calls that come while another is under way travel together in the next one.
//!
//! A script that takes many items costs hardly more than one that takes a single item. So nobody waits for company, but who
//! comes while Redis is busy with the calls before shares a script with all others who do.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex};

use auxo_core::{Code, Error, Result};
use tokio::sync::oneshot;

/// How many batches may be under way at once.
const UNDER_WAY: usize = 2;
/// How many items one batch has at most, unless a single call has more.
const ITEMS: usize = 500;

/// Gathers calls with items of one kind, each of which gets an answer.
pub struct Gather<T, R> {
    inside: Mutex<Inside<T, R>>,
}

struct Inside<T, R> {
    waiting: VecDeque<Entry<T, R>>,
    under_way: usize,
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
            let begin = inside.under_way < UNDER_WAY;
            inside.under_way += usize::from(begin);
            begin
        };
        if begin {
            let gather = self.clone();
            tokio::spawn(async move {
                while let Some(entries) = gather.next() {
                    carry(entries, &run).await;
                }
            });
        }
        let stopped = |_| Error::new(Code::UnknownOutcome, "the process is stopping");
        answered.await.map_err(stopped)?
    }

    /// What travels together next; without anything left, one batch less is under way.
    fn next(&self) -> Option<Vec<Entry<T, R>>> {
        let mut inside = self.inside.lock().expect("gather");
        let mut entries = Vec::new();
        let mut items = 0;
        while let Some(next) = inside.waiting.front() {
            if !entries.is_empty() && items + next.items.len() > ITEMS {
                break;
            }
            items += next.items.len();
            entries.extend(inside.waiting.pop_front());
        }
        if entries.is_empty() {
            inside.under_way -= 1;
            return None;
        }
        Some(entries)
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
