//! What is set up is kept in memory, so there is an end to it.

use std::time::Duration;

use auxo_core::engine::{Change, Engine};
use auxo_core::schedule::{Rhythm, Schedule};
use auxo_core::topic::Subscription;
use auxo_core::{Code, JobSpec, QueueName, Result};
use auxo_embedded::{Embedded, Options, Sync};
use tempfile::TempDir;

fn open(dir: &TempDir) -> Embedded {
    let options = Options {
        sync: Sync::Os,
        ..Options::default()
    };
    Embedded::open(dir.path(), options).unwrap()
}

fn subscription(topic: &str, n: u32) -> Change {
    Change::Subscribe(Subscription {
        topic: topic.into(),
        name: format!("s{n}"),
        queue: QueueName::new(&format!("q{n}")).unwrap(),
        pattern: None,
    })
}

fn schedule(name: &str, payload: usize) -> Change {
    Change::Schedule(Schedule {
        name: name.into(),
        queue: QueueName::new("q").unwrap(),
        rhythm: Rhythm::Every(Duration::from_secs(3600)),
        missed: Default::default(),
        spec: JobSpec {
            payload: vec![b'x'; payload].into(),
            ..JobSpec::default()
        },
        next: None,
        last: None,
    })
}

#[track_caller]
fn too_large(answer: Result<()>) {
    assert_eq!(answer.unwrap_err().code(), Code::TooLarge);
}

#[tokio::test]
async fn there_are_a_hundred_thousand_subscriptions_at_most() {
    let dir = TempDir::new().unwrap();
    let engine = open(&dir);
    for n in 0..100_000 {
        engine.change(subscription("t", n)).await.unwrap();
    }
    too_large(engine.change(subscription("other", 0)).await);
    // One that is there may be replaced, and one that goes makes room.
    engine.change(subscription("t", 7)).await.unwrap();
    let gone = Change::Unsubscribe("t".into(), "s7".into());
    engine.change(gone).await.unwrap();
    engine.change(subscription("other", 0)).await.unwrap();
}

#[tokio::test]
async fn schedules_are_bounded_in_number_and_in_bytes() {
    let dir = TempDir::new().unwrap();
    let engine = open(&dir);
    for n in 0..64 {
        engine
            .change(schedule(&format!("s{n}"), 1 << 20))
            .await
            .unwrap();
    }
    too_large(engine.change(schedule("more", 1)).await);
    // Headers count as well.
    let mut headers = schedule("more", 0);
    if let Change::Schedule(schedule) = &mut headers {
        schedule.spec.headers.insert("a".into(), "b".into());
    }
    too_large(engine.change(headers).await);
    engine.change(schedule("s7", 0)).await.unwrap();
    engine.change(schedule("more", 1)).await.unwrap();
    engine.close().await.unwrap();

    let dir = TempDir::new().unwrap();
    let engine = open(&dir);
    for n in 0..10_000 {
        engine.change(schedule(&format!("s{n}"), 0)).await.unwrap();
    }
    too_large(engine.change(schedule("more", 0)).await);
    engine.change(schedule("s7", 0)).await.unwrap();
}
