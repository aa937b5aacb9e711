//! Every reason why a job is not running, brought about on a real store.

mod store;

use std::time::Duration;

use auxo_conformance::Bench;
use auxo_conformance::bench::{ack, bury, fail, keyed, later, plain, queue, run, secs};
use auxo_core::engine::{Action, Which};
use auxo_core::explain::{Explanation, Reason};
use auxo_core::job::{JobSpec, OnDuplicate, Ttl};
use auxo_core::limits::Limits;
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::service::Service;
use auxo_core::{JobId, State};

async fn explain(t: &Bench, which: Which) -> Explanation {
    let service = Service::with_clock(t.engine.clone(), Limits::default(), t.clock.clone());
    service.explain(which).await.expect("an explanation")
}

/// The reason, and that its sentence says what a person would look for.
async fn expect(t: &Bench, which: Which, reason: Reason, words: &[&str]) {
    let explanation = explain(t, which).await;
    assert_eq!(explanation.reason, reason, "{}", explanation.text);
    for word in words {
        assert!(
            explanation.text.contains(word),
            "{word:?} is not in {:?}",
            explanation.text
        );
    }
}

fn id(id: JobId) -> Which {
    Which::Id(id)
}

fn by_key(name: &str) -> Which {
    Which::Key(queue(), name.into())
}

#[test]
fn a_job_that_is_not_due_says_until_when() {
    run(async {
        let t = store::make().await;
        let job = t.push(later(secs(90))).await;
        expect(&t, id(job), Reason::NotDue, &["2025-10-09T08:54:50"]).await;
    });
}

#[test]
fn a_paused_queue_is_named() {
    run(async {
        let t = store::make().await;
        let job = t.push(plain()).await;
        t.configure(QueueConfig {
            paused_out: true,
            ..QueueConfig::default()
        })
        .await;
        expect(
            &t,
            id(job),
            Reason::QueuePaused,
            &["paused", queue().as_str()],
        )
        .await;
    });
}

#[test]
fn a_reached_limit_of_leases_is_named() {
    run(async {
        let t = store::make().await;
        t.push(plain()).await;
        let job = t.push(plain()).await;
        t.configure(QueueConfig {
            max_leased: Some(1),
            ..QueueConfig::default()
        })
        .await;
        t.one().await;
        expect(&t, id(job), Reason::LeaseLimit, &["1"]).await;
    });
}

#[test]
fn a_used_up_rate_says_when_it_goes_on() {
    run(async {
        let t = store::make().await;
        t.push(plain()).await;
        let job = t.push(plain()).await;
        let rate = Some(Rate {
            count: 1,
            per: secs(60),
            burst: 1,
        });
        t.configure(QueueConfig {
            rate,
            ..QueueConfig::default()
        })
        .await;
        t.one().await;
        expect(&t, id(job), Reason::RateLimit, &["2025-10-09T08:54:20"]).await;
    });
}

#[test]
fn a_queue_that_nobody_asks_for_says_since_when() {
    run(async {
        let t = store::make().await;
        let job = t.push(plain()).await;
        expect(&t, id(job), Reason::NoConsumer, &[queue().as_str()]).await;
        t.push(JobSpec {
            priority: 0,
            ..plain()
        })
        .await;
        t.one().await;
        t.pass(secs(3600));
        expect(&t, id(job), Reason::NoConsumer, &["1h"]).await;
    });
}

#[test]
fn a_ready_job_behind_others_is_waiting() {
    run(async {
        let t = store::make().await;
        t.push(JobSpec {
            priority: 0,
            ..plain()
        })
        .await;
        let job = t.push(plain()).await;
        t.one().await;
        expect(&t, id(job), Reason::Waiting, &[]).await;
    });
}

#[test]
fn a_leased_job_names_its_worker_and_its_deadline() {
    run(async {
        let t = store::make().await;
        let job = t.push(plain()).await;
        let leased = t.one().await;
        let worker = leased.job.holder.expect("a holder").worker;
        expect(
            &t,
            id(job),
            Reason::Leased,
            &[&worker, "2025-10-09T08:54:20"],
        )
        .await;
    });
}

#[test]
fn a_dead_job_says_what_it_died_of() {
    run(async {
        let t = store::make().await;
        let failed = t
            .push(JobSpec {
                max_attempts: 1,
                ..plain()
            })
            .await;
        t.work(fail("no such table")).await;
        expect(&t, id(failed), Reason::Dead, &["no such table"]).await;
        let buried = t.push(plain()).await;
        t.work(bury("cannot be parsed")).await;
        expect(&t, id(buried), Reason::Dead, &["cannot be parsed"]).await;
        let vanished = t
            .push(JobSpec {
                max_attempts: 1,
                ..plain()
            })
            .await;
        t.one().await;
        t.pass(secs(61));
        expect(&t, id(vanished), Reason::Dead, &["vanish"]).await;
        let expired = t
            .push(JobSpec {
                ttl: Ttl::After(secs(1)),
                ..plain()
            })
            .await;
        t.pass(secs(2));
        expect(&t, id(expired), Reason::Dead, &["time to live"]).await;
    });
}

#[test]
fn a_done_job_says_so_while_it_is_kept_and_is_unknown_afterwards() {
    run(async {
        let t = store::make().await;
        let job = t
            .push(JobSpec {
                retention: Duration::from_secs(60),
                ..plain()
            })
            .await;
        t.work(ack()).await;
        expect(&t, id(job), Reason::Done, &[]).await;
        t.pass(secs(61));
        expect(&t, id(job), Reason::UnknownJob, &[]).await;
    });
}

#[test]
fn a_job_that_was_called_off_is_no_longer_known() {
    run(async {
        let t = store::make().await;
        let job = t.push(plain()).await;
        assert_eq!(t.steer(job, Action::Cancel).await, Ok(State::Cancelled));
        expect(&t, id(job), Reason::UnknownJob, &["cancelled"]).await;
    });
}

#[test]
fn a_key_names_the_job_that_holds_it() {
    run(async {
        let t = store::make().await;
        let job = t.push(keyed("order-7", OnDuplicate::Reject)).await;
        expect(
            &t,
            by_key("order-7"),
            Reason::KeyHeld,
            &[&job.to_string(), "ready"],
        )
        .await;
        t.work(ack()).await;
        expect(
            &t,
            by_key("order-7"),
            Reason::KeyHeld,
            &[&job.to_string(), "done"],
        )
        .await;
        expect(&t, by_key("order-8"), Reason::KeyFree, &["order-8"]).await;
    });
}
