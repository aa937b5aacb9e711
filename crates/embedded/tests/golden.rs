//! A store written in format 2 opens in this version and shows what it showed then; one in format 1 is refused.
//!
//! `fixtures/format-2` holds the files and, in `contents.txt`, what they mean. Once a format is released they are never written
//! again: a later format gets a folder of its own. `AUXO_GOLDEN=tests/fixtures/format-2 cargo nextest run -p auxo-embedded --test
//! golden today` writes the folder.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use auxo_conformance::bench::run;
use auxo_core::clock::ManualClock;
use auxo_core::engine::{
    Action, Ask, Change, Extend, Mode, Order, Outcome, Pick, Query, Retry, Settle, Target,
};
use auxo_core::job::{Backoff, JobSpec, Key, Leased, OnDuplicate, Ttl};
use auxo_core::queue::{QueueConfig, Rate};
use auxo_core::schedule::{Missed, Rhythm, Schedule};
use auxo_core::topic::{Pattern, Subscription};
use auxo_core::{Engine, NewJob, QueueName, Timestamp, When};
use auxo_embedded::{Embedded, Options};

const START: u64 = 1_800_000_000_000;

fn name(name: &str) -> QueueName {
    QueueName::new(name).expect("a good name")
}

fn open(dir: &Path, clock: Arc<ManualClock>) -> Embedded {
    let options = Options {
        segment_size: 64 << 10,
        clock: Some(clock),
        seed: Some(1),
        ..Options::default()
    };
    Embedded::open(dir, options).expect("the store opens")
}

async fn push(engine: &Embedded, queue: &str, spec: JobSpec) {
    let job = NewJob {
        queue: name(queue),
        spec,
    };
    engine
        .push(vec![job])
        .await
        .expect("a push")
        .remove(0)
        .expect("a push");
}

async fn lease(engine: &Embedded, queue: &str, max: u32) -> Vec<Leased> {
    let ask = Ask {
        queues: vec![name(queue)],
        job: None,
        pick: Pick::First,
        max,
        wait: Duration::ZERO,
        ttr: None,
        worker: "worker".into(),
    };
    engine.lease(ask).await.expect("a lease")
}

async fn settle(engine: &Embedded, leased: &Leased, outcome: Outcome) {
    let items = vec![Settle {
        token: leased.token,
        outcome,
    }];
    engine
        .settle(items)
        .await
        .expect("an end")
        .remove(0)
        .expect("an end");
}

/// Uses every kind of record there is, with a sealed and indexed segment and a checkpoint behind it.
async fn live(engine: &Embedded, clock: &ManualClock) {
    let plain = || JobSpec {
        payload: "plain".into(),
        ..JobSpec::default()
    };
    let second = Duration::from_secs(1);
    let mut headers = auxo_core::job::Headers::new();
    headers.insert("traceparent".into(), "00-1".into());
    let everything = JobSpec {
        kind: "welcome".into(),
        payload: vec![0, 159, 146, 150].into(),
        headers,
        priority: 7,
        when: When::At(Timestamp(START + 3_600_000)),
        ttr: 90 * second,
        ttl: Ttl::At(Timestamp(START + 7_200_000)),
        max_attempts: 3,
        backoff: Backoff::List {
            delays: vec![second, 5 * second],
        },
        key: Some(Key {
            name: "k".into(),
            on_duplicate: OnDuplicate::Reject,
            window: 60 * second,
        }),
        group: Some("tenant".into()),
        retention: 600 * second,
    };
    push(engine, "all", everything).await;
    for _ in 0..6 {
        push(
            engine,
            "lives",
            JobSpec {
                retention: 3600 * second,
                ..plain()
            },
        )
        .await;
    }
    let leased = lease(engine, "lives", 6).await;
    settle(
        engine,
        &leased[0],
        Outcome::Ack {
            result: Some("42".into()),
        },
    )
    .await;
    settle(
        engine,
        &leased[1],
        Outcome::Fail {
            error: "no".into(),
            delay: Some(second),
            retry: Retry::Policy,
        },
    )
    .await;
    settle(
        engine,
        &leased[2],
        Outcome::Bury {
            error: Some("never".into()),
            priority: Some(1),
        },
    )
    .await;
    settle(
        engine,
        &leased[3],
        Outcome::Release {
            priority: Some(2),
            delay: None,
        },
    )
    .await;
    settle(engine, &leased[4], Outcome::Snooze { delay: 60 * second }).await;
    let extend = Extend {
        token: leased[5].token,
        ttr: Some(3600 * second),
        progress: Some("half".into()),
    };
    engine
        .extend(vec![extend])
        .await
        .expect("a sign of life")
        .remove(0)
        .expect("a running lease");
    let flag = Order {
        target: Target::Jobs(vec![leased[5].job.id]),
        action: Action::Cancel,
        mode: Mode::Act,
    };
    engine.steer(flag).await.expect("a wish");
    let key = Some(Key {
        name: "done".into(),
        on_duplicate: OnDuplicate::Reject,
        window: 3600 * second,
    });
    push(engine, "tombs", JobSpec { key, ..plain() }).await;
    let leased = lease(engine, "tombs", 1).await;
    settle(engine, &leased[0], Outcome::Ack { result: None }).await;
    push(
        engine,
        "once",
        JobSpec {
            ttr: Duration::ZERO,
            ..plain()
        },
    )
    .await;
    lease(engine, "once", 1).await;
    push(
        engine,
        "vanished",
        JobSpec {
            ttr: second,
            ..plain()
        },
    )
    .await;
    lease(engine, "vanished", 1).await;
    push(
        engine,
        "expired",
        JobSpec {
            ttl: Ttl::After(second),
            ..plain()
        },
    )
    .await;
    let config = QueueConfig {
        max_jobs: Some(10),
        max_bytes: Some(1000),
        max_leased: Some(3),
        rate: Some(Rate {
            count: 5,
            per: second,
            burst: 9,
        }),
        fair: true,
        paused_in: true,
        ..QueueConfig::default()
    };
    engine
        .change(Change::Queue(name("set"), config))
        .await
        .expect("a change");
    let subscription = |name_: &str, pattern: Option<&str>| Subscription {
        topic: "orders".into(),
        name: name_.into(),
        queue: name("all"),
        pattern: pattern.map(|text| Pattern::new(text).expect("a good pattern")),
    };
    engine
        .change(Change::Subscribe(subscription("a", Some("eu.#"))))
        .await
        .expect("a change");
    engine
        .change(Change::Subscribe(subscription("b", None)))
        .await
        .expect("a change");
    engine
        .change(Change::Unsubscribe("orders".into(), "b".into()))
        .await
        .expect("a change");
    let schedule = |name_: &str, rhythm| Schedule {
        name: name_.into(),
        queue: name("ticks"),
        rhythm,
        missed: Missed::Once,
        spec: plain(),
        next: None,
        last: None,
    };
    let cron = Rhythm::Cron {
        expression: "0 9 * * *".into(),
        zone: "Europe/Berlin".into(),
    };
    engine
        .change(Change::Schedule(schedule("daily", cron)))
        .await
        .expect("a change");
    engine
        .change(Change::Schedule(schedule(
            "often",
            Rhythm::Every(2 * second),
        )))
        .await
        .expect("a change");
    engine
        .change(Change::Schedule(schedule("gone", Rhythm::Every(second))))
        .await
        .expect("a change");
    engine
        .change(Change::Unschedule("gone".into()))
        .await
        .expect("a change");
    clock.advance(2 * second);
    // Enough to seal a segment that keeps most of its jobs.
    for _ in 0..90 {
        push(
            engine,
            "bulk",
            JobSpec {
                payload: vec![b'x'; 800].into(),
                ..plain()
            },
        )
        .await;
    }
    for leased in lease(engine, "bulk", 5).await {
        settle(engine, &leased, Outcome::Ack { result: None }).await;
    }
}

/// Everything the store shows, as text.
async fn shown(engine: &Embedded) -> String {
    let mut text = String::new();
    for info in engine.queues(None).await.expect("queues") {
        writeln!(
            text,
            "{} {:?} {:?} {:?}",
            info.name, info.counts, info.books, info.config
        )
        .expect("text");
    }
    let mut query = Query {
        limit: 100,
        ..Query::default()
    };
    loop {
        let page = engine.list(query.clone()).await.expect("a page");
        for mut job in page.jobs {
            // Its length and its beginning are enough.
            let len = job.payload.len();
            job.payload.truncate(8);
            writeln!(text, "{len} {job:?}").expect("text");
        }
        query.cursor = page.next;
        if query.cursor.is_none() {
            break;
        }
    }
    let catalog = engine.catalog().await.expect("a catalog");
    writeln!(text, "{:#?}", catalog.subscriptions).expect("text");
    writeln!(text, "{:#?}", catalog.schedules).expect("text");
    let audit = engine.audit().await.expect("an audit");
    assert_eq!(audit.problems, Vec::<String>::new());
    text
}

/// Makes a store in a directory; answers what it shows when it is opened again.
fn write(dir: &Path) -> String {
    let clock = ManualClock::at(START);
    run(async {
        let engine = open(dir, clock.clone());
        live(&engine, &clock).await;
        engine.close().await.expect("the store closes");
        let engine = open(dir, clock.clone());
        let text = shown(&engine).await;
        engine.close().await.expect("the store closes");
        text
    })
}

fn copy(from: &Path, to: &Path, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().expect("a name");
        if ["lock", "ballast", "contents.txt"]
            .iter()
            .all(|other| file != *other)
        {
            let bytes = std::fs::read(&path).expect("a file");
            std::fs::write(to.join(file), change(bytes)).expect("a copy");
        }
    }
}

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// The names and contents of what lies in a directory, but for what every opening makes.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(dir).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = paths
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), std::fs::read(&path).expect("a file"))
        })
        .filter(|(name, _)| name != "lock")
        .collect();
    files.sort();
    files
}

/// Ids of format 1 are too large for JavaScript, and what its records leave out was never written down as its own.
#[test]
fn a_store_of_format_1_is_refused_with_what_to_do_and_left_as_it_is() {
    for without in ["", "checkpoint", "mark"] {
        let dir = tempfile::tempdir().expect("a directory");
        copy(&fixture("format-1"), dir.path(), |bytes| bytes);
        if !without.is_empty() {
            std::fs::remove_file(dir.path().join(without)).expect("it was there");
        }
        let before = files(dir.path());
        let refused = Embedded::open(dir.path(), Options::default()).err();
        let target = tempfile::tempdir().expect("a directory");
        let salvaged = auxo_embedded::salvage(dir.path(), &target.path().join("new")).err();
        for error in [refused, salvaged] {
            let error = error.expect("a refusal");
            assert_eq!(error.code(), auxo_core::Code::Conflict);
            for words in [
                "in format 1",
                "writes format 2",
                "server of the older build",
                "auxo migrate --from http://",
            ] {
                assert!(error.message().contains(words), "{error}");
            }
        }
        assert!(files(dir.path()) == before, "nothing was changed");
    }
}

#[test]
fn a_store_of_format_2_opens_and_shows_what_it_showed() {
    let fixture = fixture("format-2");
    let dir = tempfile::tempdir().expect("a directory");
    copy(&fixture, dir.path(), |bytes| bytes);
    let expected = std::fs::read_to_string(fixture.join("contents.txt")).expect("what it showed");
    let clock = ManualClock::at(START);
    clock.advance(Duration::from_secs(2));
    let engine = open(dir.path(), clock);
    assert_eq!(run(shown(&engine)), expected);
}

#[test]
fn a_store_of_today_opens_again_and_shows_what_it_showed() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = write(dir.path());
    let names: Vec<_> = std::fs::read_dir(dir.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.to_string_lossy().ends_with(".idx")),
        "{names:?}"
    );
    assert!(names.iter().any(|name| name == "checkpoint"), "{names:?}");
    if let Some(target) = std::env::var_os("AUXO_GOLDEN") {
        let target = PathBuf::from(target);
        std::fs::create_dir_all(&target).expect("a directory");
        // The zeros behind what was written say nothing; the last record may end with some.
        copy(dir.path(), &target, |mut bytes| {
            let end = bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| last + 64);
            if bytes.starts_with(b"AUXOLOG1") {
                bytes.truncate(end.min(bytes.len()));
            }
            bytes
        });
        std::fs::write(target.join("contents.txt"), text).expect("what it shows");
    }
}
