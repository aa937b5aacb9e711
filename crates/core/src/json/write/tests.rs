//! Everything that is asked for is read by the server as it was meant.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::super::{read, write};
use crate::engine::{
    Action, Ask, Cursor, Extend, Filter, Message, Mode, Order, Outcome, Pick, Query, Retry, Settle,
    Target,
};
use crate::job::{Backoff, Jitter, JobSpec, Key, OnDuplicate, Ttl};
use crate::queue::{QueueConfig, Rate};
use crate::schedule::{Missed, Rhythm, Schedule};
use crate::topic::{Pattern, Subscription};
use crate::{JobId, QueueName, State, Timestamp, Token, When};

const NOON: Timestamp = Timestamp(1_700_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

fn mail() -> QueueName {
    QueueName::new("mail/in").unwrap()
}

fn token() -> Token {
    Token {
        job: JobId(7),
        counter: 1,
        nonce: 2,
    }
}

fn specs() -> Vec<JobSpec> {
    let full = JobSpec {
        kind: "welcome".into(),
        payload: Bytes::from_static(b"{\"a\": 1.50}"),
        headers: [("a".to_owned(), "b".to_owned())].into(),
        priority: 5,
        when: When::After(SECOND),
        ttr: Duration::ZERO,
        ttl: Ttl::After(SECOND),
        max_attempts: 3,
        backoff: Backoff::Fixed { delay: SECOND },
        key: Some(Key {
            name: "k".into(),
            on_duplicate: OnDuplicate::Replace,
            window: Duration::ZERO,
        }),
        group: Some("g".into()),
        retention: SECOND,
    };
    let absolute = JobSpec {
        when: When::At(NOON),
        ttl: Ttl::At(NOON),
        backoff: Backoff::Exponential {
            base: SECOND,
            factor: 1.5,
            cap: SECOND,
            jitter: Jitter::None,
        },
        ..full.clone()
    };
    let with = |payload: &'static [u8]| JobSpec {
        payload: Bytes::from_static(payload),
        ..full.clone()
    };
    let payloads = [&b""[..], b"null", b" {} \n", b"text", b"\xff"].map(with);
    let mut all = vec![JobSpec::default(), full.clone(), absolute];
    all.extend(payloads);
    all
}

#[test]
fn a_push_arrives_byte_for_byte() {
    for spec in specs() {
        let body = write::body(&write::push(&spec));
        assert_eq!(read::push(&body).unwrap(), spec);
    }
}

#[test]
fn a_request_for_jobs_arrives_as_it_was_meant() {
    for (ttr, pick) in [(None, Pick::First), (Some(SECOND), Pick::MostUrgent)] {
        let ask = Ask {
            queues: vec![mail(), QueueName::new("b").unwrap()],
            job: None,
            pick,
            max: 10,
            wait: Duration::from_millis(2500),
            ttr,
            worker: "w1".into(),
        };
        let body = write::body(&write::ask(&ask));
        assert_eq!(read::ask(&body).unwrap(), ask);
    }
}

#[test]
fn every_end_of_a_lease_arrives_as_it_was_meant() {
    let bytes = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
    let mut outcomes: Vec<Outcome> = [
        None,
        bytes(b""),
        bytes(b"null"),
        bytes(b"[1] "),
        bytes(b"{}"),
    ]
    .map(|result| Outcome::Ack { result })
    .into();
    for delay in [None, Some(SECOND)] {
        for retry in [Retry::Policy, Retry::Never] {
            let error = "oops".to_owned();
            outcomes.push(Outcome::Fail {
                error,
                delay,
                retry,
            });
        }
        for priority in [None, Some(3)] {
            outcomes.push(Outcome::Release { priority, delay });
            let error = priority.map(|_| "no".to_owned());
            outcomes.push(Outcome::Bury { error, priority });
        }
    }
    outcomes.push(Outcome::Snooze { delay: SECOND });
    let settle = |outcome| Settle {
        token: token(),
        outcome,
    };
    let settles: Vec<Settle> = outcomes.into_iter().map(settle).collect();
    let written: Vec<_> = settles.iter().map(write::settle).collect();
    let read = read::settles(&write::body(&written), 100).unwrap();
    let read: Vec<Settle> = read.into_items().into_iter().map(Result::unwrap).collect();
    assert_eq!(read, settles);
}

#[test]
fn signs_of_life_arrive_as_they_were_meant() {
    for progress in [
        None,
        Some(&b"50"[..]),
        Some(b"null"),
        Some(b""),
        Some(b"\xff"),
    ] {
        let extend = Extend {
            token: token(),
            ttr: progress.map(|_| SECOND),
            progress: progress.map(Bytes::from_static),
        };
        let body = write::body(&write::extend(&extend));
        let read = read::extends(&body, 1).unwrap().into_items();
        assert_eq!(read, [Ok(extend)]);
    }
}

fn filter() -> Filter {
    Filter {
        queue: Some(mail()),
        states: vec![State::Dead, State::Done],
        kind: Some("a&b=c".into()),
        key: Some("k".into()),
        group: Some("g".into()),
        headers: [("x.y", "1"), ("z", "a b")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        error: Some("ünwell".into()),
        search: Some("%".into()),
        created_from: Some(NOON),
        created_before: Some(Timestamp(1)),
        due_from: Some(Timestamp(2)),
        due_before: Some(Timestamp(3)),
    }
}

#[test]
fn a_query_arrives_as_it_was_meant() {
    for filter in [Filter::default(), filter()] {
        for cursor in [None, Some(Cursor("c".into()))] {
            let query = Query {
                filter: filter.clone(),
                cursor,
                limit: 7,
            };
            let pairs = write::query_pairs(&query);
            let pairs = pairs.iter().map(|(name, value)| (&**name, &**value));
            assert_eq!(read::query_pairs(pairs).unwrap(), query);
        }
    }
}

#[test]
fn an_order_arrives_as_it_was_meant() {
    let targets = [
        Target::Jobs(vec![JobId(1), JobId(u64::MAX)]),
        Target::Matching(Query {
            filter: Filter::default(),
            cursor: None,
            limit: 1,
        }),
        Target::Matching(Query {
            filter: filter(),
            cursor: Some(Cursor("c".into())),
            limit: 1000,
        }),
    ];
    let actions = [
        Action::Kick,
        Action::Cancel,
        Action::Delete,
        Action::Reschedule(When::After(SECOND)),
        Action::Reschedule(When::At(NOON)),
    ];
    for target in targets {
        for action in actions.clone() {
            for mode in [Mode::Act, Mode::DryRun] {
                let order = Order {
                    target: target.clone(),
                    action: action.clone(),
                    mode,
                };
                let body = write::body(&write::order(&order));
                assert_eq!(read::order(&body).unwrap(), order);
            }
        }
    }
}

#[test]
fn settings_arrive_whole_whatever_was_set_before() {
    let limited = QueueConfig {
        paused_in: true,
        paused_out: true,
        paused_until: Some(When::At(Timestamp(1_000))),
        max_jobs: Some(1),
        max_bytes: Some(2),
        max_leased: Some(3),
        rate: Some(Rate {
            count: 4,
            per: SECOND,
            burst: 6,
        }),
        fair: true,
        shards: Some(8),
    };
    for (before, after) in [
        (limited.clone(), QueueConfig::default()),
        (QueueConfig::default(), limited.clone()),
        (
            limited.clone(),
            QueueConfig {
                paused_until: Some(When::After(SECOND)),
                ..limited
            },
        ),
    ] {
        let body = write::body(&write::queue_config(&after));
        assert_eq!(read::queue_config(&body, before).unwrap(), after);
    }
}

#[test]
fn what_is_to_be_set_up_arrives_as_it_was_meant() {
    for pattern in [None, Some(Pattern::new("a.*").unwrap())] {
        let subscription = Subscription {
            topic: "t".into(),
            name: "s".into(),
            queue: mail(),
            pattern,
        };
        let body = write::body(&write::subscription(&subscription));
        assert_eq!(read::subscription("t", "s", &body).unwrap(), subscription);
    }
    let cron = Rhythm::Cron {
        expression: "@daily".into(),
        zone: "Europe/Berlin".into(),
    };
    for rhythm in [cron, Rhythm::Every(SECOND)] {
        let schedule = Schedule {
            name: "n".into(),
            queue: mail(),
            rhythm,
            missed: Missed::All,
            spec: JobSpec {
                payload: Bytes::from_static(b"{}\n"),
                ..JobSpec::default()
            },
            next: None,
            last: None,
        };
        let body = write::body(&write::schedule(&schedule));
        assert_eq!(read::schedule("n", &body).unwrap(), schedule);
    }
}

#[test]
fn a_message_arrives_as_it_was_meant() {
    for spec in specs() {
        for routing_key in [None, Some("a.b".to_owned())] {
            let message = Message {
                topic: "t".into(),
                routing_key,
                spec: spec.clone(),
            };
            let body = body(write::message(&message));
            assert_eq!(read::message("t", &body).unwrap(), message);
        }
    }
}

fn body(request: impl Serialize) -> Bytes {
    write::body(&request)
}
