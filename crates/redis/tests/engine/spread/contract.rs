//! The contract of an engine, kept by one whose queues are all spread, but for the order among jobs of different shards.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use auxo_conformance::Bench;
use auxo_core::engine::*;
use auxo_core::event::Notice;
use auxo_core::job::{Job, Leased};
use auxo_core::queue::{Books, QueueConfig, QueueInfo};
use auxo_core::{Engine, NewJob, QueueName, Result};
use tokio::sync::broadcast;

use auxo_harness::redis::Single;

/// The cases that ask for what a queue in several shards does not promise: which of two jobs comes first.
const ORDERED: &[&str] = &[
    "clock::a_strobing_clock_loses_nothing",
    "clock::a_job_says_when_it_was_made_though_its_id_is_ahead_of_the_clock",
    // Jobs of another store come to a queue in one shard.
    "moving::",
    // A queue that is spread has a setting: it is not forgotten.
    "names::",
    "restart::the_books_of_forgotten_queues_survive",
    "fairness::a_batch_takes_turns",
    "fairness::a_group_that_is_not_due_takes_no_turn",
    "fairness::a_queue_can_be_made_fair_with_jobs_in_it",
    "fairness::an_urgent_group_comes_first",
    "fairness::groups_mean_nothing_in_a_queue_that_is_not_fair",
    "fairness::groups_take_turns",
    "fairness::jobs_without_a_group_are_one_group",
    "fairness::many_groups_are_all_served",
    "limits::a_job_comes_back_to_a_full_and_paused_queue",
    "limits::a_queue_with_too_many_bytes_refuses_pushes",
    "limits::leases_at_once_are_limited",
    "limits::lowering_a_limit_drops_nothing",
    "list::a_walk_goes_on_while_jobs_change",
    "list::waiting_jobs_are_listed_in_the_order_of_their_turn",
    "operator::a_move_by_filter_touches_what_matches",
    "order::a_batch_lease_takes_the_first_jobs",
    "order::a_job_released_with_a_delay_waits_for_it",
    "order::a_job_released_with_a_priority_moves_there",
    "order::a_job_whose_lease_vanishes_is_at_the_front_of_its_priority",
    "order::a_more_urgent_job_comes_first",
    "order::a_released_job_goes_back_to_its_old_place",
    "order::a_vanished_job_that_fails_loses_the_front",
    "order::a_vanished_job_that_is_released_is_still_at_the_front",
    "order::a_vanished_job_that_is_rescheduled_loses_the_front",
    "order::an_earlier_due_time_comes_first_within_a_priority",
    "order::an_urgent_job_overtakes_an_overdue_one",
    "order::jobs_come_out_in_the_order_they_came_in",
    "order::jobs_due_by_either_clock_come_in_the_order_of_time",
    "order::ten_thousand_jobs_due_at_once_come_out_at_once",
    "order::vanished_jobs_stand_at_the_front_by_age",
    "push::ids_rise_in_a_crowded_millisecond",
    "push::ids_rise_with_every_push",
    "settle::a_batch_of_ends_is_answered_per_item",
    "settle::a_failure_without_a_wait_is_ready_at_once",
    // To spread a queue makes it.
    "topics::a_message_that_nobody_wants_is_no_error",
    "topics::two_subscriptions_of_one_queue_make_two_jobs",
    "waiting::a_batch_serves_many_waiters",
    "waiting::a_freed_slot_wakes_who_waits",
    "waiting::a_refilled_rate_wakes_who_waits",
    "waiting::a_waiter_takes_what_there_is",
    // A call that is dropped after one step has not come to all shards.
    "waiting::an_answer_that_nobody_takes_is_given_back",
];

/// Spreads every queue before it is used.
struct Wide {
    engine: Arc<dyn Engine>,
    seen: Mutex<BTreeSet<QueueName>>,
}

impl Wide {
    async fn widen(&self, queues: Vec<QueueName>) -> Result<()> {
        for queue in queues {
            if self.seen.lock().unwrap().insert(queue.clone()) {
                let there = self.engine.queues(Some(vec![queue.clone()])).await?;
                let config = there.into_iter().next().map(|info| info.config);
                self.set(&queue, config.unwrap_or_default()).await?;
            }
        }
        Ok(())
    }

    async fn set(&self, queue: &QueueName, config: QueueConfig) -> Result<()> {
        let config = QueueConfig {
            shards: Some(3),
            ..config
        };
        self.engine
            .change(Change::Queue(queue.clone(), config))
            .await
    }
}

#[async_trait]
impl Engine for Wide {
    async fn push(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<Pushed>>> {
        let queues = jobs.iter().map(|job| job.queue.clone());
        self.widen(queues.collect()).await?;
        self.engine.push(jobs).await
    }

    async fn lease(&self, ask: Ask) -> Result<Vec<Leased>> {
        self.engine.lease(ask).await
    }

    async fn settle(&self, items: Vec<Settle>) -> Result<Vec<Result<Settled>>> {
        self.engine.settle(items).await
    }

    async fn extend(&self, items: Vec<Extend>) -> Result<Vec<Result<Extended>>> {
        self.engine.extend(items).await
    }

    async fn find(&self, which: Which) -> Result<Option<Job>> {
        self.engine.find(which).await
    }

    async fn list(&self, query: Query) -> Result<Page> {
        self.engine.list(query).await
    }

    async fn steer(&self, order: Order) -> Result<Steered> {
        self.engine.steer(order).await
    }

    async fn forgotten(&self) -> Result<Books> {
        self.engine.forgotten().await
    }

    async fn queues(&self, names: Option<Vec<QueueName>>) -> Result<Vec<QueueInfo>> {
        let mut infos = self.engine.queues(names).await?;
        for info in &mut infos {
            info.config.shards = None;
        }
        Ok(infos)
    }

    async fn change(&self, change: Change) -> Result<()> {
        match change {
            Change::Queue(queue, config) => {
                self.seen.lock().unwrap().insert(queue.clone());
                self.set(&queue, config).await
            }
            other => self.engine.change(other).await,
        }
    }

    async fn catalog(&self) -> Result<Catalog> {
        self.engine.catalog().await
    }

    async fn publish(&self, message: Message) -> Result<Vec<Pushed>> {
        let targets = self.engine.catalog().await?.subscriptions;
        let queues = targets.into_iter().map(|target| target.queue);
        self.widen(queues.collect()).await?;
        self.engine.publish(message).await
    }

    async fn audit(&self) -> Result<Audit> {
        self.engine.audit().await
    }

    fn watch(&self) -> broadcast::Receiver<Notice> {
        self.engine.watch()
    }

    fn health(&self) -> Result<()> {
        self.engine.health()
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }
}

#[test]
fn queues_that_are_spread_keep_the_contract() {
    let server = Single::start(&[]);
    let url = server.url("?shards=7&");
    let make = async || {
        let bench = crate::store::beside(&url).await;
        Bench {
            engine: Arc::new(Wide {
                engine: bench.engine.clone(),
                seen: Mutex::default(),
            }),
            ..bench
        }
    };
    auxo_conformance::run_all_but!(ORDERED, make);
}
