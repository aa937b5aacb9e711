//! A client's name for a job: unique, and idempotent.

use auxo_core::engine::{Accepted, Action, Which};
use auxo_core::job::{Key, OnDuplicate, Ttl};
use auxo_core::queue::QueueConfig;
use auxo_core::time::When;
use auxo_core::{Code, JobId, JobSpec, NewJob, State};

use crate::bench::*;

/// The default answer to a second push with a key is an error that names the first job.
pub async fn a_taken_key_is_rejected_with_the_existing_id(t: &Bench) {
    let id = t.push(keyed("k", OnDuplicate::Reject)).await;
    assert_taken(t, "k", id).await;
    assert_eq!(t.info().await.books.accepted, 1);
}

/// `return` answers with the job that is there.
pub async fn a_taken_key_is_returned_as_success_when_asked_so(t: &Bench) {
    let when = When::After(secs(30));
    let spec = JobSpec {
        when,
        ..keyed("k", OnDuplicate::Return)
    };
    let id = t.push(spec).await;
    let again = t.try_push(&queue(), keyed("k", OnDuplicate::Return)).await;
    let again = again.unwrap();
    assert_eq!((again.id, again.how), (id, Accepted::Existing));
    assert_eq!(again.state, State::Scheduled);
    assert_eq!(again.run_at, t.wall().plus(secs(30)));
}

/// A push whose reply was lost can be sent again and again.
pub async fn a_repeated_push_makes_one_job(t: &Bench) {
    for _ in 0..5 {
        t.push(keyed("k", OnDuplicate::Return)).await;
    }
    let info = t.info().await;
    assert_eq!((info.books.accepted, info.counts.ready), (1, 1));
}

/// `replace` gives a waiting job everything of the new push, and leaves it the same job.
pub async fn a_waiting_job_is_replaced(t: &Bench) {
    let id = t.push(keyed("k", OnDuplicate::Reject)).await;
    t.work(fail("no")).await;
    let created_at = t.job(id).await.created_at;
    t.pass(ms(1));
    let spec = JobSpec {
        kind: "new".into(),
        payload: text("new"),
        priority: 3,
        when: When::After(secs(9)),
        ttr: secs(5),
        ttl: Ttl::After(secs(50)),
        max_attempts: 4,
        group: Some("g".into()),
        retention: secs(6),
        ..keyed("k", OnDuplicate::Replace)
    };
    let pushed = t.try_push(&queue(), spec).await.unwrap();
    assert_eq!((pushed.id, pushed.how), (id, Accepted::Replaced));
    assert_eq!(pushed.state, State::Scheduled);
    assert_eq!(pushed.run_at, t.wall().plus(secs(9)));
    let job = t.job(id).await;
    assert_eq!((&*job.kind, &job.payload), ("new", &text("new")));
    assert_eq!((job.priority, job.ttr), (3, secs(5)));
    assert_eq!(job.expires_at, Some(t.wall().plus(secs(50))));
    assert_eq!((job.max_attempts, job.retention), (4, secs(6)));
    assert_eq!(job.group.as_deref(), Some("g"));
    assert_eq!((job.attempt, job.failures), (1, 1));
    assert_eq!(job.created_at, created_at);
    assert_eq!(t.info().await.books.accepted, 1);
}

/// What a replaced job weighed is forgotten.
pub async fn a_replaced_job_weighs_what_the_new_payload_weighs(t: &Bench) {
    let with = |payload: &str| JobSpec {
        payload: text(payload),
        ..keyed("k", OnDuplicate::Replace)
    };
    t.push(with("a long payload")).await;
    t.push(with("short")).await;
    assert_eq!(t.info().await.bytes, 5);
}

/// `replace` is a rejection once a worker has the job, and when it is dead or done.
pub async fn a_job_that_no_longer_waits_is_not_replaced(t: &Bench) {
    let id = t.push(keyed("k", OnDuplicate::Reject)).await;
    let replace = async || t.try_push(&queue(), keyed("k", OnDuplicate::Replace)).await;
    let leased = t.one().await;
    assert_eq!(code(replace().await), Code::DuplicateKey);
    t.settle(leased.token, bury("no")).await;
    assert_eq!(code(replace().await), Code::DuplicateKey);
    t.steer(id, Action::Kick).await.unwrap();
    t.work(ack()).await;
    let error = replace().await.unwrap_err();
    assert_eq!((error.code(), error.job()), (Code::DuplicateKey, Some(id)));
}

/// From the push to the end and for the window after it, the key is the job's.
pub async fn a_key_is_held_in_every_state(t: &Bench) {
    let when = When::After(secs(10));
    let spec = JobSpec {
        when,
        ..keyed("k", OnDuplicate::Reject)
    };
    let id = t.push(spec).await;
    assert_taken(t, "k", id).await;
    t.pass(secs(10));
    assert_taken(t, "k", id).await;
    let leased = t.one().await;
    assert_taken(t, "k", id).await;
    t.settle(leased.token, bury("no")).await;
    assert_taken(t, "k", id).await;
    t.pass(secs(365 * 24 * 60 * 60));
    assert_taken(t, "k", id).await;
    t.steer(id, Action::Kick).await.unwrap();
    t.work(ack()).await;
    assert_taken(t, "k", id).await;
}

/// The window begins when the job is done, and ends on the millisecond.
pub async fn a_key_is_free_when_its_window_is_over(t: &Bench) {
    let id = t.push(windowed("k", secs(100), ms(0))).await;
    t.pass(secs(1000));
    t.work(ack()).await;
    t.pass(ms(99_999));
    assert_taken(t, "k", id).await;
    t.pass(ms(1));
    assert_eq!(t.holder("k").await, None);
    let second = t.push(windowed("k", secs(100), ms(0))).await;
    assert_ne!(second, id);
}

/// A window of zero frees the key with the ack.
pub async fn a_key_without_a_window_is_free_when_the_job_is_done(t: &Bench) {
    let id = t.push(windowed("k", ms(0), ms(0))).await;
    assert_taken(t, "k", id).await;
    t.work(ack()).await;
    assert_eq!(t.find(id).await, None);
    t.push(windowed("k", ms(0), ms(0))).await;
    assert_eq!(t.info().await.books.accepted, 2);
}

/// Cancelling or deleting a job frees its key, whatever the window.
pub async fn a_key_is_free_when_its_job_is_taken_out(t: &Bench) {
    for action in [Action::Cancel, Action::Delete] {
        let id = t.push(keyed("k", OnDuplicate::Reject)).await;
        t.steer(id, action).await.unwrap();
        assert_eq!(t.holder("k").await, None);
    }
    let id = t.push(keyed("k", OnDuplicate::Reject)).await;
    t.work(bury("no")).await;
    t.steer(id, Action::Delete).await.unwrap();
    t.push(keyed("k", OnDuplicate::Reject)).await;
    assert_eq!(t.info().await.books.accepted, 4);
}

/// While only the key is held, the job is shown without its payload and counts nowhere.
pub async fn a_done_job_whose_key_is_held_is_a_shadow(t: &Bench) {
    let spec = JobSpec {
        payload: text("secret"),
        ..keyed("k", OnDuplicate::Reject)
    };
    let id = t.push(spec).await;
    t.work(ack()).await;
    for job in [t.job(id).await, t.holder("k").await.unwrap()] {
        assert_eq!((job.id, job.state), (id, State::Done));
        assert!(job.payload.is_empty());
        assert_eq!(job.key.as_deref(), Some("k"));
    }
    let info = t.info().await;
    assert_eq!((info.counts.done, info.books.done, info.bytes), (0, 1, 0));
    assert_eq!(t.all(Default::default(), 10).await, []);
    for action in [
        Action::Kick,
        Action::Cancel,
        Action::Delete,
        Action::Reschedule(When::Now),
    ] {
        assert_eq!(code(t.steer(id, action).await), Code::NotFound);
    }
}

/// Retention shows the job whole; then its key is held alone, as long as the window says.
pub async fn a_retained_job_becomes_a_shadow_of_its_key(t: &Bench) {
    let id = t.push(windowed("k", secs(20), secs(10))).await;
    t.work(ack()).await;
    t.pass(ms(9_999));
    assert_eq!(t.job(id).await.payload, text("p"));
    assert_eq!(t.info().await.counts.done, 1);
    t.pass(ms(1));
    assert!(t.job(id).await.payload.is_empty());
    assert_eq!(t.info().await.counts.done, 0);
    assert_taken(t, "k", id).await;
    t.pass(secs(10));
    assert_eq!(t.find(id).await, None);
}

/// Where retention is longer than the window, the key is free while the job is still shown.
pub async fn a_key_is_free_before_its_retained_job_is_forgotten(t: &Bench) {
    let first = t.push(windowed("k", secs(10), secs(20))).await;
    t.work(ack()).await;
    t.pass(secs(10));
    let second = t.push(windowed("k", secs(10), secs(20))).await;
    assert_eq!(t.state(first).await, Some(State::Done));
    assert_eq!(t.holder("k").await.unwrap().id, second);
    t.pass(secs(10));
    assert_eq!(t.find(first).await, None);
    assert_taken(t, "k", second).await;
}

/// Two queues may use the same key.
pub async fn keys_are_unique_per_queue_only(t: &Bench) {
    let (a, b) = (named("a"), named("b"));
    let first = t.push_to(&a, keyed("k", OnDuplicate::Reject)).await;
    let second = t.push_to(&b, keyed("k", OnDuplicate::Reject)).await;
    for (queue, id) in [(a, first), (b, second)] {
        let found = t.engine.find(Which::Key(queue, "k".into())).await.unwrap();
        assert_eq!(found.unwrap().id, id);
    }
}

/// Within one batch the second push sees the first.
pub async fn a_key_twice_in_one_batch_makes_one_job(t: &Bench) {
    let policies = [
        OnDuplicate::Reject,
        OnDuplicate::Return,
        OnDuplicate::Reject,
    ];
    let jobs = policies.map(|policy| NewJob {
        queue: queue(),
        spec: keyed("k", policy),
    });
    let answers = t.engine.push(jobs.to_vec()).await.unwrap();
    let id = answers[0].as_ref().unwrap().id;
    let second = answers[1].as_ref().unwrap();
    assert_eq!((second.id, second.how), (id, Accepted::Existing));
    assert_eq!(answers[2].as_ref().unwrap_err().job(), Some(id));
    assert_eq!(t.order(10).await, [id]);
}

/// A held key is answered by its policy even where a new job would be refused.
pub async fn a_taken_key_is_answered_before_the_limits(t: &Bench) {
    let id = t.push(keyed("k", OnDuplicate::Reject)).await;
    let paused = QueueConfig {
        paused_in: true,
        ..QueueConfig::default()
    };
    let full = QueueConfig {
        max_jobs: Some(1),
        ..QueueConfig::default()
    };
    for config in [paused, full] {
        t.configure(config).await;
        let again = t.try_push(&queue(), keyed("k", OnDuplicate::Return)).await;
        assert_eq!(again.unwrap().id, id);
        assert_taken(t, "k", id).await;
    }
}

/// What replaces a job comes in by the same rules as a new one, except that it is none more.
pub async fn a_replacement_is_refused_where_the_queue_takes_nothing(t: &Bench) {
    let with = |payload: &str| JobSpec {
        payload: text(payload),
        ..keyed("k", OnDuplicate::Replace)
    };
    let id = t.push(with("12345")).await;
    t.configure(QueueConfig {
        paused_in: true,
        ..QueueConfig::default()
    })
    .await;
    let refused = t.try_push(&queue(), with("1")).await;
    assert_eq!(code(refused), Code::QueuePaused);
    t.configure(QueueConfig {
        max_jobs: Some(1),
        max_bytes: Some(6),
        ..QueueConfig::default()
    })
    .await;
    let refused = t.try_push(&queue(), with("1234567")).await;
    assert_eq!(code(refused), Code::QueueFull);
    assert_eq!(t.find(id).await.unwrap().payload, text("12345"));
    for payload in ["123456", "654321", "321"] {
        let replaced = t.try_push(&queue(), with(payload)).await.unwrap();
        assert_eq!((replaced.id, replaced.how), (id, Accepted::Replaced));
    }
    // Over its limit already, the queue lets a job shrink.
    t.configure(QueueConfig {
        max_bytes: Some(1),
        ..QueueConfig::default()
    })
    .await;
    t.try_push(&queue(), with("21")).await.unwrap();
    assert_eq!(t.info().await.bytes, 2);
}

/// A job that is delivered at most once holds its key for the window after it was handed out.
pub async fn the_key_of_a_job_without_a_lease_is_held_for_its_window(t: &Bench) {
    let spec = JobSpec {
        ttr: ms(0),
        ..windowed("k", secs(10), ms(0))
    };
    let id = t.push(spec).await;
    assert_eq!(t.order(1).await, [id]);
    assert_taken(t, "k", id).await;
    t.pass(secs(10));
    assert_eq!(t.find(id).await, None);
}

async fn assert_taken(t: &Bench, key: &str, by: JobId) {
    let refused = t.try_push(&queue(), keyed(key, OnDuplicate::Reject)).await;
    let error = refused.expect_err("the key is taken");
    assert_eq!((error.code(), error.job()), (Code::DuplicateKey, Some(by)));
    assert_eq!(t.holder(key).await.map(|job| job.id), Some(by));
}

fn windowed(name: &str, window: std::time::Duration, retention: std::time::Duration) -> JobSpec {
    let key = Key {
        name: name.to_owned(),
        on_duplicate: OnDuplicate::Reject,
        window,
    };
    JobSpec {
        key: Some(key),
        payload: text("p"),
        retention,
        ..plain()
    }
}
