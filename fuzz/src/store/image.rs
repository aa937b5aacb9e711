//! What a store leaves on its disk: early in its life, when it is killed, and when it is closed.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use auxo_core::engine::{Ask, Change, Outcome, Pick, Retry, Settle};
use auxo_core::job::{Key, OnDuplicate};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{Engine, JobId, JobSpec, NewJob, QueueName, When};
use auxo_embedded::Embedded;
use auxo_embedded::disk::Disk;
use bytes::Bytes;

use super::{MemoryDisk, block_on, open};

/// Files by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// One store at three moments, and every payload that was ever in it.
pub struct Images {
    pub early: Image,
    pub killed: Image,
    pub closed: Image,
    pub payloads: BTreeMap<JobId, Bytes>,
}

impl Images {
    /// An image on a disk of its own.
    pub fn on_disk(image: &Image) -> MemoryDisk {
        let disk = MemoryDisk::default();
        for (name, bytes) in image {
            disk.put(name, bytes.clone());
        }
        disk
    }
}

static IMAGES: LazyLock<Images> = LazyLock::new(|| block_on(live()));

/// The images, which are made once.
pub fn images() -> &'static Images {
    &IMAGES
}

fn taken(disk: &MemoryDisk) -> Image {
    let names = disk.list().expect("names").into_iter();
    names
        .filter_map(|name| Some((name.clone(), disk.content(&name)?)))
        .collect()
}

fn queue() -> QueueName {
    QueueName::new("q").expect("a name")
}

/// A short life that leaves every kind of record, sealed segments, index files and a checkpoint.
async fn live() -> Images {
    let disk = MemoryDisk::default();
    let engine = open(&disk).expect("a new store");
    let mut payloads = BTreeMap::new();
    set_up(&engine).await;
    let mut early = Image::new();
    for round in 0..14 {
        if round == 5 {
            early = taken(&disk);
        }
        push(&engine, round, &mut payloads).await;
        settle(&engine, round).await;
    }
    let killed = taken(&disk);
    engine.close().await.expect("the store closes");
    Images {
        early,
        killed,
        closed: taken(&disk),
        payloads,
    }
}

async fn set_up(engine: &Embedded) {
    let subscription = Subscription {
        topic: "t".into(),
        name: "s".into(),
        queue: queue(),
        pattern: Pattern::new("a.#").ok(),
    };
    let schedule = Schedule {
        name: "nightly".into(),
        queue: queue(),
        rhythm: Rhythm::Cron {
            expression: "0 3 * * *".into(),
            zone: "UTC".into(),
        },
        missed: Missed::Once,
        spec: JobSpec::default(),
        next: None,
        last: None,
    };
    for change in [Change::Subscribe(subscription), Change::Schedule(schedule)] {
        engine.change(change).await.expect("a change");
    }
}

async fn push(engine: &Embedded, round: usize, payloads: &mut BTreeMap<JobId, Bytes>) {
    let job = |place: usize| NewJob {
        queue: queue(),
        spec: JobSpec {
            payload: format!("{round}-{place}-{}", "x".repeat(200 * place)).into(),
            priority: (place % 3) as u32,
            when: match place % 4 {
                0 => When::After(Duration::from_secs(3600)),
                _ => When::Now,
            },
            key: (place % 5 == 0).then(|| Key {
                name: format!("{round}-{place}"),
                on_duplicate: OnDuplicate::Reject,
                window: Duration::from_secs(3600),
            }),
            retention: Duration::from_secs(60 * (place % 2) as u64),
            ..JobSpec::default()
        },
    };
    let jobs: Vec<NewJob> = (0..12).map(job).collect();
    let sent: Vec<Bytes> = jobs.iter().map(|job| job.spec.payload.clone()).collect();
    let pushed = engine.push(jobs).await.expect("an answer");
    for (pushed, payload) in pushed.into_iter().zip(sent) {
        payloads.insert(pushed.expect("a job").id, payload);
    }
}

async fn settle(engine: &Embedded, round: usize) {
    let ask = Ask {
        queues: vec![queue()],
        job: None,
        pick: Pick::First,
        max: 8,
        wait: Duration::ZERO,
        ttr: None,
        worker: "w".into(),
    };
    let leased = engine.lease(ask).await.expect("an answer");
    // Every eighth lease is left running.
    let settles = leased
        .iter()
        .skip(1)
        .enumerate()
        .map(|(place, leased)| Settle {
            token: leased.token,
            outcome: match (round + place) % 4 {
                0 | 1 => Outcome::Ack { result: None },
                2 => Outcome::Fail {
                    error: "it failed".into(),
                    delay: None,
                    retry: Retry::Policy,
                },
                _ => Outcome::Bury {
                    error: None,
                    priority: None,
                },
            },
        });
    let settled = engine.settle(settles.collect()).await.expect("an answer");
    assert!(settled.iter().all(Result::is_ok), "{settled:?}");
}
