//! What a queue's settings hold back, and what they never do.

use auxo_core::engine::{Action, Outcome};
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::{Code, JobSpec, NewJob, State, When};

use crate::bench::*;

/// A queue shows the settings that it was given last.
pub async fn settings_are_shown_as_they_were_set(t: &Bench) {
    let config = QueueConfig {
        paused_in: true,
        paused_out: true,
        paused_until: Some(When::At(t.wall().plus(secs(9)))),
        max_jobs: Some(5),
        max_bytes: Some(6),
        max_leased: Some(7),
        rate: Some(per_second(8)),
        fair: true,
        // How many there are depends on the store.
        shards: None,
    };
    for config in [config, QueueConfig::default()] {
        t.configure(config.clone()).await;
        assert_eq!(t.info().await.config, config);
    }
}

/// A paused queue takes no jobs, and hands out those it has.
pub async fn a_queue_that_is_paused_for_pushes_refuses_them(t: &Bench) {
    let id = t.push(plain()).await;
    t.configure(QueueConfig {
        paused_in: true,
        ..QueueConfig::default()
    })
    .await;
    let refused = t.try_push(&queue(), plain()).await;
    assert_eq!(code(refused), Code::QueuePaused);
    assert_eq!(t.order(10).await, [id]);
    t.configure(QueueConfig::default()).await;
    t.push(plain()).await;
}

/// A queue may be paused before it has a job.
pub async fn a_queue_may_be_paused_before_its_first_job(t: &Bench) {
    t.configure(QueueConfig {
        paused_in: true,
        ..QueueConfig::default()
    })
    .await;
    let refused = t.try_push(&queue(), plain()).await;
    assert_eq!(code(refused), Code::QueuePaused);
}

/// A queue that is paused for leases takes jobs and hands out none.
pub async fn a_queue_that_is_paused_for_leases_hands_out_nothing(t: &Bench) {
    t.configure(QueueConfig {
        paused_out: true,
        ..QueueConfig::default()
    })
    .await;
    let id = t.push(plain()).await;
    assert!(t.idle().await);
    assert_eq!(t.state(id).await, Some(State::Ready));
    t.configure(QueueConfig::default()).await;
    assert_eq!(t.order(10).await, [id]);
}

/// A pause may have an end of its own.
pub async fn a_pause_ends_by_itself_when_its_time_has_come(t: &Bench) {
    let id = t.push(plain()).await;
    t.configure(QueueConfig {
        paused_until: Some(When::After(secs(10))),
        ..QueueConfig::default()
    })
    .await;
    let until = When::At(t.wall().plus(secs(10)));
    assert_eq!(t.info().await.config.paused_until, Some(until));
    t.pass(ms(9_999));
    assert!(t.idle().await);
    assert_eq!(t.state(id).await, Some(State::Ready));
    t.pass(ms(1));
    assert_eq!(t.order(10).await, [id]);
    // What is over holds nothing back any more.
    let next = t.push(plain()).await;
    assert_eq!(t.order(10).await, [next]);
}

/// A lease that names several queues passes over one that is paused.
pub async fn a_paused_queue_is_passed_over(t: &Bench) {
    let other = named("other");
    t.configure(QueueConfig {
        paused_out: true,
        ..QueueConfig::default()
    })
    .await;
    t.push(plain()).await;
    let id = t.push_to(&other, plain()).await;
    let leased = t.take_from(&[queue(), other], 1).await;
    assert_eq!(leased[0].job.id, id);
}

/// Work in hand goes on while a queue is paused in both directions.
pub async fn leases_end_as_usual_in_a_paused_queue(t: &Bench) {
    t.push_many(3, plain()).await;
    let leased = t.take(3).await;
    t.configure(QueueConfig {
        paused_in: true,
        paused_out: true,
        ..QueueConfig::default()
    })
    .await;
    t.extend(leased[0].token, None).await.unwrap();
    let states = [
        (leased[0].token, ack(), State::Done),
        (leased[1].token, release(), State::Ready),
        (leased[2].token, fail("no"), State::Scheduled),
    ];
    for (token, outcome, state) in states {
        assert_eq!(t.settle(token, outcome).await.state, state);
    }
}

/// Waiting, leased and dead jobs fill a queue; done ones do not.
pub async fn a_full_queue_refuses_pushes(t: &Bench) {
    t.configure(QueueConfig {
        max_jobs: Some(3),
        ..QueueConfig::default()
    })
    .await;
    let retention = secs(3600);
    let spec = JobSpec {
        retention,
        ..plain()
    };
    t.push(spec).await;
    t.work(ack()).await;
    t.push(plain()).await;
    t.work(bury("no")).await;
    t.push(plain()).await;
    t.one().await;
    t.push(later(secs(60))).await;
    let refused = t.try_push(&queue(), plain()).await;
    assert_eq!(code(refused), Code::QueueFull);
    t.purge(&queue()).await;
    t.push_many(2, plain()).await;
    let refused = t.try_push(&queue(), plain()).await;
    assert_eq!(code(refused), Code::QueueFull);
}

/// Expired jobs are stored too, and fill a queue.
pub async fn expired_jobs_fill_a_queue(t: &Bench) {
    t.configure(QueueConfig {
        max_jobs: Some(1),
        ..QueueConfig::default()
    })
    .await;
    let ttl = auxo_core::job::Ttl::After(secs(1));
    t.push(JobSpec { ttl, ..plain() }).await;
    t.pass(secs(1));
    let refused = t.try_push(&queue(), plain()).await;
    assert_eq!(code(refused), Code::QueueFull);
}

/// A batch fills what room there is; the rest is refused, item by item.
pub async fn a_batch_that_does_not_fit_is_taken_as_far_as_it_does(t: &Bench) {
    t.configure(QueueConfig {
        max_jobs: Some(2),
        ..QueueConfig::default()
    })
    .await;
    let job = NewJob {
        queue: queue(),
        spec: plain(),
    };
    let answers = t.engine.push(vec![job; 3]).await.unwrap();
    let codes: Vec<_> = answers
        .into_iter()
        .map(|a| a.map_err(|e| e.code()))
        .collect();
    assert!(codes[0].is_ok() && codes[1].is_ok());
    assert_eq!(codes[2], Err(Code::QueueFull));
    assert_eq!(t.info().await.counts.ready, 2);
}

/// Payload bytes are limited up to the last one.
pub async fn a_queue_with_too_many_bytes_refuses_pushes(t: &Bench) {
    t.configure(QueueConfig {
        max_bytes: Some(10),
        ..QueueConfig::default()
    })
    .await;
    let with = |payload: &str| JobSpec {
        payload: text(payload),
        ..plain()
    };
    t.push(with("123456")).await;
    let refused = t.try_push(&queue(), with("12345")).await;
    assert_eq!(code(refused), Code::QueueFull);
    t.push(with("1234")).await;
    t.push(with("")).await;
    assert_eq!(t.info().await.bytes, 10);
    let leased = t.one().await;
    assert_eq!(t.info().await.bytes, 10);
    t.settle(leased.token, ack()).await;
    assert_eq!(t.info().await.bytes, 4);
    t.push(with("654321")).await;
}

/// What is in a queue may always come back to it, however full or paused it is.
pub async fn a_job_comes_back_to_a_full_and_paused_queue(t: &Bench) {
    let spec = JobSpec {
        payload: text("p"),
        ..plain()
    };
    let ids = t.push_many(5, spec).await;
    let leased = t.take(5).await;
    t.settle(leased[4].token, bury("no")).await;
    t.configure(QueueConfig {
        paused_in: true,
        max_jobs: Some(1),
        max_bytes: Some(1),
        ..QueueConfig::default()
    })
    .await;
    t.settle(leased[0].token, release()).await;
    t.settle(leased[1].token, fail("no")).await;
    t.settle(leased[2].token, snooze(secs(1))).await;
    t.pass(secs(60));
    t.steer(ids[4], Action::Kick).await.unwrap();
    assert_eq!(t.info().await.counts.ready, 5);
}

/// Lower limits throw nothing away.
pub async fn lowering_a_limit_drops_nothing(t: &Bench) {
    let ids = t.push_many(5, plain()).await;
    t.configure(QueueConfig {
        max_jobs: Some(1),
        ..QueueConfig::default()
    })
    .await;
    let refused = t.try_push(&queue(), plain()).await;
    assert_eq!(code(refused), Code::QueueFull);
    assert_eq!(t.order(10).await, ids);
}

/// No more jobs are leased at once than the queue allows, in one call or in several.
pub async fn leases_at_once_are_limited(t: &Bench) {
    t.configure(QueueConfig {
        max_leased: Some(2),
        ..QueueConfig::default()
    })
    .await;
    let ids = t.push_many(5, plain()).await;
    let leased = t.take(10).await;
    assert_eq!(leased.len(), 2);
    assert!(t.idle().await);
    t.settle(leased[0].token, ack()).await;
    assert_eq!(t.order(10).await, [ids[2]]);
    // A vanished lease frees its place as well.
    t.pass(secs(60));
    assert_eq!(t.order(10).await, [ids[1], ids[2]]);
}

/// A limit that is lowered under what is leased lets nothing out until enough came back.
pub async fn a_lowered_lease_limit_waits_for_leases_to_end(t: &Bench) {
    t.push_many(4, plain()).await;
    let leased = t.take(3).await;
    t.configure(QueueConfig {
        max_leased: Some(2),
        ..QueueConfig::default()
    })
    .await;
    t.settle(leased[0].token, ack()).await;
    assert!(t.idle().await);
    t.settle(leased[1].token, ack()).await;
    assert_eq!(t.order(10).await.len(), 1);
}

/// A job that is handed out at most once holds no lease, and fills no lease limit.
pub async fn a_job_without_lease_time_fills_no_lease_limit(t: &Bench) {
    t.configure(QueueConfig {
        max_leased: Some(1),
        ..QueueConfig::default()
    })
    .await;
    let ttr = ms(0);
    t.push_many(2, JobSpec { ttr, ..plain() }).await;
    assert_eq!(t.order(1).await.len(), 1);
    assert_eq!(t.order(1).await.len(), 1);
}

/// A rate lets out a burst, and then so many in a time.
pub async fn leases_in_a_time_are_limited(t: &Bench) {
    t.configure(QueueConfig {
        rate: Some(Rate {
            count: 2,
            per: secs(10),
            burst: 3,
        }),
        ..QueueConfig::default()
    })
    .await;
    t.push_many(20, plain()).await;
    assert_eq!(t.order(10).await.len(), 3);
    assert!(t.idle().await);
    t.pass(ms(4_999));
    assert!(t.idle().await);
    t.pass(ms(1));
    assert_eq!(t.order(10).await.len(), 1);
    t.pass(secs(10));
    assert_eq!(t.order(10).await.len(), 2);
    t.pass(secs(3600));
    assert_eq!(t.order(10).await.len(), 3);
}

/// A queue whose rate is used up shows when the next lease is allowed.
pub async fn a_used_up_rate_shows_when_it_allows_the_next_lease(t: &Bench) {
    t.configure(QueueConfig {
        rate: Some(per_second(1)),
        ..QueueConfig::default()
    })
    .await;
    assert_eq!(t.info().await.rate_wait, None);
    t.push_many(2, plain()).await;
    t.one().await;
    t.pass(ms(400));
    let next = t.wall().plus(ms(600));
    assert_eq!(t.info().await.rate_wait, Some(next));
    t.pass(ms(600));
    assert_eq!(t.info().await.rate_wait, None);
}

/// A new rate starts afresh.
pub async fn a_new_rate_starts_afresh(t: &Bench) {
    t.push_many(5, plain()).await;
    for burst in [1, 2] {
        t.configure(QueueConfig {
            rate: Some(Rate {
                count: 1,
                per: secs(3600),
                burst,
            }),
            ..QueueConfig::default()
        })
        .await;
        assert_eq!(t.order(10).await.len(), burst as usize);
    }
}

/// A release takes no token back: the rate is of leases, not of jobs.
pub async fn a_released_job_has_used_the_rate(t: &Bench) {
    t.configure(QueueConfig {
        rate: Some(per_second(1)),
        ..QueueConfig::default()
    })
    .await;
    t.push(plain()).await;
    let outcome = Outcome::Release {
        priority: None,
        delay: None,
    };
    t.work(outcome).await;
    assert!(t.idle().await);
    t.pass(secs(1));
    t.one().await;
}

fn per_second(count: u32) -> Rate {
    Rate {
        count,
        per: secs(1),
        burst: 1,
    }
}
