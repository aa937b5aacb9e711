//! What is written reads back as it was, and what cannot be read names its field.

use std::time::Duration;

use auxo_core::engine::{Ask, Outcome, Pick, Retry, Settle};
use auxo_core::job::{Backoff, Jitter, Key, OnDuplicate, Ttl};
use auxo_core::{Error, JobId, JobSpec, QueueName, Timestamp, Token, When};
use auxo_proto::v1;
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

/// Through the bytes of a message and back.
fn through<T, M>(value: &T) -> T
where
    M: Message + Default + for<'a> From<&'a T>,
    T: TryFrom<M, Error = Error>,
{
    let bytes = M::from(value).encode_to_vec();
    let message = M::decode(&bytes[..]).expect("what was encoded");
    T::try_from(message).expect("what was written")
}

fn span() -> impl Strategy<Value = Duration> {
    (0..10_000_000_000_u64).prop_map(Duration::from_millis)
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0..=auxo_core::text::LAST_INSTANT.0).prop_map(Timestamp)
}

fn backoff() -> impl Strategy<Value = Backoff> {
    let jitter = prop_oneof![Just(Jitter::Full), Just(Jitter::None)];
    prop_oneof![
        Just(Backoff::default()),
        span().prop_map(|delay| Backoff::Fixed { delay }),
        prop::collection::vec(span(), 0..4).prop_map(|delays| Backoff::List { delays }),
        (span(), 1.0..1000.0_f64, span(), jitter).prop_map(|(base, factor, cap, jitter)| {
            Backoff::Exponential {
                base,
                factor,
                cap,
                jitter,
            }
        }),
    ]
}

fn key() -> impl Strategy<Value = Key> {
    let policy = prop::sample::select(OnDuplicate::ALL.to_vec());
    ("\\PC{0,20}", policy, span()).prop_map(|(name, on_duplicate, window)| Key {
        name,
        on_duplicate,
        window,
    })
}

fn spec() -> impl Strategy<Value = JobSpec> {
    let when = prop_oneof![
        Just(When::Now),
        span().prop_map(When::After),
        instant().prop_map(When::At)
    ];
    let ttl = prop_oneof![
        Just(Ttl::None),
        span().prop_map(Ttl::After),
        instant().prop_map(Ttl::At)
    ];
    let texts = ("\\PC{0,20}", prop::option::of("\\PC{0,20}"));
    let bytes = prop::collection::vec(any::<u8>(), 0..50);
    let headers = prop::collection::btree_map("\\PC{1,9}", "\\PC{0,9}", 0..3);
    let numbers = (any::<u32>(), any::<u32>(), span(), span());
    let rest = (when, ttl, backoff(), prop::option::of(key()));
    (texts, bytes, headers, numbers, rest).prop_map(
        |((kind, group), payload, headers, numbers, (when, ttl, backoff, key))| JobSpec {
            kind,
            payload: Bytes::from(payload),
            headers,
            priority: numbers.0,
            when,
            ttr: numbers.2,
            ttl,
            max_attempts: numbers.1,
            backoff,
            key,
            group,
            retention: numbers.3,
        },
    )
}

proptest! {
    #[test]
    fn a_job_comes_back_as_it_was(spec in spec()) {
        prop_assert_eq!(through::<_, v1::JobSpec>(&spec), spec);
    }
}

#[test]
fn what_has_its_default_is_not_sent() {
    assert_eq!(v1::JobSpec::from(&JobSpec::default()).encoded_len(), 0);
}

#[test]
fn every_outcome_comes_back_as_it_was() {
    let second = Some(Duration::from_secs(1));
    let token = Token {
        job: JobId(7),
        counter: u64::MAX,
        nonce: 1,
    };
    for outcome in [
        Outcome::Ack { result: None },
        Outcome::Ack {
            result: Some(Bytes::new()),
        },
        Outcome::Fail {
            error: "no".into(),
            delay: Some(Duration::ZERO),
            retry: Retry::Never,
        },
        Outcome::Fail {
            error: String::new(),
            delay: None,
            retry: Retry::Policy,
        },
        Outcome::Release {
            priority: Some(0),
            delay: second,
        },
        Outcome::Bury {
            error: Some(String::new()),
            priority: None,
        },
        Outcome::Snooze {
            delay: Duration::from_millis(1),
        },
    ] {
        let settle = Settle { token, outcome };
        assert_eq!(through::<_, v1::Settle>(&settle), settle);
    }
}

#[test]
fn which_queue_gives_reads_back() {
    for pick in Pick::ALL {
        let ask = Ask {
            queues: vec![QueueName::new("q").unwrap()],
            job: None,
            pick,
            max: 3,
            wait: Duration::from_secs(1),
            ttr: None,
            worker: "w".into(),
        };
        assert_eq!(Ask::try_from(v1::LeaseRequest::from(&ask)).unwrap(), ask);
    }
    let named = v1::LeaseRequest {
        pick: v1::Pick::First.into(),
        ..v1::LeaseRequest::default()
    };
    assert_eq!(Ask::try_from(named).unwrap().pick, Pick::First);
}

#[test]
fn a_wrong_field_is_named() {
    let wrong = |spec: v1::JobSpec| JobSpec::try_from(spec).unwrap_err().message().to_owned();
    let policy = v1::JobSpec {
        on_duplicate: v1::OnDuplicate::Return.into(),
        ..v1::JobSpec::default()
    };
    assert_eq!(wrong(policy), "on_duplicate: needs a key");
    let window = v1::JobSpec {
        key_window_ms: Some(1),
        ..v1::JobSpec::default()
    };
    assert_eq!(wrong(window), "key_window_ms: needs a key");
    let backoff = v1::JobSpec {
        backoff: Some(v1::Backoff::default()),
        ..v1::JobSpec::default()
    };
    assert_eq!(wrong(backoff), "backoff.kind: is missing");
    let late = v1::JobSpec {
        when: Some(v1::job_spec::When::RunAtMs(u64::MAX)),
        ..v1::JobSpec::default()
    };
    assert!(wrong(late).starts_with("run_at_ms: "));
    let pick = v1::LeaseRequest {
        pick: 9,
        ..v1::LeaseRequest::default()
    };
    let refusal = Ask::try_from(pick).unwrap_err();
    assert_eq!(refusal.message(), "pick: 9 is no choice that is known");
}
