//! Jobs come in.

use auxo_core::engine::Accepted;
use auxo_core::job::{Backoff, Headers, OnDuplicate, Ttl};
use auxo_core::time::When;
use auxo_core::{Code, JobId, JobSpec, Limits, NewJob, State};
use bytes::Bytes;

use crate::bench::*;

/// A job without a due time can be leased in the moment its push was answered.
pub async fn a_pushed_job_is_ready_at_once(t: &Bench) {
    let pushed = t.try_push(&queue(), plain()).await.unwrap();
    assert_eq!((pushed.state, pushed.how), (State::Ready, Accepted::New));
    assert_eq!(pushed.run_at, t.wall());
    assert_eq!(t.order(10).await, [pushed.id]);
}

/// Nothing that a client said about a job is lost on the way.
pub async fn a_job_is_shown_as_it_was_pushed(t: &Bench) {
    let spec = JobSpec {
        kind: "mail".into(),
        payload: text("hello"),
        headers: Headers::from([("traceparent".into(), "00-ab-cd-01".into())]),
        priority: 7,
        when: When::After(secs(5)),
        ttr: ms(1500),
        ttl: Ttl::After(secs(90)),
        max_attempts: 3,
        backoff: Backoff::List {
            delays: vec![ms(1), secs(2)],
        },
        group: Some("customer-9".into()),
        retention: secs(11),
        ..keyed("k", OnDuplicate::Return)
    };
    let id = t.push(spec.clone()).await;
    let job = t.job(id).await;
    assert_eq!((job.id, job.queue), (id, queue()));
    assert_eq!(&*job.kind, "mail");
    assert_eq!(job.payload, spec.payload);
    assert_eq!(job.headers, spec.headers);
    assert_eq!((job.priority, job.state), (7, State::Scheduled));
    assert_eq!(job.created_at, t.wall());
    assert_eq!(job.run_at, t.wall().plus(secs(5)));
    assert_eq!(job.expires_at, Some(t.wall().plus(secs(90))));
    assert_eq!((job.ttr, job.max_attempts), (ms(1500), 3));
    assert_eq!(job.backoff, spec.backoff);
    assert_eq!(job.key.as_deref(), Some("k"));
    assert_eq!(job.key_window, secs(24 * 60 * 60));
    assert_eq!(job.group.as_deref(), Some("customer-9"));
    assert_eq!(job.retention, secs(11));
    assert_eq!((job.attempt, job.failures, job.vanished), (0, 0, 0));
    assert_eq!((job.last_error, job.dead, job.ended_at), (None, None, None));
    assert_eq!((job.progress, job.result), (None, None));
    assert_eq!(job.holder, None);
}

/// Payloads are opaque: every byte value, none, and a large one.
pub async fn payloads_come_back_byte_for_byte(t: &Bench) {
    let bytes: Vec<u8> = (0..=255).collect();
    let large = bytes.repeat(4096);
    for payload in [Vec::new(), bytes, large] {
        let spec = JobSpec {
            payload: Bytes::from(payload.clone()),
            ..plain()
        };
        t.push(spec).await;
        let leased = t.one().await;
        assert!(leased.job.payload == payload, "{} bytes", payload.len());
        t.settle(leased.token, ack()).await;
    }
}

/// Ids follow the order of a batch, and of calls.
pub async fn ids_rise_with_every_push(t: &Bench) {
    let mut ids = t.push_many(5, plain()).await;
    ids.push(t.push(plain()).await);
    t.pass(ms(1));
    ids.extend(t.push_many(3, plain()).await);
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

/// A program that keeps numbers as doubles gives back the id that it got; and ids say when they were given.
pub async fn ids_are_numbers_that_javascript_can_hold(t: &Bench) {
    let decade = secs(10 * 365 * 24 * 60 * 60);
    for _ in 0..5 {
        for id in t.push_many(3, plain()).await {
            assert!(id.0 < 1 << 53, "{id}");
            assert_eq!(id.at(), t.wall());
        }
        t.pass(decade);
    }
}

/// More jobs in one millisecond than an id has room for still get ids of their own.
pub async fn ids_rise_in_a_crowded_millisecond(t: &Bench) {
    let mut ids: Vec<JobId> = Vec::new();
    for _ in 0..6 {
        ids.extend(t.push_many(1000, plain()).await);
    }
    t.pass(ms(1));
    ids.push(t.push(plain()).await);
    assert!(ids.is_sorted_by(|a, b| a < b));
}

/// One item's refusal leaves the others alone, and the answers stand in the order asked.
pub async fn a_batch_is_answered_per_item_in_order(t: &Bench) {
    let jobs = ["a", "a", "b"].map(|name| NewJob {
        queue: queue(),
        spec: keyed(name, OnDuplicate::Reject),
    });
    let answers = t.engine.push(jobs.to_vec()).await.unwrap();
    let [first, second, third] = answers.try_into().unwrap();
    let first = first.unwrap().id;
    let error = second.unwrap_err();
    assert_eq!(
        (error.code(), error.job()),
        (Code::DuplicateKey, Some(first))
    );
    assert_eq!(t.order(10).await, [first, third.unwrap().id]);
}

/// A delay holds a job back to the millisecond.
pub async fn a_delayed_job_is_handed_out_at_its_time_and_not_before(t: &Bench) {
    let id = t.push(later(secs(10))).await;
    assert_eq!(t.state(id).await, Some(State::Scheduled));
    t.pass(ms(9999));
    assert!(t.idle().await);
    assert_eq!(t.state(id).await, Some(State::Scheduled));
    t.pass(ms(1));
    assert_eq!(t.state(id).await, Some(State::Ready));
    assert_eq!(t.order(1).await, [id]);
}

/// An absolute due time in the past is no obstacle.
pub async fn a_job_for_a_past_instant_is_ready(t: &Bench) {
    let when = When::At(t.wall().minus(secs(60)));
    let pushed = t.try_push(&queue(), JobSpec { when, ..plain() }).await;
    let pushed = pushed.unwrap();
    assert_eq!(pushed.state, State::Ready);
    assert_eq!(t.order(1).await, [pushed.id]);
}

/// An absolute due time waits for the wall clock.
pub async fn a_job_for_a_future_instant_waits_for_it(t: &Bench) {
    let at = t.wall().plus(secs(10));
    let when = When::At(at);
    let pushed = t.try_push(&queue(), JobSpec { when, ..plain() }).await;
    let pushed = pushed.unwrap();
    assert_eq!((pushed.state, pushed.run_at), (State::Scheduled, at));
    t.pass(ms(9999));
    assert!(t.idle().await);
    t.pass(ms(1));
    assert_eq!(t.order(1).await, [pushed.id]);
}

/// The farthest due time that the limits allow is far, by either clock.
pub async fn a_job_for_the_next_decade_waits(t: &Bench) {
    let decade = Limits::default().delay;
    let when = When::At(t.wall().plus(decade));
    let ids = [
        t.push(JobSpec { when, ..plain() }).await,
        t.push(later(decade)).await,
    ];
    t.pass(decade - ms(1));
    assert!(t.idle().await);
    assert_eq!(t.info().await.counts.scheduled, 2);
    t.pass(ms(1));
    assert_eq!(t.order(10).await, ids);
}

/// A job is in its own queue only.
pub async fn queues_are_apart(t: &Bench) {
    let (a, b) = (named("a"), named("b"));
    let id = t.push_to(&a, plain()).await;
    t.push_to(&b, plain()).await;
    let leased = t.take_from(std::slice::from_ref(&a), 10).await;
    assert_eq!(leased.len(), 1);
    assert_eq!((leased[0].job.id, &leased[0].job.queue), (id, &a));
}

/// Asking for a queue does not make it.
pub async fn a_queue_that_never_was_is_not_shown(t: &Bench) {
    let never = named("never");
    assert!(
        t.take_from(std::slice::from_ref(&never), 1)
            .await
            .is_empty()
    );
    t.push(plain()).await;
    let names = Some(vec![never, queue()]);
    let infos = t.engine.queues(names).await.unwrap();
    assert_eq!(infos.len(), 1);
    assert_eq!(infos[0].name, queue());
}

/// A refused push leaves nothing behind.
pub async fn a_refused_push_stores_nothing(t: &Bench) {
    t.push(keyed("k", OnDuplicate::Reject)).await;
    let before = t.info().await;
    let refused = t.try_push(&queue(), keyed("k", OnDuplicate::Reject)).await;
    assert_eq!(code(refused), Code::DuplicateKey);
    assert_eq!(t.info().await, before);
}

/// Queues come in the order of their names, however they came to be.
pub async fn queues_are_shown_in_the_order_of_their_names(t: &Bench) {
    for name in ["m", "z", "a", "B", "a.b"] {
        t.push_to(&named(name), plain()).await;
    }
    let infos = t.engine.queues(None).await.unwrap();
    let names: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["B", "a", "a.b", "m", "z"]);
}
