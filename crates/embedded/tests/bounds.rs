//! However long a store runs, its files stay within a small multiple of what lives in it.

use std::sync::Arc;
use std::time::Duration;

use auxo_conformance::bench::run;
use auxo_core::clock::ManualClock;
use auxo_core::engine::{Ask, Change, Message, Outcome, Pick, Retry, Settle};
use auxo_core::job::{Backoff, JobSpec, Leased};
use auxo_core::topic::Subscription;
use auxo_core::{Code, Engine, NewJob, QueueName, When};
use auxo_embedded::disk::{Disk, SimDisk};
use auxo_embedded::{Embedded, Options};

const START: u64 = 1_700_000_000_000;
const SEGMENT: u64 = 64 << 10;

fn queue() -> QueueName {
    QueueName::new("q").expect("a good name")
}

/// How many jobs a store has; its books must balance too.
async fn jobs(engine: &Embedded) -> u64 {
    let audit = engine.audit().await.expect("an audit");
    assert_eq!(audit.problems, Vec::<String>::new());
    audit.jobs
}

struct Store {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    engine: Embedded,
}

fn store() -> Store {
    let disk = SimDisk::new();
    let clock = ManualClock::at(START);
    let options = Options {
        segment_size: SEGMENT,
        clock: Some(clock.clone()),
        ..Options::default()
    };
    let engine = Embedded::on(Arc::new(disk.clone()), options).expect("a new store");
    Store {
        disk,
        clock,
        engine,
    }
}

impl Store {
    async fn push(&self, spec: JobSpec) {
        let job = NewJob {
            queue: queue(),
            spec,
        };
        self.engine
            .push(vec![job])
            .await
            .expect("a push")
            .remove(0)
            .expect("a push");
    }

    async fn lease(&self, max: u32) -> Vec<Leased> {
        let ask = Ask {
            queues: vec![queue()],
            job: None,
            pick: Pick::First,
            max,
            wait: Duration::ZERO,
            ttr: None,
            worker: "w".into(),
        };
        self.engine.lease(ask).await.expect("a lease")
    }

    async fn settle(&self, leased: Vec<Leased>, outcome: Outcome) {
        let items = leased
            .iter()
            .map(|one| Settle {
                token: one.token,
                outcome: outcome.clone(),
            })
            .collect();
        for settled in self.engine.settle(items).await.expect("an end") {
            settled.expect("a running lease");
        }
    }

    /// The segments there are, when the work in the background is done. It is waited for by asking: each question is a
    /// round of the core thread, and what it finds done it takes in.
    async fn segments(&self, most: usize) -> usize {
        let mut segments = usize::MAX;
        for _ in 0..20_000 {
            let names = self.disk.list().expect("names");
            segments = names.iter().filter(|name| name.ends_with(".log")).count();
            if segments <= most {
                break;
            }
            self.engine.catalog().await.expect("a round");
            tokio::task::yield_now().await;
        }
        segments
    }
}

fn payload(len: usize) -> JobSpec {
    let backoff = Backoff::Fixed {
        delay: Duration::from_millis(1),
    };
    JobSpec {
        payload: vec![b'x'; len].into(),
        max_attempts: 1_000_000,
        backoff,
        ..JobSpec::default()
    }
}

/// The same few jobs go round and round: the log is rewritten hundreds of times and stays short.
fn goes_round(outcome: Outcome) {
    run(async {
        let store = store();
        for _ in 0..20 {
            store.push(payload(500)).await;
        }
        for _ in 0..2000 {
            let leased = store.lease(20).await;
            assert_eq!(leased.len(), 20);
            store.settle(leased, outcome.clone()).await;
            store.clock.advance(Duration::from_millis(2));
        }
        let segments = store.segments(4).await;
        assert!(segments <= 4, "{segments} segments for 20 jobs");
        assert_eq!(jobs(&store.engine).await, 20);
    });
}

#[test]
fn endless_snoozing_does_not_grow_the_log() {
    goes_round(Outcome::Snooze {
        delay: Duration::from_millis(1),
    });
}

#[test]
fn endless_releasing_does_not_grow_the_log() {
    goes_round(Outcome::Release {
        priority: None,
        delay: None,
    });
}

#[test]
fn endless_failing_does_not_grow_the_log() {
    goes_round(Outcome::Fail {
        error: "again".into(),
        delay: None,
        retry: Retry::Policy,
    });
}

#[test]
fn an_old_job_pins_no_segment() {
    run(async {
        let store = store();
        store
            .push(JobSpec {
                when: When::After(Duration::from_secs(86_400 * 365)),
                ..payload(100)
            })
            .await;
        store.push(payload(100)).await;
        let leased = store.lease(1).await;
        store
            .settle(
                leased,
                Outcome::Bury {
                    error: Some("parked".into()),
                    priority: None,
                },
            )
            .await;
        for _ in 0..3000 {
            store.push(payload(500)).await;
            let leased = store.lease(1).await;
            store.settle(leased, Outcome::Ack { result: None }).await;
        }
        let segments = store.segments(3).await;
        assert!(segments <= 3, "{segments} segments for two jobs");
        assert_eq!(jobs(&store.engine).await, 2);
    });
}

#[test]
fn when_all_is_acked_at_most_three_segments_are_left() {
    run(async {
        let store = store();
        for _ in 0..3000 {
            store.push(payload(500)).await;
        }
        loop {
            let leased = store.lease(100).await;
            if leased.is_empty() {
                break;
            }
            store.settle(leased, Outcome::Ack { result: None }).await;
        }
        let segments = store.segments(3).await;
        assert!(segments <= 3, "{segments} segments for nothing");
    });
}

#[test]
fn a_store_that_was_killed_when_it_was_empty_takes_jobs() {
    run(async {
        let store = store();
        store.push(payload(10)).await;
        let leased = store.lease(1).await;
        store.settle(leased, Outcome::Ack { result: None }).await;
        let options = Options {
            segment_size: SEGMENT,
            clock: Some(store.clock.clone()),
            ..Options::default()
        };
        let disk = store.disk.kill();
        let engine = Embedded::on(Arc::new(disk), options).expect("the store opens");
        let job = NewJob {
            queue: queue(),
            spec: payload(10),
        };
        engine
            .push(vec![job])
            .await
            .expect("a push")
            .remove(0)
            .expect("a push");
        assert_eq!(jobs(&engine).await, 1);
    });
}

#[test]
fn a_message_with_large_headers_is_bounded_like_one_with_a_large_payload() {
    const QUEUES: usize = 1100;
    let store = store();
    run(async {
        for number in 0..QUEUES {
            let subscription = Subscription {
                topic: "t".into(),
                name: format!("s{number}"),
                queue: queue(),
                pattern: None,
            };
            let change = Change::Subscribe(subscription);
            store.engine.change(change).await.expect("a subscription");
        }
        let headers = (0..64).map(|number| (format!("h{number}"), "x".repeat(1000)));
        let message = Message {
            topic: "t".into(),
            routing_key: None,
            spec: JobSpec {
                headers: headers.collect(),
                ..JobSpec::default()
            },
        };
        let refused = store.engine.publish(message).await.expect_err("too much");
        assert_eq!(refused.code(), Code::TooLarge, "{refused}");
        assert_eq!(jobs(&store.engine).await, 0);
    });
}
