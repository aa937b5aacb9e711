//! What the service does beyond passing calls on.

mod fake;

use std::sync::Arc;
use std::time::Duration;

use auxo_core::engine::*;
use auxo_core::explain::Reason;
use auxo_core::job::{Backoff, Headers, Job};
use auxo_core::queue::{Books, Counts, QueueConfig, QueueInfo};
use auxo_core::{
    Code, Error, JobId, JobSpec, Limits, ManualClock, NewJob, QueueName, Service, State, Timestamp,
    Token, When,
};
use fake::Fake;

fn service(fake: Fake) -> (Arc<Fake>, Service) {
    let fake = Arc::new(fake);
    let clock = ManualClock::at(1_000_000);
    let service = Service::with_clock(fake.clone(), Limits::default(), clock);
    (fake, service)
}

fn mail() -> QueueName {
    QueueName::new("mail").unwrap()
}

fn new_job(kind: &str) -> NewJob {
    NewJob {
        queue: mail(),
        spec: JobSpec {
            kind: kind.into(),
            ..JobSpec::default()
        },
    }
}

fn settle(counter: u64, outcome: Outcome) -> Settle {
    let token = Token {
        job: JobId(counter),
        counter,
        nonce: 1,
    };
    Settle { token, outcome }
}

fn ready_job() -> Job {
    Job {
        id: JobId(7),
        queue: mail(),
        kind: "".into(),
        payload: Default::default(),
        headers: Headers::new(),
        priority: 0,
        state: State::Ready,
        run_at: Timestamp(0),
        created_at: Timestamp(0),
        ttr: Duration::from_secs(60),
        expires_at: None,
        max_attempts: 1,
        backoff: Backoff::default(),
        key: None,
        key_window: Duration::ZERO,
        group: None,
        retention: Duration::ZERO,
        attempt: 0,
        failures: 0,
        vanished: 0,
        last_error: None,
        dead: None,
        ended_at: None,
        progress: None,
        result: None,
        holder: None,
        timeline: Vec::new(),
    }
}

fn refused(service: &Service, code: Code) -> u64 {
    let all = service.tally().refused;
    all.iter().find(|(c, _)| *c == code).unwrap().1
}

#[tokio::test]
async fn a_wrong_item_of_a_push_is_answered_in_its_place_and_the_others_are_pushed() {
    let (fake, service) = service(Fake::default());
    let unread = Error::bad_request("unread");
    let answers = service
        .push_each(vec![
            Ok(new_job("a")),
            Ok(new_job("bad\nkind")),
            Err(unread.clone()),
            Ok(new_job("b")),
        ])
        .await
        .unwrap();
    assert_eq!(answers[0].as_ref().unwrap().id, JobId(1));
    assert_eq!(answers[1].as_ref().unwrap_err().code(), Code::BadRequest);
    assert_eq!(answers[2], Err(unread));
    assert_eq!(answers[3].as_ref().unwrap().id, JobId(2));
    let kinds: Vec<String> = fake
        .pushed
        .lock()
        .unwrap()
        .iter()
        .map(|job| job.spec.kind.clone())
        .collect();
    assert_eq!(kinds, ["a", "b"]);
    assert_eq!(service.tally().pushed, 2);
    assert_eq!(refused(&service, Code::BadRequest), 2);
}

#[tokio::test]
async fn a_batch_of_nothing_or_of_wrong_items_does_not_reach_the_engine() {
    let (fake, service) = service(Fake::default());
    assert_eq!(service.push(vec![]).await.unwrap(), []);
    assert!(service.push(vec![new_job("\0")]).await.unwrap()[0].is_err());
    let none = Order {
        target: Target::Jobs(vec![]),
        action: Action::Kick,
        mode: Mode::Act,
    };
    assert_eq!(service.steer(none).await.unwrap(), Steered::default());
    assert!(fake.calls().is_empty());
}

#[tokio::test]
async fn settles_are_counted_by_outcome_and_refusals_by_code() {
    let (_, service) = service(Fake::default());
    let second = Duration::from_secs(1);
    let items = vec![
        settle(1, Outcome::Ack { result: None }),
        settle(0, Outcome::Ack { result: None }),
        settle(
            2,
            Outcome::Fail {
                error: "e".into(),
                delay: None,
                retry: Retry::Policy,
            },
        ),
        settle(
            3,
            Outcome::Release {
                priority: None,
                delay: None,
            },
        ),
        settle(
            4,
            Outcome::Bury {
                error: None,
                priority: None,
            },
        ),
        settle(5, Outcome::Snooze { delay: second }),
        settle(6, Outcome::Snooze { delay: second }),
    ];
    service.settle(items).await.unwrap();
    assert_eq!(
        service.tally().settled,
        [
            ("ack", 1),
            ("fail", 1),
            ("release", 1),
            ("bury", 1),
            ("snooze", 2)
        ]
    );
    assert_eq!(refused(&service, Code::LeaseLost), 1);
}

#[tokio::test]
async fn a_long_error_text_is_clipped_and_the_failure_still_counts() {
    let (fake, service) = service(Fake::default());
    // Three bytes each, so that the limit falls into a character.
    let error = "€".repeat(1_000_000);
    let fail = Outcome::Fail {
        error: error.clone(),
        delay: None,
        retry: Retry::Policy,
    };
    let bury = Outcome::Bury {
        error: Some(error),
        priority: None,
    };
    let answers = service
        .settle(vec![settle(1, fail), settle(2, bury)])
        .await
        .unwrap();
    assert!(answers.iter().all(Result::is_ok));
    for item in fake.settled.lock().unwrap().iter() {
        let (Outcome::Fail { error, .. }
        | Outcome::Bury {
            error: Some(error), ..
        }) = &item.outcome
        else {
            panic!("{item:?}")
        };
        assert_eq!(error.len(), 8190);
    }
}

#[tokio::test]
async fn leases_and_published_jobs_are_counted() {
    let (_, service) = service(Fake {
        job: Some(ready_job()),
        ..Fake::default()
    });
    let ask = Ask {
        queues: vec![mail()],
        job: None,
        pick: Pick::First,
        max: 1,
        wait: Duration::ZERO,
        ttr: None,
        worker: "w".into(),
    };
    service.lease(ask).await.unwrap();
    service
        .publish(Message {
            topic: "t".into(),
            routing_key: None,
            spec: JobSpec::default(),
        })
        .await
        .unwrap();
    assert_eq!((service.tally().leased, service.tally().pushed), (1, 2));
}

#[tokio::test]
async fn a_broken_engine_is_passed_on_and_counted() {
    let broken = Error::new(Code::Unavailable, "gone");
    let (_, service) = service(Fake {
        broken: Some(broken.clone()),
        ..Fake::default()
    });
    assert_eq!(service.push(vec![new_job("a")]).await, Err(broken.clone()));
    assert_eq!(service.catalog().await, Err(broken.clone()));
    assert_eq!(service.health(), Err(broken));
    assert_eq!(refused(&service, Code::Unavailable), 2);
}

#[tokio::test]
async fn a_bulk_move_goes_on_to_the_last_page_and_reports_on_the_way() {
    let (fake, service) = service(Fake {
        pages: 3,
        ..Fake::default()
    });
    let mut heard = Vec::new();
    let moved = service
        .bulk(Filter::default(), Action::Kick, Mode::DryRun, |n| {
            heard.push(n)
        })
        .await
        .unwrap();
    assert_eq!((moved, heard), (30, vec![10, 20, 30]));
    let orders = fake.orders.lock().unwrap();
    assert!(orders.iter().all(|order| order.mode == Mode::DryRun));
    let cursors: Vec<Option<String>> = orders
        .iter()
        .map(|order| match &order.target {
            Target::Matching(query) => query.cursor.clone().map(|cursor| cursor.0),
            Target::Jobs(_) => panic!("{order:?}"),
        })
        .collect();
    assert_eq!(cursors, [None, Some("1".into()), Some("2".into())]);
}

#[tokio::test]
async fn a_bulk_reschedule_has_one_due_time_for_all_pages() {
    let (fake, service) = service(Fake {
        pages: 2,
        ..Fake::default()
    });
    let later = Action::Reschedule(When::After(Duration::from_secs(60)));
    service
        .bulk(Filter::default(), later, Mode::Act, |_| ())
        .await
        .unwrap();
    for order in fake.orders.lock().unwrap().iter() {
        assert_eq!(
            order.action,
            Action::Reschedule(When::At(Timestamp(1_060_000)))
        );
    }
}

#[tokio::test]
async fn a_purge_deletes_what_is_not_leased() {
    let (fake, service) = service(Fake::default());
    assert_eq!(service.purge(mail(), vec![], |_| ()).await.unwrap(), 10);
    let orders = fake.orders.lock().unwrap().clone();
    let Target::Matching(query) = &orders[0].target else {
        panic!("{orders:?}")
    };
    assert_eq!(orders[0].action, Action::Delete);
    assert_eq!(query.filter.queue, Some(mail()));
    assert!(!query.filter.states.contains(&State::Leased));
    let refused = service.purge(mail(), vec![State::Leased], |_| ()).await;
    assert_eq!(refused.unwrap_err().code(), Code::BadRequest);
    assert_eq!(fake.orders.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_job_is_explained_with_its_queue() {
    let info = QueueInfo {
        name: mail(),
        config: QueueConfig {
            paused_out: true,
            ..QueueConfig::default()
        },
        counts: Counts::default(),
        bytes: 0,
        books: Books::default(),
        waiting: 0,
        last_asked: None,
        next_due: None,
        rate_wait: None,
    };
    let (_, paused) = service(Fake {
        job: Some(ready_job()),
        queue: Some(info),
        ..Fake::default()
    });
    let by_id = paused.explain(Which::Id(JobId(7))).await.unwrap();
    assert_eq!(by_id.reason, Reason::QueuePaused);
    let by_key = paused
        .explain(Which::Key(mail(), "k".into()))
        .await
        .unwrap();
    assert_eq!(by_key.reason, Reason::KeyHeld);
    assert!(by_key.text.contains("paused"), "{}", by_key.text);

    let (_, empty) = service(Fake::default());
    let unknown = empty.explain(Which::Id(JobId(7))).await.unwrap();
    assert_eq!(unknown.reason, Reason::UnknownJob);
}

#[tokio::test]
async fn an_engine_whose_cursor_stands_still_is_not_asked_for_ever() {
    let (fake, service) = service(Fake {
        stuck: true,
        ..Fake::default()
    });
    let answer = service
        .bulk(Filter::default(), Action::Kick, Mode::Act, |_| ())
        .await;
    assert_eq!(answer.unwrap_err().code(), Code::Internal);
    assert_eq!(fake.orders.lock().unwrap().len(), 2);
}

#[test]
fn calls_can_be_made_from_any_task() {
    fn sendable<T: Send>(_: T) {}
    let (_, service) = service(Fake::default());
    sendable(service.push(vec![]));
    sendable(service.settle(vec![]));
    sendable(service.extend(vec![]));
    sendable(service.purge(mail(), vec![], |_| ()));
    sendable(service.explain(Which::Id(JobId(1))));
}

/// A change to a job that it may not have.
type Wrong = fn(&mut Job);

#[test]
fn a_job_of_another_store_with_numbers_that_cannot_be_is_refused_in_words() {
    let limits = auxo_core::Limits::default();
    let now = Timestamp(1_700_000_000_000);
    let check = |change: Wrong| {
        let mut passage = auxo_core::passage::Passage {
            job: ready_job(),
            front: false,
            due: auxo_core::time::Base::Steady,
            expires: auxo_core::time::Base::Wall,
            version: 1,
        };
        change(&mut passage.job);
        limits.check_passage(&passage, now)
    };
    assert_eq!(check(|_| ()), Ok(()));
    assert_eq!(check(|job| job.attempt = i32::MAX as u32), Ok(()));
    let table: [(&str, Wrong); 7] = [
        ("attempt: 4294967295", |job| job.attempt = u32::MAX),
        ("attempt: 2147483648", |job| job.attempt = 1 << 31),
        ("2 failures and 0 lost workers", |job| {
            (job.attempt, job.failures) = (1, 2);
        }),
        ("1 failures and 4294967295 lost workers", |job| {
            (job.attempt, job.failures, job.vanished) = (3, 1, u32::MAX);
        }),
        ("run_at: 18446744073709551615", |job| {
            job.run_at = Timestamp(u64::MAX);
        }),
        ("created_at: 253402300800000", |job| {
            job.created_at = Timestamp(253_402_300_800_000);
        }),
        ("expires_at: ", |job| {
            job.expires_at = Some(Timestamp(1 << 63))
        }),
    ];
    for (words, change) in table {
        let error = check(change).expect_err(words);
        assert_eq!(error.code(), Code::BadRequest);
        assert!(error.message().contains(words), "{error}");
    }
}
