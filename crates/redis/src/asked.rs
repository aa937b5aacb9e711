//! Redis is told which queues are asked for, so that each process knows of the workers of all others.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auxo_core::QueueName;
use tokio::time::Instant;

use crate::link::Call;
use crate::script;
use crate::store::Store;

/// How often it is told of a queue at most: whether a worker is there at all does not change from one second to the next.
const AGAIN: Duration = Duration::from_secs(10);
/// Of how many queues is remembered when it was told.
const NAMES: usize = 10_000;

/// When this process last told of each queue.
#[derive(Default)]
pub struct Asked {
    told: Mutex<HashMap<QueueName, Instant>>,
}

impl Asked {
    /// A call asks for jobs of these queues. It does not wait for that to be told.
    pub fn tell(&self, store: &Arc<Store>, queues: &[QueueName]) {
        let news = self.news(queues, Instant::now());
        if news.is_empty() {
            return;
        }
        let mut calls: BTreeMap<u16, Call> = BTreeMap::new();
        for queue in news {
            let shard = store.shard_of(&queue);
            let call = calls.entry(shard);
            let call = call.or_insert_with(|| store.call(&script::ASKED, shard));
            call.on_primary().arg(queue.as_str());
        }
        let store = store.clone();
        tokio::spawn(async move {
            for call in calls.into_values() {
                // If it cannot be told now, the next call does.
                let _ = store.run(call).await;
            }
        });
    }

    /// Of these queues, those of which was not told for a while; now it is.
    fn news(&self, queues: &[QueueName], now: Instant) -> Vec<QueueName> {
        let mut told = self.told.lock().expect("asked");
        let fresh = |at: &Instant| now.saturating_duration_since(*at) < AGAIN;
        let news = queues
            .iter()
            .filter(|queue| !told.get(*queue).is_some_and(fresh));
        let news: Vec<QueueName> = news.cloned().collect();
        if told.len() + news.len() > NAMES {
            // Anybody can name queues that there never were.
            told.clear();
        }
        told.extend(news.iter().map(|queue| (queue.clone(), now)));
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_told_of_once_in_a_while_however_often_it_is_asked_for() {
        let asked = Asked::default();
        let queues = ["a", "b"].map(|name| QueueName::new(name).expect("a name"));
        let began = Instant::now();
        let mut told = 0;
        for second in 0..60 {
            told += asked
                .news(&queues, began + Duration::from_secs(second))
                .len();
        }
        assert_eq!(told, 2 * 6);
    }

    #[test]
    fn names_of_queues_that_never_were_do_not_pile_up() {
        let asked = Asked::default();
        for number in 0..3 * NAMES {
            let queue = QueueName::new(&format!("q{number}")).expect("a name");
            assert_eq!(asked.news(&[queue], Instant::now()).len(), 1);
        }
        assert!(asked.told.lock().expect("asked").len() <= NAMES);
    }
}
