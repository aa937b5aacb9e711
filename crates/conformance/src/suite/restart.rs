//! What an engine that outlives its process still knows afterwards: everything it had answered for.

use auxo_core::engine::{Action, Change, Extend, Filter};
use auxo_core::job::{DeadReason, Job, OnDuplicate, Ttl};
use auxo_core::passage::Step;
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::time::When;
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{Code, JobId, JobSpec, State};

use super::moving::{adopt, page, take_out};
use crate::bench::*;

/// Every job is shown as it was, in whatever state.
pub async fn jobs_in_every_state_survive(t: &Bench) {
    populate(t).await;
    let (jobs, queues) = (sorted(t).await, t.engine.queues(None).await.unwrap());
    let t = t.reopen().await;
    assert_eq!(sorted(&t).await, jobs);
    let again = t.engine.queues(None).await.unwrap();
    for (before, after) in queues.iter().zip(&again) {
        assert_eq!(before.counts, after.counts);
        assert_eq!(before.books, after.books);
        assert_eq!(
            (before.bytes, before.next_due),
            (after.bytes, after.next_due)
        );
    }
    t.check_books().await;
}

/// Opened twice and ten times it is still the same.
pub async fn opening_again_and_again_changes_nothing(t: &Bench) {
    populate(t).await;
    let jobs = sorted(t).await;
    let mut t = t.clone();
    for _ in 0..10 {
        t = t.reopen().await;
        assert_eq!(sorted(&t).await, jobs);
    }
    t.check_books().await;
}

/// An empty store opens, and takes jobs.
pub async fn an_empty_store_opens_again(t: &Bench) {
    let t = t.reopen().await;
    let id = t.push(plain()).await;
    t.work(ack()).await;
    let t = t.reopen().await;
    assert_eq!(t.find(id).await, None);
    t.push(plain()).await;
    assert_eq!(t.info().await.books.accepted, 2);
}

/// Jobs come out in the order they would have come out in.
pub async fn the_order_survives(t: &Bench) {
    let last = t.push(urgency(2000)).await;
    let second = t.push(later(secs(2))).await;
    let first = t.push(later(secs(1))).await;
    let urgent = t.push(urgency(0)).await;
    let t = t.reopen().await;
    t.pass(secs(5));
    assert_eq!(t.order(10).await, [urgent, first, second, last]);
}

/// A job whose worker vanished is still at the front.
pub async fn the_front_place_survives(t: &Bench) {
    let early = t.push(plain()).await;
    t.pass(secs(1));
    let lost = t.push(plain()).await;
    let leased = t.take(2).await;
    t.extend(leased[0].token, Some(secs(7200))).await.unwrap();
    t.pass(secs(60));
    t.settle(leased[0].token, release()).await;
    let t = t.reopen().await;
    assert_eq!(t.order(10).await, [lost, early]);
}

/// A worker goes on with its lease as if nothing had been.
pub async fn a_lease_goes_on(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    let items = vec![Extend {
        token: leased.token,
        ttr: Some(secs(100)),
        progress: Some(text("half")),
    }];
    t.engine.extend(items).await.unwrap().remove(0).unwrap();
    let t = t.reopen().await;
    assert!(t.idle().await);
    let job = t.job(id).await;
    assert_eq!((job.state, job.attempt), (State::Leased, 1));
    assert_eq!(job.progress, Some(text("half")));
    assert_eq!(job.holder.unwrap().deadline, t.wall().plus(secs(100)));
    t.pass(secs(99));
    let extended = t.extend(leased.token, None).await.unwrap();
    assert_eq!(extended.deadline, t.wall().plus(secs(100)));
    assert_eq!(t.settle(leased.token, ack()).await.state, State::Done);
}

/// A lease that ran out meanwhile is over.
pub async fn a_lease_that_ran_out_is_over(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    let t = t.reopen().await;
    t.pass(secs(60));
    let late = t.try_settle(leased.token, ack()).await;
    assert_eq!(code(late), Code::LeaseLost);
    let job = t.job(id).await;
    assert_eq!((job.state, job.vanished), (State::Ready, 1));
}

/// What was acked is not handed out again.
pub async fn an_acked_job_stays_done(t: &Bench) {
    t.push_many(3, plain()).await;
    let done = t.work(ack()).await.id;
    let t = t.reopen().await;
    assert_eq!(t.find(done).await, None);
    assert_eq!(t.order(10).await.len(), 2);
    t.pass(secs(3600));
    assert_eq!(t.order(10).await.len(), 2);
    assert_eq!(t.info().await.books.done, 1);
}

/// Ids and tokens go on rising.
pub async fn ids_and_tokens_go_on_rising(t: &Bench) {
    let mut last = JobId(0);
    for _ in 0..5 {
        last = t.push_many(1000, plain()).await[999];
    }
    let mut token = t.one().await.token.counter;
    let mut t = t.clone();
    for _ in 0..3 {
        t = t.reopen().await;
        let id = t.push(plain()).await;
        assert!(id > last);
        last = id;
        let counter = t.one().await.token.counter;
        assert!(counter > token);
        token = counter;
    }
}

/// Ids rise though the wall clock went back while nobody looked.
pub async fn ids_rise_though_the_clock_was_set_back(t: &Bench) {
    let before = t.push(plain()).await;
    t.clock.step_wall_back(secs(3600));
    let t = t.reopen().await;
    let after = t.push(plain()).await;
    assert!(after > before);
}

/// Keys are held as before, those of done jobs too, and set free at their time.
pub async fn keys_survive(t: &Bench) {
    let waits = t.push(keyed("waits", OnDuplicate::Reject)).await;
    let done = JobSpec {
        priority: 0,
        ..keyed("done", OnDuplicate::Reject)
    };
    let done = t.push(done).await;
    t.work(ack()).await;
    let t = t.reopen().await;
    for (key, id) in [("waits", waits), ("done", done)] {
        let refused = t.try_push(&queue(), keyed(key, OnDuplicate::Reject)).await;
        let error = refused.unwrap_err();
        assert_eq!((error.code(), error.job()), (Code::DuplicateKey, Some(id)));
    }
    t.pass(secs(24 * 60 * 60));
    assert_eq!(t.find(done).await, None);
    t.push(keyed("done", OnDuplicate::Reject)).await;
}

/// Retention counts on.
pub async fn retention_counts_on(t: &Bench) {
    let retention = secs(10);
    let spec = JobSpec {
        retention,
        ..plain()
    };
    let id = t.push(spec).await;
    let result = Some(text("42"));
    t.work(auxo_core::engine::Outcome::Ack {
        result: result.clone(),
    })
    .await;
    t.pass(secs(5));
    let t = t.reopen().await;
    assert_eq!(t.job(id).await.result, result);
    t.pass(secs(5));
    assert_eq!(t.find(id).await, None);
}

/// A dead job keeps its reason, error and payload, and can be kicked.
pub async fn the_dead_can_be_kicked_after_a_restart(t: &Bench) {
    let spec = JobSpec {
        max_attempts: 1,
        payload: text("p"),
        ..plain()
    };
    let id = t.push(spec).await;
    t.work(fail("oops")).await;
    let t = t.reopen().await;
    let job = t.job(id).await;
    assert_eq!(job.dead, Some(DeadReason::Failed));
    assert_eq!(job.last_error.as_deref(), Some("oops"));
    assert_eq!(job.payload, text("p"));
    t.steer(id, Action::Kick).await.unwrap();
    let t = t.reopen().await;
    assert_eq!(t.order(1).await, [id]);
}

/// A wish to cancel is not forgotten.
pub async fn a_wish_to_cancel_survives(t: &Bench) {
    let id = t.push(plain()).await;
    let leased = t.one().await;
    t.steer(id, Action::Cancel).await.unwrap();
    let t = t.reopen().await;
    assert!(t.extend(leased.token, None).await.unwrap().cancel);
    let settled = t.settle(leased.token, fail("no")).await;
    assert_eq!(settled.state, State::Cancelled);
}

/// What an operator did stays done.
pub async fn an_operators_moves_survive(t: &Bench) {
    let ids = t.push_many(4, later(secs(60))).await;
    t.steer(ids[0], Action::Cancel).await.unwrap();
    t.steer(ids[1], Action::Delete).await.unwrap();
    t.steer(ids[2], Action::Kick).await.unwrap();
    let when = When::After(secs(10));
    t.steer(ids[3], Action::Reschedule(when)).await.unwrap();
    let t = t.reopen().await;
    assert_eq!(t.find(ids[0]).await, None);
    assert_eq!(t.find(ids[1]).await, None);
    assert_eq!(t.order(10).await, [ids[2]]);
    t.pass(secs(10));
    assert_eq!(t.order(10).await, [ids[3]]);
    let books = t.info().await.books;
    assert_eq!((books.cancelled, books.deleted), (1, 1));
}

/// A replaced job is the new one.
pub async fn a_replaced_job_stays_replaced(t: &Bench) {
    let with = |payload: &str| JobSpec {
        payload: text(payload),
        ..keyed("k", OnDuplicate::Replace)
    };
    let id = t.push(with("old")).await;
    t.push(with("new")).await;
    let t = t.reopen().await;
    let leased = t.one().await;
    assert_eq!((leased.job.id, leased.job.payload), (id, text("new")));
    assert!(t.idle().await);
}

/// Settings, subscriptions and schedules are as they were.
pub async fn what_is_set_up_survives(t: &Bench) {
    let config = QueueConfig {
        paused_out: true,
        paused_until: Some(When::At(t.wall().plus(secs(1000)))),
        max_jobs: Some(3),
        ..QueueConfig::default()
    };
    t.configure(config.clone()).await;
    for name in ["kept", "gone"] {
        let subscription = Subscription {
            topic: "topic".into(),
            name: name.into(),
            queue: queue(),
            pattern: Some(Pattern::new("a.#").unwrap()),
        };
        t.change(Change::Subscribe(subscription)).await;
        t.change(Change::Schedule(schedule(name))).await;
    }
    t.change(Change::Unsubscribe("topic".into(), "gone".into()))
        .await;
    t.change(Change::Unschedule("gone".into())).await;
    let catalog = t.engine.catalog().await.unwrap();
    let t = t.reopen().await;
    assert_eq!(t.engine.catalog().await.unwrap(), catalog);
    assert_eq!(catalog.schedules.len(), 1);
    assert_eq!(t.info().await.config, config);
    t.push(plain()).await;
    assert!(t.idle().await);
}

/// A tick that was made is not made again, and one that was missed is made up once.
pub async fn a_schedule_goes_on(t: &Bench) {
    t.change(Change::Schedule(schedule("s"))).await;
    t.pass(secs(60));
    assert_eq!(t.info().await.books.accepted, 1);
    let t = t.reopen().await;
    assert_eq!(t.info().await.books.accepted, 1);
    t.pass(secs(60));
    assert_eq!(t.info().await.books.accepted, 2);
    t.engine.close().await.unwrap();
    t.pass(secs(600));
    let t = t.reopen().await;
    let made = t.info().await.books.accepted;
    // The last of the ten is on time, those before it are one.
    assert!((3..=4).contains(&made), "{made}");
}

/// What fell due, expired or ran out while nobody was there has happened when the engine is back.
pub async fn time_passes_while_nobody_is_there(t: &Bench) {
    let due = t.push(later(secs(100))).await;
    let ttl = Ttl::After(secs(100));
    let mortal = JobSpec {
        ttl,
        ..later(secs(200))
    };
    let mortal = t.push(mortal).await;
    let lost = t.push(plain()).await;
    t.one().await;
    t.engine.close().await.unwrap();
    t.pass(secs(150));
    let t = t.reopen().await;
    assert_eq!(t.state(due).await, Some(State::Ready));
    assert_eq!(t.job(mortal).await.dead, Some(DeadReason::Expired));
    assert_eq!(t.job(lost).await.vanished, 1);
    assert_eq!(t.order(10).await, [lost, due]);
}

/// A lease that waits works in the reopened engine.
pub async fn waiting_works_after_a_restart(t: &Bench) {
    let id = t.push(later(secs(60))).await;
    let t = t.reopen().await;
    let task = t.wait_on(&[queue()], 1).await;
    t.pass(secs(60));
    assert_eq!(t.answer(task).await[0].job.id, id);
}

/// Thousands of jobs that came and went leave only the living behind.
pub async fn a_long_history_leaves_only_the_living(t: &Bench) {
    let old = t.push(later(secs(3600))).await;
    for _ in 0..30 {
        let spec = JobSpec {
            payload: text(&"x".repeat(200)),
            ..plain()
        };
        t.push_many(100, spec).await;
        for leased in t.take(100).await {
            t.settle(leased.token, ack()).await;
        }
    }
    let t = t.reopen().await;
    assert_eq!(ids(&t).await, [old]);
    let books = t.info().await.books;
    assert_eq!((books.accepted, books.done, books.live), (3001, 3000, 1));
    t.check_books().await;
    t.pass(secs(3600));
    assert_eq!(t.order(10).await, [old]);
}

/// The note and the name of the store outlive the process.
pub async fn a_move_goes_on_after_a_restart(t: &Bench) {
    t.push_many(2, plain()).await;
    let store = page(t, &queue(), None, 1).await.store;
    assert!(!store.is_empty());
    let jobs = take_out(t).await;
    adopt(t, &queue(), 5, Step::Begin).await.unwrap();
    adopt(t, &queue(), 5, Step::Jobs(jobs[..1].to_vec()))
        .await
        .unwrap();
    let mut t = t.clone();
    for _ in 0..2 {
        t = t.reopen().await;
        assert_eq!(page(&t, &queue(), None, 1).await.store, store);
        let look = adopt(&t, &queue(), 0, Step::Look).await.unwrap();
        assert_eq!(look.last, Some(vec![jobs[0].leaving()]));
    }
    adopt(&t, &queue(), 5, Step::Jobs(jobs[1..].to_vec()))
        .await
        .unwrap();
    adopt(&t, &queue(), 5, Step::End).await.unwrap();
    let t = t.reopen().await;
    assert_eq!(adopt(&t, &queue(), 0, Step::Look).await.unwrap().last, None);
    assert_eq!(t.state(jobs[1].job.id).await, Some(State::Ready));
    let mut t = t;
    for (step, leaving) in [(Step::Leave, true), (Step::Stay, false)] {
        adopt(&t, &queue(), 5, step).await.unwrap();
        for _ in 0..2 {
            t = t.reopen().await;
            let look = adopt(&t, &queue(), 0, Step::Look).await.unwrap();
            assert_eq!(look.leaving.is_some(), leaving);
        }
    }
    t.check_books().await;
}

/// A restart gives a queue no second burst, whether its jobs are leased or handed out at most once.
pub async fn what_a_rate_has_left_survives(t: &Bench) {
    t.configure(QueueConfig {
        rate: Some(Rate {
            count: 1,
            per: secs(10),
            burst: 4,
        }),
        ..QueueConfig::default()
    })
    .await;
    let once = JobSpec {
        ttr: secs(0),
        ..plain()
    };
    t.push_many(2, once).await;
    t.push_many(10, plain()).await;
    assert_eq!(t.order(3).await.len(), 3);
    let t = t.reopen().await;
    assert_eq!(t.order(10).await.len(), 1);
    t.pass(ms(9_999));
    let t = t.reopen().await;
    assert!(t.idle().await);
    t.pass(ms(1));
    assert_eq!(t.order(10).await.len(), 1);
    t.check_books().await;
}

/// Jobs of all states in two queues.
async fn populate(t: &Bench) {
    for queue in ["a", "b"].map(named) {
        let spec = JobSpec {
            payload: text("p"),
            retention: secs(3600),
            max_attempts: 2,
            group: Some("g".into()),
            ..plain()
        };
        let ends = [ack(), bury("no"), fail("no"), release(), snooze(secs(5))];
        for outcome in ends.into_iter().map(Some).chain([None]) {
            t.push_to(&queue, spec.clone()).await;
            let leased = t.take_from(std::slice::from_ref(&queue), 1).await;
            if let Some(outcome) = outcome {
                t.settle(leased[0].token, outcome).await;
            }
        }
        let when = When::At(t.wall().plus(secs(60)));
        let ttl = Ttl::At(t.wall().plus(secs(90)));
        let absolute = JobSpec {
            when,
            ttl,
            ..keyed("k", OnDuplicate::Reject)
        };
        t.push_to(&queue, absolute).await;
        t.push_to(&queue, later(secs(30))).await;
    }
}

async fn sorted(t: &Bench) -> Vec<Job> {
    let mut jobs = t.all(Filter::default(), 100).await;
    jobs.sort_by_key(|job| job.id);
    jobs
}

async fn ids(t: &Bench) -> Vec<JobId> {
    let jobs = sorted(t).await;
    jobs.into_iter().map(|job| job.id).collect()
}

fn schedule(name: &str) -> Schedule {
    Schedule {
        name: name.into(),
        queue: queue(),
        rhythm: Rhythm::Every(secs(60)),
        missed: Missed::Once,
        spec: plain(),
        next: None,
        last: None,
    }
}

/// What was forgotten stays so, with its books; a queue that came after it is another one, with jobs of its own.
pub async fn the_books_of_forgotten_queues_survive(t: &Bench) {
    for name in ["a", "b", "c"] {
        t.use_up(&named(name)).await;
    }
    t.push_to(&named("kept"), plain()).await;
    t.pass(secs(3600));
    let before = t.forgotten().await;
    assert_eq!((before.accepted, before.done), (3, 3));
    let config = QueueConfig {
        fair: true,
        ..QueueConfig::default()
    };
    t.change(Change::Queue(named("d"), config)).await;
    t.push_to(&named("d"), keyed("k", OnDuplicate::Reject))
        .await;
    t.push_to(&named("a"), plain()).await;
    let t = t.reopen().await;
    assert_eq!(t.forgotten().await, before);
    let names = t.engine.queues(None).await.unwrap();
    let names: Vec<String> = names.iter().map(|info| info.name.to_string()).collect();
    assert_eq!(names, ["a", "d", "kept"]);
    assert_eq!(t.info_of(&named("a")).await.books.accepted, 1);
    let d = t.info_of(&named("d")).await;
    assert!(d.config.fair && d.counts.ready == 1, "{d:?}");
    let again = keyed("k", OnDuplicate::Reject);
    let taken = t.try_push(&named("d"), again).await;
    assert_eq!(code(taken), Code::DuplicateKey);
    for name in ["a", "d", "kept"] {
        let leased = t.take_from(&[named(name)], 2).await;
        assert_eq!(leased.len(), 1, "{name}");
        t.settle(leased[0].token, ack()).await;
    }
    t.check_books().await;
    let t = t.reopen().await;
    assert_eq!(t.forgotten().await, before);
    t.pass(secs(3600));
    // The key of one of them is still held.
    assert_eq!(t.engine.queues(None).await.unwrap().len(), 1);
    assert_eq!(t.forgotten().await.accepted, 5);
    t.check_books().await;
}
